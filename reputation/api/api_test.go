package api_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/api"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/reputation/strategy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/nodetest"
)

type described struct {
	Paths map[string]map[string]struct {
		OperationID string              `json:"operationId"`
		Security    []map[string][]any  `json:"security"`
		Responses   map[string]response `json:"responses"`
		RequestBody *struct {
			Content map[string]any `json:"content"`
		} `json:"requestBody"`
	} `json:"paths"`
	Components struct {
		Responses map[string]response `json:"responses"`
	} `json:"components"`

	compiler *jsonschema.Compiler
}

type response struct {
	Ref     string                    `json:"$ref"`
	Content map[string]map[string]any `json:"content"`
}

const place = "https://node.test/openapi.json"

func describe(t *testing.T) *described {
	t.Helper()
	d := &described{compiler: jsonschema.NewCompiler()}
	must(t, json.Unmarshal(api.Description(), d))
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(api.Description()))
	must(t, err)
	d.compiler.DefaultDraft(jsonschema.Draft2020) // OpenAPI 3.1 takes its schemas from there
	must(t, d.compiler.AddResource(place, document))
	return d
}

func (d *described) operation(method, path string) (at string, ok bool) {
	if _, has := d.Paths[path][strings.ToLower(method)]; has {
		return path, true
	}
	for template, methods := range d.Paths {
		want, got := strings.Split(template, "/"), strings.Split(path, "/")
		fits := len(want) == len(got)
		for i := 0; fits && i < len(want); i++ {
			fits = want[i] == got[i] || strings.HasPrefix(want[i], "{")
		}
		if _, has := methods[strings.ToLower(method)]; fits && has {
			return template, true
		}
	}
	return "", false
}

func escaped(pointer string) string {
	return strings.ReplaceAll(strings.ReplaceAll(pointer, "~", "~0"), "/", "~1")
}

func (d *described) judge(t *testing.T, r *http.Request, w *http.Response, body []byte) {
	t.Helper()
	pointer, content := "#/components/responses/Problem/content", problem.ContentType
	if template, ok := d.operation(r.Method, r.URL.EscapedPath()); ok {
		status := strconv.Itoa(w.StatusCode)
		described, ok := d.Paths[template][strings.ToLower(r.Method)].Responses[status]
		if !ok {
			t.Errorf("%s %s: the document does not know the answer %s: %s", r.Method, template, status, body)
			return
		}
		if described.Ref == "" {
			pointer, content = "#/paths/"+escaped(template)+"/"+strings.ToLower(r.Method)+"/responses/"+status+"/content",
				"application/json"
		}
	} else if w.StatusCode != http.StatusNotFound && w.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("%s %s: %d, and the document has no such operation", r.Method, r.URL.Path, w.StatusCode)
	}
	if got := w.Header.Get("Content-Type"); got != content {
		t.Errorf("%s %s: the answer is %s, want %s", r.Method, r.URL.Path, got, content)
	}
	media, _, _ := strings.Cut(content, ";")
	schema, err := d.compiler.Compile(place + pointer + "/" + escaped(media) + "/schema")
	must(t, err)
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	must(t, err)
	if err := schema.Validate(value); err != nil {
		t.Errorf("%s %s: %v\n%s", r.Method, r.URL.Path, err, body)
	}
}

type caller struct {
	t        *testing.T
	node     *nodetest.Node
	handler  http.Handler
	document *described
	from     string // address
	states   string // that goes with the next requests
	seen     map[string]bool
}

func newCaller(t *testing.T, edits ...func(*reputation.Options)) *caller {
	t.Helper()
	return callerOf(t, nodetest.New(t, gatetest.New(t), nil, edits...))
}

func callerOf(t *testing.T, n *nodetest.Node) *caller {
	t.Helper()
	return &caller{
		t: t, node: n, handler: api.Handler(n.Service, api.Options{Now: n.Kit.Clock.Now, Log: zap.NewNop(), Operators: true}),
		document: describe(t), from: "@",
		seen: make(map[string]bool),
	}
}

var must = check.Must

func (c *caller) do(method, path, token string, body []byte) (*http.Response, []byte) {
	c.t.Helper()
	r := httptest.NewRequest(method, "http://node"+path, bytes.NewReader(body))
	r.RemoteAddr = c.from
	if token != "" {
		r.Header.Set(interaction.CallerHeader, token)
	}
	if c.states != "" {
		r.Header.Set(interaction.StatementHeader, c.states)
	}
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	answer := w.Result()
	got, err := io.ReadAll(answer.Body)
	must(c.t, err)
	if method != http.MethodHead {
		c.document.judge(c.t, r, answer, got)
	}
	return answer, got
}

func (c *caller) ok(method, path, token string, body []byte, into any) {
	c.t.Helper()
	w, got := c.do(method, path, token, body)
	if w.StatusCode != http.StatusOK {
		c.t.Fatalf("%s %s: %d %s", method, path, w.StatusCode, got)
	}
	must(c.t, json.Unmarshal(got, into))
}

func (c *caller) get(path string, into any) {
	c.t.Helper()
	c.ok("GET", path, "", nil, into)
}

// posts sends the body as an agent of the session.
func (c *caller) posts(session, path string, body []byte, into any) {
	c.t.Helper()
	c.ok("POST", path, c.node.CallerToken(c.t, session, path, body, nil), body, into)
}

func (c *caller) refusedGet(code, path string) problem.Details {
	c.t.Helper()
	return c.refused(code, "GET", path, "", nil)
}

func (c *caller) refused(code, method, path, token string, body []byte) problem.Details {
	c.t.Helper()
	w, got := c.do(method, path, token, body)
	var d problem.Details
	must(c.t, json.Unmarshal(got, &d))
	if d.Code != code || d.Status != w.StatusCode {
		c.t.Errorf("%s %s: %d %s, want %s", method, path, w.StatusCode, got, code)
	}
	c.seen[code] = true
	return d
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	body, err := json.Marshal(v)
	must(t, err)
	return body
}

type m = map[string]any

const (
	issue  = "/v1/challenge/issue"
	commit = "/v1/challenge/commit"
)

func TestAPI(t *testing.T) {
	c := newCaller(t)
	n := c.node
	var issued reputation.Issued
	c.posts("ses_1", issue, []byte("{}"), &issued)
	raw, hash := nodetest.Plan(t, issued.Nonce, nil)
	var committed reputation.Commitment
	for _, body := range [][]byte{
		encode(t, m{"challenge_nonce": issued.Nonce, "commitment_hash": hash}),
		encode(t, m{"challenge_nonce": issued.Nonce, "salt": nodetest.Salt, "strategy": raw}),
	} {
		c.posts("ses_1", commit, body, &committed)
	}
	if !committed.Revealed || committed.Hash != hash {
		t.Errorf("%+v", committed)
	}
	s := n.Calls(t, "ses_1", 9)
	n.Delivered(t, 10, s.Receipts...)
	for _, path := range []string{"/v1/sessions/ses_1/score", "/v1/sessions/ses_1/challenges"} {
		if _, open := c.do("GET", path, "", nil); bytes.Contains(open, []byte("probes")) {
			t.Errorf("which probes ask the same is told while it matters: %s", open)
		}
	}
	s.Close(t)
	var received struct {
		Sessions []struct {
			Session string
			Next    int64
		}
	}
	c.ok("POST", "/v1/receipts", "", encode(t, m{"receipts": s.Receipts}), &received)
	if len(received.Sessions) != 1 || received.Sessions[0].Next != 11 {
		t.Errorf("%+v", received)
	}
	n.Sampled(t)

	var scored struct {
		Score autonomy.Claims
		Token string
	}
	c.get("/v1/score/"+evidence.HashToken(s.Receipts[3]), &scored)
	if scored.Score.HeadNumber != 10 || scored.Score.Signals.Challenge.Issued != 1 || scored.Score.BaselineHash == "" {
		t.Errorf("%+v", scored)
	}
	var revealed struct{ Revealed []autonomy.Challenge }
	c.get("/v1/sessions/ses_1/challenges", &revealed)
	if len(revealed.Revealed) != 1 || len(revealed.Revealed[0].Probes) != 5 || revealed.Revealed[0].Strategy == nil {
		t.Errorf("%+v", revealed)
	}
	var again struct{ Token string }
	c.get("/v1/sessions/ses_1/score?owner="+s.Owner, &again)
	c.get("/v1/sessions/ses_1/score", &again)
	if again.Token != scored.Token {
		t.Error("there are two scores of one session")
	}
	must(t, n.Enter(t.Context()))
	var reputed struct {
		accrual.Claims
		Token string
	}
	for id, sessions := range map[string]int64{n.Kit.Agent(t).String(): 1, n.Kit.Owner(t) + ":agent/nobody": 0} {
		c.get("/v1/reputation/"+url.PathEscape(id), &reputed)
		signed, err := evidence.UnverifiedClaims(accrual.Kind, reputed.Token)
		if err != nil || !reflect.DeepEqual(signed, reputed.Claims) || signed.AgentID != id ||
			signed.TotalSessions != sessions || signed.Tier != accrual.TierNew {
			t.Errorf("%+v, %v", reputed, err)
		}
	}
	var listed struct{ Agents []accrual.Reputation }
	for after, want := range map[string]int{"": 1, n.Kit.Agent(t).String(): 0} {
		if c.get("/v1/reputation?after="+url.QueryEscape(after), &listed); len(listed.Agents) != want {
			t.Errorf("after %q are %d agents, want %d", after, len(listed.Agents), want)
		}
	}
	for _, after := range []string{"%00", "%ff"} {
		c.refusedGet("query_malformed", "/v1/reputation?after="+after)
	}
	var baseline autonomy.Baseline
	c.get("/v1/baselines/"+scored.Score.BaselineHash, &baseline)
	if w, _ := c.do("GET", "/v1/baselines/"+scored.Score.BaselineHash, "", nil); !strings.Contains(
		w.Header.Get("Cache-Control"), "immutable") {
		t.Error("a baseline is not kept for ever")
	}
	if got, err := baseline.Hash(); err != nil || got != scored.Score.BaselineHash {
		t.Errorf("%s, %v", got, err)
	}
	w, document := c.do("GET", "/openapi.json", "", nil)
	if w.StatusCode != 200 || !bytes.Equal(document, api.Description()) {
		t.Error("the document is not served")
	}
	if w, _ := c.do("HEAD", "/openapi.json", "", nil); w.StatusCode != 200 {
		t.Errorf("HEAD: %d", w.StatusCode)
	}
}

func TestWhatIsRevealed(t *testing.T) {
	c := newCaller(t)
	n := c.node
	own := hex.EncodeToString([]byte("thirty-two bytes, read by others")) // a commitment that is no hash
	kept := func(nonce string) {
		raw, hash := nodetest.Plan(t, nonce, func(s *strategy.Strategy) { s.Tools = []string{"a-text-for-others"} })
		body := encode(t, m{"challenge_nonce": nonce, "commitment_hash": hash})
		c.posts("ses_1", commit, body, &reputation.Commitment{})
		body = encode(t, m{"challenge_nonce": nonce, "salt": nodetest.Salt, "strategy": raw})
		c.posts("ses_1", commit, body, &reputation.Commitment{})
	}
	next := func() string {
		var issued reputation.Issued
		c.posts("ses_1", issue, []byte("{}"), &issued)
		return issued.Nonce
	}
	kept(next())
	last := next()
	body := encode(t, m{"challenge_nonce": last, "commitment_hash": own})
	c.posts("ses_1", commit, body, &reputation.Commitment{})
	s := n.Calls(t, "ses_1", 2)
	s.Close(t)
	n.Delivered(t, 4, s.Receipts...)

	const operators = "/v1/sessions/ses_1/challenges"
	_, told := c.do("GET", operators, "", nil)
	for _, want := range []string{"a-text-for-others", nodetest.Salt, own} {
		if !bytes.Contains(told, []byte(want)) {
			t.Errorf("operators are not told %s: %s", want, told)
		}
	}
	c.refusedGet("not_found", "/v1/sessions/ses_2/challenges")
	inside := c.handler
	c.handler = api.Handler(n.Service, api.Options{Now: n.Kit.Clock.Now, Log: zap.NewNop()})
	if w, got := c.do("GET", operators, "", nil); w.StatusCode != http.StatusNotFound {
		t.Errorf("everybody is told %s", got)
	}
	for where, handler := range map[string]http.Handler{"inside": inside, "outside": c.handler} {
		c.handler = handler
		for _, path := range []string{"/v1/sessions/ses_1/score", "/v1/score/" + evidence.HashToken(s.Receipts[0])} {
			_, got := c.do("GET", path, "", nil)
			for _, text := range []string{"a-text-for-others", nodetest.Salt, own} {
				if bytes.Contains(got, []byte(text)) {
					t.Errorf("%s: %s shows %s", where, path, text)
				}
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	c := newCaller(t)
	n := c.node
	token := func(session, path string, body []byte) string { return n.CallerToken(t, session, path, body, nil) }
	empty := []byte("{}")
	s := n.Calls(t, "ses_1", 3)
	n.Delivered(t, 4, s.Receipts...)
	unknown := evidence.HashBytes(nil)

	c.refusedGet("not_found", "/")
	c.refusedGet("query_malformed", "/v1/reputation/agent:worker-1")
	c.refusedGet("owner_unknown", "/v1/reputation/"+strings.Repeat("o", 43)+":agent:worker-1")
	c.refused("node_method", "POST", "/v1/reputation/"+n.Kit.Agent(t).String(), "", empty)
	c.refused("not_found", "POST", "/v1/disputed", "", empty)
	c.refusedGet("node_method", "/v1/receipts")
	c.refused("node_method", "POST", "/v1/score/"+unknown, "", empty)
	c.refusedGet("not_found", "/v1/score/"+unknown)
	c.refusedGet("not_found", "/v1/sessions/ses_2/score")
	c.refusedGet("not_found", "/v1/baselines/"+unknown)
	for _, body := range []string{"", "[]", "{}", `{"receipts": null, "more": 1}`, `{"receipts": [], "receipts": []}`,
		`{"receipts": [1]}`, `{"receipts": []} {}`} {
		c.refused("query_malformed", "POST", "/v1/receipts", "", []byte(body))
	}
	c.refused("query_malformed", "POST", "/v1/receipts", "", encode(t, m{"receipts": slices.Repeat(s.Receipts[:1], 201)}))
	c.refused("artifact_malformed", "POST", "/v1/receipts", "", encode(t, m{"receipts": []string{"x"}}))
	c.refused("content_too_large", "POST", "/v1/receipts", "", bytes.Repeat([]byte(" "), api.MaxReceipts+1))
	c.refused("content_too_large", "POST", issue, "", bytes.Repeat([]byte(" "), api.MaxRequest+1))

	c.refused("caller_invalid", "POST", issue, "", empty)
	c.refused("caller_invalid", "POST", issue, token("ses_1", commit, empty), empty)
	once := token("ses_1", issue, empty)
	var issued reputation.Issued
	c.ok("POST", issue, once, empty, &issued)
	c.refused("caller_invalid", "POST", issue, once, empty)
	c.refused("query_malformed", "POST", issue, token("ses_1", issue, []byte(`{"a": 1}`)), []byte(`{"a": 1}`))
	raw, hash := nodetest.Plan(t, issued.Nonce, nil)
	for _, row := range []struct {
		code string
		body m
	}{
		{"query_malformed", m{"challenge_nonce": issued.Nonce}},
		{"query_malformed",
			m{"challenge_nonce": issued.Nonce, "commitment_hash": hash, "salt": nodetest.Salt, "strategy": raw}},
		{"query_malformed", m{"challenge_nonce": issued.Nonce, "commitment_hash": "x"}},
		{"not_found", m{"challenge_nonce": "x", "commitment_hash": hash}},
		{"commitment_refused", m{"challenge_nonce": issued.Nonce, "salt": nodetest.Salt, "strategy": raw}},
		{"query_malformed", m{"challenge_nonce": issued.Nonce, "salt": nodetest.Salt, "strategy": m{}}},
		{"", m{"challenge_nonce": issued.Nonce, "commitment_hash": hash}},
		{"commitment_refused", m{"challenge_nonce": issued.Nonce, "commitment_hash": unknown}},
		{"commitment_refused",
			m{"challenge_nonce": issued.Nonce, "salt": "BBBBBBBBBBBBBBBBBBBBBB"[:21] + "A", "strategy": raw}},
	} {
		body := encode(t, row.body)
		if row.code == "" {
			c.posts("ses_1", commit, body, &reputation.Commitment{})
			continue
		}
		c.refused(row.code, "POST", commit, token("ses_1", commit, body), body)
	}
	c.refused("commitment_refused", "POST", issue, token("ses_1", issue, empty), empty)
	s.Close(t)
	n.Delivered(t, 5, s.Receipts...)
	body := encode(t, m{"challenge_nonce": issued.Nonce, "salt": nodetest.Salt, "strategy": raw})
	c.refused("session_full", "POST", commit, token("ses_1", commit, body), body)
	c.refused("session_full", "POST", issue, token("ses_1", issue, empty), empty)
	var late reputation.Issued
	c.posts("ses_3", issue, empty, &late)
	n.Kit.Clock.Advance(reputation.ChallengeLifetime)
	body = encode(t, m{"challenge_nonce": late.Nonce, "commitment_hash": hash})
	c.refused("commitment_refused", "POST", commit, token("ses_3", commit, body), body)
	for range reputation.MaxChallenges - 1 {
		c.posts("ses_3", issue, empty, &late)
		n.Kit.Clock.Advance(reputation.ChallengeLifetime)
	}
	c.refused("session_full", "POST", issue, token("ses_3", issue, empty), empty)

	// The answer has the refusals of a session.
	other := n.Calls(t, "ses_4", 2)
	w, got := c.do("POST", "/v1/receipts", "", encode(t, m{"receipts": other.Receipts[1:]}))
	if w.StatusCode != 200 || !strings.Contains(string(got), `"code":"chain_incomplete"`) ||
		!strings.Contains(string(got), `"next":1`) {
		t.Errorf("%s", got)
	}
	must(t, n.Store.Fork(t.Context(), store.Receipt{Owner: s.Owner, Session: "ses_1", Number: 1, Token: "other"},
		n.Kit.Clock.Now()))
	c.refusedGet("chain_broken", "/v1/sessions/ses_1/score")

	// TestRemovedForItsAge
	c.seen["interaction_expired"] = true
	// the other tests
	c.seen["owner_unknown"], c.seen["owner_full"], c.seen["overloaded"], c.seen["rate_limited"] = true, true, true, true
	for _, code := range problem.Codes() {
		if code.Step == "reputation" && !c.seen[code.Name] {
			t.Errorf("nothing is refused with %s", code.Name)
		}
	}
}

func TestReceiptsOfOthers(t *testing.T) {
	c := newCaller(t, func(o *reputation.Options) { o.Limits.Sessions, o.Limits.Rate = 1, 1 })
	n := c.node
	stranger := gatetest.New(t).Session(t, "ses_1").Call(t, nil)
	a, b := n.Calls(t, "ses_a", 201), n.Calls(t, "ses_b", 1)
	for _, row := range []struct {
		want   string
		tokens []string
	}{
		{`"code":"owner_unknown"`, []string{stranger}},
		{`"next":151`, a.Receipts[:150]},
		{`"retry_after":600`, b.Receipts},
		{`"retry_after":`, a.Receipts[150:]},
	} {
		w, got := c.do("POST", "/v1/receipts", "", encode(t, m{"receipts": row.tokens}))
		if w.StatusCode != 200 || !strings.Contains(string(got), row.want) {
			t.Errorf("%s, want %s", got, row.want)
		}
	}
}

func TestFailuresSayNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret-place.db")
	kept, err := store.Open(context.Background(), path, "")
	must(t, err)
	n := nodetest.New(t, gatetest.New(t), kept)
	c := &caller{t: t, node: n, handler: api.Handler(n.Service, api.Options{Now: n.Kit.Clock.Now, Log: zap.NewNop()}),
		document: describe(t), from: "@", seen: make(map[string]bool)}
	must(t, kept.Close())
	d := c.refusedGet("ledger_unavailable", "/v1/sessions/ses_1/score")
	if strings.Contains(d.Detail, "closed") || strings.Contains(d.Detail, "secret") {
		t.Errorf("%+v", d)
	}
	_, got := c.do("POST", "/v1/receipts", "", encode(t, m{"receipts": n.Calls(t, "ses_1", 1).Receipts}))
	if !strings.Contains(string(got), "ledger_unavailable") || strings.Contains(string(got), "closed") {
		t.Errorf("%s", got)
	}
}

func TestRate(t *testing.T) {
	c := newCaller(t)
	ask := func() (int, string) {
		w, _ := c.do("GET", "/openapi.json", "", nil)
		return w.StatusCode, w.Header.Get("Retry-After")
	}
	for _, from := range []string{"192.0.2.1:7", "[2001:db8::1]:7"} {
		c.from = from
		for range 5 * api.DefaultRate {
			if status, _ := ask(); status != 200 {
				t.Fatalf("%s: %d", from, status)
			}
		}
		if status, later := ask(); status != http.StatusTooManyRequests || later != "1" {
			t.Errorf("%s: %d, Retry-After %q", from, status, later)
		}
	}
	for from, want := range map[string]int{"192.0.2.1:8": 429, "[2001:db8::ffff]:7": 429, "[2001:db8:0:1::1]:7": 200,
		"192.0.2.2:7": 200, "@": 200, "": 200} {
		c.from = from
		if status, _ := ask(); status != want {
			t.Errorf("%s: %d, want %d", from, status, want)
		}
	}
}

func TestCostOfRefusals(t *testing.T) {
	c := newCaller(t, func(o *reputation.Options) { o.Limits.Sessions = 1 })
	c.node.Delivered(t, 2, c.node.Calls(t, "ses_0", 1).Receipts...)
	var receipts []string
	for i := range 2 * api.DefaultRate {
		receipts = append(receipts, c.node.Calls(t, "ses_"+strconv.Itoa(i+1), 1).Receipts...)
	}
	for from, body := range map[string][]byte{
		"192.0.2.1:7": encode(t, m{"receipts": receipts}),
		"192.0.2.2:7": encode(t, m{"receipts": []string{strings.Repeat("a", 3<<20)}}),
		"192.0.2.3:7": bytes.Repeat([]byte(" "), 3<<20),
	} {
		c.from = from
		allowed := 0
		for ; allowed <= 5; allowed++ {
			if w, _ := c.do("POST", "/v1/receipts", "", body); w.StatusCode == http.StatusTooManyRequests {
				break
			}
		}
		if allowed < 1 || allowed > 3 { // of 100 requests
			t.Errorf("%s: %d deliveries", from, allowed)
		}
	}
	c.from = "192.0.2.4:7"
	for range 4 * api.DefaultRate { // what is taken costs no more than a request
		c.ok("POST", "/v1/receipts", "", encode(t, m{"receipts": c.node.Calls(t, "ses_0", 1).Receipts}), new(m))
	}
}

type noticed struct {
	io.ReadCloser
	read chan<- struct{}
	once sync.Once
}

func (n *noticed) Read(p []byte) (int, error) {
	n.once.Do(func() { n.read <- struct{}{} })
	return n.ReadCloser.Read(p)
}

func TestBytesInFlight(t *testing.T) {
	c := newCaller(t)
	reading := make(chan struct{}, 16)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.RemoteAddr = r.Header.Get("From")
		r.Body = &noticed{ReadCloser: r.Body, read: reading}
		c.handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	var writers []*io.PipeWriter
	answers := make(chan int, 16)
	fill := func(from string, deliveries int) {
		for range deliveries {
			body, w := io.Pipe()
			writers = append(writers, w)
			r, err := http.NewRequest(http.MethodPost, server.URL+"/v1/receipts", body)
			must(t, err)
			r.Header.Set("From", from)
			go func() {
				resp, err := http.DefaultClient.Do(r)
				if err != nil {
					answers <- 0
					return
				}
				resp.Body.Close()
				answers <- resp.StatusCode
			}()
			_, err = w.Write([]byte("{"))
			must(t, err)
			select {
			case <-reading: // it was admitted
			case <-time.After(time.Minute):
				t.Fatal("a delivery is not read")
			}
		}
	}
	ask := func(from, method, path string, body []byte) int {
		c.from = from
		w, _ := c.do(method, path, "", body)
		return w.StatusCode
	}
	small := []byte(`{"receipts": []}`)
	large := append(small, bytes.Repeat([]byte(" "), api.MaxRequest)...)
	status := func(from string) int { return ask(from, "POST", "/v1/receipts", large) }
	becomes := func(from string, want int) bool {
		for end := time.Now().Add(time.Minute); time.Now().Before(end); runtime.Gosched() {
			switch status(from) {
			case want:
				return true
			case http.StatusTooManyRequests:
				c.node.Kit.Clock.Advance(time.Second)
			}
		}
		return false
	}
	wants := func(from string, want int) {
		t.Helper()
		if got := status(from); got != want {
			t.Errorf("%s: %d, want %d", from, got, want)
		}
	}
	fill("192.0.2.1:7", 2) // of unknown length, so each counts as the longest
	wants("192.0.2.1:8", http.StatusServiceUnavailable)
	wants("192.0.2.2:7", http.StatusOK)
	wants("@", http.StatusOK)
	fill("192.0.2.2:7", 1)
	wants("192.0.2.2:7", http.StatusServiceUnavailable)
	wants("192.0.2.3:7", http.StatusOK)
	if get, post := ask("192.0.2.2:7", "GET", "/openapi.json", nil),
		ask("192.0.2.2:7", "POST", "/v1/receipts", small); get != http.StatusOK || post != http.StatusOK {
		t.Errorf("small requests beside large ones: %d, %d", get, post)
	}
	for _, w := range writers {
		w.Close()
		if status := <-answers; status != http.StatusBadRequest {
			t.Errorf("%d", status)
		}
	}
	if !becomes("192.0.2.1:8", http.StatusOK) {
		t.Error("the bytes are not given back")
	}
}

func TestMCP(t *testing.T) {
	c := newCaller(t)
	if w, _ := c.do("POST", api.MCPPath, "", nil); w.StatusCode != http.StatusNotFound {
		t.Errorf("without MCP: %d", w.StatusCode)
	}
	c.handler = api.Handler(c.node.Service,
		api.Options{Now: c.node.Kit.Clock.Now, Log: zap.NewNop(), MCP: http.HandlerFunc(func(http.ResponseWriter,
			*http.Request) {
		})})
	ask := func() int {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "http://node"+api.MCPPath, nil)
		r.RemoteAddr = c.from
		c.handler.ServeHTTP(w, r)
		return w.Code
	}
	c.from = "192.0.2.1:7"
	for range 5 * api.DefaultRate {
		if status := ask(); status != 200 {
			t.Fatal(status)
		}
	}
	if status := ask(); status != http.StatusTooManyRequests {
		t.Errorf("too many of one address: %d", status)
	}
}

func TestDescription(t *testing.T) {
	d := describe(t)
	var document struct {
		OpenAPI    string
		Components struct{ Schemas map[string]any }
	}
	must(t, json.Unmarshal(api.Description(), &document))
	if !strings.HasPrefix(document.OpenAPI, "3.1") {
		t.Errorf("it is OpenAPI %s", document.OpenAPI)
	}
	for name := range document.Components.Schemas {
		if _, err := d.compiler.Compile(place + "#/components/schemas/" + name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := newCaller(t)
	c.handler = api.Handler(c.node.Service, api.Options{Now: c.node.Kit.Clock.Now, Log: zap.NewNop(), Operators: true,
		MCP: http.NotFoundHandler(), Pins: func() ([]byte, error) { return nil, nil }})
	for path, methods := range d.Paths {
		for method, op := range methods {
			var got problem.Details
			r := httptest.NewRequest(strings.ToUpper(method), "http://node"+strings.NewReplacer("{", "", "}", "").Replace(path),
				nil)
			w := httptest.NewRecorder()
			c.handler.ServeHTTP(w, r)
			if problem.Is(w.Header()) {
				must(t, json.Unmarshal(w.Body.Bytes(), &got))
			}
			if strings.HasPrefix(got.Detail, "the node has no endpoint") || got.Code == "node_method" ||
				(got.Code == "caller_invalid") != needed(op.Security) {
				t.Errorf("%s %s: %s", method, path, got.Code)
			}
		}
	}
}

func needed(security []map[string][]any) bool {
	return len(security) > 0 && !slices.ContainsFunc(security, func(way map[string][]any) bool { return len(way) == 0 })
}

// FuzzBodies: each answer is described, and only receipts of the owner are kept.
func FuzzBodies(f *testing.F) {
	k := gatetest.New(f)
	n := nodetest.New(f, k, nil, func(o *reputation.Options) { o.Limits.Calls = 1 << 20 })
	h := api.Handler(n.Service, api.Options{Now: k.Clock.Now, Log: zap.NewNop()})
	s := n.Calls(f, "ses_1", 2)
	f.Add(true, encode(f, m{"receipts": s.Receipts}))
	f.Add(true, []byte(`{"receipts": [""]}`))
	f.Add(false, []byte(`{"challenge_nonce": "n", "commitment_hash": "`+evidence.HashBytes(nil)+`"}`))
	f.Add(false,
		[]byte(
			`{"challenge_nonce": "n", "salt": "AAAAAAAAAAAAAAAAAAAAAA", "strategy": {"tools": [], "hosts": [], "model": `+
				`"m", "calls": {"min": 1, "max": 2}}}`))
	f.Fuzz(func(t *testing.T, deliver bool, body []byte) {
		c := &caller{t: t, node: n, handler: h, document: describe(t), from: "@", seen: make(map[string]bool)}
		if deliver {
			c.do("POST", "/v1/receipts", "", body)
		} else {
			c.do("POST", commit, n.CallerToken(t, "ses_9", commit, body, nil), body)
		}
		if kept, err := n.Store.Receipts(t.Context(), s.Owner, "ses_1", 1, 10); err != nil || len(kept) > 2 ||
			len(kept) > 0 && kept[0].Token != s.Receipts[0] {
			t.Errorf("%d receipts, %v", len(kept), err)
		}
	})
}
