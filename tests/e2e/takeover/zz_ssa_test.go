//go:build unix

package takeover_test

import (
	"os"
	"testing"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

func TestZZSSA(t *testing.T) {
	c := cluster.StartForTest(t, cluster.Options{ControlPlane: cluster.APIServerOnly})
	text, _ := os.ReadFile("/tmp/w/moving-ssa/ssa.sh")
	out, err := shell(t, c, new(operator.Operator), "set +e\n"+string(text))
	t.Logf("%v\n%s", err, out)
}
