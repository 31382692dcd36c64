package proxy

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/httpsig"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/credential"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/test/gatetest"
)

// TestAnswersInTheAPIsOwnWords changes what comes between the API's middleware and the sidecar.
func TestAnswersInTheAPIsOwnWords(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	_, other, _ := ed25519.GenerateKey(rand.Reader)
	for _, tt := range []struct {
		name   string
		sign   ed25519.PrivateKey
		size   int
		before func(*http.Request)                                   // the API sees it
		after  func(http.ResponseWriter, *httptest.ResponseRecorder) // the API has answered
		late   time.Duration                                         // of the API's clock
		code   string
		cut    bool // the answer had begun
	}{
		{name: "signed", sign: private, size: 10},
		{name: "signed, large", sign: private, size: 1 << 20},
		{name: "signed by a clock that is behind", sign: private, size: 10, late: 330 * time.Second},
		{name: "unsigned", code: "answer_unsigned"},
		{name: "another key", sign: other, code: "answer_unsigned"},
		{name: "status", sign: private, after: func(_ http.ResponseWriter, r *httptest.ResponseRecorder) { r.Code = 200 },
			code: "answer_unsigned"},
		{name: "body", sign: private, size: 10, after: func(_ http.ResponseWriter, r *httptest.ResponseRecorder) {
			r.Body.Bytes()[0]++
		}, code: "answer_unsigned"},
		{name: "large body", sign: private, size: 1 << 20, after: func(_ http.ResponseWriter, r *httptest.ResponseRecorder) {
			r.Body.Bytes()[1<<20-1]++
		}, code: "answer_unsigned", cut: true},
		{name: "shorter body", sign: private, size: 10, after: func(_ http.ResponseWriter, r *httptest.ResponseRecorder) {
			r.Body.Truncate(9)
		}, code: "answer_unsigned"},
		{name: "another request", sign: private, before: func(r *http.Request) { r.Host = "elsewhere.example" },
			code: "answer_unsigned"},
		{name: "another capability", sign: private, before: func(r *http.Request) { r.Header.Set("Idempotency-Key", "x") },
			code: "answer_unsigned"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := gatetest.NewAt(t, time.Now())
			server, err := gate.NewServer(k.Gate, (&gatetest.Used{}).Consume)
			must(t, err)
			protect := gate.Protect{Bind: func(*http.Request) (string, string) { return "agent:worker-1", "create_post" }}
			if tt.sign != nil {
				protect.Sign = tt.sign
			}
			made := 0
			api := server.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				made++
				w.WriteHeader(http.StatusCreated)
				_, _ = w.Write([]byte(strings.Repeat("x", tt.size)))
			}), protect)
			p := newPostRig(t, func(w http.ResponseWriter, r *http.Request) {
				if tt.before != nil {
					tt.before(r)
				}
				answer := httptest.NewRecorder()
				api.ServeHTTP(answer, r)
				if tt.after != nil {
					tt.after(w, answer)
				}
				if tt.late > 0 {
					answer.Header().Del("Signature")
					answer.Header().Del("Signature-Input")
					target := *r.URL
					target.Scheme, target.Host = "https", r.Host
					must(t, httpsig.Sign(&httpsig.Message{Status: answer.Code, Header: answer.Header(),
						Request: &httpsig.Message{Method: r.Method, Target: &target, Header: r.Header}}, "actionproof",
						gate.AnswerComponents(), httpsig.Params{Created: time.Now().Add(-tt.late), Tag: gate.AnswerTag}, private))
				}
				for name, values := range answer.Header() {
					w.Header()[name] = values
				}
				w.WriteHeader(answer.Code)
				_, _ = w.Write(answer.Body.Bytes())
			}, func(o *PipelineOptions, actions []rules.Action) {
				whole(t, k, k.Gate, o, actions)
				actions[0].TakesPart = true
				actions[0].AnswerKeys = httpsig.Keys{httpsig.KeyID(public): public}
			})
			resp := p.start(t.Context(), "POST", "/posts", gatetest.Content)
			raw, _ := io.ReadAll(resp.Body) // of a changed body the end does not come
			body := string(raw)
			eventually(t, func() bool { r, _ := p.record.last(); return r.State.Outcome() }, "no outcome")
			r, _ := p.record.last()
			if made != 1 || r.State != ledger.StateForwarded || r.Code != tt.code ||
				(r.Answer == nil) != (tt.code != "") {
				t.Errorf("%d made; %s %s: %s, %v", made, r.State, r.Code, r.Reason, r.Answer)
			}
			if tt.code == "" {
				wantVerified(t, k, r)
			}
			switch {
			case tt.cut:
				if len(body) >= tt.size {
					t.Error("the agent got the end of a changed body")
				}
			case tt.code != "":
				if resp.StatusCode != http.StatusBadGateway || !strings.Contains(body, tt.code) {
					t.Errorf("%d %.200s", resp.StatusCode, body)
				}
			case resp.StatusCode != http.StatusCreated || len(body) != tt.size ||
				r.Word() != "the word of the API with the key "+httpsig.KeyID(public):
				t.Errorf("%d, %d bytes, %s", resp.StatusCode, len(body), r.Word())
			}
		})
	}
}

// TestSignedAnswersKeepCredentialsOutOfRecords signs more than the API has to.
func TestSignedAnswersKeepCredentialsOutOfRecords(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	form, err := credential.Query("key")
	must(t, err)
	inQuery, err := credential.New(fixed(secretToken), form)
	must(t, err)
	inHeader, err := newCredential("Authorization", "Bearer ", fixed(secretToken))
	must(t, err)
	for _, tt := range []struct {
		name       string
		credential *credential.Credential
		query      string // of the target that the API signs
		also       []string
		signed     bool
	}{
		{"without the credential", inQuery, "", nil, true},
		{"the whole query", inQuery, "key=" + secretToken, nil, false},
		{"the query by itself", inQuery, "key=" + secretToken, []string{"@query;req"}, false},
		{"the header", inHeader, "", []string{"authorization;req"}, false},
		{"a field of the answer that repeats the header", inHeader, "", []string{"x-asked"}, false},
		{"a cookie", inHeader, "", []string{"set-cookie"}, false},
		{"what it has to", inHeader, "", nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPostRig(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Digest", httpsig.ContentDigest(sha256.Sum256(nil)))
				if len(tt.also) > 0 && !strings.Contains(tt.also[0], ";") {
					w.Header().Set(tt.also[0], r.Header.Get("Authorization"))
				}
				asked := &httpsig.Message{Method: r.Method, Header: r.Header,
					Target: &url.URL{Scheme: "https", Host: r.Host, Path: r.URL.Path, RawQuery: tt.query}}
				must(t, httpsig.Sign(&httpsig.Message{Status: http.StatusOK, Header: w.Header(), Request: asked},
					"actionproof",
					append(gate.AnswerComponents(), tt.also...),
					httpsig.Params{Created: time.Now(), Tag: gate.AnswerTag}, private))
			}, func(_ *PipelineOptions, actions []rules.Action) {
				actions[0].Credential, actions[0].TakesPart = tt.credential, true
				actions[0].AnswerKeys = httpsig.Keys{httpsig.KeyID(public): public}
			})
			if tt.credential == inQuery {
				p.roles.bound = `{"id":"","kind":"query key","version":""}`
			}
			_, body := p.send("POST", "/posts", "{}")
			r, _ := p.record.last()
			raw, err := json.Marshal(r)
			must(t, err)
			if (r.Answer != nil) != tt.signed || r.State != ledger.StateForwarded ||
				strings.Contains(string(raw)+body, secretToken) {
				t.Errorf("%s %s", body, raw)
			}
		})
	}
}

// wantVerified demands that public keys verify a record, and find each change of what the API has signed.
func wantVerified(t *testing.T, k *gatetest.Kit, r ledger.Record) {
	t.Helper()
	if checks, whole := gate.VerifyRecord(t.Context(), k.Verifier, k.Strict, r); !whole {
		t.Errorf("%+v", checks)
	}
	for name, change := range map[string]func(r *ledger.Record, a *ledger.Answer){
		"status":     func(r *ledger.Record, _ *ledger.Answer) { r.Status = http.StatusOK },
		"state":      func(r *ledger.Record, _ *ledger.Answer) { r.State = ledger.StateFailed },
		"host":       func(r *ledger.Record, _ *ledger.Answer) { r.Host = "b.example.com:443" },
		"time":       func(r *ledger.Record, _ *ledger.Answer) { r.Started = r.Started.Add(time.Hour) },
		"base":       func(_ *ledger.Record, a *ledger.Answer) { a.Base = strings.Replace(a.Base, "201", "202", 1) },
		"key id":     func(_ *ledger.Record, a *ledger.Answer) { a.KeyID = "other" },
		"key":        func(_ *ledger.Record, a *ledger.Answer) { a.PublicKey = make([]byte, 32) },
		"capability": func(_ *ledger.Record, a *ledger.Answer) { a.Base = strings.Replace(a.Base, "idempotency", "x", 1) },
	} {
		changed, answer := r, *r.Answer
		changed.Answer = &answer
		change(&changed, &answer)
		checks, whole := gate.VerifyRecord(t.Context(), k.Verifier, k.Strict, changed)
		if last := checks[len(checks)-1]; whole || last.Name != gate.CheckAnswer || last.Code != "record_mismatch" {
			t.Errorf("%s: %+v", name, last)
		}
	}
}
