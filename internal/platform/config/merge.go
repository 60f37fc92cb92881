// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/sets"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/platform/logging"
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
// never keeps the operator from running. The result depends on nothing in force before, so a restart changes
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
	m.workers(spec)
	m.metrics(spec.Metrics)
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

// workers reads the number of workers, for all controllers and for single ones.
func (m *Merged) workers(spec *operatorv1alpha1.KruiseSpec) {
	if spec.Workers != nil && m.positive("spec.workers", *spec.Workers) {
		// All kinds, even those with a flag.
		m.Config.Workers, m.Config.flagWorkers = int(*spec.Workers), nil
	}
	if spec.LogLevel != "" && m.level("spec.logLevel", spec.LogLevel) {
		m.Config.LogLevel = string(spec.LogLevel)
	}
	for _, controller := range spec.Controllers {
		kind := string(controller.Kind)
		path := "spec.controllers[" + kind + "]"
		if !m.knows(path, controller.Kind) {
			continue
		}
		if controller.Workers != nil && m.positive(path+".workers", *controller.Workers) {
			m.Config.KindWorkers[kind] = int(*controller.Workers)
		}
		if controller.LogLevel != "" && m.level(path+".logLevel", controller.LogLevel) {
			m.Config.KindLogLevels[kind] = string(controller.LogLevel)
		}
	}
}

func (m *Merged) metrics(settings *operatorv1alpha1.MetricsSettings) {
	if settings == nil || settings.BindAddress == "" {
		return
	}
	if err := checkAddress(settings.BindAddress); err != nil {
		m.fault("spec.metrics.bindAddress: %v", err)
		return
	}
	m.Config.MetricsAddress = settings.BindAddress
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
	if mode := string(settings.Mode); slices.Contains(admissionModes(), mode) {
		m.Config.AdmissionMode = mode
	} else if mode != "" {
		m.fault("spec.admission.mode: unknown mode %q: know %s", mode, strings.Join(admissionModes(), ", "))
	}
}

// gates puts the object's gates over the flag's, one by one.
func (m *Merged) gates(wanted []operatorv1alpha1.FeatureGate) {
	values := map[features.Gate]bool{}
	for _, gate := range wanted {
		name := features.Gate(gate.Name)
		path := "spec.featureGates[" + string(gate.Name) + "]"
		switch {
		case !features.IsKnown(name):
			m.fault("%s: unknown feature gate: know %s", path, strings.Join(features.Names(), ", "))
		case gate.State != operatorv1alpha1.Enabled && gate.State != operatorv1alpha1.Disabled:
			m.fault("%s.state: %q is neither Enabled nor Disabled", path, gate.State)
		default:
			values[name] = gate.State == operatorv1alpha1.Enabled
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

func (m *Merged) positive(path string, value int32) bool {
	if value >= 1 {
		return true
	}
	m.fault("%s: %d is less than 1", path, value)
	return false
}

func (m *Merged) level(path string, level operatorv1alpha1.LogLevel) bool {
	if _, err := logging.ParseLevel(string(level)); err != nil {
		m.fault("%s: %v", path, err)
		return false
	}
	return true
}

// checkAddress explains an address unfit to listen at; nil for 0, meaning not to listen.
func checkAddress(address string) error {
	if address == "0" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("reading the address %q: %w", address, err)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("address %q: %q is no port", address, port)
	}
	return nil
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
