package operation

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/full"
	"github.com/actionproof/mediator/test/proxytest"
)

// TestUpstreamProxy calls through Debian's squid: with a wrong password, with the right one, and without squid.
func TestUpstreamProxy(t *testing.T) {
	t.Parallel()
	full.Only(t, "squid")
	squid := proxytest.NewSquid(t, "digest")
	r := kit.PrepareRig(t, kit.Plain, func(r *kit.Rig) (http.Handler, string) {
		return r.GitHub(t), kit.ClientRules + fmt.Sprintf("upstreamProxy: {url: \"https://%s\", ca: squid.pem, auth: digest, "+
			"credentialFile: secrets/proxy}\n", squid.HTTPS)
	})
	kit.Write(t, r.In("squid.pem"), squid.CA)
	const wrong = "another-password"
	kit.Write(t, r.In("secrets/proxy"), "mediator:"+wrong)
	r.Start(t)
	agent := r.OpenAgent(t)
	for range 2 { // the event is given back each time
		if o := agent.Post(); o.Code != "upstream_proxy_login" {
			t.Fatalf("with a wrong password: %+v", o)
		}
	}
	kit.Write(t, r.In("secrets/proxy"), proxytest.SquidLogin)
	agent.MustPost(t)
	if o := agent.Read(); o.Code != "" {
		t.Fatalf("%+v", o)
	}
	sent, failed := r.RecordsOf(t, "comment", ""), r.RecordsOf(t, "comment", "upstream_proxy_login")
	if len(sent) != 1 || sent[0].Via != "proxy" || len(failed) != 2 || failed[0].State != ledger.StateFailed {
		t.Fatalf("%+v\n%+v", sent, failed)
	}
	kit.Mediator(t, "posts", "show", sent[0].ID, "--admin", r.Stack.Admin()).Done("via          upstream proxy\n")
	kit.Mediator(t, append([]string{"verify", r.SaveRecord(t, sent[0].ID)}, r.Trust()...)...).Done("scheme, via, queryNames")
	doctor := kit.Mediator(t, "doctor", "--admin", r.Stack.Admin()).Done("answers        https://" + squid.HTTPS.String())

	squid.Stop()
	posts, late := r.Posts.Load(), r.OpenAgent(t)
	if o := late.Post(); o.Code != "upstream_proxy_unreachable" {
		t.Errorf("without the proxy: %+v", o)
	}
	if o := late.Read(); o.Code != "upstream_proxy_unreachable" {
		t.Errorf("without the proxy: %+v", o)
	}
	if r.Posts.Load() != posts {
		t.Error("a call went out without the proxy")
	}
	var ready struct{}
	kit.Eventually(func() bool { return admin.Get(t.Context(), r.Stack.Admin(), "/readyz", &ready) != nil })
	check.WantCode(t, admin.Get(t.Context(), r.Stack.Admin(), "/readyz", &ready), "not_ready", "upstream_proxy_unreachable")
	away := kit.Mediator(t, "doctor", "--admin", r.Stack.Admin()).Refused()
	if !strings.Contains(away.Out, "away           https://"+squid.HTTPS.String()) {
		t.Error(away.Out)
	}
	metrics := kit.Metrics(t, r.Stack.Socket("serve"))
	for _, want := range []string{`{code=""} 1`, `{code="upstream_proxy_login"} 2`, `{code="upstream_proxy_unreachable"} `} {
		if !strings.Contains(metrics, "mediator_upstream_proxy_connections_total"+want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	for _, text := range []string{r.Log(t, "serve"), metrics, doctor.Out, away.Out, fmt.Sprint(failed, sent)} {
		if strings.Contains(text, wrong) || strings.Contains(text, "the-password") {
			t.Errorf("the password is in %.4096s", text)
		}
	}
}

// TestMediatorAbove calls through a second mediator, by the credentials of a session there. It gets names, and its
// session pays for the post too.
func TestMediatorAbove(t *testing.T) {
	t.Parallel()
	above := kit.NewClientsRig(t)
	session := above.OpenAgent(t).Session
	proxy, err := url.Parse(session.ProxyURL)
	check.Must(t, err)
	r := kit.PrepareRig(t, kit.Plain, func(*kit.Rig) (http.Handler, string) {
		rules := strings.NewReplacer("address: 127.0.0.1, ", "", "ca: api-ca.pem", "ca: "+session.CAFile,
			"PLAIN", above.Plain()).Replace(kit.ClientRules)
		return http.NotFoundHandler(), rules + fmt.Sprintf("upstreamProxy: {url: \"http://%s\", credentialFile: secrets/proxy, "+
			"resolve: proxy}\n", proxy.Host)
	})
	kit.Write(t, r.In("secrets/proxy"), proxy.User.String())
	r.Start(t)
	agent := r.OpenAgent(t)
	agent.Base = "https://" + above.Plain()
	agent.MustPost(t)
	if sent := r.RecordsOf(t, "comment", ""); len(sent) != 1 || sent[0].Via != "resolving-proxy" {
		t.Errorf("%+v", sent)
	}
	if sent := above.RecordsOf(t, "comment", ""); len(sent) != 1 || sent[0].Via != "" || above.Posts.Load() != 1 {
		t.Errorf("%+v", sent)
	}
	check.Must(t, admin.Call(t.Context(), above.Stack.Admin(), http.MethodDelete, "/v1/sessions/"+session.Session, nil, nil))
	late := r.OpenAgent(t)
	late.Base = agent.Base
	if o := late.Read(); o.Code != "upstream_proxy_login" {
		t.Errorf("after the session above: %+v", o)
	}
}

// carry has the calls of a deployment pass an upstream proxy. Its rules must name 127.0.0.9 for the host, where nobody
// listens, so that no call can go directly.
func carry(t *testing.T, r *kit.Rig) (section string) {
	p := proxytest.Above(t, nil, func(c net.Conn, _ *http.Request) { proxytest.Tunnel(t, c, r.PlainAddr) })
	return fmt.Sprintf("upstreamProxy: {url: \"http://127.0.0.1:%d\"}\n", p.Port)
}
