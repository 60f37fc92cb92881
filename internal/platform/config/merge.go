// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/sets"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
)

// Merged combines the flags and the Kruise object.
type Merged struct {
	// Config is complete.
	Config Config
	// Notes are for the log: ignored or forced gates, and why.
	Notes []string
	// Faults are requests of the object that cannot be met, sorted. The rest is in force.
	Faults []string
}

// Given returns the names of the flags set.
func Given(flags *pflag.FlagSet) sets.Set[string] {
	names := sets.New[string]()
	flags.Visit(func(flag *pflag.Flag) { names.Insert(flag.Name) })
	return names
}

// Merge puts the object over the flags and those over the defaults. Flags are as parsed, before Complete; given
// are the ones set. Spec is nil without an object. The error is about the flags alone: a fault of the object
// never keeps the operator from running. Its schema refuses most of them; kinds and gates may be those of another
// version. The result depends on nothing in force before, so a restart changes
// nothing.
func Merge(flags Config, given sets.Set[string], spec *operatorv1alpha1.KruiseSpec) (Merged, error) {
	m := Merged{Config: flags}
	c := &m.Config
	c.KindWorkers, c.KindLogLevels = map[string]int{}, map[string]string{}
	if spec == nil {
		spec = &operatorv1alpha1.KruiseSpec{}
	}
	m.kinds(spec)
	m.gates(spec.FeatureGates)
	m.controllers(spec)
	if spec.Metrics != nil {
		c.MetricsAddress = cmp.Or(spec.Metrics.BindAddress, c.MetricsAddress)
	}
	m.admission(spec.Admission)
	if spec.Kinds == nil && !given.Has("kinds") { // who names kinds confirms them
		m.leaveUnconfirmedOut(spec.ConfirmedKinds)
	} else {
		c.Unconfirmed = nil
	}
	notes, err := c.Complete()
	m.Notes = notes
	disabled := spec.NodeDaemon != nil && spec.NodeDaemon.Mode == operatorv1alpha1.NodeDaemonDisabled
	c.NodeDaemon = c.Deployment != "" && !disabled && c.Features.Enabled(features.KruiseDaemon)
	slices.Sort(m.Faults)
	return m, err
}

func (m *Merged) kinds(spec *operatorv1alpha1.KruiseSpec) {
	if spec.Kinds == nil {
		return
	}
	m.Config.Kinds = nil
	for _, kind := range spec.Kinds {
		if m.knows("spec.kinds", kind) {
			m.Config.Kinds = append(m.Config.Kinds, string(kind))
		}
	}
}

// leaveUnconfirmedOut drops kinds waiting for the administrator from the default list.
func (m *Merged) leaveUnconfirmedOut(confirmed []operatorv1alpha1.Kind) {
	left := maps.Clone(m.Config.Unconfirmed)
	for _, kind := range confirmed {
		if m.knows("spec.confirmedKinds", kind) {
			delete(left, string(kind))
		}
	}
	m.Config.Unconfirmed = left
	m.Config.Kinds = slices.DeleteFunc(slices.Clone(m.Config.Kinds), func(kind string) bool { _, waits := left[kind]; return waits })
}

// controllers reads workers and log levels, for all controllers and for single ones.
func (m *Merged) controllers(spec *operatorv1alpha1.KruiseSpec) {
	if spec.Workers != nil {
		// All kinds, even those with a flag.
		m.Config.Workers, m.Config.flagWorkers = int(*spec.Workers), nil
	}
	m.Config.LogLevel = cmp.Or(string(spec.LogLevel), m.Config.LogLevel)
	for _, controller := range spec.Controllers {
		kind := string(controller.Kind)
		if !m.knows("spec.controllers["+kind+"]", controller.Kind) {
			continue
		}
		if controller.Workers != nil {
			m.Config.KindWorkers[kind] = int(*controller.Workers)
		}
		if controller.LogLevel != "" {
			m.Config.KindLogLevels[kind] = string(controller.LogLevel)
		}
	}
}

func (m *Merged) admission(settings *operatorv1alpha1.AdmissionSettings) {
	if settings == nil {
		return
	}
	if settings.ClientCA != "" && x509.NewCertPool().AppendCertsFromPEM([]byte(settings.ClientCA)) {
		m.Config.ClientCA = settings.ClientCA
	} else if settings.ClientCA != "" {
		m.fault("spec.admission.clientCA: must hold a certificate in PEM")
	}
	m.Config.AdmissionMode = cmp.Or(string(settings.Mode), m.Config.AdmissionMode)
}

// gates puts the object's gates over the flag's, one by one.
func (m *Merged) gates(wanted []operatorv1alpha1.FeatureGate) {
	values := map[features.Gate]bool{}
	for _, gate := range wanted {
		name := features.Gate(gate.Name)
		if _, known := features.Of(name); known {
			values[name] = gate.State == operatorv1alpha1.Enabled
		} else {
			m.fault("spec.featureGates[%s]: unknown feature gate: know %s", name, strings.Join(features.Names(), ", "))
		}
	}
	if len(values) > 0 {
		m.Config.FeatureGates = features.Override(m.Config.FeatureGates, values)
	}
}

func (m *Merged) fault(format string, args ...any) {
	m.Faults = append(m.Faults, fmt.Sprintf(format, args...))
}

func (m *Merged) knows(path string, kind operatorv1alpha1.Kind) bool {
	if slices.Contains(m.Config.KnownKinds(), string(kind)) {
		return true
	}
	m.fault("%s: unknown kind %q: know %s", path, kind, strings.Join(m.Config.KnownKinds(), ", "))
	return false
}

// Hash stands for every setting the object can change and only a new process applies. Two processes with the
// same hash run alike.
func (c *Config) Hash() string {
	workers := map[string]int{}
	for _, kind := range c.Kinds {
		workers[kind] = c.WorkersOf(kind)
	}
	// Marshaling maps and slices of strings and numbers cannot fail, and maps are written in order.
	text, _ := json.Marshal(map[string]any{
		"kinds": slices.Sorted(maps.Keys(workers)), "gates": c.Features.String(), "workers": workers, "metrics": c.MetricsAddress,
		"admission": c.AdmissionMode, "clientCA": c.ClientCA, "nodeDaemon": c.NodeDaemon,
	})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
