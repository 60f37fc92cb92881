// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Command look runs in tests' debug containers: its termination message is its view of the
// pod.
//
//	-url   an address to fetch from inside the pod
//	-exit  the status to end with
//
// The message is JSON: the command lines of visible processes, the address's answer, and
// the variable KRUISE_EJOB_ID.
package main

import (
	"encoding/json"
	"flag"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	url := flag.String("url", "", "an address to fetch")
	exit := flag.Int("exit", 0, "the status to end with")
	flag.Parse()
	seen := map[string]any{"processes": processes(), "answer": fetch(*url), "job": os.Getenv("KRUISE_EJOB_ID")}
	message, err := json.Marshal(seen)
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("/dev/termination-log", message, 0o600); err != nil {
		log.Fatal(err)
	}
	os.Exit(*exit)
}

// processes are the command lines of the processes in view, sorted.
func processes() []string {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var lines []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err == nil && len(content) > 0 {
			lines = append(lines, strings.TrimSpace(strings.ReplaceAll(string(content), "\x00", " ")))
		}
	}
	slices.Sort(lines)
	return lines
}

// fetch is an address's answer, or the error.
func fetch(url string) string {
	if url == "" {
		return ""
	}
	response, err := (&http.Client{Timeout: 5 * time.Second}).Get(url)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(response.Body, 1000))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(content))
}
