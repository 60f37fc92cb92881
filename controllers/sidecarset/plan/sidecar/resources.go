// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// CheckExpression returns a fault of an expression for cpu or memory. It
// computes with a quantity, as for a pod, to find runtime faults too.
func CheckExpression(text, resource string) error {
	variable := variableOf(text, resource)
	if resource == string(corev1.ResourceCPU) && variable == string(corev1.ResourceMemory) {
		return errors.New("an expression for cpu cannot use memory")
	}
	_, err := evaluate(text, variable, milli(big.NewRat(1000, 1)))
	return err
}

// variableOf is an expression's resource: memory or cpu, memory first, if named; for a constant, its own.
func variableOf(text, resource string) string {
	text = strings.ToLower(text)
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceCPU} {
		if strings.Contains(text, string(name)) {
			return string(name)
		}
	}
	return resource
}

// resources computes a sidecar's resources from the pod's own containers.
func (w *work) resources(set string, c Container) (map[string]any, error) {
	targets, err := w.targets(c.Resources.Regex)
	if err != nil {
		return nil, fmt.Errorf("SidecarSet %s: container %s: %w", set, c.Name, err)
	}
	if len(targets) == 0 {
		return nil, fmt.Errorf("SidecarSet %s: container %s takes its resources from containers whose name matches %q, and the pod has none",
			set, c.Name, c.Resources.Regex)
	}
	out := map[string]any{}
	for _, kind := range []struct {
		field       string
		expressions map[string]string
	}{{"limits", c.Resources.Limits}, {"requests", c.Resources.Requests}} {
		amounts := map[string]any{}
		for _, name := range sortedNames(kind.expressions) {
			text, err := c.Resources.compute(targets, kind.field, name, kind.expressions[name])
			if err != nil {
				return nil, fmt.Errorf("SidecarSet %s: container %s: resourcesExpr.%s.%s: %w", set, c.Name, kind.field, name, err)
			}
			if text != "" {
				amounts[name] = text
			}
		}
		if len(amounts) > 0 {
			out[kind.field] = amounts
		}
	}
	return out, nil
}

// targets are the pod's own containers and native sidecars with a matching name.
func (w *work) targets(pattern string) ([]map[string]any, error) {
	matches, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	other := func(c map[string]any) bool { return !matches.MatchString(nameOf(c)) }
	return slices.DeleteFunc(slices.Concat(w.natives, w.sources), other), nil
}

// compute returns one amount as text; empty: a limit with an unlimited target.
func (r Resources) compute(targets []map[string]any, field, name, text string) (string, error) {
	variable := variableOf(text, name)
	if field == "limits" && (!limited(targets, name) || !limited(targets, variable)) {
		return "", nil
	}
	value, err := r.aggregate(targets, field, variable)
	if err != nil {
		return "", err
	}
	result, err := evaluate(text, variable, value)
	if err != nil {
		return "", err
	}
	result = result.asQuantity()
	if result.value.Sign() < 0 {
		result.value = new(big.Rat)
	}
	thousandths := result.value.Num()
	if name == string(corev1.ResourceCPU) {
		if !thousandths.IsInt64() {
			return "", errors.New("the result is too large")
		}
		return resource.NewMilliQuantity(thousandths.Int64(), resource.DecimalSI).String(), nil
	}
	whole := new(big.Int).Quo(thousandths, big.NewInt(1000))
	if !whole.IsInt64() {
		return "", errors.New("the result is too large")
	}
	return resource.NewQuantity(whole.Int64(), resource.BinarySI).String(), nil
}

func limited(targets []map[string]any, name string) bool {
	return !slices.ContainsFunc(targets, func(t map[string]any) bool {
		_, has := amountIn(t, "limits", name)
		return !has
	})
}

// aggregate sums or maximizes over targets. Missing requests count as zero.
func (r Resources) aggregate(targets []map[string]any, field, name string) (amount, error) {
	total := milli(new(big.Rat))
	for _, t := range targets {
		text, has := amountIn(t, field, name)
		if !has {
			continue
		}
		parsed, err := quantity.Parse(text)
		if err != nil {
			return amount{}, fmt.Errorf("container %s: %s.%s: %w", nameOf(t), field, name, err)
		}
		value := milli(new(big.Rat).SetInt64(parsed.MilliValue()))
		switch {
		case r.Mode == "max" && value.value.Cmp(total.value) > 0:
			total = value
		case r.Mode != "max":
			total.value = new(big.Rat).Add(total.value, value.value)
		}
	}
	return total, nil
}

// amountIn returns a container's amount of a resource, as text.
func amountIn(container map[string]any, field, name string) (string, bool) {
	resources, _ := container["resources"].(map[string]any)
	amounts, _ := resources[field].(map[string]any)
	value, has := amounts[name]
	if !has || value == nil {
		return "", false
	}
	return fmt.Sprint(value), true
}
