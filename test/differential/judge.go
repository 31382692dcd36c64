package differential

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
)

// judge is an API that forgets what was used.
type judge struct {
	trust  Trust
	server *gate.Server
	now    time.Time
}

// open reads the files as gate.FromFiles does.
func open(f Trust) (*judge, error) {
	j := &judge{trust: f}
	registry, err := evidence.ParseRoot([]byte(f.Registry), evidence.PurposeSignerCertificate)
	if err != nil {
		return nil, err
	}
	auditor, err := evidence.ParseRoot([]byte(f.Auditor), evidence.PurposeDeploymentCertificate)
	if err != nil {
		return nil, err
	}
	manifest, err := policy.ParseManifest([]byte(f.Manifest))
	if err != nil {
		return nil, err
	}
	strict, err := manifest.Strict()
	if err != nil {
		return nil, err
	}
	bundle, err := evidence.ParseBundle([]byte(f.Bundle))
	if err != nil {
		return nil, err
	}
	trust, err := evidence.NewTrust([]evidence.Root{registry, auditor}, bundle, strict.Signers)
	if err != nil {
		return nil, err
	}
	now := func() time.Time { return j.now }
	verifier, err := evidence.NewVerifier(trust, evidence.VerifierOptions{Now: now})
	if err != nil {
		return nil, err
	}
	secret, err := evidence.NewSecret([]byte(f.Secret))
	if err != nil {
		return nil, err
	}
	issuer, err := challenge.NewIssuer(secret, challenge.Options{Issuer: f.Name, Audience: f.Name, Now: now})
	if err != nil {
		return nil, err
	}
	g, err := gate.New(gate.Options{Challenges: issuer, Secret: secret, Issuer: f.Name, Verifier: verifier,
		Strict: strict})
	if err != nil {
		return nil, err
	}
	j.server, err = gate.NewServer(g, func(context.Context, ...ledger.Key) error { return nil })
	return j, err
}

// request makes the request that a server would have read.
func (j *judge) request(r Request) (*http.Request, error) {
	u, err := url.ParseRequestURI(r.URL)
	if err != nil {
		return nil, err
	}
	h := &http.Request{Method: r.Method, URL: u, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(r.Body))}
	for _, pair := range r.Headers {
		h.Header.Add(pair[0], pair[1])
	}
	return h, nil
}

func (j *judge) of(r *http.Request, chain bool) (status, code string) {
	if chain {
		answer := httptest.NewRecorder()
		j.server.Verify().ServeHTTP(answer, r)
		if answer.Code == http.StatusOK {
			return "verified", "ok"
		}
		return statusOf(check.CodeOf(problem.Read(answer.Result())), false)
	}
	status, code = "verified", "ok"
	h := j.server.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), gate.Protect{
		Bind: func(*http.Request) (string, string) { return j.trust.Subject, j.trust.Action }, Raw: j.trust.Raw,
		Refused: func(r *http.Request, err error) {
			absent := len(r.Header.Values(gate.CapabilityHeader))+len(r.Header.Values(gate.RequestProofHeader)) == 0
			status, code = statusOf(check.CodeOf(err), absent)
		},
	})
	h.ServeHTTP(httptest.NewRecorder(), r)
	return status, code
}

// statusOf tells a call without evidence from a refused one, and that from one that could not be judged.
func statusOf(code string, absent bool) (status, _ string) {
	switch {
	case code == "proof_missing" && absent:
		return "absent", code
	case code == "internal", code == "trust_stale":
		return "unavailable", code
	}
	return "refused", code
}
