// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// amount is a value in an expression: a plain number, or a quantity in thousandths.
type amount struct {
	value    *big.Rat
	quantity bool
}

// milli is a quantity of so many thousandths, without a fraction of one.
func milli(thousandths *big.Rat) amount {
	whole := new(big.Int).Quo(thousandths.Num(), thousandths.Denom())
	return amount{value: new(big.Rat).SetInt(whole), quantity: true}
}

// asQuantity turns a number into a quantity of the same value: 0.5 is 500m.
func (a amount) asQuantity() amount {
	if a.quantity {
		return a
	}
	return milli(new(big.Rat).Mul(a.value, big.NewRat(1000, 1)))
}

const (
	// maxExpression limits an expression, in bytes, maxDepth its nested parentheses.
	maxExpression = 1024
	maxDepth      = 32
)

// expression parses and computes from left to right.
//
//	sum     = product { ("+" | "-") product }
//	product = factor { ("*" | "/") factor }
//	factor  = "-" factor | "(" sum ")" | ("max" | "min") "(" sum "," sum ")" | variable | number [ suffix ]
type expression struct {
	rest     string
	variable string
	value    amount
	depth    int
}

// evaluate computes an expression for a value of its variable.
func evaluate(text, variable string, value amount) (amount, error) {
	if len(text) > maxExpression {
		return amount{}, fmt.Errorf("it is longer than %d characters", maxExpression)
	}
	e := &expression{rest: text, variable: variable, value: value}
	result, err := e.sum()
	if err != nil {
		return amount{}, err
	}
	if e.skip(); e.rest != "" {
		return amount{}, fmt.Errorf("%q is not expected", e.rest)
	}
	return result, nil
}

func (e *expression) skip() { e.rest = strings.TrimLeft(e.rest, " \t\n\r") }

// take reads one of some characters.
func (e *expression) take(characters string) (byte, bool) {
	e.skip()
	if e.rest == "" || !strings.Contains(characters, e.rest[:1]) {
		return 0, false
	}
	c := e.rest[0]
	e.rest = e.rest[1:]
	return c, true
}

func (e *expression) sum() (amount, error) { return e.chain("+-", e.product) }

func (e *expression) product() (amount, error) { return e.chain("*/", e.factor) }

func (e *expression) chain(operators string, next func() (amount, error)) (amount, error) {
	left, err := next()
	for err == nil {
		operator, found := e.take(operators)
		if !found {
			break
		}
		var right amount
		if right, err = next(); err == nil {
			left, err = apply(operator, left, right)
		}
	}
	return left, err
}

func apply(operator byte, a, b amount) (amount, error) {
	if (operator == '+' || operator == '-') && a.quantity != b.quantity {
		a, b = a.asQuantity(), b.asQuantity()
	}
	result := amount{value: new(big.Rat), quantity: a.quantity}
	switch operator {
	case '+':
		result.value.Add(a.value, b.value)
	case '-':
		result.value.Sub(a.value, b.value)
	case '*':
		if a.quantity && b.quantity {
			return amount{}, errors.New("a quantity cannot be multiplied by a quantity")
		}
		result.quantity = a.quantity || b.quantity
		result.value.Mul(a.value, b.value)
	case '/':
		switch {
		case b.quantity:
			return amount{}, errors.New("nothing can be divided by a quantity")
		case b.value.Sign() == 0:
			return amount{}, errors.New("division by zero")
		}
		result.value.Quo(a.value, b.value)
	}
	if result.quantity {
		result = milli(result.value)
	}
	return result, nil
}

func (e *expression) factor() (amount, error) {
	if e.depth++; e.depth > maxDepth {
		return amount{}, fmt.Errorf("it is deeper than %d", maxDepth)
	}
	defer func() { e.depth-- }()
	if _, minus := e.take("-"); minus {
		a, err := e.factor()
		if err != nil {
			return amount{}, err
		}
		a.value = new(big.Rat).Neg(a.value)
		return a, nil
	}
	if _, open := e.take("("); open {
		a, err := e.sum()
		if err != nil {
			return amount{}, err
		}
		return a, e.expect(")")
	}
	if word := e.word(); word != "" {
		return e.named(word)
	}
	return e.number()
}

func (e *expression) expect(character string) error {
	if _, found := e.take(character); !found {
		return fmt.Errorf("%q is expected before %q", character, e.rest)
	}
	return nil
}

// word reads letters.
func (e *expression) word() string {
	e.skip()
	end := strings.IndexFunc(e.rest, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') })
	if end < 0 {
		end = len(e.rest)
	}
	word := e.rest[:end]
	e.rest = e.rest[end:]
	return word
}

func (e *expression) named(word string) (amount, error) {
	switch word {
	case "max", "min":
		var both [2]amount
		for i, after := range []string{",", ")"} {
			if i == 0 {
				if err := e.expect("("); err != nil {
					return amount{}, err
				}
			}
			var err error
			if both[i], err = e.sum(); err != nil {
				return amount{}, err
			}
			if err := e.expect(after); err != nil {
				return amount{}, err
			}
		}
		a, b := both[0], both[1]
		if a.quantity != b.quantity {
			a, b = a.asQuantity(), b.asQuantity()
		}
		if (a.value.Cmp(b.value) >= 0) == (word == "max") {
			return a, nil
		}
		return b, nil
	}
	if strings.EqualFold(word, e.variable) {
		return e.value, nil
	}
	return amount{}, fmt.Errorf("%q is neither max, min nor %s", word, e.variable)
}

// suffixes of quantities in thousandths, longer ones first.
func suffixes() []struct {
	text   string
	factor *big.Rat
} {
	power := func(base, exponent int64) *big.Rat {
		return new(big.Rat).SetInt(new(big.Int).Mul(big.NewInt(1000), new(big.Int).Exp(big.NewInt(base), big.NewInt(exponent), nil)))
	}
	return []struct {
		text   string
		factor *big.Rat
	}{
		{"Ki", power(1024, 1)}, {"Mi", power(1024, 2)}, {"Gi", power(1024, 3)}, {"Ti", power(1024, 4)}, {"Pi", power(1024, 5)},
		{"m", big.NewRat(1, 1)}, {"k", power(1000, 1)}, {"M", power(1000, 2)}, {"G", power(1000, 3)}, {"T", power(1000, 4)}, {"P", power(1000, 5)},
	}
}

// number reads digits, fraction and exponent, then a percent sign or a quantity's suffix.
func (e *expression) number() (amount, error) {
	e.skip()
	end, digits := 0, 0
	for end < len(e.rest) {
		c := e.rest[end]
		exponent := digits > 0 && (c == 'e' || c == 'E') && end+1 < len(e.rest) && strings.ContainsRune("+-0123456789", rune(e.rest[end+1]))
		sign := end > 0 && (c == '+' || c == '-') && (e.rest[end-1] == 'e' || e.rest[end-1] == 'E')
		if (c < '0' || c > '9') && c != '.' && !exponent && !sign {
			break
		}
		digits++
		end++
	}
	text := e.rest[:end]
	if at := strings.IndexAny(text, "eE"); at >= 0 && len(text)-at > 4 {
		return amount{}, fmt.Errorf("the exponent of %q is too large", text)
	}
	value, ok := new(big.Rat).SetString(text)
	if !ok {
		return amount{}, fmt.Errorf("a number is expected before %q", e.rest)
	}
	e.rest = e.rest[end:]
	if rest, percent := strings.CutPrefix(e.rest, "%"); percent {
		e.rest = rest
		return amount{value: value.Mul(value, big.NewRat(1, 100))}, nil
	}
	for _, suffix := range suffixes() {
		if rest, found := strings.CutPrefix(e.rest, suffix.text); found {
			e.rest = rest
			return milli(value.Mul(value, suffix.factor)), nil
		}
	}
	return amount{value: value}, nil
}
