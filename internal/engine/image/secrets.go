// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

const (
	// SecretNamespace is the node daemon's namespace, the only one whose Secrets it may read.
	SecretNamespace = "kruise-daemon-config"
	// ModeShared is the mode of a reference to a shared copy.
	ModeShared = "batch"
	// AnnotationSource is on a copy of a pull secret: the namespace and the name of its original.
	AnnotationSource = "imagepulljobs.kruise.io/source-key"
)

// PullSecret is a NodeImage's name of a job's pull secret: the copy for all jobs of the namespace,
// or the Secret itself where the daemon may read it.
func PullSecret(namespace, name string) v1beta1.ImagePullSecret {
	if namespace == SecretNamespace {
		return v1beta1.ImagePullSecret{Namespace: SecretNamespace, Name: name}
	}
	sum := sha256.Sum256([]byte(namespace + "/" + name))
	const longest, digits = 253 - 21, 10 // so many that nobody finds two namespaces with one copy
	copied := name[:min(len(name), longest)] + "-" + hex.EncodeToString(sum[:digits])
	return v1beta1.ImagePullSecret{Namespace: SecretNamespace, Name: copied, Mode: ModeShared}
}
