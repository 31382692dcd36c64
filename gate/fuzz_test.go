package gate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

var signed = append(slices.Clone(artifacts),
	artifact{"deployment certificate", evidence.PurposeDeploymentCertificate, deployment})

// FuzzChain signs any claims in one artifact's place: no panic, a code for each refusal, and nothing consumed. What is
// admitted is canonical and about this post.
func FuzzChain(f *testing.F) {
	k := gatetest.New(f)
	valid := k.Chain(f)
	for i, s := range signed {
		token := *s.at(&valid.Envelope)
		header, payload := string(part(f, token, 0)), string(part(f, token, 1))
		f.Add(byte(i), header, payload)
		f.Add(byte(i), strings.Replace(header, "EdDSA", "HS256", 1), payload)
		f.Add(byte(i), header, strings.Replace(payload, "false", "true", 1))
		f.Add(byte(i), header, strings.Replace(payload, `"jti":"`, `"jti":"x`, 1))
	}
	var work evidence.ChallengeToken
	check.Must(f, json.Unmarshal(part(f, valid.Envelope.ChallengeToken, 1), &work))
	f.Fuzz(func(t *testing.T, which byte, header, payload string) {
		r, s := valid, signed[int(which)%len(signed)]
		*s.at(&r.Envelope) = gatetest.Forge(t, k.Key(t, s.purpose), header, []byte(payload))
		consumed := false
		a, err := gatetest.Admit(t.Context(), k.Gate, r, func(context.Context, ...ledger.Key) error {
			consumed = true
			return nil
		})
		if err != nil {
			var refused *refusal.Refusal
			if !errors.As(err, &refused) || consumed || a.Capability != "" {
				t.Errorf("consumed %t: %v", consumed, err)
			}
			return
		}
		canonical, err := strictjson.Canonical([]byte(payload))
		if err != nil || string(canonical) != payload {
			t.Errorf("%q is admitted, and is not canonical", payload)
		}
		about := work.BindingHash
		if s.purpose == evidence.PurposeDeploymentCertificate {
			about = k.Strict.ManifestHash
		}
		if !strings.Contains(payload, `"`+about+`"`) || !consumed {
			t.Errorf("%q is admitted", payload)
		}
	})
}

func FuzzRecord(f *testing.F) {
	k := gatetest.New(f)
	r := k.Chain(f)
	valid := recorded(f, k, r)
	raw, err := json.Marshal(valid)
	check.Must(f, err)
	f.Add(raw)
	f.Add([]byte(`{"id":"p","artifacts":[{"name":"grant","token":"a.b.c"},{"name":"grant","token":""}]}`))
	genuine := make(map[ledger.Artifact]bool)
	for _, a := range valid.Artifacts {
		genuine[a] = true
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var p ledger.Record
		if strictjson.Parse(raw, &p) != nil {
			return
		}
		if _, whole := gate.VerifyRecord(t.Context(), k.Verifier, k.Strict, p); !whole {
			return
		}
		call := evidence.Binding{Subject: p.Subject, Action: p.Action, Resource: p.Resource, ContentHash: p.ContentHash}
		if !call.SameAction(r.Binding) {
			t.Errorf("the record of another call is whole: %+v", call)
		}
		found := 0
		for _, a := range p.Artifacts {
			if genuine[a] {
				found++
			}
		}
		if found < len(signed)+1 {
			t.Errorf("a record with %d of the artifacts is whole: %q", found, raw)
		}
	})
}

// FuzzMiddleware: a post is made only for the content, path and token of the capability, and once.
func FuzzMiddleware(f *testing.F) {
	k := gatetest.New(f)
	const content = `{"title":"hello"}`
	b := bound("POST /posts", content)
	a, err := gatetest.Admit(context.Background(), k.Gate, k.Build(f, gatetest.Plan{Binding: b}),
		(&gatetest.Used{}).Consume)
	check.Must(f, err)
	proof := k.Proof(f, a.Capability, gatetest.Token)
	f.Add("POST", "/posts", "", a.Capability, proof, gatetest.Token, []byte(content))
	f.Add("POST", "/posts", "X-HTTP-Method-Override", a.Capability, proof, gatetest.Token, []byte(content))
	f.Add("POST", "/posts?a", "", a.Capability, proof, gatetest.Token, []byte(`{"title":"hello","title":""}`))
	f.Fuzz(func(t *testing.T, method, target, extra, capability, proof, token string, body []byte) {
		u, err := url.ParseRequestURI(target)
		if err != nil || method == "" {
			return
		}
		var used gatetest.Used
		s, err := gate.NewServer(k.Gate, used.Consume)
		check.Must(t, err)
		made := 0
		h := s.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { made++ }),
			gate.Protect{Bind: bind})
		for range 2 {
			r := &http.Request{Method: method, URL: u, Header: http.Header{}}
			r.Header.Set(gate.CapabilityHeader, capability)
			r.Header.Set(gate.RequestProofHeader, proof)
			r.Header.Set("Authorization", token)
			r.Header.Set("Content-Type", "application/json")
			if extra != "" {
				r.Header[extra] = []string{"PUT"}
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
		hash, _ := evidence.HashJSON(body)
		switch {
		case made > 1:
			t.Errorf("the post is made %d times", made)
		case made == 1 && (hash != b.ContentHash || method != "POST" || target != "/posts" || token != gatetest.Token):
			t.Errorf("%s %s %q %q is made", method, target, token, body)
		}
	})
}

// FuzzCertificate: of all certificates by the pinned registry, only those in canonical form are believed.
func FuzzCertificate(f *testing.F) {
	k := gatetest.New(f)
	for _, purpose := range gatetest.Roles[:2] {
		token := k.Certificates[purpose]
		f.Add(string(part(f, token, 0)), string(part(f, token, 1)))
		f.Add(string(part(f, token, 0)), strings.Replace(string(part(f, token, 1)), "false", "true", 1))
	}
	f.Fuzz(func(t *testing.T, header, payload string) {
		err := k.Believe(t, gatetest.Forge(t, k.Key(t, evidence.PurposeSignerCertificate), header, []byte(payload)))
		if err != nil {
			var refused *refusal.Refusal
			if !errors.As(err, &refused) {
				t.Errorf("an error without a code: %v", err)
			}
			return
		}
		if canonical, err := strictjson.Canonical([]byte(payload)); err != nil || string(canonical) != payload {
			t.Errorf("%q is believed, and is not canonical", payload)
		}
	})
}
