// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
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

// maxExpression limits an expression, in bytes.
const maxExpression = 1024

var (
	// goOnly is what Go has and expressions have not.
	goOnly = regexp.MustCompile(`["'` + "`" + `]|//|/\*|,\s*\)`)
	// quotable is a number with its suffix, or a sign.
	quotable = regexp.MustCompile(`[0-9.]+([eE][+-]?[0-9]+)?(%|[KMGTP]i|[mkMGTP])?|-`)
)

// expression is one with a variable's value. Its syntax is Go's, with numbers such as 10% and 100m:
// Go's parser gets them as texts, and two signs apart.
type expression struct {
	variable string
	value    amount
}

// evaluate computes an expression for a value of its variable.
func evaluate(text, variable string, value amount) (amount, error) {
	switch {
	case len(text) > maxExpression:
		return amount{}, fmt.Errorf("it is longer than %d characters", maxExpression)
	case goOnly.MatchString(text):
		return amount{}, errors.New("it has quotes, comments or nothing behind a comma")
	}
	text = quotable.ReplaceAllStringFunc(strings.Join(strings.Fields(text), " "), func(part string) string {
		if part == "-" {
			return " - "
		}
		return strconv.Quote(part)
	})
	parsed, err := parser.ParseExpr(text)
	if err != nil {
		return amount{}, fmt.Errorf("it cannot be parsed: %w", err)
	}
	return expression{variable, value}.of(parsed)
}

// of computes a part of the expression.
func (e expression) of(part ast.Expr) (amount, error) {
	switch part := part.(type) {
	case *ast.BasicLit:
		return number(part.Value)
	case *ast.Ident:
		if strings.EqualFold(part.Name, e.variable) {
			return e.value, nil
		}
		return amount{}, fmt.Errorf("%q is neither max, min nor %s", part.Name, e.variable)
	case *ast.ParenExpr:
		return e.of(part.X)
	case *ast.UnaryExpr:
		if part.Op != token.SUB {
			break
		}
		a, err := e.of(part.X)
		if err != nil {
			return amount{}, err
		}
		return apply(part.Op, amount{value: new(big.Rat)}, a)
	case *ast.BinaryExpr:
		return e.both(part.X, part.Y, func(a, b amount) (amount, error) { return apply(part.Op, a, b) })
	case *ast.CallExpr:
		name, _ := part.Fun.(*ast.Ident)
		if name == nil || name.Name != "max" && name.Name != "min" || len(part.Args) != 2 {
			return amount{}, errors.New("only max and min of two are expected")
		}
		return e.both(part.Args[0], part.Args[1], func(a, b amount) (amount, error) {
			a, b = alike(a, b)
			if (a.value.Cmp(b.value) >= 0) == (name.Name == "max") {
				return a, nil
			}
			return b, nil
		})
	}
	return amount{}, errors.New("only numbers, operators, max and min are expected")
}

// both computes two parts, and what follows from them.
func (e expression) both(x, y ast.Expr, result func(a, b amount) (amount, error)) (amount, error) {
	a, err := e.of(x)
	if err != nil {
		return amount{}, err
	}
	b, err := e.of(y)
	if err != nil {
		return amount{}, err
	}
	return result(a, b)
}

// alike are two amounts of one kind.
func alike(a, b amount) (amount, amount) {
	if a.quantity != b.quantity {
		return a.asQuantity(), b.asQuantity()
	}
	return a, b
}

func apply(operator token.Token, a, b amount) (amount, error) {
	if operator == token.ADD || operator == token.SUB {
		a, b = alike(a, b)
	}
	result := amount{value: new(big.Rat), quantity: a.quantity}
	switch operator {
	case token.ADD:
		result.value.Add(a.value, b.value)
	case token.SUB:
		result.value.Sub(a.value, b.value)
	case token.MUL:
		if a.quantity && b.quantity {
			return amount{}, errors.New("a quantity cannot be multiplied by a quantity")
		}
		result.quantity = a.quantity || b.quantity
		result.value.Mul(a.value, b.value)
	case token.QUO:
		switch {
		case b.quantity:
			return amount{}, errors.New("nothing can be divided by a quantity")
		case b.value.Sign() == 0:
			return amount{}, errors.New("division by zero")
		}
		result.value.Quo(a.value, b.value)
	default:
		return amount{}, fmt.Errorf("%q is not expected", operator)
	}
	if result.quantity {
		result = milli(result.value)
	}
	return result, nil
}

// number reads a quoted number with a percent sign or a quantity's suffix.
func number(quoted string) (amount, error) {
	text := strings.Trim(quoted, `"`)
	digits := strings.TrimRight(text, "%KMGTPimk")
	if at := strings.IndexAny(digits, "eE"); at >= 0 && len(digits)-at > 4 {
		return amount{}, fmt.Errorf("the exponent of %q is too large", digits)
	}
	value, ok := new(big.Rat).SetString(digits)
	if !ok {
		return amount{}, fmt.Errorf("%q is no number", text)
	}
	switch suffix := text[len(digits):]; suffix {
	case "":
		return amount{value: value}, nil
	case "%":
		return amount{value: value.Mul(value, big.NewRat(1, 100))}, nil
	default:
		unit, err := resource.ParseQuantity("1" + suffix)
		return milli(value.Mul(value, big.NewRat(unit.MilliValue(), 1))), err
	}
}
