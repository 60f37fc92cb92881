// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package traffic_test

import (
	"fmt"
	"html"
	"strings"
	"time"
)

// second is what was answered in one.
type second struct {
	versions map[string]int
	all      int
}

// picture draws which version answered in each second, and when commands ran.
func picture(answers []answer, marks []state) string {
	const width, height, left, top = 700.0, 200.0, 52.0, 96.0
	seconds := bySecond(answers)
	at := func(s float64) float64 { return left + width*s/float64(len(seconds)) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 340" font-family="sans-serif" font-size="12">`+
		`<rect width="800" height="340" fill="#fff"/><rect x="%g" y="%g" width="%g" height="%g" fill="#d6dce5"/>`, left, top, width, height)
	fmt.Fprintf(&b, `<polygon fill="#2e7d32" points="%g,%g`, at(0), top+height)
	failed := 0
	for i, s := range seconds {
		share := 0.0
		if s.all > 0 {
			share = float64(s.versions["v2"]) / float64(s.all)
		}
		failed += s.versions[""]
		fmt.Fprintf(&b, " %.1f,%.1f %.1f,%.1f", at(float64(i)), top+height*(1-share), at(float64(i+1)), top+height*(1-share))
	}
	fmt.Fprintf(&b, ` %g,%g"/>`, at(float64(len(seconds))), top+height)
	began := answers[0].sent
	row := 0
	for _, m := range marks {
		label := shortened(m.text)
		if label == "" {
			continue
		}
		x := at(m.at.Sub(began).Seconds())
		anchor := "start"
		if x > left+width*0.6 {
			anchor = "end"
		}
		fmt.Fprintf(&b, `<path d="M%.1f %gV%g" stroke="#b71c1c" stroke-dasharray="4 3"/><text x="%.1f" y="%d" text-anchor="%s" fill="#b71c1c">%s</text>`,
			x, top-10-18*float64(2-row), top+height, x, 76-18*(2-row), anchor, html.EscapeString(label))
		row = min(row+1, 2)
	}
	for _, percent := range []int{0, 20, 50, 100} {
		fmt.Fprintf(&b, `<text x="%g" y="%g" text-anchor="end" fill="#444">%d %%</text>`, left-4, top+height*(1-float64(percent)/100)+4, percent)
	}
	for s := 0; s < len(seconds); s += 10 {
		fmt.Fprintf(&b, `<text x="%.1f" y="%g" text-anchor="middle" fill="#444">%d s</text>`, at(float64(s)), top+height+16, s)
	}
	fmt.Fprintf(&b, `<text x="%g" y="332" fill="#222">requests without the header, answered by v1 (grey) and v2 (green): %d, failed: %d</text></svg>`+"\n", left, len(answers), failed)
	return b.String()
}

func bySecond(answers []answer) []second {
	began := answers[0].sent
	last := answers[len(answers)-1].sent
	all := make([]second, int(last.Sub(began)/time.Second)+1)
	for _, a := range answers {
		i := max(0, min(len(all)-1, int(a.sent.Sub(began)/time.Second)))
		if all[i].versions == nil {
			all[i].versions = map[string]int{}
		}
		all[i].versions[a.version]++
		all[i].all++
	}
	return all
}

// shortened is what a person did; empty: the command only looks or waits.
func shortened(command string) string {
	switch {
	case strings.Contains(command, "set image"):
		return "kubectl set image … v2"
	case strings.Contains(command, "StepReady"):
		return "approved"
	}
	return ""
}
