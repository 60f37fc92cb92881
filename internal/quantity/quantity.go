// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package quantity reads quantities of resources that somebody else wrote.
//
// The library that does so computes with decimal numbers of any size. A text of a few letters, such as 1e-999999999, is divided by a number
// of a billion digits when it is parsed, and one with that exponent above zero is multiplied by it when it is compared: minutes, and gigabytes.
// The API server does not parse what is in a template or in an annotation, so such a text would get as far as to the operator, again and again.
// Everything that can hold one is therefore decoded by this package: it refuses them, unread. No quantity that means anything is among them.
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
)

const (
	// longest is how many characters a quantity may have.
	longest = 128
	// exponentDigits is how many digits the exponent of a quantity may have, zeros before it not counted.
	exponentDigits = 2
	// longestRun is up to how many digits in a row are not looked at any closer.
	longestRun = 64
)

// Costly says that reading a text as a quantity could take long.
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

// isNumeric says that a quantity can begin with the character.
func isNumeric(c byte) bool { return isDigit(c) || c == '.' || c == '+' || c == '-' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// Parse is [resource.ParseQuantity] for any text.
func Parse(text string) (resource.Quantity, error) {
	if Costly(text) {
		return resource.Quantity{}, fmt.Errorf("quantity %s has too many digits", brief(text))
	}
	return resource.ParseQuantity(text)
}

// Same says that two values of JSON, texts or numbers, are the same quantity. Other values are not quantities.
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

// brief is a text for a message.
func brief(text string) string {
	const most = 40
	if len(text) > most {
		return strconv.Quote(strings.ToValidUTF8(text[:most], "")) + "..."
	}
	return strconv.Quote(text)
}

// Unmarshal is [json.Unmarshal] for types that have quantities.
func Unmarshal(raw []byte, into any) error {
	if !Suspect(raw) {
		return json.Unmarshal(raw, into)
	}
	// Of members of one name, only the last is in the tree. What is decoded is therefore what was looked at.
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

// FromUnstructured is that of [runtime.DefaultUnstructuredConverter] for types that have quantities.
func FromUnstructured(object map[string]any, into any) error {
	if suspect(object) {
		if err := find(object, false, ""); err != nil {
			return err
		}
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(object, into)
}

// Suspect says that JSON may hold a costly quantity. It reads raw once, and allocates nothing. It may be wrong in what it suspects, and never is
// in what it does not.
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

// begins says that a value can begin after a piece of JSON: a text, perhaps after space of any kind, or a number. Hashes have digits in their midst.
func begins(after []byte) bool {
	if len(after) == 0 {
		return true
	}
	last := after[len(after)-1]
	return last >= utf8.RuneSelf || strings.IndexByte("\" \t\r\n:,[", last) >= 0
}

// hasLongExponent says that what follows an e is a sign, if any, and more digits than an exponent may have.
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

// suspect is Suspect for what is decoded already.
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

// find returns an error that names the first costly quantity in a value. is says that the value is a quantity, or that its members are.
func find(value any, is bool, path string) error {
	switch value := value.(type) {
	case string:
		if is && Costly(value) {
			return fmt.Errorf("%s: quantity %s has too many digits", path, brief(value))
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

// fields are the names of all fields of pods, claims, nodes and our kinds that are quantities, or lists of some by name.
func fields() []string {
	return []string{"limits", "requests", "capacity", "allocatable", "allocatedResources", "overhead", "sizeLimit", "divisor", "quantity", "perPod", "perContainer"}
}

// named says that a member of this name is decoded to one of these fields. Like encoding/json it does not care about case.
func named(member string) bool {
	return slices.ContainsFunc(fields(), func(field string) bool { return strings.EqualFold(field, member) })
}
