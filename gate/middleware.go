package gate

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"errors"
	"io"
	"net/http"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/policy"
)

// The request headers of a post.
const (
	CapabilityHeader   = "ActionProof-Capability"
	RequestProofHeader = "ActionProof-Request-Proof"
)

// Protect tells the middleware how to read a request.
type Protect struct {
	// required
	Bind func(r *http.Request) (subject, action string)
	// Resource is set if the mediator sees another path than the API, as behind a proxy that removes a prefix. Nil
	// means the method, and path and query as sent.
	Resource func(r *http.Request) string
	// Raw hashes the body's bytes, even of an empty body; otherwise the canonical form of a JSON body is hashed.
	Raw bool
	// bytes; zero means 1 MiB
	MaxBody int64
	// InTransaction begins a transaction, as [SQL] does. The middleware consumes the keys in it, calls the handler,
	// commits if the status is below 400, and only then answers. If nil, it consumes the keys before the handler.
	InTransaction func(ctx context.Context) (Transaction, error)
	// Sign, an Ed25519 key of the API, signs the handler's answers to posts of a mediator. Nil signs none. An answer is
	// held until the handler returns; one that is flushed or larger than 4 MiB goes out unsigned.
	Sign crypto.Signer
	// Origin is scheme and host as the mediator sees them, for Sign. Empty means https and the request's Host.
	Origin string
	// Refused, if set, gets each refusal in full, and why an answer could not be signed. The answer tells less, because
	// the agent sees it.
	Refused func(r *http.Request, err error)
}

func (p *Protect) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if p.Refused != nil {
		p.Refused(r, err)
	}
	problem.ForAgent(err, "").Write(w)
}

// Middleware passes a request to next only with an unused capability and request proof for exactly this request.
func (s *Server) Middleware(next http.Handler, p Protect) http.Handler {
	p.MaxBody = cmp.Or(p.MaxBody, 1<<20)
	if p.Resource == nil {
		p.Resource = resource
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, body, err := s.authorize(w, r, p)
		if err != nil {
			p.refuse(w, r, err)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), authorizedKey{}, a))
		r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		to, err := p.answering(r, a, body)
		if err != nil && p.Refused != nil {
			p.Refused(r, err)
		}
		if p.InTransaction != nil {
			p.inTransaction(w, r, next, a.Keys, to)
			return
		}
		if err := s.consume(r.Context(), a.Keys...); err != nil {
			p.refuse(w, r, err)
			return
		}
		if to != nil {
			p.signed(w, r, next, to)
			return
		}
		next.ServeHTTP(w, r)
	})
}

type authorizedKey struct{}

// AssuranceFrom returns the report on this post's evidence, in a handler behind the middleware. Single use counts as
// done.
func AssuranceFrom(ctx context.Context) policy.Assurance {
	a, _ := ctx.Value(authorizedKey{}).(Authorization)
	return a.Assurance(true)
}

// authorize refuses missing headers before it reads the body.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request, p Protect) (a Authorization, body []byte,
	err error) {
	if p.Bind == nil {
		return a, nil, errors.New("gate: Protect.Bind is missing")
	}
	if name := wire.MethodOverride(r.Header); name != "" {
		return a, nil,
			refusal.New("override_refused", "the header %s would change the method that the request is bound to", name)
	}
	if name := wire.QueryOverride(r.Method, r.URL.RawQuery); name != "" {
		return a, nil,
			refusal.New("override_refused", "the parameter %.40q would change the method or headers that the request is "+
				"bound to", name)
	}
	var ask AuthorizeRequest
	if ask.Capability, err = once(r.Header, CapabilityHeader); err != nil {
		return a, nil, err
	}
	if ask.RequestProof, err = once(r.Header, RequestProofHeader); err != nil {
		return a, nil, err
	}
	if len(r.Header.Values("Authorization")) > 1 {
		return a, nil, refusal.New("proof_access_token", "the request has more than one Authorization header")
	}
	if !p.Raw {
		if err := wire.CheckJSON(r.Header); err != nil {
			return a, nil, err
		}
	}
	ask.AccessTokenHash = evidence.HashBytes([]byte(r.Header.Get("Authorization")))
	ask.Binding.Subject, ask.Binding.Action = p.Bind(r)
	ask.Binding.Resource = p.Resource(r)
	if body, err = read(w, r, p.MaxBody); err != nil {
		return a, nil, err
	}
	if ask.Binding.ContentHash, err = contentHash(body, p.Raw); err != nil {
		return a, nil, err
	}
	g, err := s.gate()
	if err != nil {
		return a, nil, err
	}
	a, err = g.Authorize(r.Context(), ask)
	return a, body, err
}

func resource(r *http.Request) string {
	s := r.Method + " " + r.URL.EscapedPath()
	if r.URL.RawQuery != "" || r.URL.ForceQuery {
		s += "?" + r.URL.RawQuery
	}
	return s
}

// read reads the body and refuses trailers, which the content hash would not cover. Unannounced trailers appear only
// after the body.
func read(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if len(r.Trailer) > 0 {
		return nil, errTrailers
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, refusal.New("content_too_large", "the body is larger than the %d bytes that are read here", limit)
	case err != nil:
		return nil, refusal.New("content_incomplete", "the body ended early or could not be read")
	case len(r.Trailer) > 0:
		return nil, errTrailers
	}
	return body, nil
}

var errTrailers = refusal.New("request_malformed", "the request has trailers, which the content hash would not cover")

func contentHash(body []byte, raw bool) (string, error) {
	if raw {
		return evidence.HashBytes(body), nil
	}
	return evidence.HashJSON(body)
}

func once(h http.Header, name string) (string, error) {
	v := h.Values(name)
	if len(v) != 1 || v[0] == "" {
		return "", refusal.New("proof_missing",
			"the request must carry the header %s exactly once; a bearer token alone is not enough for a post", name)
	}
	return v[0], nil
}
