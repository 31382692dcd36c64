package operation

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/freeport"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/tlstest"
)

// TestAdmin reaches a sidecar at its socket and over TCP at the same time, by certificate and by token, beside
// Prometheus. Then a rule expires in the middle of a session.
func TestAdmin(t *testing.T) {
	t.Parallel()
	at, probes := freeAddress(t), freeAddress(t)
	r := &reloadRig{}
	rules := strings.Replace(reloadRules, "    subject:", "    comment: notes of the move\n    owner: ann@example.org\n"+
		"    expires: 2099-01-31\n    subject:", 1)
	r.Rig = kit.PrepareRig(t, kit.Plain, kit.Serve(r, rules), kit.ManyPosts, ownCA, func(file string) string {
		file = strings.Replace(file, "console: 127.0.0.1:8184", "console: "+freeAddress(t), 1)
		return strings.Replace(file, "admin: {unix: run/serve.sock}", fmt.Sprintf(`admin:
  unix: run/serve.sock
  tcp: %q
  callers: ["spiffe://example.org/operator"]
  tokens: {read: secrets/read, operate: secrets/operate}
probes: {listen: %q}
tls: {certificate: tls/serve/bundle.pem, key: tls/serve/bundle.pem, authorities: tls/serve/authorities.pem}`,
			at, probes), 1)
	})
	authority := tlstest.New(t)
	authority.Write(t, r.In("tls/serve"), nil, "spiffe://example.org/pod/agents/one")
	reach := func(name, id, client string) (endpoint string) {
		authority.Write(t, r.In("tls/"+name), nil, id)
		kit.Write(t, r.In("tls/"+name+"/client.yaml"), client+"\nauthorities: authorities.pem\n")
		return "https://" + at + "," + r.In("tls/"+name+"/client.yaml")
	}
	for _, token := range []string{"read", "operate"} {
		kit.Write(t, r.In("secrets/"+token), strings.Repeat(token, 32))
	}
	operator := reach("operator", "spiffe://example.org/operator", "certificate: bundle.pem\nkey: bundle.pem")
	stranger := reach("stranger", "spiffe://example.org/other", "certificate: bundle.pem\nkey: bundle.pem")
	reader := reach("reader", "spiffe://example.org/none", "tokenFile: ../../secrets/read")
	worker := reach("worker", "spiffe://example.org/none", "tokenFile: ../../secrets/operate")
	r.Start(t)
	a := r.OpenAgent(t)
	if got := note(a); got.Code != "" {
		t.Fatalf("%+v", got)
	}

	post := r.newest(t, "post").ID
	for _, endpoint := range []string{r.Stack.Admin(), operator, reader, worker} {
		kit.Mediator(t, "posts", "show", post, "--admin", endpoint).Done(
			"of the rule  notes of the move; owner ann@example.org; expires 2099-01-31T00:00:00Z")
	}
	kit.Mediator(t, "posts", "list", "--admin", stranger).Refused("caller_unknown", "spiffe://example.org/other")
	kit.Mediator(t, "reload", reader).Refused("caller_unknown", "this token can only read")
	kit.Mediator(t, "posts", "list", "--admin", "https://"+at).Misused()
	for name, endpoint := range map[string]string{"certificate": operator, "token": reader} {
		wantConsole(t, endpoint, filepath.Join(t.TempDir(), name+".sock"), post)
	}
	for path, want := range map[string]string{"/readyz": `"ready":true`,
		"/metrics": `mediator_rule_expires_seconds{rule="note"} 4.0735008e+09`} {
		resp, err := http.Get("http://" + probes + path)
		check.Must(t, err)
		raw, err := io.ReadAll(resp.Body)
		check.Must(t, err)
		resp.Body.Close()
		if !strings.Contains(string(raw), want) {
			t.Errorf("%s lacks %s: %.2000s", path, want, raw)
		}
	}

	r.edit(t, devstack.SidecarFile, "2099-01-31", "2026-01-31")
	r.certify(t)
	r.mustReload(t, "control")
	kit.Mediator(t, "reload", worker).Done("reloaded")
	refused := note(a)
	if refused.Code != "rule_expired" || !strings.HasSuffix(refused.Detail, "its owner is ann@example.org") {
		t.Errorf("the agent is told %+v", refused)
	}
	kit.Mediator(t, "posts", "show", refused.Post, "--admin", operator).Done("rule_expired at step match",
		"Ask the rule's owner", "rule         note")
	kit.Mediator(t, "config", "check", r.In(devstack.SidecarFile)).Done()
	wantTunnel(t, a, http.MethodGet, "/notes", "")
	check.WantEqual(t, r.arrived.Load(), int64(1))
}

// wantConsole looks at a post in a console that is confined, and reaches the sidecar over TCP.
func wantConsole(t *testing.T, endpoint, socket, post string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, kit.Self(t), "console", "--admin", endpoint, "--from", endpoint, "--socket", socket)
	out, err := cmd.StdoutPipe()
	check.Must(t, err)
	cmd.Stderr = os.Stderr
	check.Must(t, cmd.Start())
	defer func() { cancel(); _ = cmd.Wait() }()
	line, err := bufio.NewReader(out).ReadString('\n')
	check.Must(t, err)
	login, err := url.Parse(strings.TrimSpace(line))
	check.Must(t, err)
	jar, err := cookiejar.New(nil)
	check.Must(t, err)
	browser := &http.Client{Jar: jar, Transport: &http.Transport{DialContext: func(ctx context.Context, network, _ string) (
		net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+login.Port())
	}}}
	defer browser.CloseIdleConnections()
	at := login.Scheme + "://" + login.Host
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at+"/login", strings.NewReader(login.RawQuery))
	check.Must(t, err)
	req.Header.Set("Origin", at)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := browser.Do(req)
	check.Must(t, err)
	resp.Body.Close()
	for page, want := range map[string]string{"/": "are possible now", "/posts/" + post: "request proof",
		"/keys": "signs now"} {
		resp, err := browser.Get(at + page)
		check.Must(t, err)
		raw, err := io.ReadAll(resp.Body)
		check.Must(t, err)
		resp.Body.Close()
		if !strings.Contains(string(raw), want) {
			t.Errorf("%s lacks %q: %.3000s", page, want, raw)
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	at, err := freeport.Address()
	check.Must(t, err)
	return at
}
