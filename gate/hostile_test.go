package gate_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/policy/decide"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

func hostile() map[string][]byte {
	members := func(n int, key func(i int) int) []byte {
		b := []byte{'{'}
		for i := range n {
			b = append(strconv.AppendInt(append(b, `"k`...), int64(key(i)), 10), `":0,`...)
		}
		b[len(b)-1] = '}'
		return b
	}
	const million = 1_000_000
	return map[string][]byte{
		"100 MB":                       []byte(`{"challengeId":"` + strings.Repeat("a", 100<<20) + `"}`),
		"lists 100000 deep":            []byte(strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)),
		"objects 100000 deep":          []byte(strings.Repeat(`{"a":`, 100_000) + "0" + strings.Repeat("}", 100_000)),
		"a million members":            members(million, func(i int) int { return i }),
		"a million members, backwards": members(million, func(i int) int { return million - i }),
		"a million times one member":   members(million, func(int) int { return 0 }),
		"eight million values":         []byte("[" + strings.Repeat("0,", 4<<20) + "0]"),
		"a member with a name of a MB": []byte(`{"` + strings.Repeat("k", 1<<20) + `":0}`),
		"a kid of a MB": []byte(
			`{"kty":"OKP","crv":"Ed25519","kid":"` + strings.Repeat("k", 1<<20) +
				`","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`),
		"a number of a MB":               []byte(`{"a":` + strings.Repeat("1", 1<<20) + `}`),
		"a million halves of surrogates": []byte(`"` + strings.Repeat(`\ud800`, million) + `"`),
	}
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestHostileSizes is not parallel, because it counts the allocations of the process.
func TestHostileSizes(t *testing.T) {
	texts := hostile()
	const few, some = 2 << 20, 64 << 20 // bytes; the parsers with few refuse by size alone
	for _, p := range []struct {
		name  string
		limit uint64
		parse func([]byte) error
	}{
		{"response", few, func(raw []byte) error { _, err := challenge.ParseResponse(raw); return err }},
		{"challenge", few, func(raw []byte) error { _, err := challenge.ParseChallenge(raw); return err }},
		{"JWK", few, func(raw []byte) error { _, _, err := evidence.ParseJWK(raw); return err }},
		{"root", few, func(raw []byte) error {
			_, err := evidence.ParseRoot(raw, evidence.PurposeSignerCertificate)
			return err
		}},
		{"rules", some, func(raw []byte) error { _, err := decide.ParseRules(raw); return err }},
		{"manifest", some, func(raw []byte) error { _, err := policy.ParseManifest(raw); return err }},
		{"trust bundle", some, func(raw []byte) error { _, err := evidence.ParseBundle(raw); return err }},
	} {
		for name, raw := range texts {
			t.Run(p.name+"/"+name, func(t *testing.T) {
				var err error
				if n := allocated(func() { err = p.parse(raw) }); n > p.limit {
					t.Errorf("it takes %d MB", n>>20)
				}
				if err == nil || len(err.Error()) > 1000 {
					t.Errorf("got %.200v", err)
				}
			})
		}
	}
}

func TestHostileContent(t *testing.T) {
	for name, raw := range hostile() {
		if len(raw) > 8<<20 {
			raw = raw[:8<<20]
		}
		t.Run(name, func(t *testing.T) {
			n := allocated(func() { _, _ = evidence.HashJSON(raw) })
			t.Logf("%d MB", n>>20)
			if n > 128<<20 {
				t.Errorf("it takes %d MB", n>>20)
			}
		})
	}
	var b bytes.Buffer
	for i := range strictjson.MaxItems/2 - 1 {
		fmt.Fprintf(&b, `,"k%d":0`, i)
	}
	largest := []byte("{" + b.String()[1:] + "}")
	n := allocated(func() {
		if _, err := evidence.HashJSON(largest); err != nil {
			t.Error(err)
		}
	})
	t.Logf("the most members that are accepted: %d MB", n>>20)
	if n > 128<<20 {
		t.Errorf("the most members that are accepted take %d MB", n>>20)
	}
}

func TestHostileTokens(t *testing.T) {
	k := gatetest.New(t)
	b64 := base64.RawURLEncoding
	huge := b64.EncodeToString([]byte(`{"alg":"EdDSA","kid":"`+strings.Repeat("k", 1<<20)+`","typ":"x"}`)) + ".e30.AA"
	for _, at := range []func(*evidence.Envelope) *string{work, origin, receipt, decision, grant, attestation, session,
		deployment} {
		r := k.Chain(t)
		*at(&r.Envelope) = huge
		var used gatetest.Used
		n := allocated(func() {
			_, err := gatetest.Admit(t.Context(), k.Gate, r, used.Consume)
			gatetest.WantCode(t, err, "artifact_malformed")
		})
		if n > 1<<20 {
			t.Errorf("it takes %d KB", n>>10)
		}
	}
	if _, err := evidence.NewTrust(nil, evidence.Bundle{Certificates: []string{huge}}, k.Strict.Signers); err == nil {
		t.Error("a certificate with that kid is believed")
	}
}

type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	if e.read >= 100<<20 {
		return 0, io.EOF
	}
	for i := range p {
		p[i] = 'a'
	}
	if e.read == 0 {
		copy(p, `{"binding":{"subject":"`)
	}
	e.read += len(p)
	return len(p), nil
}

func TestHostileRequests(t *testing.T) {
	k := gatetest.New(t)
	var used gatetest.Used
	s, err := gate.NewServer(k.Gate, used.Consume)
	check.Must(t, err)
	protected := s.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the post is made")
	}), gate.Protect{Bind: bind})
	texts := hostile()
	for _, tt := range []struct {
		name    string
		handler http.Handler
		code    string
	}{
		{"challenge", s.Challenge(), "query_malformed"}, {"verify", s.Verify(), "query_malformed"},
		{"post", protected, "content_too_large"},
	} {
		do := func(body io.Reader, code string) {
			t.Helper()
			r := httptest.NewRequest(http.MethodPost, "/posts", body)
			r.Header.Set(gate.CapabilityHeader, strings.Repeat("a", 1<<20))
			r.Header.Set(gate.RequestProofHeader, strings.Repeat("a", 1<<20))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			if n := allocated(func() { tt.handler.ServeHTTP(w, r) }); n > 8<<20 {
				t.Errorf("it takes %d MB", n>>20)
			}
			if !strings.Contains(w.Body.String(), `"code":"`+code+`"`) || w.Body.Len() > 2000 {
				t.Errorf("got %d %.300s, want %s", w.Code, w.Body, code)
			}
		}
		t.Run(tt.name, func(t *testing.T) {
			body := &endless{}
			do(body, tt.code)
			if body.read > 4<<20 {
				t.Errorf("%d bytes are read", body.read)
			}
		})
		for name, raw := range texts {
			if len(raw) > 1<<20 {
				continue
			}
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				code := "query_malformed"
				if tt.name == "post" {
					code = "content_malformed"
				}
				do(bytes.NewReader(raw), code)
			})
		}
	}
	if used.Calls() != 0 {
		t.Error("something was consumed")
	}
}
