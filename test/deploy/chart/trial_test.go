package chart_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/deploy/cluster"
	"github.com/actionproof/mediator/test/deploy/node"
	"github.com/actionproof/mediator/test/tlstest"
)

// mediatorImage is the image that the Dockerfile describes: the program, and the authorities of the Internet. What is
// appended makes another program of it, which does the same.
func mediatorImage(t *testing.T, c *cluster.Cluster, authority *tlstest.Authority, appended ...byte) node.Image {
	t.Helper()
	dir := t.TempDir()
	raw, err := os.ReadFile("../../../bin/mediator")
	check.Must(t, err)
	check.Must(t, os.WriteFile(filepath.Join(dir, "mediator"), append(raw, appended...), 0o755))
	check.Must(t, os.MkdirAll(filepath.Join(dir, "etc/ssl/certs"), 0o755))
	check.Must(t, os.WriteFile(filepath.Join(dir, "etc/ssl/certs/ca-certificates.crt"), authority.PEM(), 0o644))
	return c.RegisterImage(node.Image{
		Name: "ghcr.io/actionproof/mediator", Dir: dir, Entrypoint: []string{"/mediator"}, User: "65532:65532",
	})
}

const agentDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: agent}
spec:
  replicas: 1
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      containers:
        - name: agent
          image: %s@%s
          command:
            - sh
            - -c
            - |
              while true; do
                curl -sS --fail 'http://mediator.internal/v1/event/next?wait=30s' || { sleep 1; continue; }
                curl -sS --fail-with-body https://api.example.com/posts --json '{"text": "hello"}'
              done
          securityContext: {runAsUser: 2000, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`

// install installs the chart with the values of a trial.
func install(t *testing.T, c *cluster.Cluster, image node.Image, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), tool(t, "helm"), append([]string{"--kubeconfig", c.Kubeconfig,
		"install", "mediator", folder, "--namespace", "mediator", "--values", ciFile(t, "trial"),
		"--set", "image.digest=" + image.Digest,
		"--set", "trigger.config.sources[0].schedule.cron=@every 5s"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("helm install: %v: %s", err, out)
	}
}

// TestTrial goes from an empty cluster to a post: helm install, a label, and a Deployment of an agent's image.
func TestTrial(t *testing.T) {
	for _, identity := range []string{"certificate", "token"} {
		t.Run(identity, func(t *testing.T) {
			t.Parallel()
			c := cluster.Start(t)
			authority := tlstest.New(t)
			posts := api(t, c, authority, "api.example.com")
			image := mediatorImage(t, c, authority)
			agent := c.DebianImage("registry.test/agent", "", nil)
			r := newReader(t, c, "Trial", "sha256:…", image.Digest+" --values soon.yaml --set identity="+identity)
			r.write("soon.yaml", []byte(`trigger: {config: {sources: [{name: soon, schedule: {cron: "@every 5s"}}]}}`))
			r.follow("helm install")
			r.follow("kubectl create namespace")
			r.done()
			awaitPolicies(t, c)
			c.Apply("agents", fmt.Sprintf(agentDeployment, agent.Name, agent.Digest))
			c.WaitReady("mediator", "deployment/mediator-registrar", "deployment/mediator-trigger",
				"deployment/mediator-control")
			c.WaitReady("agents", "deployment/agent")
			c.Eventually("a post arrives", func() (bool, string) { return len(posts) > 0, "none came" })

			// A second release would break the first. Without one, no agent starts.
			said := r.enter(r.words.Replace("! " + strings.Replace(r.all[0], "mediator", "second", 1)))
			if !strings.Contains(said, `current value is "mediator"`) {
				t.Error("a second release:", said)
			}
			if said := r.enter("helm uninstall mediator --namespace mediator"); !strings.Contains(said, "mediator-refuse") {
				t.Error("uninstall does not say what stays:", said)
			}
			late := func() error { return c.TryApply("agents", pod("late", agent)) }
			c.Eventually("the API server forgets the chart's other policy", func() (bool, string) {
				err := late()
				return err == nil || !strings.Contains(err.Error(), "mediator-inject"), fmt.Sprint(err)
			})
			wantRefused(t, "an agent after uninstall", "while the chart is installed", late())
		})
	}
}
