// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"math/big"
	"slices"
)

// Amount is one computed resource in steps for the policy, whose language lacks
// loops and fractions. It works on a list of integers, in thousandths: the variable,
// then constants. Each level appends the results of its steps over earlier numbers.
type Amount struct {
	// Field is limits or requests, Name the resource, Variable the targets' resource it is computed from.
	Field    string `json:"field"`
	Name     string `json:"name"`
	Variable string `json:"variable"`
	// Constants follow the variable in the list.
	Constants []int64 `json:"constants"`
	// Levels always number maxLevels; unused ones are empty.
	Levels [][]Step `json:"levels"`
	// Result is where the result stands in the list.
	Result int `json:"result"`
}

// Step computes one number.
type Step struct {
	// Op is +, -, max or min of the numbers at A and B, or * of the number at A with Num/Den, truncated.
	Op  string `json:"op"`
	A   int    `json:"a"`
	B   int    `json:"b"`
	Num int64  `json:"num"`
	Den int64  `json:"den"`
}

const (
	// maxLevels limits nested steps. The policy has as many variables r1, r2, and so on.
	maxLevels = 8
	// maxFactor bounds numerators and denominators, maxConstant constants, to compute within 64 bits.
	maxFactor, maxConstant = 1_000_000_000, 1 << 53
)

// term is a part of an expression with the variable.
type term struct {
	// op is empty for the variable itself; a and b are operands.
	op       string
	a, b     amount
	num, den int64
	// fits: all factors are in bounds.
	fits bool
}

// combine makes a term of two operands, by the rules of apply.
func combine(operator byte, a, b amount) (amount, error) {
	switch operator {
	case '+', '-':
		return termOf(string(operator), a, b), nil
	case '*':
		if a.quantity && b.quantity {
			return apply(operator, milli(new(big.Rat)), milli(new(big.Rat)))
		}
		if a.term == nil {
			a, b = b, a
		}
		return scaled(a, b.value), nil
	}
	if b.quantity || b.value.Sign() == 0 {
		return apply(operator, milli(new(big.Rat)), amount{value: b.value, quantity: b.quantity})
	}
	return scaled(a, new(big.Rat).Inv(b.value)), nil
}

func termOf(op string, a, b amount) amount {
	return amount{quantity: true, term: &term{op: op, a: a.asQuantity(), b: b.asQuantity(), den: 1, fits: true}}
}

func scaled(a amount, by *big.Rat) amount {
	t := &term{op: "*", a: a, den: 1}
	limit := big.NewInt(maxFactor)
	if by.Num().CmpAbs(limit) <= 0 && by.Denom().CmpAbs(limit) <= 0 {
		t.num, t.den, t.fits = by.Num().Int64(), by.Denom().Int64(), true
	}
	return amount{quantity: true, term: t}
}

// amounts takes all expressions apart; nil when one of them cannot be.
func (r Resources) amounts() []Amount {
	all := []Amount{}
	for _, kind := range []struct {
		field       string
		expressions map[string]string
	}{{"limits", r.Limits}, {"requests", r.Requests}} {
		for _, name := range sortedNames(kind.expressions) {
			one, ok := takeApart(kind.expressions[name], name)
			if !ok {
				return nil
			}
			one.Field, one.Name = kind.field, name
			all = append(all, one)
		}
	}
	return all
}

// takeApart makes steps of an expression for a resource.
func takeApart(text, resource string) (Amount, bool) {
	a := Amount{Variable: variableOf(text, resource), Constants: []int64{}, Levels: make([][]Step, maxLevels)}
	result, err := evaluate(text, a.Variable, amount{quantity: true, term: &term{fits: true}})
	if err != nil {
		return a, false
	}
	terms := make(leveled, maxLevels)
	if _, ok := terms.add(result.asQuantity(), &a.Constants); !ok {
		return a, false
	}
	places := map[*term]int{}
	next := 1 + len(a.Constants)
	place := func(of amount) int {
		if of.term == nil {
			return 1 + slices.Index(a.Constants, of.value.Num().Int64())
		}
		return places[of.term] // The variable itself is first.
	}
	for level, all := range terms {
		a.Levels[level] = []Step{}
		for _, t := range all {
			step := Step{Op: t.op, A: place(t.a), Num: t.num, Den: t.den}
			if t.op != "*" {
				step.B = place(t.b)
			}
			a.Levels[level] = append(a.Levels[level], step)
			places[t] = next
			next++
		}
	}
	a.Result = place(result.asQuantity())
	return a, true
}

// leveled are terms by how deep they build on others.
type leveled [][]*term

// add files a value and its parts, and returns its level: 0 for the variable and constants.
func (l leveled) add(value amount, constants *[]int64) (int, bool) {
	t := value.term
	switch {
	case t == nil:
		whole := value.value.Num()
		if !whole.IsInt64() || whole.CmpAbs(big.NewInt(maxConstant)) > 0 {
			return 0, false
		}
		if !slices.Contains(*constants, whole.Int64()) {
			*constants = append(*constants, whole.Int64())
		}
		return 0, true
	case t.op == "":
		return 0, true
	case !t.fits:
		return 0, false
	}
	level, ok := l.add(t.a, constants)
	if ok && t.op != "*" {
		var other int
		other, ok = l.add(t.b, constants)
		level = max(level, other)
	}
	if !ok || level >= maxLevels {
		return 0, false
	}
	l[level] = append(l[level], t)
	return level + 1, true
}
