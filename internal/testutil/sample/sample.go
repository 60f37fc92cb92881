// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package sample picks the part of a long test that runs today. All of it runs with make test-all.
package sample

import (
	"fmt"
	"os"
	"strconv"
	"testing"
)

const (
	// AllVariable set to true runs everything.
	AllVariable = "TEST_ALL"
	// DayVariable is a number. The suites set it to the day, so that each day has another part, and print it, so that a day can be repeated.
	DayVariable = "TEST_DAY"
)

// All says that everything is to run.
func All() bool { return os.Getenv(AllVariable) == "true" }

// Day is the number of today's part: 0 unless somebody sets it.
func Day() int {
	text := os.Getenv(DayVariable)
	if text == "" {
		return 0
	}
	day, err := strconv.Atoi(text)
	if err != nil {
		panic(fmt.Sprintf("%s is %q, and must be a number", DayVariable, text))
	}
	return day
}

// Has says whether item i runs, of which one in so many runs each day.
func Has(i, in int) bool { return All() || (i+Day())%in == 0 }

// Number is how many there are of something: few each day, or all.
func Number(few, all int) int {
	if All() {
		return all
	}
	return few
}

// Long leaves a test to make test-all. daily names what covers the same behavior each day.
func Long(t testing.TB, daily string) {
	t.Helper()
	if !All() {
		t.Skip("left to make test-all; each day there is " + daily)
	}
}
