package viewer

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/console"
	"github.com/actionproof/mediator/internal/freeport"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/own"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/nodetest"
	"github.com/actionproof/mediator/translog/leaf"
)

// consoleRules let the agent read from the console's own address, if the sidecar did not refuse that.
const consoleRules = `
  - name: console
    match: {url: "http://console.test:PORT/**", methods: [GET]}
upstreams:
  - {host: "console.test:PORT", address: 127.0.0.1, networks: [127.0.0.0/8]}
`

// team lets a console speak TLS, and users of the provider of login.mjs log in.
const team = `
tlsCertificate: api.pem
tlsKey: api.key
issuer: https://ADDRESS
issuerCA: api-ca.pem
clientId: console
secretFile: secrets/console
groups: [security]
summaryGroups: [platform]
`

// TestConsole looks at each page of a console for a team, which is not on loopback, against running processes.
func TestConsole(t *testing.T) {
	t.Parallel()
	listen, err := freeport.Address()
	check.Must(t, err)
	_, port, _ := strings.Cut(listen, ":")
	here := "https://console.localhost:" + port
	r := kit.NewLoggedRig(t, "", func(file string) string {
		file = strings.Replace(file, "console: 127.0.0.1:8184", "console: 0.0.0.0:"+port, 1)
		return strings.Replace(file, "\nupstreams:\n", strings.ReplaceAll(consoleRules, "PORT", port), 1)
	})
	agent := r.OpenAgent(t)
	agent.MustPost(t)
	agent.Read()
	agent.Call(http.MethodDelete, "/repos/acme/site/issues/1", "")
	r.Audited(t, map[leaf.Kind]int64{leaf.Intent: 1, leaf.Outcome: 1})

	provider := kit.StartNode(t, r.Rig, "login.mjs", here+"/login/callback")
	kit.Write(t, r.In("secrets/console"), "the-secret-of-the-console")
	kit.Write(t, r.In("console.yaml"), strings.Replace(team, "ADDRESS", provider.Address, 1))
	kit.Mediator(t, "config", "check", r.In("console.yaml")).Done("console (mediator console)")
	cmd := exec.CommandContext(t.Context(), kit.Self(t), "console", "--dir", r.Dir, "--log-policy", r.In("log-policy.txt"),
		"--config", r.In("console.yaml"), "--url", here)
	out, err := cmd.StdoutPipe()
	check.Must(t, err)
	cmd.Stderr = os.Stderr
	check.Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	login, err := bufio.NewReader(out).ReadString('\n')
	check.Must(t, err)

	t.Run("is no target", func(t *testing.T) {
		asked := r.OpenAgent(t)
		asked.Base = "http://console.test:" + port
		if got := asked.Call(http.MethodGet, "/login", ""); got.Code != "egress_address_denied" {
			t.Errorf("the agent got %+v", got)
		}
	})
	browser := start(t)
	t.Run("team", func(t *testing.T) { testTeam(t, browser, here) })
	entered := enter(t, browser, strings.TrimSpace(login))
	at := eval[string](entered, "location.origin")
	visit := func(t *testing.T, page string) *tab {
		o := newTab(t, browser, at+"/")
		o.visit(at, page)
		return o
	}
	post := r.NewestRecord(t, "flow=post&state=forwarded")
	for page, texts := range map[string][]string{
		"/":                             {"1 posts", "Calls over time", "Agents' only way out", "deployment certificate"},
		"/feed":                         {"Refused and failed", "DELETE", "action_unmatched"},
		"/feed?state=refused":           {"Selected calls", "DELETE"},
		"/feed?code=action_unmatched":   {"DELETE"},
		"/posts/" + post.ID:             {"yes: certified keys", "are the ones in the log", "w saw 1 of 1", "request proof"},
		"/sessions":                     {post.Session, "open"},
		"/sessions/" + post.Session:     {"completed " + post.ID},
		"/agents":                       {post.Subject},
		"/keys":                         {"runtime-key:v1", "signs now", "1 posts"},
		"/manifest":                     {"44 controls", "Observed true", "mediator serve"},
		"/posts/" + post.ID[:10] + "zz": {"unknown"},
	} {
		t.Run(strings.Trim(strings.ReplaceAll(page, "/", " "), " "), func(t *testing.T) {
			o := visit(t, page)
			o.want("main", texts...)
			for scheme, width := range map[string]int64{"light": 1280, "dark": 400} {
				o.do(chromedp.EmulateViewport(width, 900))
				o.emulate("", scheme)
				o.visit(at, page)
				o.shot(strings.NewReplacer("/", "-", "?", "-", post.ID, "id", post.Session, "id").Replace(scheme + page))
				o.unfold()
				o.wantNarrow()
				o.wantAccessible()
			}
			if !strings.HasSuffix(page, "zz") { // the browser notes its status
				o.wantQuiet()
			}
		})
	}
	t.Run("live", func(t *testing.T) {
		o := visit(t, "/feed")
		eval[bool](o, `document.querySelector('#calls ~ ol .call').open = true`)
		kit.Until(t, "a call appears", func() bool { // once the page follows the calls
			agent.Call(http.MethodPut, "/repos/acme/live", "{}")
			return eval[bool](o, shownSoon) // few calls: many would push the open one off the page
		})
		o.until("what was open stays open", `document.querySelector('.call[open]') !== null`)
		o.wantQuiet()
	})
	t.Run("keyboard", func(t *testing.T) {
		o := visit(t, "/feed")
		focused := func(what, selector string) {
			o.until(what, fmt.Sprintf(`document.activeElement?.matches(%q)`, selector))
		}
		o.do(chromedp.KeyEvent("j"))
		focused("the first row has the focus", ".call summary")
		o.do(chromedp.KeyEvent("j"), chromedp.KeyEvent("k"), chromedp.KeyEvent("\r"))
		o.until("the row is open", `document.querySelector('.call').open`)
		o.do(chromedp.KeyEvent("?"))
		o.until("the keys are listed", `document.querySelector('#help').open`)
		o.do(chromedp.KeyEvent("/"))
		focused("the filter has the focus", "#filter")
		o.wantQuiet()
	})
	t.Run("the code is good once", func(t *testing.T) {
		other := newTab(t, browser, "")
		other.do(chromedp.Navigate(strings.TrimSpace(login)), chromedp.Click(chromedp.CSS("button.primary")))
		other.until("it is refused", `Boolean(document.body?.innerText.includes('console_refused'))`) // no body while it loads
	})
}

// testTeam logs users in at the provider, one after the other.
func testTeam(t *testing.T, browser context.Context, here string) {
	for user, texts := range map[string][]string{"security": {"Feed", "DELETE"},
		"platform": {"console_denied"}, "sales": {"console_denied", "none of the groups"}} {
		o := newTab(t, browser, "https://")
		call(o, network.ClearBrowserCookies, cdp.Empty{})
		o.do(chromedp.Navigate(here+"/feed?state=refused"), chromedp.Click(chromedp.CSS("main a")),
			chromedp.SendKeys(chromedp.CSS("input[name=login]"), user),
			chromedp.SendKeys(chromedp.CSS("input[name=password]"), "any"), chromedp.Click(chromedp.CSS("button[type=submit]")))
		o.until("the user is here", fmt.Sprintf(`location.href.startsWith(%q) && document.readyState === 'complete' &&
			document.querySelector('main h1')?.innerText !== 'Logged in'`, here))
		o.want("main", texts...)
		if user == "sales" {
			continue
		}
		o.visit(here, "/keys")
		o.want("main", "runtime-key:v1")
		o.do(chromedp.Click(chromedp.CSS("footer form button")), chromedp.WaitVisible(chromedp.CSS(".login")))
		o.visit(here, "/keys")
		o.want("main", "Log in at")
	}
}

// shownSoon waits a few seconds for the call of the subtest live.
const shownSoon = `new Promise((done) => {
	const end = Date.now() + 3000;
	const look = () => {
		const shown = document.body.innerText.includes('/repos/acme/live');
		if (shown || Date.now() > end) done(shown);
		else setTimeout(look, 50);
	};
	look();
})`

// enter logs a browser in.
func enter(t *testing.T, browser context.Context, login string) *tab {
	t.Helper()
	at, err := url.Parse(login)
	check.Must(t, err)
	o := newTab(t, browser, at.Scheme+"://"+at.Host+"/")
	o.do(chromedp.Navigate(login), chromedp.Click(chromedp.CSS("button.primary")),
		chromedp.WaitVisible(chromedp.CSS("nav")))
	return o
}

func (o *tab) visit(at, page string) {
	o.t.Helper()
	o.do(chromedp.Navigate(at + page))
}

// shot keeps a picture of the page, if MEDIATOR_SHOTS names a folder.
func (o *tab) shot(name string) {
	o.t.Helper()
	dir := os.Getenv("MEDIATOR_SHOTS")
	if dir == "" {
		return
	}
	raw, err := chromedp.Run(o, chromedp.FullScreenshot(100))
	check.Must(o.t, err)
	check.Must(o.t, os.WriteFile(filepath.Join(dir, strings.Trim(name, "-")+".png"), raw, 0o600))
}

// wantNarrow fails if the page itself has to be scrolled sideways. Charts may be.
func (o *tab) wantNarrow() {
	o.t.Helper()
	if over := eval[float64](o, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); over > 0 {
		o.t.Errorf("the page is %v pixels too wide: %s", over, eval[string](o, `[...document.querySelectorAll('main *')]
			.filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth && !e.closest('.scroll, pre'))
			.map((e) => e.outerHTML.slice(0, 120)).slice(0, 3).join('\n')`))
	}
}

// TestConsoleHostile shows records whose texts a careless page would take for its own.
func TestConsoleHostile(t *testing.T) {
	t.Parallel()
	var all []ledger.Record
	for i, h := range hostile {
		text := strings.ToValidUTF8(h.text, "?")
		r := ledger.Record{ID: fmt.Sprintf("post_%d", i), Flow: "post", State: ledger.StateRefused, Session: text,
			Event: text, Rule: text, Subject: text, Action: text, Resource: text, Method: text, Host: text, Path: text,
			Message: text,
			Result:  text, Code: text, Step: text, Reason: text, Started: time.Now(), Finished: time.Now(),
			Scheme: "https", Carries: text, Steps: []ledger.Step{{Name: text, Micros: 3}},
			Checks:    []ledger.Check{{Name: text, Code: text, Detail: text}},
			Tools:     []ledger.Tool{{Name: text, Unnamed: true}},
			Model:     &ledger.ModelCall{API: text, Model: text, AnsweredBy: text, Outcome: text},
			Artifacts: []ledger.Artifact{{Name: "requestProof", Token: text}}}
		all = append(all, r)
	}
	mux := http.NewServeMux()
	answer := func(path string, value func(r *http.Request) any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			_ = json.NewEncoder(w).Encode(value(r)) // the browser may have left the page that asked
		})
	}
	answer("/v1/posts", func(*http.Request) any { return all })
	answer("/v1/posts/{id}", func(r *http.Request) any {
		for _, one := range all {
			if one.ID == r.PathValue("id") {
				return admin.Record{Record: one, Receipts: []string{one.Path}}
			}
		}
		return nil
	})
	answer("/v1/summary", func(*http.Request) any { return admin.Summarize(all) })
	answer("/v1/rules", func(*http.Request) any {
		return own.Rules{Rules: []own.Rule{{Name: hostile[0].text, URL: "https://" + hostile[1].text}}}
	})
	socket := filepath.Join(t.TempDir(), "admin.sock")
	l, err := net.Listen("unix", socket)
	check.Must(t, err)
	go func() { _ = http.Serve(l, mux) }() //nolint:gosec // ends with the test
	t.Cleanup(func() { l.Close() })
	server := httptest.NewUnstartedServer(nil)
	u, err := url.Parse("http://" + server.Listener.Addr().String())
	check.Must(t, err)
	c := console.New(console.Options{Admin: "unix:" + socket, URL: u, Now: time.Now, Log: zap.NewNop()})
	server.Config.Handler = c
	server.Start()
	t.Cleanup(server.Close)

	o := enter(t, start(t), c.LoginURL())
	pages := []string{"/", "/feed", "/sessions", "/agents"}
	for _, r := range all {
		pages = append(pages, "/posts/"+r.ID)
	}
	for _, page := range pages {
		o.visit(u.String(), page)
		o.unfold()
		if found := eval[int](o, `document.querySelectorAll('main img, main iframe, main script, main style, [onload], '
			+ '[onmouseover], a[href^="javascript"]').length`); found > 0 {
			t.Errorf("%s: %d elements of an agent's text", page, found)
		}
	}
	o.do(chromedp.EmulateViewport(400, 900))
	o.visit(u.String(), "/feed")
	o.wantNarrow()
	o.wantQuiet()
}

// TestConsoleHistory shows a key that has rotated and agents with a dispute.
func TestConsoleHistory(t *testing.T) {
	t.Parallel()
	server, auth := kit.Vault(t), t.TempDir()
	plan, err := bootstrap.New(bootstrap.Options{Transit: "transit",
		AppRole: &bootstrap.AppRole{Mount: "approle", Dir: auth, Wrap: time.Hour}})
	check.Must(t, err)
	_, err = plan.Apply(t.Context(), server.Client(t))
	check.Must(t, err)
	r := kit.PrepareClientsRig(t, kit.ManyPosts, kit.InVault(server.Address, server.CAFile, auth),
		func(file string) string {
			if strings.Contains(file, "\nbelievedHosts: ") {
				return kit.WithDisputes(file, "arbiters: [{key: arbiter.jwk}], windows: {short: 1h}")
			}
			return kit.Speaking(file)
		})
	kit.Run(t, "keys", "root", "--name", "arbiter", "--out", r.Dir)
	one, two := nodetest.NewStranger(t), nodetest.NewStranger(t)
	check.Must(t, os.MkdirAll(r.In("reputation"), 0o700))
	kit.RegisterAgents(t, r.In("reputation"), one.ID, two.ID)
	r.Start(t)

	agent := r.OpenAgent(t)
	agent.MustPost(t)
	kit.Write(t, r.In("token"), server.Token)
	kit.Run(t, "keys", "rotate", "runtime-key", "--address", server.Address, "--ca", server.CAFile, "--token-file",
		r.In("token"))
	kit.Until(t, "a post by the new version", func() bool {
		agent.MustPost(t)
		return len(r.Records(t, "limit=1&key=runtime-key:v2")) > 0
	})
	node := "unix:" + r.Stack.Socket("reputation")
	says := func(path string, by nodetest.Stranger, d dispute.Document) {
		said := json.RawMessage(by.Says(t, d).Document)
		check.Must(t, admin.Call(t.Context(), node, http.MethodPost, path, said, new(json.RawMessage)))
	}
	says("/v1/signals", one, dispute.Signal{SignalID: "sig_1", AgentID: one.ID, Statement: "The tests pass.",
		Horizon: dispute.HorizonLong, Timestamp: time.Now().Unix()})
	says("/v1/dispute", two, dispute.Contract{ChallengeID: "con_1", OriginalSignalID: "sig_1", ChallengerAgentID: two.ID,
		CounterClaim: "They do not.", ReasoningTrace: "I ran them.", Timestamp: time.Now().Unix()})

	l := httptest.NewUnstartedServer(nil)
	u, err := url.Parse("http://" + l.Listener.Addr().String())
	check.Must(t, err)
	c := console.New(console.Options{Admin: r.Stack.Admin(), Processes: r.Stack.Endpoints(), Node: node, URL: u,
		Trust: config.Trust{Registry: r.In("registry.jwk"), Bundle: r.In("trust.json")}, Now: time.Now, Log: zap.NewNop()})
	l.Config.Handler = c
	l.Start()
	t.Cleanup(l.Close)
	o := enter(t, start(t), c.LoginURL())
	kit.Until(t, "the counts of both versions", func() bool {
		o.visit(u.String(), "/keys")
		return strings.Count(o.text(`section[aria-label="runtime-key"]`), " posts from ") == 2
	})
	o.want(`section[aria-label="runtime-key"]`, "runtime-key:v1", "runtime-key:v2", "signs now")
	if bars := eval[int](o, `document.querySelectorAll('section[aria-label="runtime-key"] svg .used').length`); bars != 2 {
		t.Errorf("%d versions have a time of use", bars)
	}
	o.shot("rotation")
	o.visit(u.String(), "/agents")
	o.want("main", one.ID, "accused 1 times", "1 open")
	o.shot("dispute")
	o.wantQuiet()
}
