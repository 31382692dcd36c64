package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/httpsig"
	"github.com/actionproof/mediator/internal/config/secrets"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/proxy"
	"github.com/actionproof/mediator/proxy/body"
	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/proxy/upstream"
)

// CheckSidecar loads a sidecar's configuration as if the file at path had this text. It also checks the rules by the
// manifest's ceiling.
func CheckSidecar(path string, raw []byte) (*Sidecar, error) {
	c, err := parse[Sidecar](path, raw, true)
	if err == nil {
		err = c.checkManifest()
	}
	return c, err
}

func (c *Sidecar) checkManifest() error {
	m, err := deployed.ReadManifest(c.Manifest)
	if err != nil {
		return nil //nolint:nilerr // it may not be there yet
	}
	return c.CheckCeiling(m.EgressCeiling)
}

// Rules returns the rules as the sidecar applies them, without credentials and gates.
func (c *Sidecar) Rules() (*rules.Rules, error) {
	return rules.New(c.ActionRules, c.EgressRules, c.Denied)
}

func (c *Sidecar) checkAll(f *findings) {
	c.Agent.keepFrom(f, "admin", c.Admin.Endpoint)
	c.checkTransparent(f)
	c.checkGuard(f)
	if err := errors.Join(c.Limits.Load().Check(), c.Limits.Listeners().Check()); err != nil {
		f.Add("limits", "%v", err)
	}
	if c.PropagateTraces && c.Tracing == nil {
		f.Add("propagateTraces", "needs tracing")
	}
	c.checkCA(f)
	c.checkKeys(f)
	c.checkEndpoints(f)
	for i, a := range c.Actions {
		c.addAction(fmt.Sprintf("actions[%d]", i), a, f)
	}
	for i, e := range c.Egress {
		c.addEgress(fmt.Sprintf("egress[%d]", i), e, f)
	}
	for i, u := range c.Upstreams {
		c.addUpstream(fmt.Sprintf("upstreams[%d]", i), u, f)
	}
	var err error
	if c.Denied, err = match.ParseDenied(c.Deny); err != nil {
		f.Add("deny", "%v", err)
	}
	if f.Correct() {
		if _, err := c.Rules(); err != nil {
			c.addRuleError(err, f)
		}
	}
	c.warn()
}

// addRuleError adds a mistake at the key of its rule: the last one, if several have its name.
func (c *Sidecar) addRuleError(err error, f *findings) {
	var e *match.RuleError
	if !errors.As(err, &e) {
		f.Add("", "%v", err)
		return
	}
	key := ""
	for at, r := range c.AllRules() {
		if r.Name == e.Rule.Name && strings.HasPrefix(at, "actions") == e.Rule.Post {
			key = at
		}
	}
	f.Add(key, "(%s) %v", e.Rule.Name, e.Err)
}

func (c *Sidecar) checkEndpoints(f *findings) {
	if _, err := netip.ParseAddrPort(c.ConsoleAddress()); err != nil {
		f.Add("console", "must be an IP address with a port, not %q", c.Console)
	}
	if c.Runtime == "" && c.TLS == nil {
		f.Add("runtime", "is required without tls; with tls, the certificate names the runtime")
	}
	if c.Reputation != nil && c.Receipts == nil {
		f.Add("reputation", "needs receipts and keys.interactionReceipt: the node appraises receipts")
	}
}

// ConsoleAddress returns the address of mediator console.
func (c *Sidecar) ConsoleAddress() string { return cmp.Or(c.Console, "127.0.0.1:8184") }

// CAFile returns the path of the CA's certificate, which agents have to trust.
func (c *Sidecar) CAFile() string {
	return cmp.Or(c.CA.CertificateFile, filepath.Join(c.State, "ca.pem"))
}

// checkCredential checks what a credential needs of custody.
func (c *Sidecar) checkCredential(key string, r *secrets.Credential, f *findings) {
	at, in := r.InVault(), c.Custody.Vault
	switch {
	case at != "" && in == nil:
		f.Add(key+"."+at, "needs custody.type: vault")
	case at != "" && r.GitHubApp != nil && slices.Contains(in.Keys, r.GitHubApp.VaultKey):
		f.Add(key+"."+at, "%s is in custody.vault.keys: the App needs a key of its own", r.GitHubApp.VaultKey)
	}
}

func (c *Sidecar) addAction(key string, a Action, f *findings) {
	out := rules.Action{
		Name: a.Name, Purpose: a.Purpose(), Subject: a.Subject, Action: a.Action, Content: a.Content,
		MaxBody: cmp.Or(a.MaxBody, 1<<20), AllowQuery: a.Query, AgentSolves: a.Solver == "agent",
		Via:     a.Via,
		Match:   parseMatch(key+".match", a.Match, []string{http.MethodPost}, f),
		MCP:     parseMCP(key+".match.mcp", a.Match.MCP, true, f),
		GraphQL: parseGraphQL(key+".match.graphql", a.Match.GraphQL, true, f),
	}
	c.checkRule(key, &a.Rule, out.Match, f)
	if out.Match.Host == proxy.InternalHost {
		c.checkPublishes(key, a, out.Match.Path, f)
	}
	if a.Headers != nil {
		out.Headers = make([]string, len(a.Headers)) // an empty list allows none, and nil allows all
	}
	for i, name := range a.Headers {
		if out.Headers[i] = http.CanonicalHeaderKey(name); !httpguts.ValidHeaderFieldName(name) {
			f.Add(fmt.Sprintf("%s.headers[%d]", key, i), "%q is not the name of a header", name)
		}
	}
	if a.MaxBody > body.Max {
		f.Add(key+".maxBody", "is more than %d, the most bytes that a body may have", body.Max)
	}
	if a.Match.messages() != "" && a.Content != rules.ContentJSON {
		f.Add(key+".content", "must be json: %s are JSON", a.Match.messages())
	}
	if a.Match.GraphQL != nil && a.Query {
		f.Add(key+".query", "has no meaning for GraphQL: its actions match only POSTs whose URL has no query string")
	}
	out.AnswerKeys = a.checkGate(key, f)
	c.ActionRules = append(c.ActionRules, out)
}

func (a Action) checkGate(key string, f *findings) (answerKeys httpsig.Keys) {
	api := a.API
	if (a.Gate == "api") != (api != nil) {
		f.Add(key+".api", "must be set if gate is api, and only then")
	}
	if api == nil || api.Challenge == "" || api.Verify == "" {
		return nil
	}
	if api.AnswerKeys != "" {
		var err error
		if answerKeys, err = gate.ReadAnswerKeys(api.AnswerKeys); err != nil {
			f.Add(key+".api.answerKeys", "%v", err)
		}
	}
	a.Credential.CheckForGate(key+".credential", f)
	_, err := gate.NewClient(gate.ClientOptions{
		ChallengeURL: api.Challenge, VerifyURL: api.Verify, HTTP: new(http.Client), Now: time.Now,
	})
	if err != nil {
		f.Add(key+".api", "%v", err)
	}
	return answerKeys
}

func (c *Sidecar) addEgress(key string, e Egress, f *findings) {
	if e.WebSocket && (!slices.Contains(e.Match.Methods, http.MethodGet) || e.Match.messages() != "") {
		f.Add(key+".websocket", "needs the method GET; a rule with mcp or graphql cannot allow WebSockets")
	}
	methods := []string{http.MethodGet, http.MethodPost, http.MethodDelete}
	if e.Match.GraphQL != nil {
		methods = []string{http.MethodGet, http.MethodHead, http.MethodPost}
	}
	matched := parseMatch(key+".match", e.Match, methods, f)
	c.checkRule(key, &e.Rule, matched, f)
	c.EgressRules = append(c.EgressRules, rules.Egress{
		Name: e.Name, Purpose: e.Purpose(), WebSocket: e.WebSocket, Via: e.Via,
		Match:    matched,
		MCP:      parseMCP(key+".match.mcp", e.Match.MCP, false, f),
		GraphQL:  parseGraphQL(key+".match.graphql", e.Match.GraphQL, false, f),
		Observe:  e.observe(key, f),
		Generate: e.Generate.parse(key+".generate", f),
	})
}

func (e Egress) observe(key string, f *findings) *inference.Rule {
	if e.Observe == "" {
		if e.HostedTools != nil {
			f.Add(key+".hostedTools", "has no meaning without observe")
		}
		if e.UnknownMembers != "" {
			f.Add(key+".unknownMembers", "has no meaning without observe")
		}
		return nil
	}
	out := &inference.Rule{Dialect: inference.Dialect(e.Observe), Hosted: e.HostedTools,
		AllowUnknown: e.UnknownMembers == "allow"}
	if !slices.Contains([]string{"", "allow", "refuse"}, e.UnknownMembers) {
		f.Add(key+".unknownMembers", "%q is neither refuse nor allow", e.UnknownMembers)
	}
	switch err := out.Check(); {
	case e.Match.MCP != nil:
		f.Add(key+".observe", "cannot be set with match.mcp: a rule is about a model or about an MCP server")
	case !slices.Equal(e.Match.Methods, []string{http.MethodPost}):
		f.Add(key+".observe", "needs POST as the only method of the rule: put other methods in another rule")
	case err != nil:
		f.Add(key+".observe", "%v", err)
	}
	return out
}

func (c *Sidecar) addUpstream(key string, u Upstream, f *findings) {
	if u.Host == "" {
		return
	}
	target, err := upstream.ParseConnect(u.Host)
	if err != nil {
		f.Add(key+".host", "must be host:port, such as api.example.com:443 (%v)", err)
		return
	}
	if slices.ContainsFunc(c.UpstreamHosts, func(o upstream.Host) bool {
		return o.Name == target.Host && o.Port == target.Port
	}) {
		f.Add(key+".host", "%s is there twice", u.Host)
	}
	networks, err := parseNetworks(u.Networks)
	if err != nil {
		f.Add(key+".networks", "%v", err)
	}
	up := upstream.Host{Name: target.Host, Port: target.Port, Networks: networks,
		RootCAs: f.Authorities(key+".ca", u.CA)}
	if u.Address != "" {
		if up.Address, err = parseAddress(u.Address); err != nil {
			f.Add(key+".address", "%q is not an IP address, alone or with a port", u.Address)
		} else if err = up.CheckAddress(); err != nil {
			f.Add(key+".address", "%v", err)
		}
	}
	c.UpstreamHosts = append(c.UpstreamHosts, up)
}

func (c *Sidecar) checkTransparent(f *findings) {
	if c.Agents != nil && (c.Agents.Unix != "" || !c.Session.Standing) {
		f.Add("agents", "needs tcp, where a certificate names the pod, and session.standing, as each pod has one "+
			"session")
	}
	if c.Transparent == nil {
		return
	}
	if at, err := netip.ParseAddrPort(c.Transparent.Listen); err != nil || !at.Addr().Is4() {
		f.Add("transparent.listen", "%q is not an IPv4 address with a port", c.Transparent.Listen)
	}
	if !c.Session.Standing {
		f.Add("transparent", "needs session.standing: a redirected connection has no proxy credentials")
	}
}
