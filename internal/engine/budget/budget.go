// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package budget turns the numbers and percentages of the update and scale strategies into counts of pods. Every rounding rule
// of every workload is here, because they differ and are easily confused.
//
// A value is a number, or a percentage of decimal digits with at most one point, such as "30%" or "12.5%". Everything else is an
// error, also "5" as a string. Arithmetic is exact: 33.3% of 1000 is 333.
package budget

import (
	"fmt"
	"math"
	"math/big"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Rounding is how a fraction of a pod is rounded.
type Rounding bool

const (
	// Down drops the fraction.
	Down Rounding = false
	// Up counts it as a pod.
	Up Rounding = true
)

// Unlimited is the count of an unset limit.
const Unlimited int32 = math.MaxInt32

// Count is the value in pods, where a percentage is of total. It is not cut to total: "150%" of 4 is 6.
func Count(v intstr.IntOrString, total int32, round Rounding) (int32, error) {
	if v.Type == intstr.Int {
		if v.IntVal < 0 {
			return 0, fmt.Errorf("%d is negative", v.IntVal)
		}
		return v.IntVal, nil
	}
	share, err := percent(v.StrVal)
	if err != nil {
		return 0, err
	}
	share.Mul(share, new(big.Rat).SetInt64(int64(max(total, 0))))
	count, rest := new(big.Int).QuoRem(share.Num(), share.Denom(), new(big.Int))
	if rest.Sign() > 0 && round == Up {
		count.Add(count, big.NewInt(1))
	}
	if !count.IsInt64() || count.Int64() > math.MaxInt32 {
		return math.MaxInt32, nil
	}
	return int32(count.Int64()), nil
}

// percent reads a percentage as a fraction.
func percent(text string) (*big.Rat, error) {
	digits, found := strings.CutSuffix(text, "%")
	whole, decimals, _ := strings.Cut(digits, ".")
	if !found || whole+decimals == "" || len(digits) > 20 || strings.Trim(whole+decimals, "0123456789") != "" {
		return nil, fmt.Errorf("%q is neither a number nor a percentage such as \"30%%\"", text)
	}
	share, _ := new(big.Rat).SetString("0" + whole + "." + decimals + "0") // it has digits alone
	return share.Quo(share, big.NewRat(100, 1)), nil
}

// MaxUnavailable is how many of the replicas may be unavailable; def holds when v is nil. The rounding is the workload's.
func MaxUnavailable(v *intstr.IntOrString, replicas int32, def intstr.IntOrString, round Rounding) (int32, error) {
	if v == nil {
		v = &def
	}
	return named("maxUnavailable", v, 0, replicas, round)
}
