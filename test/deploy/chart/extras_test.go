package chart_test

import (
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/actionproof/mediator/test/check"
)

// TestKustomize checks that kustomize renders what Helm renders.
func TestKustomize(t *testing.T) {
	for _, name := range []string{"trial", "production"} {
		kustomize := exec.CommandContext(t.Context(), tool(t, "kustomize"), "build", "--enable-helm", "--helm-command",
			tool(t, "helm"), "--load-restrictor", "LoadRestrictionsNone", "../../../deploy/kustomize/"+name)
		got, err := kustomize.Output()
		check.Must(t, err)
		want, err := render(t, "--values", ciFile(t, name))
		check.Must(t, err)
		if g, w := byName(t, string(got)), byName(t, want); !reflect.DeepEqual(g, w) {
			t.Errorf("%s: kustomize renders %d objects which are not the %d of helm", name, len(g), len(w))
		}
	}
}

// byName returns the objects of a render, which each tool puts in an order of its own.
func byName(t *testing.T, rendered string) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	for _, d := range documents(t, rendered) {
		all[fmt.Sprint(d["kind"], "/", d["metadata"].(map[string]any)["name"])] = d
	}
	return all
}

// sandboxPod is the pod of the example for agent-sandbox.
func sandboxPod(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../deploy/sandbox/sandbox.yaml")
	check.Must(t, err)
	pod := documents(t, string(text))[0]["spec"].(map[string]any)["podTemplate"].(map[string]any)
	pod["apiVersion"], pod["kind"] = "v1", "Pod"
	pod["metadata"].(map[string]any)["name"] = "agent"
	pod["spec"].(map[string]any)["nodeSelector"] = map[string]string{"no": "node"} // the test has no such image
	manifest, err := yaml.Marshal(pod)
	check.Must(t, err)
	return string(manifest)
}
