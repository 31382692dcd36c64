package chart_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/deploy/cluster"
	"github.com/actionproof/mediator/test/deploy/node"
	"github.com/actionproof/mediator/test/tlstest"
	"github.com/actionproof/mediator/test/vaulttest"
)

// commenter posts the number of each event once. It says so if it cannot.
const commenter = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: agent}
spec:
  replicas: 2
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      serviceAccountName: worker
      containers:
        - name: agent
          image: IMAGE
          command:
            - sh
            - -c
            - |
              while true; do
                event=$(curl -sS --fail 'http://mediator.internal/v1/event/next?wait=30s') || { sleep 1; continue; }
                n=$(printf %s "$event" | sed -n 's/.*"n": *\([0-9]*\).*/\1/p')
                [ -n "$n" ] || continue
                curl -sS --fail-with-body https://api.github.com/repos/acme/app/issues/1/comments \
                  --json "{\"body\": \"$n\"}" || echo "LOST $n"
              done
          securityContext: {runAsUser: 2000, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`

// production is an installation by the page's section Production.
type production struct {
	*cluster.Cluster
	*reader
	t            *testing.T
	authority    *tlstest.Authority
	vault        *vaulttest.Server
	values       map[string]any
	image, agent node.Image
	posts        <-chan string
	seen         map[string]int // how often each body was posted
	sent         int
}

// prepare follows the page from Vault, PostgreSQL and an empty cluster to namespaces whose agents get sidecars.
func prepare(t *testing.T, change func(values map[string]any)) *production {
	t.Helper()
	p := &production{Cluster: cluster.Start(t), t: t, authority: tlstest.New(t), seen: make(map[string]int)}
	p.vault = vaultServer(t, p.Cluster)
	remote, local := database(t, p.Cluster, p.authority)
	p.image = mediatorImage(t, p.Cluster, p.authority)
	p.posts = api(t, p.Cluster, p.authority, "api.github.com")
	p.reader = newReader(t, p.Cluster, "Production", "https://vault.example:8200", p.vault.Address, "--ledger dsn",
		"--ledger local-dsn")
	p.env = append(p.env, "VAULT_ADDR="+p.vault.Address, "VAULT_CACERT="+p.vault.CAFile, "VAULT_TOKEN="+p.vault.Token)
	ca, err := os.ReadFile(p.vault.CAFile)
	check.Must(t, err)
	for name, content := range map[string]string{"dsn": remote, "local-dsn": local, "github": secret,
		"event-secret": strings.Repeat("e", 32), "github-token": "a token of GitHub", "anthropic": "a key of Anthropic",
		"vault-ca.pem": string(ca), "admin-token": p.vault.Token} {
		p.write(name, []byte(content))
	}
	p.values = values(t, p.image, string(ca))
	change(p.values)
	p.writeValues()
	p.follow("kubectl create namespace mediator")
	p.follow("mediator vault bootstrap")
	p.follow("helm template")
	p.follow("helm install")
	p.follow("kubectl label namespace agents")
	awaitPolicies(t, p.Cluster)
	return p
}

// services are the Deployments of the chart.
var services = []string{"registrar", "trigger", "control", "node"}

func (p *production) servicesReady() {
	p.t.Helper()
	for _, name := range services {
		p.WaitReady("mediator", "deployment/mediator-"+name)
	}
}

// produce goes on to two agents that post.
func produce(t *testing.T, identity string) *production {
	t.Helper()
	p := prepare(t, func(values map[string]any) { values["identity"] = identity })
	p.agent = p.DebianImage("registry.test/agent", "", nil)
	p.Apply("agents", strings.Replace(commenter, "IMAGE", p.agent.Name+"@"+p.agent.Digest, 1))
	p.servicesReady()
	for _, name := range services {
		if n := len(p.Pods("mediator", "app.kubernetes.io/component="+name)); n != 2 {
			t.Errorf("%s has %d replicas", name, n)
		}
	}
	p.WaitReady("agents", "deployment/agent")
	p.post(3)
	for _, pod := range p.registrars() {
		if said := p.Logs(pod, "registrar"); strings.Contains(said, "comes from another registrar") {
			t.Error("a process has asked one replica for a nonce, and another one to register:", said)
		}
	}
	return p
}

// TestProduction refuses what the registrar must refuse, and takes a registrar and the API server away. The records
// verify.
func TestProduction(t *testing.T) {
	t.Parallel()
	p := produce(t, "certificate")
	checkInjected(t, p.Pods("agents", "app=agent")[0])

	p.strangers()
	p.thief()
	p.rules()

	p.StopAPIServer()
	p.post(4)
	p.StartAPIServer()
	p.post(2)
	p.verify()
}

// TestProductionTokens has pods get certificates for tokens.
func TestProductionTokens(t *testing.T) {
	t.Parallel()
	p := produce(t, "token")
	p.tokens()
	p.verify()
}

// verify verifies the records of all posts, and ends what the page says.
func (p *production) verify() {
	p.t.Helper()
	p.follow("vault token create")
	p.post(2)
	said := p.follow("mediator verify")
	if !strings.Contains(said, fmt.Sprintf("%d verified", p.sent)) {
		p.t.Errorf("of %d posts: %s", p.sent, said)
	}
	for _, pod := range p.Pods("agents", "app=agent") {
		if said := p.Logs(pod, "agent"); strings.Contains(said, "LOST") {
			p.t.Error(said)
		}
	}
	p.done()
}

// values are ci/production.yaml with this image and Vault, without what an operator must be there for.
func values(t *testing.T, image node.Image, ca string) (v map[string]any) {
	t.Helper()
	raw, err := os.ReadFile(ciFile(t, "production"))
	check.Must(t, err)
	check.Must(t, yaml.Unmarshal(raw, &v))
	v["image"] = map[string]any{"digest": image.Digest}
	v["custody"] = map[string]any{"vault": map[string]any{"address": "https://vault.example:8200", "ca": ca}}
	v["monitoring"] = map[string]any{"dashboard": true}
	return v
}

func (p *production) writeValues() {
	p.t.Helper()
	raw, err := yaml.Marshal(p.values)
	check.Must(p.t, err)
	p.write("values.yaml", raw)
}

const secret = "the secret of GitHub's webhooks"

// post delivers n more events as GitHub does, and waits until each has led to one post.
func (p *production) post(n int) {
	p.t.Helper()
	client := p.HTTPClient(nil)
	for range n {
		p.sent++
		body := fmt.Sprintf(`{"action": "opened", "sender": {"login": "octocat"}, "n": %d}`, p.sent)
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(body))
		p.Eventually("an event is taken", func() (bool, string) {
			request, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost,
				"http://mediator-trigger.mediator.svc/hooks/github", strings.NewReader(body))
			check.Must(p.t, err)
			for key, value := range map[string]string{"Content-Type": "application/json", "X-GitHub-Event": "issues",
				"X-GitHub-Delivery":   fmt.Sprintf("delivery-%d", p.sent),
				"X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil))} {
				request.Header.Set(key, value)
			}
			answer, err := client.Do(request)
			if err != nil {
				return false, err.Error()
			}
			defer answer.Body.Close()
			said, _ := io.ReadAll(answer.Body)
			return answer.StatusCode < 300, answer.Status + string(said)
		})
	}
	p.Eventually("each event has led to a post", func() (bool, string) {
		n := p.take()
		return n == p.sent, fmt.Sprintf("%d of %d", n, p.sent)
	})
}

// take notes what the API has got, and returns how many posts that are.
func (p *production) take() int {
	p.t.Helper()
	for {
		select {
		case body := <-p.posts:
			var comment struct{ Body string }
			check.Must(p.t, json.Unmarshal([]byte(body), &comment))
			if p.seen[comment.Body]++; p.seen[comment.Body] > 1 {
				p.t.Fatalf("%s was posted twice", body)
			}
		default:
			return len(p.seen)
		}
	}
}

// metric reports whether a pod has a metric like this pattern.
func (p *production) metric(pod corev1.Pod, line string) bool {
	answer, err := p.HTTPClient(nil).Get("http://" + pod.Status.PodIP + ":9090/metrics")
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	raw, _ := io.ReadAll(answer.Body)
	return regexp.MustCompile(`(?m)^` + line).Match(raw)
}

func (p *production) registrars() []corev1.Pod {
	p.t.Helper()
	return p.Pods("mediator", "app.kubernetes.io/component=registrar")
}

// leader is the registrar that signs pods' certificates.
func (p *production) leader() (leader corev1.Pod) {
	p.t.Helper()
	p.Eventually("a registrar leads", func() (bool, string) {
		for _, pod := range p.registrars() {
			if p.metric(pod, "mediator_registrar_leads 1") {
				leader = pod
				return true, ""
			}
		}
		return false, "none says so"
	})
	return leader
}
