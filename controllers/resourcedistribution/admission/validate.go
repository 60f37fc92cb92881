// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/resourcedistribution/plan"
	"github.com/kruise-operator/kruise-operator/internal/conversion/wire"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

func resourcePath() *field.Path { return field.NewPath("spec", "resource") }

// Validate returns the faults of a ResourceDistribution.
func Validate(object *appsv1beta1.ResourceDistribution) field.ErrorList {
	return append(resource(object.Spec.Resource.Raw), targets(&object.Spec.Targets, field.NewPath("spec", "targets"))...)
}

// ValidateUpdate refuses another resource: copies of the former one would stay.
func ValidateUpdate(object, old *appsv1beta1.ResourceDistribution) field.ErrorList {
	is, _ := identity(object.Spec.Resource.Raw)
	was, err := identity(old.Spec.Resource.Raw)
	if err != nil || is.APIVersion == was.APIVersion && is.Kind == was.Kind && is.Metadata.Name == was.Metadata.Name {
		return nil
	}
	return field.ErrorList{field.Invalid(resourcePath(), describe(is),
		fmt.Sprintf("apiVersion, kind and name cannot be changed, they are those of %s: create another ResourceDistribution", describe(was)))}
}

// identity reads the parts of a resource that every kind has.
func identity(raw []byte) (of plan.Resource, err error) {
	if len(raw) == 0 {
		return of, nil
	}
	return of, json.Unmarshal(raw, &of)
}

func describe(of plan.Resource) string {
	return fmt.Sprintf("%s %s of %s", of.Kind, of.Metadata.Name, of.APIVersion)
}

// resource checks spec.resource.
func resource(raw []byte) field.ErrorList {
	path := resourcePath()
	if len(raw) == 0 || string(raw) == "null" {
		return field.ErrorList{field.Invalid(path, "", "must be a ConfigMap or a Secret")}
	}
	of, err := identity(raw)
	if err != nil {
		return field.ErrorList{field.Invalid(path, "", "cannot be decoded: "+err.Error())}
	}
	copied := &metav1.ObjectMeta{ // The rest is not copied.
		Namespace: metav1.NamespaceDefault, Name: of.Metadata.Name,
		Labels: of.Metadata.Labels, Annotations: of.Metadata.Annotations, Finalizers: of.Metadata.Finalizers,
	}
	errs := rules.Metadata(copied, path.Child("metadata"))
	if of.Metadata.Name == "" {
		errs = append(errs, field.Required(path.Child("metadata", "name"), "the name of the copies"))
	}
	switch of.GroupVersionKind() {
	case plan.KindConfigMap():
		return append(errs, configMap(raw, path)...)
	case plan.KindSecret():
		return append(errs, secret(raw, path)...)
	}
	return append(errs, field.Invalid(path, describe(of), "must be a ConfigMap or a Secret of v1"))
}

func configMap(raw []byte, path *field.Path) field.ErrorList {
	object := &corev1.ConfigMap{}
	if errs := decode(raw, object, path); len(errs) > 0 {
		return errs
	}
	errs := tooLarge(sizeOf(object.Data)+sizeOf(object.BinaryData), path.Child("data"))
	errs = append(errs, keys(object.Data, path.Child("data"))...)
	errs = append(errs, keys(object.BinaryData, path.Child("binaryData"))...)
	for _, key := range slices.Sorted(maps.Keys(object.BinaryData)) {
		if _, both := object.Data[key]; both {
			errs = append(errs, field.Invalid(path.Child("binaryData").Key(key), key, "must not be in data, too"))
		}
	}
	return errs
}

// required are the keys that the server demands of a type of Secrets.
func required() map[corev1.SecretType][]string {
	return map[corev1.SecretType][]string{
		corev1.SecretTypeTLS: {corev1.TLSCertKey, corev1.TLSPrivateKeyKey}, corev1.SecretTypeSSHAuth: {corev1.SSHAuthPrivateKey},
		corev1.SecretTypeDockercfg: {corev1.DockerConfigKey}, corev1.SecretTypeDockerConfigJson: {corev1.DockerConfigJsonKey},
	}
}

func secret(raw []byte, path *field.Path) field.ErrorList {
	object := &corev1.Secret{}
	if errs := decode(raw, object, path); len(errs) > 0 {
		return errs
	}
	all := map[string][]byte{}
	maps.Copy(all, object.Data)
	for key, value := range object.StringData {
		all[key] = []byte(value)
	}
	data := path.Child("data")
	errs := append(tooLarge(sizeOf(all), data), keys(all, data)...)
	for _, key := range required()[object.Type] {
		value, found := all[key]
		switch {
		case !found:
			errs = append(errs, field.Required(data.Key(key), fmt.Sprintf("a Secret of type %s needs it", object.Type)))
		case strings.HasPrefix(key, ".docker") && !json.Valid(value):
			errs = append(errs, field.Invalid(data.Key(key), "<secret>", "must be JSON"))
		}
	}
	_, user := all[corev1.BasicAuthUsernameKey]
	_, password := all[corev1.BasicAuthPasswordKey]
	if object.Type == corev1.SecretTypeBasicAuth && !user && !password {
		errs = append(errs, field.Required(data.Key(corev1.BasicAuthUsernameKey), "a Secret of this type needs it, or the key "+corev1.BasicAuthPasswordKey))
	}
	if object.Type == corev1.SecretTypeServiceAccountToken && object.Annotations[corev1.ServiceAccountNameKey] == "" {
		errs = append(errs, field.Required(path.Child("metadata", "annotations").Key(corev1.ServiceAccountNameKey), "a Secret of this type needs it"))
	}
	return errs
}

// decode reads a resource. The faults name its fields, and no values: they may be secret.
func decode(raw []byte, into any, path *field.Path) field.ErrorList {
	unknown, errs := wire.Decode(raw, into)
	var found field.ErrorList
	for _, name := range unknown {
		found = append(found, field.Invalid(path, name, "is no field of the resource"))
	}
	for _, err := range errs {
		found = append(found, field.Invalid(path.Child(err.Field), "<omitted>", "cannot be decoded: "+strings.TrimSpace(err.Detail)))
	}
	return found
}

func sizeOf[T string | []byte](data map[string]T) (size int) {
	for _, value := range data {
		size += len(value)
	}
	return size
}

func tooLarge(size int, path *field.Path) field.ErrorList {
	if size <= corev1.MaxSecretSize {
		return nil
	}
	return field.ErrorList{field.TooLong(path, "", corev1.MaxSecretSize)}
}

// keys checks the keys of data.
func keys[T any](data map[string]T, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if faults := validation.IsConfigMapKey(key); len(faults) > 0 && len(errs) < wire.MaxErrors {
			errs = append(errs, field.Invalid(path.Key(key), key, strings.Join(faults, ", ")))
		}
	}
	return errs
}

// targets checks spec.targets.
func targets(t *appsv1beta1.ResourceDistributionTargets, path *field.Path) field.ErrorList {
	included, errs := names(t.IncludedNamespaces.List, path.Child("includedNamespaces"))
	excluded, more := names(t.ExcludedNamespaces.List, path.Child("excludedNamespaces"))
	errs = append(errs, more...)
	if both := sets.List(included.Intersection(excluded)); len(both) > 0 {
		errs = append(errs, field.Invalid(path, both[0], "must not be both in includedNamespaces and in excludedNamespaces"))
	}
	return append(errs, rules.LabelSelector(&t.NamespaceSelector, path.Child("namespaceSelector"))...)
}

func names(list []appsv1beta1.ResourceDistributionNamespace, path *field.Path) (sets.Set[string], field.ErrorList) {
	all := sets.New[string]()
	var errs field.ErrorList
	for i, namespace := range list {
		all.Insert(namespace.Name)
		if faults := apivalidation.ValidateNamespaceName(namespace.Name, false); len(faults) > 0 {
			errs = append(errs, field.Invalid(path.Child("list").Index(i).Child("name"), namespace.Name, strings.Join(faults, ", ")))
		}
	}
	return all, errs
}
