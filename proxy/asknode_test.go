package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/node"
	"github.com/actionproof/mediator/reputation/strategy"
	"github.com/actionproof/mediator/signer"
)

// fakeNode records its requests.
type fakeNode struct {
	mu     sync.Mutex
	asked  []nodeCall
	answer func(path string, body []byte) (string, error)
	sends  func() *http.Response // replaces the answer to a request by a rule, unless nil
}

type nodeCall struct {
	method, path, body string
	caller             *interaction.Caller // nil without a token
	header             string              // of a request by a rule
}

func (f *fakeNode) Relay(_ context.Context, method, path string, body []byte, caller string) ([]byte, error) {
	return f.ask(method, path, body, caller, "")
}

func (f *fakeNode) Send(_ context.Context, method, path string, h http.Header, body []byte,
	caller string) (*http.Response, error) {
	var header bytes.Buffer
	must1("", h.Write(&header))
	answer, err := f.ask(method, path, body, caller, header.String())
	if err != nil {
		return nil, err
	}
	if f.sends != nil {
		return f.sends(), nil
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(answer)), ContentLength: int64(len(answer)),
	}, nil
}

func (f *fakeNode) ask(method, path string, body []byte, caller, header string) ([]byte, error) {
	a := nodeCall{method: method, path: path, body: string(body), header: header}
	if caller != "" {
		c, err := evidence.UnverifiedClaims(interaction.CallerKind, caller)
		if err == nil {
			err = c.Calls(method, path, body)
		}
		if err != nil {
			return nil, err
		}
		a.caller = &c
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, a)
	answer, err := f.answer(path, body)
	return []byte(answer), err
}

func (r *receiptsRig) relay(t testing.TB) *node.Relay {
	t.Helper()
	r.node = &fakeNode{answer: keeping}
	return relayTo(t, r.node, nil)
}

func relayTo(t testing.TB, to *fakeNode, speaker node.Speaker) *node.Relay {
	t.Helper()
	key, err := custody.NewMemory("interaction-key")
	must(t, err)
	issuer, err := signer.New(interaction.CallerKind, key,
		signer.Options{Issuer: "sidecar", Audience: "node", Lifetime: interaction.CallerLifetime, Now: time.Now})
	must(t, err)
	return node.New(
		node.Options{Client: to, Issuer: issuer, Speaker: speaker, Owner: strings.Repeat("o", 43), Agent: "agent"})
}

const (
	nonce     = "4e6f6e6365"
	issueURL  = "http://mediator.internal/v1/challenge/issue"
	commitURL = "http://mediator.internal/v1/challenge/commit"
	salt      = "AAAAAAAAAAAAAAAAAAAAAA"
)

// keeping accepts every request.
func keeping(path string, body []byte) (string, error) {
	if strings.HasSuffix(path, "/issue") {
		return `{"challenge_nonce": "` + nonce +
			`", "issued_at": 1, "expires_at": 601, "probes": [{"id": "p1",` +
			` "prompt": "How many legs has a spider? Say the number alone."}]}`, nil
	}
	var c struct {
		Nonce    string            `json:"challenge_nonce"`
		Hash     string            `json:"commitment_hash"`
		Salt     string            `json:"salt"`
		Strategy strategy.Strategy `json:"strategy"`
	}
	if err := json.Unmarshal(body, &c); err != nil {
		return "", err
	}
	revealed := c.Hash == ""
	if revealed {
		c.Hash, _ = strategy.Commitment(c.Nonce, c.Salt, c.Strategy)
	}
	return fmt.Sprintf(`{"challenge_nonce":%q,"commitment_hash":%q,"committed_at":2,"commitment_revealed":%t}`, c.Nonce,
		c.Hash, revealed), nil
}

var plan = strategy.Strategy{Tools: []string{"search"}, Hosts: []string{}, Model: "m",
	Calls: strategy.Calls{Min: 1, Max: 3}}

func planned(t testing.TB) (hash, reveal string) {
	t.Helper()
	hash, err := strategy.Commitment(nonce, salt, plan)
	must(t, err)
	raw, err := json.Marshal(map[string]any{"challenge_nonce": nonce, "salt": salt, "strategy": plan})
	must(t, err)
	return hash, string(raw)
}

// ok demands an answer.
func (r *receiptsRig) ok(t testing.TB, method, url, body string, header ...string) string {
	t.Helper()
	resp, answer := r.send(method, url, body, header...)
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json" ||
		resp.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%s %s: %d %v %s", method, url, resp.StatusCode, resp.Header, answer)
	}
	return answer
}

// An agent asks for a challenge, commits, calls a model and reveals. Its receipts mention each step once the node has
// it.
func TestChallenge(t *testing.T) {
	r := newReceiptsRig(t, answerModels)
	hash, reveal := planned(t)
	callModel := func() { r.ok(t, "POST", generateURL, `{"prompt":"x"}`) }
	callModel()
	if got, want := r.ok(t, "POST", issueURL, `{ }`, interaction.CallerHeader, "forged", "Authorization", "mine"),
		must1(keeping("/issue", nil)); got != want {
		t.Errorf("the challenge is %s, want %s", got, want)
	}
	callModel()
	r.ok(t, "POST", commitURL, `{"challenge_nonce":"`+nonce+`","commitment_hash":"`+hash+`"}`)
	callModel()
	r.ok(t, "POST", commitURL, reveal)
	callModel()
	score := "/v1/score/" + strings.Repeat("0a", 32)
	r.node.answer = func(string, []byte) (string, error) { return `{"score":{}}`, nil }
	if got := r.ok(t, "GET", "http://mediator.internal"+score, ""); got != `{"score":{}}` {
		t.Errorf("the score is %s", got)
	}
	reputation := "/v1/reputation/" + strings.Repeat("o", 43) + ":agent:a"
	r.node.answer = func(string, []byte) (string, error) { return `{"reputation":{}}`, nil }
	if got := r.ok(t, "GET", "http://mediator.internal"+reputation, ""); got != `{"reputation":{}}` {
		t.Errorf("the reputation is %s", got)
	}
	for i, want := range []struct {
		action string
		ref    *interaction.ChallengeRef
	}{
		{interaction.ActionGeneric, nil},
		{interaction.ActionChallengeResponse, &interaction.ChallengeRef{ChallengeNonce: nonce}},
		{interaction.ActionChallengeResponse, &interaction.ChallengeRef{ChallengeNonce: nonce, CommitmentHash: hash}},
		{interaction.ActionGeneric,
			&interaction.ChallengeRef{ChallengeNonce: nonce, CommitmentHash: hash, CommitmentRevealed: true}},
	} {
		if got := r.chain(t, 4)[i]; got.ActionType != want.action || !reflect.DeepEqual(got.Challenge, want.ref) {
			t.Errorf("receipt %d is a %s and tells of %+v, want %+v", i+1, got.ActionType, got.Challenge, want)
		}
	}
	used := make(map[string]bool)
	for i, want := range []nodeCall{
		{method: "POST", path: "/v1/challenge/issue", body: "{ }"},
		{method: "POST", path: "/v1/challenge/commit",
			body: `{"challenge_nonce":"` + nonce + `","commitment_hash":"` + hash + `"}`},
		{method: "POST", path: "/v1/challenge/commit", body: reveal},
	} {
		got := r.node.asked[i]
		c := got.caller
		if got.method != want.method || got.path != want.path || got.body != want.body || c == nil {
			t.Fatalf("the node was asked %+v, want %+v", got, want)
		}
		if c.Session != r.session.ID || c.EventID != r.session.Event.ID || c.Agent != "agent" ||
			c.Owner != strings.Repeat("o", 43) || c.Audience != "node" || c.Expires-c.IssuedAt != 60 || used[c.ID] ||
			c.ModelCalls != int64(i+1) {
			t.Errorf("the caller is %+v", c)
		}
		used[c.ID] = true
	}
	for i, path := range []string{score, reputation} {
		if got := r.node.asked[3+i]; got != (nodeCall{method: "GET", path: path}) {
			t.Errorf("the node was asked %+v", got)
		}
	}
	r.wantLast(9, ledger.Record{Flow: flowInternal, Session: r.session.ID, Status: 200})
}

func must1(s string, err error) string {
	if err != nil {
		panic(err)
	}
	return s
}

func TestModelCallsOfACaller(t *testing.T) {
	var fails atomic.Bool
	r := newReceiptsRig(t, func(w http.ResponseWriter, req *http.Request) {
		if fails.Load() {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		answerModels(w, req)
	})
	for i, want := range []int64{0, 1, 1, 2} { // before each call; the second call fails
		r.ok(t, "POST", issueURL, `{}`)
		if got := r.node.asked[i].caller.ModelCalls; got != want {
			t.Errorf("before call %d: %d calls, want %d", i+1, got, want)
		}
		fails.Store(i == 1)
		r.send("POST", generateURL, `{"prompt":"x"}`)
	}
}

// What the node does not accept changes no receipt.
func TestChallengeRefused(t *testing.T) {
	hash, reveal := planned(t)
	other := strings.Repeat("e", 64)
	commit := `{"challenge_nonce":"` + nonce + `","commitment_hash":"` + hash + `"}`
	says := func(answer string, err error) func(string, []byte) (string, error) {
		return func(string, []byte) (string, error) { return answer, err }
	}
	refused := &problem.Error{
		Details: problem.Details{Code: "rate_limited", Detail: "three a minute", Status: 429, RetryAfter: 17}}
	accepted := []string{`{}`, commit}
	urls := []string{issueURL, commitURL, commitURL}
	refs := []*interaction.ChallengeRef{nil, {ChallengeNonce: nonce}, {ChallengeNonce: nonce, CommitmentHash: hash}}
	for name, tt := range map[string]struct {
		after      int // so many accepted requests
		answer     func(string, []byte) (string, error)
		body, code string
	}{
		"a challenge":                 {0, says("", refused), `{}`, "rate_limited"},
		"a challenge without a nonce": {0, says(`{"challenge_nonce":""}`, nil), `{}`, "node_unavailable"},
		"a challenge that is a page":  {0, says(`<html>`, nil), `{}`, "node_unavailable"},
		"a probe without a prompt": {0, says(`{"challenge_nonce":"n","probes":[{"id":"p"}]}`, nil), `{}`,
			"node_unavailable"},
		"a commitment": {1, says("", refused), commit, "rate_limited"},
		"a commitment, said to be another": {
			1, says(`{"challenge_nonce":"`+nonce+`","commitment_hash":"`+other+`"}`, nil), commit, "node_unavailable"},
		"a commitment for another challenge, to which the node says yes": {
			1, keeping, strings.Replace(commit, nonce, "other", 1), ""},
		"a reveal": {2, says("", refused), reveal, "rate_limited"},
		"a reveal that is only a commitment": {
			2, says(`{"challenge_nonce":"`+nonce+`","commitment_hash":"`+hash+`","commitment_revealed":false}`, nil),
			reveal, "node_unavailable"},
		"a reveal of something else, to which the node says yes": {
			2, keeping, strings.Replace(reveal, salt, "B"+salt[1:], 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiptsRig(t, answerModels)
			for i := range tt.after {
				r.ok(t, "POST", urls[i], accepted[i])
			}
			r.node.answer = tt.answer
			resp, answer := r.send("POST", urls[tt.after], tt.body)
			var d problem.Details
			if tt.code != "" {
				must(t, json.Unmarshal([]byte(answer), &d))
			}
			if d.Code != tt.code || tt.code == "rate_limited" && (d.Detail != "three a minute" ||
				resp.Header.Get("Retry-After") != "17") {
				t.Errorf("%d %v %s", resp.StatusCode, resp.Header, answer)
			}
			r.ok(t, "POST", generateURL, `{"prompt":"x"}`)
			if got, want := r.chain(t, 1)[0].Challenge, refs[tt.after]; !reflect.DeepEqual(got, want) {
				t.Errorf("the receipt tells of %+v, want %+v", got, want)
			}
		})
	}
}

// Ambiguous and unknown requests do not reach the node.
func TestMalformedChallengeRequests(t *testing.T) {
	hash, reveal := planned(t)
	r := newReceiptsRig(t, answerModels)
	n := `{"challenge_nonce":"n",`
	for _, tt := range []struct{ code, url, body string }{
		{"query_malformed", issueURL, `[]`},
		{"query_malformed", issueURL, `{"agent":"another"}`},
		{"query_malformed", issueURL, `{} {}`},
		{"query_malformed", commitURL, `{}`},
		{"query_malformed", commitURL, n + `"commitment_hash":"x"}`},
		{"query_malformed", commitURL, n + `"commitment_hash":"` + strings.ToUpper(hash) + `"}`},
		{"query_malformed", commitURL,
			n + `"commitment_hash":"` + hash + `","commitment_hash":"` + strings.Repeat("f", 64) + `"}`},
		{"query_malformed", commitURL,
			n + `"commitment_hash":"` + hash + `","Commitment_hash":"` + strings.Repeat("f", 64) + `"}`},
		{"query_malformed", commitURL, n + `"commitment_hash":"` + hash + `","salt":"` + salt + `"}`},
		{"query_malformed", commitURL, n + `"salt":"` + salt + `"}`},
		{"query_malformed", commitURL, `{"commitment_hash":"` + hash + `"}`},
		{"query_malformed", commitURL,
			`{"challenge_nonce":"` + strings.Repeat("n", 129) + `","commitment_hash":"` + hash + `"}`},
		{"query_malformed", commitURL, strings.Replace(reveal, salt, "short", 1)},
		{"query_malformed", commitURL, strings.Replace(reveal, `"model"`, `"modell"`, 1)},
		{"content_too_large", commitURL, n + `"commitment_hash":"` + strings.Repeat("x", node.MaxRequest) + `"}`},
		{"content_malformed", commitURL, ``},
	} {
		r.wantRefused(tt.code, "POST", tt.url, tt.body)
	}
	for _, url := range []string{issueURL + "?x=1", issueURL + "/", ownURL + "/v1/challenge",
		ownURL + "/v1/receipts", ownURL + "/v1/challenge/%69ssue"} {
		r.wantRefused("not_found", "POST", url, `{}`)
	}
	for _, url := range []string{ownURL + "/v1/score/x",
		ownURL + "/v1/score/" + strings.Repeat("0A", 32),
		ownURL + "/v1/sessions/ses_1/challenges", issueURL} {
		r.wantRefused("not_found", "GET", url, "")
	}
	r.sessions.CloseStanding("")
	r.wantRefused("session_required", "POST", issueURL, `{}`)
	if len(r.node.asked) != 0 {
		t.Errorf("the node was asked %+v", r.node.asked)
	}
}

// A request for a challenge needs no body, but a body must be JSON.
func TestChallengeWithoutBody(t *testing.T) {
	r := newReceiptsRig(t, answerModels)
	if got, want := r.ok(t, "POST", issueURL, ""), must1(keeping("/issue", nil)); got != want {
		t.Errorf("the challenge is %s, want %s", got, want)
	}
	if asked := r.node.asked; len(asked) != 1 || asked[0].body != "{}" {
		t.Errorf("the node was asked %+v", asked)
	}
	req, err := http.NewRequest(http.MethodPost, issueURL, strings.NewReader("{}"))
	must(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := r.client.Do(req)
	must(t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusUnprocessableEntity || len(r.node.asked) != 1 {
		t.Errorf("a form: %d", resp.StatusCode)
	}
}

func TestNoNode(t *testing.T) {
	p := newModelRig(t, answerModels)
	p.wantRefused("not_configured", "POST", issueURL, `{}`)
	p.wantRefused("not_configured", "GET", ownURL+"/v1/score/"+strings.Repeat("0a", 32), "")
}

// The node's prompt goes to the model, and the receipt has the probe's id and a tag of the answer.
func TestProbe(t *testing.T) {
	var mu sync.Mutex
	answers := []string{"8", " Eight.", "eight", "nine"}
	r := newReceiptsRig(t, func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w,
			`{"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"`+answers[0]+
				`"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1}}`)
		answers = answers[1:]
	})
	r.wantRefused("not_found", "POST", generateURL, `{"probe":"p1"}`)
	const prompt = "How many legs has a spider?  Say <it> in a word."
	r.node.answer = func(string, []byte) (string, error) {
		return `{"challenge_nonce":"n","probes":[{"id":"p1","prompt":"` + prompt + `"},{"id":"p2","prompt":"` + prompt +
			`"},{"id":"p3","prompt":"` + prompt + `"}]}`, nil
	}
	r.ok(t, "POST", issueURL, `{}`)
	r.ok(t, "POST", generateURL, `{"prompt":"`+prompt+`"}`) // not a probe
	for _, id := range []string{"p1", "p2", "p3"} {
		r.ok(t, "POST", generateURL, `{"probe":"`+id+`","model":"m"}`)
		r.wantRefused("not_found", "POST", generateURL, `{"probe":"`+id+`"}`)
	}
	chain := r.chain(t, 4)
	var tags []string
	for i, c := range chain[1:] {
		if p := c.Model.Probe; p == nil || p.ID != fmt.Sprintf("p%d", i+1) || p.Answer == "" ||
			c.ActionType != interaction.ActionChallengeResponse {
			t.Fatalf("receipt %d: %+v, %s", i+2, p, c.ActionType)
		}
		tags = append(tags, c.Model.Probe.Answer)
	}
	if chain[0].Model.Probe != nil || tags[0] != tags[1] || tags[1] == tags[2] {
		t.Errorf("%+v, %v", chain[0].Model.Probe, tags)
	}
	for _, body := range r.body[1:] {
		var sent struct {
			Messages    []map[string]string
			Temperature *float64
		}
		must(t, json.Unmarshal([]byte(body), &sent))
		if len(sent.Messages) != 1 || sent.Messages[0]["content"] != prompt || sent.Temperature == nil ||
			*sent.Temperature != 0 {
			t.Errorf("the model is asked %s", body)
		}
	}
}

func TestOfferedPages(t *testing.T) {
	r := newReceiptsRig(t, answerModels)
	_, answer := r.send("GET", ownURL+"/v1/nothing", "")
	var d problem.Details
	if err := json.Unmarshal([]byte(answer), &d); err != nil || d.Code != "not_found" {
		t.Fatal(answer)
	}
	offered, posts, ok := strings.Cut(d.Detail, ", and POST ")
	gets := regexp.MustCompile(`/v1/[^\s,]+`).FindAllString(offered[strings.Index(offered, "offers"):], -1)
	if !ok || len(gets) < 10 || !strings.Contains(posts, "/v1/generate") {
		t.Fatal(d.Detail)
	}
	for _, page := range gets {
		page = strings.NewReplacer("{receipt_hash}", strings.Repeat("0a", 32), "{agent_id}",
			strings.Repeat("A", 43)+":agent:worker-1", "{name}", "signal",
			"signals/{id}", "signals/sig_1", "disputes/{id}", "disputes/dsp_"+strings.Repeat("0a", 16), "30s",
			"1ms").Replace(page)
		if _, answer := r.send("GET", "http://mediator.internal"+page, ""); strings.Contains(answer, "not_found") {
			t.Errorf("%s: %s", page, answer)
		}
	}
}
