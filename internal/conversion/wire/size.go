// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits on an object's sizes. They bound the cost of any request: a byte of JSON can
// become hundreds of bytes of memory. They are far above the needs of workloads; etcd
// stores at most 1.5 MiB of an object.
const (
	// MaxItems is how many members a list or an object may have.
	MaxItems = 10_000
	// MaxObjects is how many objects a list may hold.
	MaxObjects = 2_000
	// maxPerPod is how many objects the lists of perPod may hold.
	maxPerPod = 200
	// MaxValues is how many values an object may hold in all.
	MaxValues = 40_000
	// maxText is the longest text, in bytes of JSON: twice the longest annotation the API
	// server takes.
	maxText = 512 << 10
	// maxName is the longest member name, in bytes of JSON. The longest label key has 317
	// characters. Each error names all members of its path, and so costs their length.
	maxName = 4 << 10
	// maxWord is how many bytes a number may have.
	maxWord = 1 << 10
	// maxDepth is how deep values may lie in each other.
	maxDepth = 200
)

// TooLarge returns the oversized lists and objects in raw, with their paths. A list no
// longer than in old is admitted: an update is refused only for lists it lengthens, and
// never while the spec stays. old is nil for a new object.
//
// It reads raw once; its memory does not grow with raw.
func TooLarge(raw, old []byte) field.ErrorList { return tooLarge(raw, old, nil) }

// TooLargeWorkload is TooLarge for our kinds: some of their lists have a lower limit than
// decoding.
func TooLargeWorkload(raw, old []byte) field.ErrorList { return tooLarge(raw, old, perPod) }

// perPod is true for lists looked up for every pod of a workload in every pass.
func perPod(list string) bool {
	switch list {
	case "weightPriority", "orderPriority", "scatterStrategy", "topologySpreadConstraints", "volumeClaimTemplates":
		return true
	}
	return false
}

func tooLarge(raw, old []byte, shorter func(list string) bool) field.ErrorList {
	found := oversized(raw, shorter)
	if len(found) == 0 {
		return nil
	}
	before := map[string]int{}
	for _, size := range oversized(old, shorter) {
		before[size.Path] = max(before[size.Path], size.Has)
	}
	var errs field.ErrorList
	for _, size := range found {
		if size.Has <= before[size.Path] {
			continue
		}
		if size.Path == WholeObject && before[WholeObject] > 0 && SameSpecText(raw, old) {
			continue // Metadata alone grows, such as by the name of who removes a finalizer.
		}
		e := field.TooMany(nil, size.Has, size.Max)
		e.Field, e.Detail = size.Path, fmt.Sprintf("must have at most %d %s", size.Max, size.of)
		if size.Path == WholeObject {
			e.Field, e.Detail = specField, fmt.Sprintf("the whole object must have at most %d %s", size.Max, size.of)
		}
		errs = append(errs, e)
		if len(errs) == MaxErrors {
			break
		}
	}
	return errs
}

// Oversize is a value beyond its limit: of members for lists and objects, of bytes for
// texts.
type Oversize struct {
	// Path is where it is: spec.template.spec.containers[3].env. Empty: it is the outermost one. WholeObject: Has counts all values.
	Path string
	// Has is how much it has, Max how much it may have.
	Has, Max int
	// of is the counted unit.
	of string
}

// Units of counts.
const (
	ofItems   = "items"
	ofObjects = "objects"
	ofValues  = "values"
	ofBytes   = "bytes"
	ofLevels  = "levels"
	ofName    = "bytes in its name"
)

// IsList is true for a list or an object; Has counts its members.
func (o Oversize) IsList() bool { return o.of == ofItems || o.of == ofObjects }

// WholeObject is the Path of an Oversize about all values together.
const WholeObject = "*"

// level is a list or object around the scan.
type level struct {
	list bool
	// key is the current member's name, as written.
	key []byte
	// members and objects are how many there are so far. For a list, members is one more than the index of the present one.
	members, objects int
}

// Oversized returns the oversized values in raw. It guesses at invalid JSON; decoding
// refuses it later.
func Oversized(raw []byte) []Oversize { return oversized(raw, nil) }

// oversized is Oversized, and applies maxPerPod to lists whose names shorter accepts.
// shorter may be nil.
func oversized(raw []byte, shorter func(list string) bool) []Oversize {
	s := scan{raw: raw, shorter: shorter}
	for at := 0; at < len(raw); {
		switch c := raw[at]; c {
		case '{', '[':
			if !s.open(c == '[') {
				return s.found
			}
			at++
		case '}', ']':
			s.close()
			at++
		case '"':
			at = s.text(at)
		case ' ', '\t', '\r', '\n', ',', ':':
			at++
		default:
			s.enter(false)
			end := endOfWord(raw, at)
			s.note(end-at, maxWord, ofBytes)
			at = end
		}
	}
	if s.values > MaxValues {
		s.found = append(s.found, Oversize{Path: WholeObject, Has: s.values, Max: MaxValues, of: ofValues})
	}
	return s.found
}

// scan is one reading of raw.
type scan struct {
	raw []byte
	// levels are the lists and objects around the scan, outermost first.
	levels []level
	values int
	found  []Oversize
	// shorter accepts names of lists with the lower limit; may be nil.
	shorter func(list string) bool
}

// note records the current value if it exceeds its limit.
func (s *scan) note(has, most int, of string) {
	if has > most {
		s.found = append(s.found, Oversize{Path: pathOf(s.levels), Has: has, Max: most, of: of})
	}
}

// enter counts a value.
func (s *scan) enter(isObject bool) {
	s.values++
	if len(s.levels) == 0 {
		return
	}
	in := &s.levels[len(s.levels)-1]
	if in.list {
		in.members++
		if isObject {
			in.objects++
		}
	}
}

// open enters a list or object. It is false if too deep.
func (s *scan) open(list bool) bool {
	s.enter(!list)
	if len(s.levels) == maxDepth {
		s.note(maxDepth+1, maxDepth, ofLevels)
		return false
	}
	s.levels = append(s.levels, level{list: list})
	return true
}

// close leaves a list or an object.
func (s *scan) close() {
	last := len(s.levels) - 1
	if last < 0 {
		return
	}
	is := s.levels[last]
	s.levels = s.levels[:last]
	if most := s.allowedObjects(is); is.list && is.objects > most {
		s.note(is.objects, most, ofObjects)
	} else {
		s.note(is.members, MaxItems, ofItems)
	}
}

// allowedObjects is the limit on objects in the list just left.
func (s *scan) allowedObjects(is level) int {
	last := len(s.levels) - 1
	if s.shorter == nil || is.objects <= maxPerPod || last < 0 || s.levels[last].list {
		return MaxObjects
	}
	if key := s.levels[last].key; len(key) > 1 && s.shorter(string(key[1:len(key)-1])) {
		return maxPerPod
	}
	return MaxObjects
}

// text reads the key or text at a place and returns its end.
func (s *scan) text(at int) int {
	end := endOfString(s.raw, at)
	if last := len(s.levels) - 1; last >= 0 && !s.levels[last].list && isKey(s.raw, end) {
		s.levels[last].key = s.raw[at:end]
		s.levels[last].members++
		s.note(end-at, maxName, ofName)
	} else {
		s.enter(false)
		s.note(end-at, maxText, ofBytes)
	}
	return end
}

// endOfWord is the end of the number, true, false or null at raw[at].
func endOfWord(raw []byte, at int) int {
	if length := bytes.IndexAny(raw[at+1:], ",:{}[]\""+space); length >= 0 {
		return at + 1 + length
	}
	return len(raw)
}

// endOfString is the end of the string at raw[at].
func endOfString(raw []byte, at int) int {
	for i := at + 1; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}

// isKey is true if a colon follows.
func isKey(raw []byte, at int) bool {
	return bytes.HasPrefix(bytes.TrimLeft(raw[at:], space), []byte{':'})
}

// space may stand between the parts of JSON.
const space = " \t\r\n"

// pathOf is the path of the current value: spec.template.spec.containers[3].env.
func pathOf(levels []level) string {
	var path strings.Builder
	for _, in := range levels {
		if path.Len() > maxPath {
			path.WriteString("...")
			break
		}
		if in.list {
			fmt.Fprintf(&path, "[%d]", max(in.members-1, 0))
			continue
		}
		name, err := strconv.Unquote(string(in.key[:min(len(in.key), maxKey)]))
		if err != nil {
			name = strings.Trim(string(in.key[:min(len(in.key), maxKey)]), `"`) + "..."
		}
		if path.Len() > 0 {
			path.WriteByte('.')
		}
		path.WriteString(name)
	}
	return path.String()
}

// maxKey is how much of a key is shown, maxPath after how much of a path the rest is not: a client may put hundreds of long names below as many levels.
const maxKey, maxPath = 128, 1 << 10
