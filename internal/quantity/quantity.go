// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package quantity reads quantities written by users.
//
// The Kubernetes library computes with decimals of any size. Parsing 1e-999999999 divides by a number of a
// billion digits, and comparing 1e999999999 multiplies by it: minutes, and gigabytes. The API server leaves
// templates and annotations unparsed, so such a text would reach the operator again and again. So everything
// with quantities is decoded here, and such texts are refused unread. No meaningful quantity is refused.
package quantity

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kruise-operator/kruise-operator/internal/brief"
)

const (
	// longest is how many characters a quantity may have.
	longest = 128
	// exponentDigits is how many digits the exponent of a quantity may have, zeros before it not counted.
	exponentDigits = 2
	// longestRun is up to how many digits in a row are not looked at any closer.
	longestRun = 64
	// longestShown is how much of it a message shows.
	longestShown = 40
)

// Costly reports if parsing the text as a quantity could take long.
func Costly(text string) bool {
	text = strings.TrimSpace(text)
	if text == "" || !isNumeric(text[0]) {
		return false
	}
	if len(text) > longest {
		return true
	}
	at := strings.IndexAny(text, "eE")
	if at < 0 {
		return false
	}
	exponent := strings.TrimLeft(strings.TrimLeft(text[at+1:], "+-"), "0")
	return len(exponent) > exponentDigits && isNumeric(exponent[0])
}

// isNumeric: a quantity can begin with the character.
func isNumeric(c byte) bool { return isDigit(c) || c == '.' || c == '+' || c == '-' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// Parse is [resource.ParseQuantity] for any text.
func Parse(text string) (resource.Quantity, error) {
	if Costly(text) {
		return resource.Quantity{}, fmt.Errorf("quantity %q has too many digits", brief.Text(text, longestShown))
	}
	return resource.ParseQuantity(text)
}

// Same compares two JSON texts or numbers as quantities. Other values are never the same.
func Same(a, b any) bool {
	one, is := of(a)
	if !is {
		return false
	}
	other, is := of(b)
	return is && one.Cmp(other) == 0
}

// of is a value of JSON as a quantity, if it is one.
func of(value any) (resource.Quantity, bool) {
	text := ""
	switch value := value.(type) {
	case string:
		text = value
	case int64:
		return *resource.NewQuantity(value, resource.DecimalSI), true
	case float64:
		text = strconv.FormatFloat(value, 'g', -1, 64)
	default:
		return resource.Quantity{}, false
	}
	parsed, err := Parse(text)
	return parsed, err == nil
}

// Unmarshal is [json.Unmarshal] for types with quantities.
func Unmarshal(raw []byte, into any) error {
	if !Suspect(raw) {
		return json.Unmarshal(raw, into)
	}
	// The tree has only the last of members of one name, so only checked values are decoded.
	var tree any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := json.Unmarshal(raw, new(json.RawMessage)); err != nil { // which says what a decoder does not: that something follows
		return err
	}
	if err := decoder.Decode(&tree); err != nil {
		return err
	}
	if err := find(tree, false, ""); err != nil {
		return err
	}
	looked, err := json.Marshal(tree)
	if err != nil {
		return err
	}
	return json.Unmarshal(looked, into)
}

// FromUnstructured replaces [runtime.DefaultUnstructuredConverter]'s for types with quantities.
func FromUnstructured(object map[string]any, into any) error {
	if suspect(object) {
		if err := find(object, false, ""); err != nil {
			return err
		}
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(object, into)
}

// Suspect reports if JSON may hold a costly quantity. It reads raw once without allocating. It may suspect wrongly, but misses nothing.
func Suspect(raw []byte) bool {
	run := 0
	for i, c := range raw {
		switch {
		case isNumeric(c):
			if run++; run > longestRun && begins(raw[:i+1-run]) {
				return true
			}
			continue
		case (c == 'e' || c == 'E') && run > 0 && begins(raw[:i-run]) && hasLongExponent(raw[i+1:]):
			return true
		}
		run = 0
	}
	return false
}

// begins: a value can begin after a piece of JSON: a text, perhaps after space, or a number. Hashes have digits in their midst.
func begins(after []byte) bool {
	if len(after) == 0 {
		return true
	}
	last := after[len(after)-1]
	return last >= utf8.RuneSelf || strings.IndexByte("\" \t\r\n:,[", last) >= 0
}

// hasLongExponent: after an e come an optional sign and too many digits.
func hasLongExponent(rest []byte) bool {
	if len(rest) > 0 && (rest[0] == '+' || rest[0] == '-') {
		rest = rest[1:]
	}
	for i := range exponentDigits + 1 {
		if i >= len(rest) || !isDigit(rest[i]) {
			return false
		}
	}
	return true
}

// suspect is Suspect for decoded values.
func suspect(value any) bool {
	switch value := value.(type) {
	case string:
		return Costly(value)
	case map[string]any:
		for _, member := range value {
			if suspect(member) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(value, suspect)
	}
	return false
}

// find names the first costly quantity in a value, as an error. is: the value or its members are quantities.
func find(value any, is bool, path string) error {
	switch value := value.(type) {
	case string:
		if is && Costly(value) {
			return fmt.Errorf("%s: quantity %q has too many digits", path, brief.Text(value, longestShown))
		}
	case json.Number:
		return find(string(value), is, path)
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if err := find(value[name], is || named(name), strings.TrimPrefix(path+"."+name, ".")); err != nil {
				return err
			}
		}
	case []any:
		for i, item := range value {
			if err := find(item, is, path+"["+strconv.Itoa(i)+"]"); err != nil {
				return err
			}
		}
	}
	return nil
}

// fields are the names of all quantity fields, or lists of quantities, in pods, claims, nodes and our kinds.
func fields() []string {
	return []string{"limits", "requests", "capacity", "allocatable", "allocatedResources", "overhead", "sizeLimit", "divisor", "quantity", "perPod", "perContainer"}
}

// named: a member of this name decodes to one of the fields. Like encoding/json it ignores case.
func named(member string) bool {
	return slices.ContainsFunc(fields(), func(field string) bool { return strings.EqualFold(field, member) })
}
