package operation

import (
	"bufio"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

const signingRules = `
actions:
  - name: create-post
    match: {url: "https://PLAIN/posts", methods: [POST]}
    subject: agent:worker-1
    action: create_post
    credential: {prefix: "Bearer ", file: secrets/api-token}
    gate: api
    api:
      challenge: https://PLAIN/.well-known/actionproof/challenge
      verify: https://PLAIN/.well-known/actionproof/verify
      answerKeys: answer.pem
egress: []
` + kit.Upstream

// TestOutcomeInTheAPIsWords posts to examples/api, behind a proxy that can change the status of its answers. All
// requests, to its gate too, pass an upstream proxy.
func TestOutcomeInTheAPIsWords(t *testing.T) {
	t.Parallel()
	trust := t.TempDir()
	var api atomic.Pointer[url.URL]
	var changes atomic.Bool
	r := kit.PrepareRig(t, kit.Plain, func(r *kit.Rig) (http.Handler, string) {
		public, private, err := ed25519.GenerateKey(rand.Reader)
		check.Must(t, err)
		secret, err := x509.MarshalPKCS8PrivateKey(private)
		check.Must(t, err)
		kit.Write(t, filepath.Join(trust, "answer.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
		der, err := x509.MarshalPKIXPublicKey(public)
		check.Must(t, err)
		kit.Write(t, r.In("answer.pem"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
		return &httputil.ReverseProxy{
			Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(api.Load()); p.Out.Host = p.In.Host },
			Transport: &http.Transport{
				TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, //nolint:gosec // the test's own server
			ModifyResponse: func(resp *http.Response) error {
				if changes.Load() && resp.StatusCode == http.StatusCreated {
					resp.StatusCode = http.StatusOK
				}
				return nil
			},
		}, strings.Replace(signingRules, "127.0.0.1,", "127.0.0.9,", 1) + carry(t, r)
	}, kit.ManyPosts)
	r.Start(t)
	for from, to := range map[string]string{"registry.jwk": "registry.jwk", "auditor.jwk": "auditor.jwk",
		"trust.json": "bundle.json", "api.pem": "tls.crt", "api.key": "tls.key"} {
		kit.Write(t, filepath.Join(trust, to), kit.Read(t, r.In(from)))
	}
	kit.Write(t, filepath.Join(trust, "manifest.json"),
		kit.Run(t, "deployment", "hash", r.In("manifest.yaml"), "--canonical"))
	kit.Write(t, filepath.Join(trust, "secret"), strings.Repeat("s", 48))
	kit.Write(t, filepath.Join(trust, "database"), kit.Database(t))
	api.Store(startExample(t, trust))

	agent := r.OpenAgent(t)
	const content = `{"title":"hello"}`
	if got := agent.Call(http.MethodPost, "/posts", content); got.Status != http.StatusCreated {
		t.Fatalf("%+v", got)
	}
	changes.Store(true)
	if got := agent.Call(http.MethodPost, "/posts", content); got.Status != http.StatusBadGateway ||
		got.Code != "answer_unsigned" {
		t.Errorf("a changed status: %+v", got)
	}
	good, bad := r.RecordsOf(t, "create-post", ""), r.RecordsOf(t, "create-post", "answer_unsigned")
	if len(good) != 1 || len(bad) != 1 || bad[0].State != ledger.StateForwarded || bad[0].Answer != nil {
		t.Fatalf("%+v\n%+v", good, bad)
	}
	file, with := r.SaveRecord(t, good[0].ID), r.Trust()
	kit.Mediator(t, append([]string{"verify", file, "--api-keys", r.In("answer.pem")}, with...)...).
		Done("the word of the API with the key " + good[0].Answer.KeyID)
	kit.Mediator(t, append([]string{"verify", file}, with...)...).
		Done("signed by the key " + good[0].Answer.KeyID + "; --api-keys would show")
	kit.Mediator(t, append([]string{"verify", file, "--api-keys", "other.example=" + r.In("answer.pem")}, with...)...).
		Refused("record_mismatch")
	kit.Mediator(t, append([]string{"verify", r.SaveRecord(t, bad[0].ID)}, with...)...).Done("the mediator's word")
	kit.Edit(t, file, `"status": 201`, `"status": 200`)
	kit.Mediator(t, append([]string{"verify", file}, with...)...).Refused("record_mismatch")
}

func startExample(t *testing.T, trust string) *url.URL {
	t.Helper()
	dir := t.TempDir()
	tree, err := filepath.Abs("../../..")
	check.Must(t, err)
	check.Must(t, os.CopyFS(dir, os.DirFS(filepath.Join(tree, "examples/api"))))
	for _, args := range [][]string{{"mod", "edit", "-replace", "github.com/actionproof/mediator=" + tree},
		{"build", "-o", "api", "."}} {
		c := exec.CommandContext(t.Context(), "go", args...)
		c.Dir = dir
		c.Env = append(os.Environ(), "GOFLAGS=-mod=mod -trimpath -buildvcs=false", "GOPROXY=off", "GOSUMDB=off", "GOWORK=off")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", args, err, out)
		}
	}
	c := exec.CommandContext(t.Context(), filepath.Join(dir, "api"), "-listen", "127.0.0.1:0", "-dir", trust)
	said, err := c.StderrPipe()
	check.Must(t, err)
	check.Must(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if _, at, ok := strings.Cut(lines.Text(), "listening on "); ok {
			go func() {
				for lines.Scan() {
				}
			}()
			return &url.URL{Scheme: "https", Host: at}
		}
		t.Log(lines.Text())
	}
	t.Fatal("the API has ended")
	return nil
}
