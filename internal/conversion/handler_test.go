// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	cloneset "github.com/kruise-operator/kruise-operator/controllers/cloneset/convert"
	containerrecreaterequest "github.com/kruise-operator/kruise-operator/controllers/containerrecreaterequest/convert"
	daemonset "github.com/kruise-operator/kruise-operator/controllers/daemonset/convert"
	persistentpodstate "github.com/kruise-operator/kruise-operator/controllers/persistentpodstate/convert"
	podunavailablebudget "github.com/kruise-operator/kruise-operator/controllers/podunavailablebudget/convert"
	resourcedistribution "github.com/kruise-operator/kruise-operator/controllers/resourcedistribution/convert"
	sidecarset "github.com/kruise-operator/kruise-operator/controllers/sidecarset/convert"
	workloadspread "github.com/kruise-operator/kruise-operator/controllers/workloadspread/convert"
	"github.com/kruise-operator/kruise-operator/internal/conversion"
)

func converters() []conversion.Converter {
	return []conversion.Converter{
		cloneset.Converter(), containerrecreaterequest.Converter(), daemonset.Converter(), persistentpodstate.Converter(),
		podunavailablebudget.Converter(),
		resourcedistribution.Converter(), sidecarset.Converter(), workloadspread.Converter(),
	}
}

func handler() conversion.Handler { return conversion.NewHandler(converters()...) }
