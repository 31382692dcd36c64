package proxy

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/actionproof/mediator/botauth"
	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/httpsig"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/proxy/credential"
	"github.com/actionproof/mediator/proxy/echo"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/signer"
)

func TestHeadersOfAnAction(t *testing.T) {
	credential, err := newCredential("X-Vendor-Token", "Bearer ", fixed(secretToken))
	must(t, err)
	p := newPostRig(t, created, func(_ *PipelineOptions, actions []rules.Action) {
		actions[0].Headers, actions[3].Headers, actions[3].Credential = []string{"If-Match", "X-Kept"}, []string{},
			credential
	})
	usual := []string{"Accept", "*/*", "User-Agent", "sdk", "Authorization", "Bearer mine", "Idempotency-Key", "1",
		"Connection", "X-Kept", "Traceparent", "00", "Sec-Fetch-Mode", "cors"}
	for _, tt := range []struct {
		code, path string
		header     []string
	}{
		{"", "/posts", nil},
		{"", "/posts", []string{"X-Kept", "1", "if-match", "2"}},
		{"", "/raw", []string{"X-Vendor-Token", "mine"}},
		{"", "/query", []string{"On-Behalf-Of", "somebody"}},
		{"override_refused", "/posts", []string{"On-Behalf-Of", "somebody"}},
		{"override_refused", "/posts", []string{"X_Kept", "1"}},
		{"override_refused", "/raw", []string{"X-Kept", "1"}},
		{"override_refused", "/raw", []string{"Content-Encoding", "gzip"}},
		{"override_refused", "/raw", []string{"X-Forwarded-For", "192.0.2.1"}},
	} {
		t.Run(tt.path+" "+strings.Join(tt.header, " "), func(t *testing.T) {
			p.T, p.roles.token = t, ""
			header := append(usual[:len(usual):len(usual)], tt.header...)
			if tt.code != "" {
				p.wantRefused(tt.code, "POST", tt.path, "{}", header...)
			} else if resp, answer := p.send("POST", tt.path, "{}", header...); resp.StatusCode != http.StatusCreated {
				t.Errorf("got %d %s", resp.StatusCode, answer)
			}
		})
	}
}

type fixed string

func (f fixed) Current(context.Context) (credential.Value, error) {
	return credential.Value{Secret: string(f)}, nil
}

func (fixed) Refused(credential.Value) {}

func newCredential(header, prefix string, source credential.Source) (*credential.Credential, error) {
	form, err := credential.Header(header, prefix, echo.Auto)
	if err != nil {
		return nil, err
	}
	return credential.New(source, form)
}

// rotating changes its secret once it is refused.
type rotating struct {
	secrets []string
	fail    error
}

func (r *rotating) Current(context.Context) (credential.Value, error) {
	return credential.Value{Secret: r.secrets[0]}, r.fail
}

func (r *rotating) Refused(v credential.Value) {
	if v.Secret == r.secrets[0] {
		r.secrets = r.secrets[1:]
	}
}

// A refused credential is read again for the next call, and no call is repeated.
func TestCredentialIsReplaced(t *testing.T) {
	for _, call := range []struct{ method, path string }{{"POST", "/posts"}, {"PUT", "/inference"}} {
		t.Run(call.path, func(t *testing.T) {
			source := &rotating{secrets: []string{"old-token", "new-token"}}
			credential, err := newCredential("Authorization", "Bearer ", source)
			must(t, err)
			p := newPostRig(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") == "Bearer old-token" {
					w.WriteHeader(http.StatusUnauthorized)
				}
			}, func(_ *PipelineOptions, actions []rules.Action) { actions[0].Credential = credential })
			for i, want := range []int{401, 200} {
				p.roles.token = source.secrets[0]
				if resp, _ := p.send(call.method, call.path, "{}"); resp.StatusCode != want || len(p.sent) != i+1 {
					t.Errorf("call %d: status %d, %d calls sent", i, resp.StatusCode, len(p.sent))
				}
			}
			source.fail = refusal.New("custody_unavailable", "not now")
			p.wantRefused("custody_unavailable", call.method, call.path, "{}")
			if call.method == "POST" && len(p.roles.unsent) != 1 { // the event pays nothing
				t.Errorf("posts given back: %v", p.roles.unsent)
			}
			source.fail = nil
			for _, secret := range []string{"", "seven77", "two\r\nlines", "an end\n"} {
				source.secrets = []string{secret}
				p.wantRefused("custody_unavailable", call.method, call.path, "{}")
			}
		})
	}
}

// TestSignedCalls signs what is really sent: a post, and a write whose body is held for that. If the API refuses the
// signature because of its clock, the log says so.
func TestSignedCalls(t *testing.T) {
	form, err := credential.AWS(credential.AWSOptions{Service: "s3", Regions: []string{"eu-central-1"}, Now: time.Now})
	must(t, err)
	key, err := credential.New(awsKey{}, form)
	must(t, err)
	core, logged := observer.New(zapcore.WarnLevel)
	ahead := time.Duration(0)
	p := newPostRig(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusForbidden)
	}, func(o *PipelineOptions, actions []rules.Action) {
		actions[0].Credential, actions[3].Credential, o.Log = key, key, zap.New(core)
	})
	p.roles.bound = `{"id":"AKID","kind":"aws s3","version":""}`
	for i, method := range []string{"POST", "PUT", "POST"} {
		path, coding := []string{"/posts", "/inference", "/inference"}[i], []string{"identity", "", "snappy"}[i]
		p.send(method, path, `{"a":1}`, "X-Amz-Date", "20150830T123600Z", "X_Amz_Date", "2", "Authorization", "AWS4 mine",
			"Content-Encoding", coding)
		sent := p.sent[i]
		sum := sha256.Sum256([]byte(p.body[i]))
		if h := sent.Header; p.body[i] != `{"a":1}` || h.Get("X-Amz-Content-Sha256") != hex.EncodeToString(sum[:]) ||
			len(h["X-Amz-Date"]) != 1 || h["X_amz_date"] != nil ||
			!strings.Contains(h.Get("Authorization"), "/eu-central-1/s3/aws4_request, SignedHeaders=") ||
			!strings.Contains(h.Get("Authorization"), "content-type;host;x-amz-content-sha256;x-amz-date,") {
			t.Errorf("%s: the API saw %v and %q", method, h, p.body[i])
		}
	}
	if n := logged.Len(); n != 0 {
		t.Errorf("%d warnings about equal clocks", n)
	}
	for i, method := range []string{"POST", "PUT"} { // a body that cannot be signed spends no event
		path, before := []string{"/raw", "/inference"}[i], len(p.record.keys)
		p.wantRefused([]string{"override_refused", "request_malformed"}[i], method, path, "1;chunk-signature=",
			"Content-Encoding", "gzip, AWS-chunked")
		if len(p.record.keys) != before {
			t.Errorf("%s: keys were consumed", method)
		}
	}
	ahead = 5 * time.Minute
	p.send("POST", "/posts", `{"a":1}`)
	for _, line := range logged.FilterMessageSnippet("clock").All() {
		if d, _ := line.ContextMap()["ahead"].(time.Duration); d.Round(time.Minute) == ahead {
			return
		}
	}
	t.Errorf("the log does not say that the clocks differ: %v", logged.All())
}

// TestSignatureCoversTheCredential signs a post with the query that it is sent with.
func TestSignatureCoversTheCredential(t *testing.T) {
	form, err := credential.Query("key")
	must(t, err)
	secret, err := credential.New(fixed(secretToken), form)
	must(t, err)
	key, err := custody.NewMemory("web-bot-auth-key")
	must(t, err)
	sign, err := botauth.New(key, botauth.Current, botauth.Options{Directory: "https://agents.example.com",
		Lifetime: time.Minute, Now: time.Now})
	must(t, err)
	p := newPostRig(t, created, func(_ *PipelineOptions, actions []rules.Action) {
		actions[0].Credential, actions[0].Sign = secret, sign
	})
	p.roles.bound = `{"id":"","kind":"query key","version":""}`
	p.send("POST", "/posts", "{}")
	version, err := key.Current(t.Context())
	must(t, err)
	public := ed25519.PublicKey(version.Public())
	r := p.sent[0]
	_, err = httpsig.Verify(&httpsig.Message{Method: r.Method, Header: r.Header,
		Target: &url.URL{Scheme: "https", Host: r.Host, Path: r.URL.Path, RawQuery: r.URL.RawQuery}},
		httpsig.Expected{Components: []string{"@method", "@authority", "@path", "@query", "content-digest"}, Now: time.Now(),
			Keys: httpsig.Keys{httpsig.KeyID(public): public}, Tag: "web-bot-auth", MaxAge: 2 * time.Minute, Skew: time.Minute})
	if err != nil || r.URL.RawQuery != "key="+secretToken {
		t.Errorf("sent with ?%s: %v", r.URL.RawQuery, err)
	}
}

type awsKey struct{}

func (awsKey) Current(context.Context) (credential.Value, error) {
	return credential.Value{ID: "AKID", Secret: "the-secret-access-key"}, nil
}

func (awsKey) Refused(credential.Value) {}

// Cookies for an injected credential do not reach the agent.
func TestCookiesForACredential(t *testing.T) {
	p := newPostRig(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("Set-Cookie", "session=logged-in")
		w.Header().Add("Set-Cookie", "other=1")
		w.Header().Set(http.TrailerPrefix+"Set-Cookie", "session=logged-in")
	}, nil)
	for _, tt := range []struct {
		method, path string
		cookies      int
	}{{"POST", "/posts", 0}, {"PUT", "/inference", 0}, {"GET", "/x", 2}} {
		if resp, _ := p.send(tt.method, tt.path, "{}"); resp.StatusCode != http.StatusOK ||
			len(resp.Cookies()) != tt.cookies || len(resp.Trailer) > 0 {
			t.Errorf("%s %s: status %d, %d cookies, trailers %v", tt.method, tt.path, resp.StatusCode,
				len(resp.Cookies()), resp.Trailer)
		}
	}
}

// The agent's header in another spelling does not go out beside the credential.
func TestCredentialHasNoSecondSpelling(t *testing.T) {
	credential, err := newCredential("X-Vendor-Token", "", fixed(secretToken))
	must(t, err)
	p := newPostRig(t, created, func(_ *PipelineOptions, actions []rules.Action) { actions[0].Credential = credential })
	for _, name := range []string{"X-Vendor-Token", "X_Vendor_Token", "x-vendor_token", "X.Vendor.Token"} {
		p.send("PUT", "/inference", "{}", name, "mine")
	}
	for _, r := range p.sent {
		for name, values := range r.Header {
			if wire.CGIName(name) == "X-Vendor-Token" &&
				(name != "X-Vendor-Token" || len(values) != 1 || values[0] != secretToken) {
				t.Errorf("the upstream saw %s: %s", name, values)
			}
		}
	}
	req, err := http.NewRequest("PUT", p.base+"/inference", io.MultiReader(strings.NewReader("{}")))
	must(t, err)
	req.Trailer = http.Header{"X-Vendor-Token": {"mine"}, "X-Checksum": {"1"}}
	resp, err := p.client.Do(req)
	must(t, err)
	_ = resp.Body.Close()
	if len(p.sent) != 5 || len(p.sent[4].Trailer) != 1 || p.sent[4].Trailer.Get("X-Checksum") != "1" {
		t.Errorf("the upstream saw %d calls, the last with the trailers %v", len(p.sent), p.sent[len(p.sent)-1].Trailer)
	}
}

// awayKey's custody does not answer.
type awayKey struct{}

func (awayKey) Current(context.Context) (custody.Version, error) {
	return custody.Version{}, custody.Unavailable(nil, "the key is away")
}

func (awayKey) Properties() custody.Properties { return custody.Properties{} }

func TestCustodyIsAway(t *testing.T) {
	o := signer.Options{Issuer: "away", Audience: "aud", Lifetime: time.Minute, Now: time.Now}
	runtime, err1 := signer.New(evidence.RuntimeAttestationKind(), awayKey{}, o)
	session, err2 := signer.New(evidence.SessionReceiptKind(), awayKey{}, o)
	prove, err3 := signer.New(evidence.RequestProofKind(), awayKey{}, o)
	must(t, errors.Join(err1, err2, err3))
	for name, change := range map[string]func(*PipelineOptions){
		"attestation and session receipt": func(o *PipelineOptions) {
			o.Attest = signer.NewAttester(runtime, session, signer.Access{})
		},
		"request proof": func(o *PipelineOptions) { o.Prove = prove },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPostRig(t, created, func(o *PipelineOptions, _ []rules.Action) { change(o) })
			p.wantRefused("custody_unavailable", "POST", "/posts", "{}")
		})
	}
}
