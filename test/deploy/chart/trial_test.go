package chart_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/deploy/cluster"
	"github.com/actionproof/mediator/test/deploy/node"
	"github.com/actionproof/mediator/test/tlstest"
)

// api is an API outside the cluster: it sends each posted body to the channel.
func api(t *testing.T, c *cluster.Cluster, authority *tlstest.Authority) <-chan string {
	t.Helper()
	const host = "api.example.com"
	certificate, key := authority.Certify(t, func(c *x509.Certificate) { c.DNSNames = []string{host} })
	pair, err := tls.X509KeyPair(certificate, key)
	check.Must(t, err)
	posts := make(chan string, 64)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil && r.Method == http.MethodPost {
			posts <- string(body)
		}
		w.WriteHeader(http.StatusCreated)
	})}
	go server.Serve(tls.NewListener(c.Listen("203.0.113.7:443", host), &tls.Config{Certificates: []tls.Certificate{pair}}))
	t.Cleanup(func() { server.Close() })
	return posts
}

// mediatorImage is the image that the Dockerfile describes: the program, and the authorities of the Internet.
func mediatorImage(t *testing.T, c *cluster.Cluster, authority *tlstest.Authority) node.Image {
	t.Helper()
	dir := t.TempDir()
	raw, err := os.ReadFile("../../../bin/mediator")
	check.Must(t, err)
	check.Must(t, os.WriteFile(filepath.Join(dir, "mediator"), raw, 0o755))
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
	chartFolder, err := filepath.Abs(folder)
	check.Must(t, err)
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"tool", "-modfile", "../tools/go.mod", "helm",
		"--kubeconfig", c.Kubeconfig, "install", "mediator", chartFolder, "--namespace", "mediator",
		"--values", ciFile(t, "trial"), "--set", "image.digest=" + image.Digest,
		"--set", "trigger.config.sources[0].schedule.cron=@every 5s",
		"--set", "sidecar.config.upstreams[0].host=api.example.com:443",
		"--set", "sidecar.config.upstreams[0].networks[0]=203.0.113.0/24"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("helm install: %v: %s", err, out)
	}
}

// TestTrial goes from an empty cluster to a post: helm install, a label, and a Deployment of an agent's image.
func TestTrial(t *testing.T) {
	c := cluster.Start(t)
	authority := tlstest.New(t)
	posts := api(t, c, authority)
	image := mediatorImage(t, c, authority)
	agent := c.DebianImage("registry.test/agent", "", nil)
	install(t, c, image, "--create-namespace", "--set", "sidecar.resolvers={"+node.DNSService+"}")
	c.Apply("",
		"{apiVersion: v1, kind: Namespace, metadata: {name: agents, labels: {actionproof.github.io/inject: enabled}}}")
	awaitPolicies(t, c)
	c.Apply("agents", fmt.Sprintf(agentDeployment, agent.Name, agent.Digest))
	c.WaitReady("mediator", "deployment/mediator-registrar", "deployment/mediator-trigger", "deployment/mediator-control")
	c.WaitReady("agents", "deployment/agent")
	c.Eventually("a post arrives", func() (bool, string) {
		select {
		case body := <-posts:
			return true, body
		default:
			return false, "none came"
		}
	})
}
