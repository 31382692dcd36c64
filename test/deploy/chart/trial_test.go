package chart_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
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
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

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
		"--set", "trigger.config.sources[0].schedule.cron=@every 5s"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("helm install: %v: %s", err, out)
	}
}

// TestTrial goes from an empty cluster to a post: helm install, a label, and a Deployment of an agent's image.
func TestTrial(t *testing.T) {
	c := cluster.Start(t)
	authority := tlstest.New(t)
	posts := api(t, c, authority, "api.example.com")
	image := mediatorImage(t, c, authority)
	agent := c.DebianImage("registry.test/agent", "", nil)
	r := newReader(t, c, "Trial", "sha256:…", image.Digest+" --values soon.yaml")
	r.write("soon.yaml", []byte(`trigger: {config: {sources: [{name: soon, schedule: {cron: "@every 5s"}}]}}`))
	r.follow("helm install")
	r.follow("kubectl create namespace")
	r.done()
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

// TestTrialTokens is TestTrial with certificates for tokens. The token of a sidecar gets nothing from another address
// than its pod's.
func TestTrialTokens(t *testing.T) {
	c := cluster.Start(t)
	authority := tlstest.New(t)
	posts := api(t, c, authority, "api.example.com")
	image := mediatorImage(t, c, authority)
	agent := c.DebianImage("registry.test/agent", "", nil)
	install(t, c, image, "--create-namespace", "--set", "sidecar.resolvers={"+node.DNSService+"}", "--set",
		"identity=token,networkPolicies=false")
	c.Apply("",
		"{apiVersion: v1, kind: Namespace, metadata: {name: agents, labels: {actionproof.github.io/inject: enabled}}}")
	awaitPolicies(t, c)
	c.Apply("agents", fmt.Sprintf(agentDeployment, agent.Name, agent.Digest))
	c.WaitReady("agents", "deployment/agent")
	select {
	case <-posts:
	case <-t.Context().Done():
		t.Fatal("no post arrives")
	}

	pod := c.Pods("agents", "app=agent")[0]
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + pod.Spec.NodeName,
		Groups: []string{"system:nodes", "system:masters"}}
	kubelet, err := kubernetes.NewForConfig(config)
	check.Must(t, err)
	token, err := kubelet.CoreV1().ServiceAccounts("agents").CreateToken(t.Context(), pod.Spec.ServiceAccountName,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"mediator-registrar"},
			BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}},
		}, metav1.CreateOptions{})
	check.Must(t, err)
	_, key, err := ed25519.GenerateKey(rand.Reader)
	check.Must(t, err)
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	check.Must(t, err)
	body, err := json.Marshal(map[string][]byte{"csr": csr})
	check.Must(t, err)
	ask, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		"https://mediator-registrar.mediator.svc:8443/v1/certificates", bytes.NewReader(body))
	check.Must(t, err)
	ask.Header.Set("Authorization", "Bearer "+token.Status.Token)
	ask.Header.Set("Content-Type", "application/json")
	resp, err := c.HTTPClient(&tls.Config{InsecureSkipVerify: true}).Do(ask)
	check.Must(t, err)
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusForbidden {
		t.Errorf("the stolen token is answered with %d %s, %v", resp.StatusCode, said, err)
	}
	c.Eventually("an Event about the stolen token", func() (bool, string) {
		events, err := c.Client.CoreV1().Events("agents").List(t.Context(), metav1.ListOptions{
			FieldSelector: "reason=MediatorAddress,involvedObject.name=" + pod.Name})
		return err == nil && len(events.Items) > 0, fmt.Sprint(err)
	})
}
