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

// Where a setting comes from.
const (
	FromDefault = "default"
	FromFlag    = "flag"
	FromObject  = "object"
)

// Merged is what the flags and the Kruise object come to.
type Merged struct {
	// Config is complete.
	Config Config
	// Sources says where each setting that the object can make comes from, by its name there.
	Sources map[string]string
	// Notes are for the log: which gates are ignored or forced, and why.
	Notes []string
	// Faults are what the object asks for and cannot have, sorted. They are left out, and the rest of the object is in force.
	Faults []string
}

// Given returns the names of the flags that were set.
func Given(flags *pflag.FlagSet) sets.Set[string] {
	names := sets.New[string]()
	flags.Visit(func(flag *pflag.Flag) { names.Insert(flag.Name) })
	return names
}

// Merge puts the object over the flags and those over the defaults. Flags are as they were parsed, before Complete; given are those that
// were set. Spec is nil when there is no object. The error is about the flags alone: a fault of the object never keeps the operator from
// running, and it depends on nothing that was in force before, so a restart changes nothing.
func Merge(flags Config, given sets.Set[string], spec *operatorv1alpha1.KruiseSpec) (Merged, error) {
	m := Merged{Config: flags, Sources: map[string]string{}}
	for setting, flag := range map[string]string{
		"kinds": "kinds", "featureGates": "feature-gates", "workers": "workers", "logLevel": "log-level", "metrics.bindAddress": "metrics-bind-address",
		"admission.mode": "admission-mode",
	} {
		m.Sources[setting] = FromDefault
		if given.Has(flag) {
			m.Sources[setting] = FromFlag
		}
	}
	m.Config.KindWorkers, m.Config.KindLogLevels = map[string]int{}, map[string]string{}
	if spec != nil {
		m.overlay(spec)
	}
	m.Config.NodeDaemon = m.Config.Deployment != "" &&
		(spec == nil || spec.NodeDaemon == nil || spec.NodeDaemon.Mode != operatorv1alpha1.NodeDaemonDisabled)
	m.leaveUnconfirmedOut(spec)
	notes, err := m.Config.Complete()
	m.Config.NodeDaemon = m.Config.NodeDaemon && m.Config.Features.Enabled(features.KruiseDaemon)
	m.Notes = notes
	slices.Sort(m.Faults)
	return m, err
}

func (m *Merged) overlay(spec *operatorv1alpha1.KruiseSpec) {
	if spec.Kinds != nil {
		m.Config.Kinds = nil
		m.Sources["kinds"] = FromObject
		for _, kind := range spec.Kinds {
			if m.knows("spec.kinds", kind) {
				m.Config.Kinds = append(m.Config.Kinds, string(kind))
			}
		}
	}
	m.gates(spec.FeatureGates)
	if spec.Workers != nil {
		if m.positive("spec.workers", *spec.Workers) {
			// All kinds: also those for which a flag says something.
			m.Config.Workers, m.Config.flagWorkers = int(*spec.Workers), nil
			m.Sources["workers"] = FromObject
		}
	}
	if spec.LogLevel != "" && m.level("spec.logLevel", spec.LogLevel) {
		m.Config.LogLevel = string(spec.LogLevel)
		m.Sources["logLevel"] = FromObject
	}
	for _, controller := range spec.Controllers {
		kind := string(controller.Kind)
		path := "spec.controllers[" + kind + "]"
		if !m.knows(path, controller.Kind) {
			continue
		}
		if controller.Workers != nil && m.positive(path+".workers", *controller.Workers) {
			m.Config.KindWorkers[kind] = int(*controller.Workers)
			m.Sources["controllers["+kind+"].workers"] = FromObject
		}
		if controller.LogLevel != "" && m.level(path+".logLevel", controller.LogLevel) {
			m.Config.KindLogLevels[kind] = string(controller.LogLevel)
			m.Sources["controllers["+kind+"].logLevel"] = FromObject
		}
	}
	if spec.Metrics != nil && spec.Metrics.BindAddress != "" {
		if err := CheckAddress(spec.Metrics.BindAddress); err != nil {
			m.fault("spec.metrics.bindAddress: %v", err)
		} else {
			m.Config.MetricsAddress = spec.Metrics.BindAddress
			m.Sources["metrics.bindAddress"] = FromObject
		}
	}
	if spec.Admission != nil && spec.Admission.ClientCA != "" {
		if x509.NewCertPool().AppendCertsFromPEM([]byte(spec.Admission.ClientCA)) {
			m.Config.ClientCA = spec.Admission.ClientCA
			m.Sources["admission.clientCA"] = FromObject
		} else {
			m.fault("spec.admission.clientCA: must hold a certificate in PEM")
		}
	}
	if spec.Admission != nil && spec.Admission.Mode != "" {
		if mode := string(spec.Admission.Mode); slices.Contains(admissionModes(), mode) {
			m.Config.AdmissionMode = mode
			m.Sources["admission.mode"] = FromObject
		} else {
			m.fault("spec.admission.mode: unknown mode %q: know %s", mode, strings.Join(admissionModes(), ", "))
		}
	}
}

// leaveUnconfirmedOut leaves kinds that wait for the administrator out of the default list. Who names kinds means them.
func (m *Merged) leaveUnconfirmedOut(spec *operatorv1alpha1.KruiseSpec) {
	left := map[string]int64{}
	if m.Sources["kinds"] == FromDefault {
		maps.Copy(left, m.Config.Unconfirmed)
	}
	if spec != nil {
		for _, kind := range spec.ConfirmedKinds {
			if m.knows("spec.confirmedKinds", kind) {
				delete(left, string(kind))
			}
		}
	}
	m.Config.Unconfirmed = left
	m.Config.Kinds = slices.DeleteFunc(slices.Clone(m.Config.Kinds), func(kind string) bool { _, waits := left[kind]; return waits })
}

// gates puts the object's gates over those of the flag, one by one.
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
		m.Sources["featureGates"] = FromObject
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

// CheckAddress says why an address cannot be listened at; nil for 0, which means not to listen.
func CheckAddress(address string) error {
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

// Hash stands for everything in a complete configuration that takes effect only when the process starts and that the object can change.
// Two processes with the same hash run alike.
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

// Summary lists the settings that the object can make, with where each comes from, for the log.
func (m *Merged) Summary() map[string]string {
	c := &m.Config
	values := map[string]string{
		"kinds": strings.Join(c.Kinds, ","), "featureGates": c.FeatureGates, "workers": strconv.Itoa(c.Workers), "logLevel": c.LogLevel,
		"metrics.bindAddress": c.MetricsAddress, "admission.mode": c.AdmissionMode,
	}
	for kind, workers := range c.KindWorkers {
		values["controllers["+kind+"].workers"] = strconv.Itoa(workers)
	}
	for kind, level := range c.KindLogLevels {
		values["controllers["+kind+"].logLevel"] = level
	}
	for setting, value := range values {
		from := m.Sources[setting]
		if from == "" {
			from = FromFlag // of one controller
		}
		values[setting] = strings.TrimSpace(value + " (" + from + ")")
	}
	return values
}
