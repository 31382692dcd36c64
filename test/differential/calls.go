package differential

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

// material is a valid chain, and what it earned.
type material struct {
	admit      gate.AdmitRequest
	url, body  string
	capability string
	proof      string
}

// members are the tokens of an envelope, with the purposes of their keys.
var members = []struct{ name, purpose string }{
	{"challengeToken", shared}, {"originProof", evidence.PurposeTriggerOriginProof},
	{"triggerReceipt", evidence.PurposeTriggerReceipt}, {"policyDecision", evidence.PurposePolicyDecision},
	{"grant", evidence.PurposeActionGrant}, {"attestation", evidence.PurposeRuntimeAttestation},
	{"sessionReceipt", evidence.PurposeAgentSession}, {"deploymentCertificate", evidence.PurposeDeploymentCertificate},
}

// bodies have canonical forms.
var bodies = []string{gatetest.Content, `{}`, `{"b":1.5,"a":[1e3,-0,"\u00e9\ud83d\ude00"],"\ufb33":null}`, ``,
	`[1,2,3]`}

// asked is a request to the verify endpoint.
type asked struct {
	Envelope map[string]any `json:"envelope"`
	Binding  map[string]any `json:"binding"`
}

func object(m *maker, v any) (out map[string]any) {
	raw, err := json.Marshal(v)
	check.Must(m.t, err)
	check.Must(m.t, json.Unmarshal(raw, &out))
	return out
}

// changes returns how often to change a thing: mostly once.
func (m *maker) changes() int { return one(m, 0, 1, 1, 1, 1, 1, 1, 1, 2, 2) }

// chain asks for a capability with a chain that has a fault, or none.
func (m *maker) chain() {
	of := one(m, m.chains...)
	ask := asked{object(m, of.admit.Envelope), object(m, of.admit.Binding)}
	body := ""
	for range m.changes() {
		switch m.rnd.IntN(12) {
		case 0:
			m.fault += " time"
			m.later(86403)
		case 1:
			m.fault += " binding"
			m.member(ask.Binding)
		case 2:
			m.fault += " envelope"
			m.member(ask.Envelope)
		case 3:
			name := one(m, members...).name
			m.fault += " " + name + " of another chain"
			ask.Envelope[name] = object(m, one(m, m.chains...).admit.Envelope)[one(m, name, one(m, members...).name)]
		case 4:
			m.fault += " request"
			raw, err := json.Marshal(ask)
			check.Must(m.t, err)
			body = m.text(string(raw))
		case 5:
			if r, ok := ask.Envelope["response"].(map[string]any); ok {
				m.fault += " response"
				m.member(r)
			}
		default:
			k := one(m, members...)
			if token, ok := ask.Envelope[k.name].(string); ok {
				m.fault += " " + k.name + ":"
				ask.Envelope[k.name] = m.token(k.purpose, token)
			}
		}
	}
	if body == "" {
		raw, err := json.Marshal(ask)
		check.Must(m.t, err)
		body = string(raw)
	}
	m.ask(Request{Method: http.MethodPost, URL: VerifyPath, Body: []byte(body),
		Headers: [][2]string{{"Content-Type", "application/json"}}})
}

// post makes a call to the protected route that has a fault, or none.
func (m *maker) post() {
	of := one(m, m.chains...)
	r := Request{Method: http.MethodPost, URL: of.url, Body: []byte(of.body), Headers: [][2]string{
		{"Content-Type", "application/json"}, {gate.CapabilityHeader, of.capability},
		{gate.RequestProofHeader, of.proof}, {"Authorization", gatetest.Token},
	}}
	for range m.changes() {
		switch m.rnd.IntN(9) {
		case 0:
			m.fault += " time"
			m.later(61)
		case 1:
			m.fault += " body"
			r.Body = []byte(m.text(" " + string(r.Body)))
		case 2:
			m.fault += " method"
			r.Method = one(m, "PUT", "post", "GET", "PATCH", "POSTS")
		case 3:
			m.fault += " url"
			r.URL = one(m, "/posts?", "/posts?a=1", "/posts/", "/post%73", "/posts%2F", "/posts?_method=PUT",
				"/posts?%5Fmethod=x", "/posts?method=delete", "/posts?method=POST", "/posts?a;_httpMethod=1",
				"/posts?.method=GET", "/posts?$httpMethod=x", "/posts?+_method=PUT", "/posts?_method%00x=PUT",
				"/posts?__METHOD_OVERRIDE__=PUT", "/posts?[_method]=x", "/posts?methodOverride=x", "/posts?method_x=PUT",
				"/po\"sts", "/posts/é", "/posts/%c3%a9",
				"/posts/[1]", "/posts/a|b", "/posts?a|b", "/posts/(a)!*'", "//posts", "/./posts", "/posts/%zz", "/posts;v=1",
				"/posts?to=http://h/y", "/posts?to=x://h/y", "/posts?to=/y", "/posts?to=//h/y", "http://h/posts?to=/y")
		case 4:
			m.headers(&r)
		case 5, 6:
			m.fault += " capability:"
			r.Headers[1][1] = plain(m.token(shared, r.Headers[1][1]), r.Headers[1][1])
		default:
			m.fault += " proof:"
			r.Headers[2][1] = plain(m.token(evidence.PurposeRequestProof, r.Headers[2][1]), r.Headers[2][1])
		}
	}
	kept := r.Headers[:0]
	for _, pair := range r.Headers {
		if pair[0] != "" {
			kept = append(kept, pair)
		}
	}
	r.Headers = kept
	m.ask(r)
}

// later moves the clock to about a limit: of clocks' difference, of an age, or of a certificate.
func (m *maker) later(last int) {
	seconds := one(m, -3, -2, -1, 0, 1, 2, 3, 4, 14, 15, 16, 17, 18, 19, 61, 86402, last)
	m.now = m.now.Add(time.Duration(seconds)*time.Second + time.Duration(one(m, -1, 0, 0, 1, 500, 999))*time.Millisecond)
}

// plain returns a header's value that every server reads alike, or else.
func plain(value, otherwise string) string {
	odd := func(c rune) bool { return c < ' ' || c > '~' }
	if strings.Trim(value, " ") != value || strings.ContainsFunc(value, odd) {
		return otherwise
	}
	return value
}

// headers changes one of the four headers, or adds one.
func (m *maker) headers(r *Request) {
	m.fault += " headers"
	of := one(m, m.chains...)
	i := m.rnd.IntN(4)
	switch m.rnd.IntN(13) {
	case 0:
		r.Headers[i][0] = "" // it is left out at the end
	case 10:
		r.Headers = append(r.Headers, [2]string{strings.ToUpper(r.Headers[i][0]), one(m, "", "x", of.capability)})
	case 11:
		r.Headers[i][1] += one(m, ",", ", ", ";", "; ", "=") + r.Headers[i][1]
	case 12:
		r.Headers = append([][2]string{{one(m, "authorization", "Actionproof-Capability", "content-type"), ""}}, r.Headers...)
		return
	case 9:
		r.Headers[1][0], r.Headers[2][0] = "", ""
	case 1:
		r.Headers = append(r.Headers, r.Headers[i])
	case 2:
		r.Headers[i][1] = ""
	case 3:
		r.Headers[i][0] = strings.ToLower(r.Headers[i][0])
	case 4:
		r.Headers[0][1] = one(m, "application/json; charset=utf-8", "application/json;charset=\"UTF-8\"",
			"application/json; charset=latin1", "application/vnd.api+json", "text/json", "APPLICATION/JSON",
			"application/json; a", "application/json;", "application/json; a=1; a=2",
			"application/json; charset=utf-8; x=\"a;b\"", "text/plain", "application", "application/json, text/plain",
			"application/json; charset*=utf-8''utf-8", "+json",
			"application/json; charset*=x''utf-7", "application/json; charset=utf-7; charset*=x''y",
			"application/json; charset*0=utf-7",
			"/json", "application/json; =x", "application/json ; x=1", "application/json; x=\"\\\"\"",
			"application/json; x=\"a")
	case 5:
		r.Headers = append(r.Headers, one(m, [2]string{"Content-Encoding", "identity"},
			[2]string{"Content-Encoding", "gzip"}, [2]string{"Content-Encoding", ""},
			[2]string{"X-HTTP-Method-Override", "PUT"}, [2]string{"x_method_override", "PUT"},
			[2]string{"X-HTTP-Method", ""}, [2]string{"x-tunneled_method", ""},
			[2]string{"X-Other", "1"},
			[2]string{"CONTENT-TYPE", "application/json"}))
	case 6:
		r.Headers[1][1] = of.capability
	case 7:
		r.Headers[2][1] = of.proof
	case 8:
		r.Headers[3][1] = one(m, "Bearer stolen", "bearer upstream", "Bearer  upstream")
	}
}

// prepare makes the chains of a deployment. Two are for the same content.
func (m *maker) prepare() {
	m.chains = nil
	for _, body := range append([]string{gatetest.Content}, bodies...) {
		b := gatetest.Binding()
		content := []byte(body)
		if !m.raw {
			canonical, err := strictjson.Canonical(bytes.TrimSpace(content))
			if err != nil {
				continue
			}
			content = canonical
		}
		b.ContentHash = evidence.HashBytes(content)
		url := one(m, "/posts", "/posts", "/posts?to=/y")
		b.Resource = http.MethodPost + " " + url
		plan := gatetest.Plan{Binding: b}
		if m.kit.Strict.CheckRuntime("worker-1") != nil {
			plan.RuntimeID = "pods/worker-1"
		}
		of := material{url: url, body: body, admit: m.kit.Build(m.t, plan)}
		a, err := m.kit.Gate.Admit(m.t.Context(), of.admit)
		check.Must(m.t, err)
		of.capability, of.proof = a.Capability, m.kit.Proof(m.t, a.Capability, gatetest.Token)
		m.chains = append(m.chains, of)
	}
}
