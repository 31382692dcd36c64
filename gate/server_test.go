package gate_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

type api struct {
	kit    *gatetest.Kit
	used   gatetest.Used
	server *httptest.Server
	client *gate.Client
	posts  atomic.Int32
	bodies sync.Map
}

func bind(*http.Request) (subject, action string) { return "agent:worker-1", "create_post" }

func newAPI(t testing.TB, more ...func(a *api, s *gate.Server, mux *http.ServeMux)) *api {
	t.Helper()
	a := &api{kit: gatetest.New(t)}
	s, err := gate.NewServer(a.kit.Gate, a.used.Consume)
	check.Must(t, err)
	made := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		a.bodies.Store(string(body), true)
		a.posts.Add(1)
		w.WriteHeader(http.StatusCreated)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /challenge", s.Challenge())
	mux.Handle("POST /verify", s.Verify())
	mux.Handle("/posts", s.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if gate.TransactionFrom(r.Context()) != nil || gate.Tx(r.Context()) != nil {
			t.Error("there is a transaction that nobody has begun")
		}
		made(w, r)
	}), gate.Protect{Bind: bind, MaxBody: 4096}))
	mux.Handle("/raw", s.Middleware(http.HandlerFunc(made), gate.Protect{Bind: bind, Raw: true}))
	for _, add := range more {
		add(a, s, mux)
	}
	a.serve(t, mux)
	return a
}

func clientOf(t testing.TB, server *httptest.Server) *gate.Client {
	t.Helper()
	c, err := gate.NewClient(gate.ClientOptions{ChallengeURL: server.URL + "/challenge", VerifyURL: server.URL + "/verify",
		HTTP: server.Client(), Now: time.Now})
	check.Must(t, err)
	return c
}

func answering(t *testing.T, answer http.HandlerFunc) *gate.Client {
	t.Helper()
	server := httptest.NewTLSServer(answer)
	t.Cleanup(server.Close)
	return clientOf(t, server)
}

// serve serves the API's endpoints, without the server's own log.
func (a *api) serve(t testing.TB, mux http.Handler) {
	t.Helper()
	a.server = httptest.NewUnstartedServer(mux)
	a.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	a.server.StartTLS()
	t.Cleanup(a.server.Close)
	a.client = clientOf(t, a.server)
}

func (a *api) earn(t testing.TB, b evidence.Binding) string {
	t.Helper()
	ch, err := a.client.Challenge(t.Context(), b)
	check.Must(t, err)
	r := a.kit.Over(t, gatetest.Plan{Binding: b}, ch)
	r.Binding = *ch.Binding
	admitted, err := a.client.Admit(t.Context(), r)
	check.Must(t, err)
	return admitted.Capability
}

func bound(resource, content string) evidence.Binding {
	b := gatetest.Binding()
	b.Resource, b.ContentHash = resource, evidence.HashBytes([]byte(content))
	if hash, err := evidence.HashJSON([]byte(content)); err == nil {
		b.ContentHash = hash
	}
	return b
}

func (a *api) request(t testing.TB, capability, target, content string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.server.URL+target,
		strings.NewReader(content))
	check.Must(t, err)
	r.Header.Set("Authorization", gatetest.Token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(gate.CapabilityHeader, capability)
	r.Header.Set(gate.RequestProofHeader, a.kit.Proof(t, capability, gatetest.Token))
	return r
}

func (a *api) do(t testing.TB, r *http.Request) (status int, code string) {
	t.Helper()
	resp, err := a.server.Client().Do(r)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer resp.Body.Close()
	var d problem.Details
	if got := resp.Header.Get("WWW-Authenticate"); (got == "ActionProof") != (resp.StatusCode == http.StatusUnauthorized) {
		t.Errorf("%d with the challenge %q", resp.StatusCode, got)
	}
	if resp.StatusCode >= 400 {
		if resp.Header.Get("Content-Type") != problem.ContentType {
			t.Errorf("a refusal came as %s", resp.Header.Get("Content-Type"))
		}
		if err := json.NewDecoder(resp.Body).Decode(&d); err != nil {
			t.Error(err)
		}
	}
	return resp.StatusCode, d.Code
}

func TestMiddleware(t *testing.T) {
	t.Parallel()
	header := func(name string, values ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header[name] = values }
	}
	content := func(s string) func(*http.Request) {
		return func(r *http.Request) {
			r.Body, r.ContentLength, r.GetBody = io.NopCloser(strings.NewReader(s)), int64(len(s)), nil
		}
	}
	const capability, proof = gate.CapabilityHeader, gate.RequestProofHeader
	for _, row := range []struct {
		name   string
		status int
		code   string
		change func(*http.Request)
	}{
		{"as it was verified", 201, "", func(*http.Request) {}},
		{"JSON keys in another order", 201, "", content(`{"to":"world","text":"hello"}`)},
		{"JSON with other white space", 201, "", content("{\n  \"text\": \"hello\",\n  \"to\": \"world\"\n}\n")},
		{"JSON with escapes of equal value", 201, "", content(`{"text":"\u0068ello","to":"world"}`)},
		{"content changed by one byte", 403, "artifacts_mismatch", content(`{"text":"hellp","to":"world"}`)},
		{"a member added", 403, "artifacts_mismatch", content(`{"text":"hello","to":"world","x":null}`)},
		{"a member twice", 422, "content_malformed", content(`{"text":"hello","to":"world","to":"world"}`)},
		{"a second value", 422, "content_malformed", content(gatetest.Content + gatetest.Content)},
		{"no JSON", 422, "content_malformed", content(`text=hello`)},
		{"nothing", 422, "content_malformed", content(``)},
		{"content too large", 413, "content_too_large", content(`"` + strings.Repeat("x", 5000) + `"`)},
		{"a number that a double cannot hold", 422, "content_malformed", content(`{"text":9007199254740993}`)},
		{"a bearer token alone", 401, "proof_missing", func(r *http.Request) {
			r.Header.Del(capability)
			r.Header.Del(proof)
		}},
		{"no capability", 401, "proof_missing", func(r *http.Request) { r.Header.Del(capability) }},
		{"no request proof", 401, "proof_missing", func(r *http.Request) { r.Header.Del(proof) }},
		{"an empty request proof", 401, "proof_missing", header(http.CanonicalHeaderKey(proof), "")},
		{"two capabilities", 401, "proof_missing", header(http.CanonicalHeaderKey(capability), "a", "b")},
		{"two request proofs", 401, "proof_missing", header(http.CanonicalHeaderKey(proof), "a", "b")},
		{"another access token", 403, "proof_access_token", header("Authorization", "Bearer stolen")},
		{"another scheme of authorization", 403, "proof_access_token",
			header("Authorization", strings.ToLower(gatetest.Token))},
		{"no access token", 403, "proof_access_token", header("Authorization")},
		{"two access tokens", 403, "proof_access_token", header("Authorization", gatetest.Token, "Bearer stolen")},
		{"a query", 403, "artifacts_mismatch", func(r *http.Request) { r.URL.RawQuery = "draft=1" }},
		{"an empty query", 403, "artifacts_mismatch", func(r *http.Request) { r.URL.ForceQuery = true }},
		{"another method", 403, "artifacts_mismatch", func(r *http.Request) { r.Method = http.MethodPut }},
		{"another spelling of the path", 403, "artifacts_mismatch",
			func(r *http.Request) { r.URL.RawPath = "/%70osts" }},
		{"an encoded body", 422, "content_malformed", header("Content-Encoding", "br")},
		{"another type", 422, "content_malformed", header("Content-Type", "application/x-www-form-urlencoded")},
		{"no type", 422, "content_malformed", header("Content-Type")},
		{"another charset", 422, "content_malformed", header("Content-Type", "application/json; charset=utf-16")},
		{"a type of its own, and no encoding", 201, "", func(r *http.Request) {
			r.Header["Content-Type"], r.Header["Content-Encoding"] = []string{"application/x+json; charset=UTF-8"},
				[]string{"identity"}
		}},
		{"trailers", 400, "request_malformed", func(r *http.Request) {
			r.ContentLength, r.Trailer = -1, http.Header{"X-Method": {"DELETE"}}
		}},
		{"a method override", 400, "override_refused", header("X-Http-Method-Override", "DELETE")},
		{"a method override as CGI spells it", 400, "override_refused", header("X_http_method_override", "DELETE")},
		{"a method override in the query", 400, "override_refused", func(r *http.Request) {
			r.URL.RawQuery = "_method=DELETE"
		}},
		{"proof and capability exchanged", 403, "artifact_malformed", func(r *http.Request) {
			c, p := r.Header.Get(capability), r.Header.Get(proof)
			r.Header.Set(capability, p)
			r.Header.Set(proof, c)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t)
			token := a.earn(t, bound("POST /posts", gatetest.Content))
			consumed := a.used.Calls()
			r := a.request(t, token, "/posts", gatetest.Content)
			row.change(r)
			status, code := a.do(t, r)
			if status != row.status || code != row.code {
				t.Errorf("got %d %s, want %d %s", status, code, row.status, row.code)
			}
			if row.status == http.StatusCreated {
				if a.posts.Load() != 1 {
					t.Error("the post was not made")
				}
				return
			}
			if a.posts.Load() != 0 || a.used.Calls() != consumed {
				t.Error("a refused post has been made or has consumed something")
			}
			if status, code := a.do(t, a.request(t, token, "/posts", gatetest.Content)); status != http.StatusCreated {
				t.Errorf("the valid post is refused afterwards: %d %s", status, code)
			}
		})
	}
}

func TestMiddlewareWithoutBind(t *testing.T) {
	t.Parallel()
	a := newAPI(t, func(_ *api, s *gate.Server, mux *http.ServeMux) {
		mux.Handle("/unbound", s.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			t.Error("a post was made")
		}), gate.Protect{}))
	})
	token := a.earn(t, bound("POST /unbound", gatetest.Content))
	consumed := a.used.Calls()
	if status, code := a.do(t, a.request(t, token, "/unbound", gatetest.Content)); status !=
		http.StatusInternalServerError || code != "internal" {
		t.Errorf("got %d %s", status, code)
	}
	if a.used.Calls() != consumed {
		t.Error("a refused post has consumed something")
	}
}

func TestBodyArrives(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	const spelt = `{ "to":"world", "text":"hello" }`
	if status, code := a.do(t, a.request(t, a.earn(t, bound("POST /posts", gatetest.Content)), "/posts", spelt)); status !=
		http.StatusCreated {
		t.Fatal(status, code)
	}
	if _, ok := a.bodies.Load(spelt); !ok {
		t.Error("the handler read another body than was sent")
	}
}

func TestStreamArrives(t *testing.T) {
	t.Parallel()
	var length atomic.Int64
	a := newAPI(t, func(_ *api, s *gate.Server, mux *http.ServeMux) {
		mux.Handle("/stream", s.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			length.Store(r.ContentLength)
			if r.TransferEncoding != nil {
				t.Errorf("it comes as %s", r.TransferEncoding)
			}
			w.WriteHeader(http.StatusCreated)
		}), gate.Protect{Bind: bind}))
	})
	r := a.request(t, a.earn(t, bound("POST /stream", gatetest.Content)), "/stream", gatetest.Content)
	r.ContentLength = -1
	if status, code := a.do(t, r); status != http.StatusCreated || length.Load() != int64(len(gatetest.Content)) {
		t.Errorf("got %d %s, and a body of %d bytes", status, code, length.Load())
	}
}

// TestTrailersUnannounced: net/http shows them only after the body.
func TestTrailersUnannounced(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	r := a.request(t, a.earn(t, bound("POST /posts", gatetest.Content)), "/posts", gatetest.Content)
	c, err := tls.Dial("tcp", a.server.Listener.Addr().String(),
		a.server.Client().Transport.(*http.Transport).TLSClientConfig)
	check.Must(t, err)
	defer c.Close()
	var head strings.Builder
	check.Must(t, r.Header.Write(&head))
	fmt.Fprintf(c,
		"POST /posts HTTP/1.1\r\nHost: %s\r\nTransfer-Encoding: chunked\r\n%s\r\n%x\r\n%s\r\n0\r\nX-Method: DELETE\r\n\r\n",
		r.URL.Host, head.String(), len(gatetest.Content), gatetest.Content)
	resp, err := http.ReadResponse(bufio.NewReader(c), r)
	check.Must(t, err)
	defer resp.Body.Close()
	var d problem.Details
	if err := json.NewDecoder(resp.Body).Decode(&d); err != nil || resp.StatusCode != http.StatusBadRequest ||
		d.Code != "request_malformed" || a.posts.Load() != 0 {
		t.Errorf("got %d %s, %v, and %d posts", resp.StatusCode, d.Code, err, a.posts.Load())
	}
}

func TestReplay(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	token := a.earn(t, bound("POST /posts", gatetest.Content))
	first := a.request(t, token, "/posts", gatetest.Content)
	for i, want := range []struct {
		status int
		code   string
	}{{201, ""}, {409, "replayed"}} {
		r := first.Clone(t.Context())
		r.Body = io.NopCloser(strings.NewReader(gatetest.Content))
		if status, code := a.do(t, r); status != want.status || code != want.code {
			t.Errorf("post %d: got %d %s, want %d %s", i+1, status, code, want.status, want.code)
		}
	}
	if status, code := a.do(t, a.request(t, token, "/posts", gatetest.Content)); status != 409 || code != "replayed" {
		t.Errorf("with a fresh proof: got %d %s", status, code)
	}
	if a.posts.Load() != 1 {
		t.Errorf("%d posts were made", a.posts.Load())
	}
}

func TestProofOnce(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	b := bound("POST /posts", gatetest.Content)
	first, second := a.earn(t, b), a.earn(t, b)
	r := a.request(t, second, "/posts", gatetest.Content)
	r.Header.Set(gate.RequestProofHeader, a.kit.Proof(t, first, gatetest.Token))
	if status, code := a.do(t, r); status != 403 || code != "artifacts_mismatch" {
		t.Errorf("got %d %s", status, code)
	}
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	made, replayed := a.race(t, "/posts")
	if made != 1 || replayed != 63 || a.posts.Load() != 1 {
		t.Errorf("%d made, %d replayed, %d in the endpoint", made, replayed, a.posts.Load())
	}
}

func (a *api) race(t *testing.T, path string) (made, replayed int32) {
	t.Helper()
	token := a.earn(t, bound("POST "+path, gatetest.Content))
	var ok, again atomic.Int32
	var all sync.WaitGroup
	start := make(chan struct{})
	for range 64 {
		r := a.request(t, token, path, gatetest.Content)
		all.Go(func() {
			<-start
			switch status, code := a.do(t, r); {
			case status == http.StatusCreated:
				ok.Add(1)
			case status == http.StatusConflict && code == "replayed":
				again.Add(1)
			default:
				t.Errorf("got %d %s", status, code)
			}
		})
	}
	close(start)
	all.Wait()
	return ok.Load(), again.Load()
}

func TestConcurrentVerify(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	b := bound("POST /posts", gatetest.Content)
	ch, err := a.client.Challenge(t.Context(), b)
	check.Must(t, err)
	r := a.kit.Over(t, gatetest.Plan{Binding: b}, ch)
	r.Binding = *ch.Binding
	var minted atomic.Int32
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if _, err := a.client.Admit(t.Context(), r); err == nil {
				minted.Add(1)
			} else {
				gatetest.WantCode(t, err, "replayed")
			}
		})
	}
	all.Wait()
	if minted.Load() != 1 {
		t.Errorf("%d capabilities were minted", minted.Load())
	}
}

func TestResource(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	s, err := gate.NewServer(a.kit.Gate, a.used.Consume)
	check.Must(t, err)
	h := s.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
	}), gate.Protect{
		Bind: bind, Resource: func(r *http.Request) string { return r.Method + " /v1" + r.URL.EscapedPath() },
	})
	for resource, want := range map[string]int{"POST /v1/posts": http.StatusCreated, "POST /posts": http.StatusForbidden} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, a.request(t, a.earn(t, bound(resource, gatetest.Content)), "/posts", gatetest.Content))
		if w.Code != want {
			t.Errorf("%s: got %d, want %d", resource, w.Code, want)
		}
	}
}

type broken struct{ read *bool }

func (b broken) Read([]byte) (int, error) { *b.read = true; return 0, io.ErrUnexpectedEOF }

func TestBodyBreaksOff(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	s, err := gate.NewServer(a.kit.Gate, a.used.Consume)
	check.Must(t, err)
	token := a.earn(t, bound("POST /posts", gatetest.Content))
	consumed := a.used.Calls()
	h := s.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the post was made")
	}), gate.Protect{Bind: bind})
	for name, want := range map[string]struct {
		code string
		read bool
	}{gate.CapabilityHeader: {"proof_missing", false}, gate.RequestProofHeader: {"proof_missing", false},
		"": {"content_incomplete", true}} {
		r, read := a.request(t, token, "/posts", gatetest.Content), false
		r.Body = io.NopCloser(broken{&read})
		r.Header.Del(name)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		var d problem.Details
		if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || d.Code != want.code || read != want.read {
			t.Errorf("without %q: got %d %s, and whether the body was read: %t", name, w.Code, w.Body, read)
		}
	}
	if a.used.Calls() != consumed {
		t.Error("a refused post has consumed something")
	}
}

func TestRaw(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	const form = "text=hello&to=world"
	if status, code := a.do(t, a.request(t, a.earn(t, bound("POST /raw", form)), "/raw", form)); status !=
		http.StatusCreated {
		t.Errorf("got %d %s", status, code)
	}
	b := bound("POST /raw", form)
	b.ContentHash = evidence.HashBytes([]byte(gatetest.Content))
	token := a.earn(t, b)
	if status, code := a.do(t, a.request(t, token, "/raw", `{"to":"world","text":"hello"}`)); status != 403 ||
		code != "artifacts_mismatch" {
		t.Errorf("reordered JSON, hashed as it is: got %d %s", status, code)
	}
	if status, code := a.do(t, a.request(t, token, "/raw", gatetest.Content)); status != http.StatusCreated {
		t.Errorf("got %d %s", status, code)
	}
}

func TestConsumeFails(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	token := a.earn(t, bound("POST /posts", gatetest.Content))
	a.used.Fail = errors.New("password of the database: hunter2")
	if status, code := a.do(t, a.request(t, token, "/posts", gatetest.Content)); status != 500 || code != "internal" {
		t.Errorf("got %d %s", status, code)
	}
	if a.posts.Load() != 0 {
		t.Error("a post was made although nothing was consumed")
	}
}

func TestVerifyConsumesFirst(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	ch, err := a.client.Challenge(t.Context(), gatetest.Binding())
	check.Must(t, err)
	r := a.kit.Over(t, gatetest.Plan{}, ch)
	r.Binding = *ch.Binding
	a.used.Fail = errors.New("password of the database: hunter2")
	admitted, err := a.client.Admit(t.Context(), r)
	if err == nil || strings.Contains(err.Error(), "hunter2") || admitted.Capability != "" || len(admitted.Keys) != 0 ||
		a.used.Calls() != 1 {
		t.Errorf("%+v, %v, after %d attempts to consume", admitted, err, a.used.Calls())
	}
	a.used.Fail = nil
	admitted, err = a.client.Admit(t.Context(), r)
	if err != nil || admitted.Capability == "" || len(a.used.Kinds()) != 7 || len(admitted.Keys) != 1 ||
		admitted.Keys[0].ID != admitted.CapabilityID {
		t.Errorf("%+v, %v, with %v consumed", admitted, err, a.used.Kinds())
	}
	admitted, err = a.client.Admit(t.Context(), r)
	gatetest.WantCode(t, err, "replayed")
	if admitted.Capability != "" {
		t.Error("a replayed chain has earned a capability")
	}
}

func TestClientKeepsCodes(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	_, err := a.client.Challenge(t.Context(), evidence.Binding{Subject: "agent:worker-1"})
	gatetest.WantCode(t, err, "artifact_malformed")
	r := a.kit.Build(t, gatetest.Claim(evidence.PurposeAgentSession, "humanPromptPresent", true))
	_, err = a.client.Admit(t.Context(), r)
	gatetest.WantCode(t, err, "human_involved")
	if a.used.Calls() != 0 {
		t.Error("a refused chain has consumed something")
	}
	_, err = a.client.Admit(t.Context(), gate.AdmitRequest{})
	gatetest.WantCode(t, err, "artifact_missing")
	a.server.Close()
	_, err = a.client.Challenge(t.Context(), gatetest.Binding())
	gatetest.WantCode(t, err, "gate_unavailable")
}

// TestClientQuotes: the record must not take an API's words for the mediator's.
func TestClientQuotes(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]struct{ code, detail string }{
		`{"code":"session_tainted","detail":"a terminal"}`: {"session_tainted",
			"the API's gate refused, and said: a terminal"},
		`{"code":"session_tainted","detail":"\u009b2J` + strings.Repeat("a", 600) +
			`"}`: {"session_tainted", "the API's gate refused, and said: ?2J" + strings.Repeat("a", 497)},
		`{"code":"quota","detail":"none left"}`: {"gate_unavailable",
			`the API's gate refused with the code "quota", which the mediator does not know, and said: none left`},
	} {
		c := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", problem.ContentType)
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, answer)
		})
		_, err := c.Challenge(t.Context(), gatetest.Binding())
		gatetest.WantCode(t, err, want.code)
		if err.Error() != want.detail {
			t.Errorf("got %q, want %q", err, want.detail)
		}
	}
}

func TestClientDistrusts(t *testing.T) {
	t.Parallel()
	k := gatetest.New(t)
	r := k.Chain(t)
	for _, row := range []struct{ name, answer, code string }{
		{"nothing", `{}`, "gate_unavailable"},
		{"no capability", `{"capabilityId":"i","bindingHash":"` + r.Binding.Hash() + `"}`, "gate_unavailable"},
		{"no capability id", `{"capability":"c","bindingHash":"` + r.Binding.Hash() + `"}`, "gate_unavailable"},
		{"a capability that no header takes",
			`{"capability":"c\nX: y","capabilityId":"i","bindingHash":"` + r.Binding.Hash() + `"}`, "gate_unavailable"},
		{"a capability without end",
			`{"capability":"` + strings.Repeat("c", 17<<10) + `","capabilityId":"i","bindingHash":"` + r.Binding.Hash() + `"}`,
			"gate_unavailable"},
		{"a capability id without end",
			`{"capability":"c","capabilityId":"` + strings.Repeat("i", 257) + `","bindingHash":"` + r.Binding.Hash() + `"}`,
			"gate_unavailable"},
		{"another binding", `{"capability":"c","capabilityId":"i","bindingHash":"` + other + `"}`, "gate_unavailable"},
		{"no JSON", `<html>`, "gate_unavailable"},
	} {
		c := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, row.answer)
		})
		a, err := c.Admit(t.Context(), r)
		gatetest.WantCode(t, err, row.code)
		if a.Capability != "" || len(a.Keys) != 0 {
			t.Errorf("%s: there is a capability", row.name)
		}
	}
	if _, err := gate.NewServer(nil, new(gatetest.Used).Consume); err == nil {
		t.Error("a server was made without a gate")
	}
	if _, err := gate.NewServer(k.Gate, nil); err == nil {
		t.Error("a server was made that consumes nothing")
	}
}

func TestClientURLs(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]bool{
		"https://api.example/challenge": true, "https://127.0.0.1:8443/challenge": true,
		"http://127.0.0.1:8080/challenge": false,
		"http://api.example/challenge":    false, "ftp://127.0.0.1/": false, "api.example": false, "https://": false,
		"https://:443/": false,
		"://":           false, "": false,
	} {
		for _, o := range []gate.ClientOptions{{ChallengeURL: "https://api.example/c", VerifyURL: raw},
			{ChallengeURL: raw, VerifyURL: "https://api.example/v"}} {
			o.HTTP, o.Now = http.DefaultClient, time.Now
			if _, err := gate.NewClient(o); (err == nil) != want {
				t.Errorf("%+v: %v", o, err)
			}
		}
	}
	for missing, o := range map[string]gate.ClientOptions{"an HTTP client": {Now: time.Now},
		"a clock": {HTTP: http.DefaultClient}} {
		o.ChallengeURL, o.VerifyURL = "https://api.example/c", "https://api.example/v"
		if _, err := gate.NewClient(o); err == nil {
			t.Error("a client was made without", missing)
		}
	}
}

func TestClientAdmits(t *testing.T) {
	t.Parallel()
	r := gatetest.New(t).Chain(t)
	c := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"capability":"c","capabilityId":"i","bindingHash":"`+r.Binding.Hash()+`"}`)
	})
	a, err := c.Admit(t.Context(), r)
	if err != nil || len(a.Checks) != 1 || a.Checks[0].Name != gate.CheckByAPI || !a.Checks[0].OK {
		t.Errorf("got %+v, %v", a, err)
	}
}

func TestClientDistrustsChallenges(t *testing.T) {
	t.Parallel()
	k := gatetest.New(t)
	asked := gatetest.Binding()
	altered := func(change func(*challenge.Challenge)) challenge.Challenge {
		ch, err := k.Gate.Challenge(t.Context(), asked)
		check.Must(t, err)
		change(&ch)
		return ch
	}
	for name, answer := range map[string]any{
		"nothing":           struct{}{},
		"no token":          altered(func(ch *challenge.Challenge) { ch.Token = "" }),
		"a token too large": altered(func(ch *challenge.Challenge) { ch.Token = strings.Repeat("t", 17<<10) }),
		"an id of any text": altered(func(ch *challenge.Challenge) { ch.ID = "\u009b2J" }),
		"no binding":        altered(func(ch *challenge.Challenge) { ch.Binding = nil }),
		"no nonce":          altered(func(ch *challenge.Challenge) { ch.Binding.Nonce = "" }),
		"other content":     altered(func(ch *challenge.Challenge) { ch.Binding.ContentHash = other }),
		"another subject":   altered(func(ch *challenge.Challenge) { ch.Binding.Subject = "agent:other" }),
		"another resource":  altered(func(ch *challenge.Challenge) { ch.Binding.Resource = "POST /other" }),
		"a nonce too large": altered(func(ch *challenge.Challenge) { ch.Binding.Nonce = strings.Repeat("n", 257) }),
	} {
		c := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			wire.Write(w, answer, nil)
		})
		ch, err := c.Challenge(t.Context(), asked)
		gatetest.WantCode(t, err, "gate_unavailable")
		if ch.Token != "" || ch.Binding != nil {
			t.Errorf("%s: there is a challenge", name)
		}
	}
}

func TestClientStays(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the client went elsewhere")
	}))
	defer elsewhere.Close()
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		c := answering(t, http.RedirectHandler(elsewhere.URL, status).ServeHTTP)
		_, err := c.Challenge(t.Context(), gatetest.Binding())
		gatetest.WantCode(t, err, "gate_unavailable")
		_, err = c.Admit(t.Context(), gate.AdmitRequest{Binding: gatetest.Binding()})
		gatetest.WantCode(t, err, "gate_unavailable")
	}
}

func TestVerifyIsStrict(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	whole := verifyRequest(t, a.kit)
	for _, row := range []struct{ name, body, code string }{
		{"nothing", ``, "query_malformed"},
		{"an unknown member", `{"x":1,` + whole[1:], "query_malformed"},
		{"a member twice", `{"binding":{},` + whole[1:], "query_malformed"},
		{"two values", whole + whole, "query_malformed"},
		{"too large", `"` + strings.Repeat("x", 300<<10) + `"`, "query_malformed"},
		{"an empty envelope", `{"envelope":{},"binding":{}}`, "artifact_missing"},
		{"null", `null`, "artifact_missing"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.server.URL+"/verify",
			strings.NewReader(row.body))
		check.Must(t, err)
		if _, code := a.do(t, r); code != row.code {
			t.Errorf("%s: got %s, want %s", row.name, code, row.code)
		}
	}
	if a.used.Calls() != 0 {
		t.Error("something was consumed")
	}
}

func verifyRequest(t testing.TB, k *gatetest.Kit) string {
	t.Helper()
	r := k.Chain(t)
	raw, err := json.Marshal(map[string]any{"envelope": r.Envelope, "binding": r.Binding})
	check.Must(t, err)
	return string(raw)
}

func FuzzVerify(f *testing.F) {
	k := gatetest.New(f)
	var used gatetest.Used
	s, err := gate.NewServer(k.Gate, used.Consume)
	check.Must(f, err)
	h := s.Verify()
	whole := verifyRequest(f, k)
	f.Add([]byte(whole))
	f.Add([]byte(whole[:len(whole)/2]))
	f.Add([]byte(`{"envelope":{"response":{"answers":null}},"binding":{}}`))
	f.Add([]byte(`{"Envelope":{},"envelope":{}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		before := used.Calls()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/verify", bytes.NewReader(body)))
		if w.Code == http.StatusOK {
			if !strings.Contains(w.Body.String(), `"capability"`) {
				t.Errorf("a success without a capability: %s", w.Body)
			}
			return
		}
		var d problem.Details
		if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || d.Code == "" || d.Code == "internal" {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
		if used.Calls() != before && d.Code != "replayed" {
			t.Error("a refused request has consumed something")
		}
	})
}
