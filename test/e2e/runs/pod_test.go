package runs

import (
	"path/filepath"
	"slices"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// In the example pod one container may change rules, and ends before the others start.
func TestGuardPod(t *testing.T) {
	t.Parallel()
	raw := kit.Read(t, "../../../configs/kubernetes/pod.yaml")
	type container struct {
		Name         string
		Args         []string
		VolumeMounts []struct {
			MountPath string `yaml:"mountPath"`
			ReadOnly  bool   `yaml:"readOnly"`
		} `yaml:"volumeMounts"`
		SecurityContext struct {
			RunAsUser                int64 `yaml:"runAsUser"`
			AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
			Capabilities             struct{ Drop, Add []string }
		} `yaml:"securityContext"`
	}
	var pod struct {
		Spec struct {
			InitContainers []container `yaml:"initContainers"`
			Containers     []container
		}
	}
	check.Must(t, yaml.Unmarshal(raw, &pod))
	all := append(pod.Spec.InitContainers, pod.Spec.Containers...)
	if len(all) != 3 || all[0].Name != "guard" || all[1].Name != "mediator" || all[2].Name != "agent" ||
		all[0].Args[0] != "guard" || all[1].Args[0] != "serve" {
		t.Fatalf("%+v", all)
	}
	users := make(map[int64]bool)
	for _, c := range all {
		s := c.SecurityContext
		users[s.RunAsUser] = true
		if !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) || s.AllowPrivilegeEscalation == nil ||
			*s.AllowPrivilegeEscalation {
			t.Errorf("%s keeps more than it needs: %+v", c.Name, s)
		}
		if want := []string{"NET_ADMIN"}; c.Name == "guard" && !slices.Equal(s.Capabilities.Add, want) || c.Name != "guard" &&
			len(s.Capabilities.Add) > 0 {
			t.Errorf("%s has %v", c.Name, s.Capabilities.Add)
		}
	}
	if len(users) != 3 || !users[mediatorUID] || all[2].SecurityContext.RunAsUser == 0 {
		t.Errorf("users %v", users)
	}

	// The root folder is read-only, so everything that the sidecar writes is in a volume.
	raw = kit.Read(t, "../../../configs/mediator.yaml")
	var c config.Sidecar
	check.Must(t, yaml.Load(raw, &c))
	for _, name := range []string{c.State, filepath.Dir(c.Admin.Unix), filepath.Dir(c.CA.CertificateFile)} {
		written := false
		for _, m := range all[1].VolumeMounts {
			written = written || m.MountPath == name && !m.ReadOnly
		}
		if !written {
			t.Errorf("the sidecar writes %s, which is no volume", name)
		}
	}
}
