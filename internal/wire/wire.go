// Package wire carries strict, bounded JSON over HTTP between the mediator's processes, and to an API that takes part.
// A refusal travels as a problem document and keeps its code.
package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
)

// Bounds on a request and an answer, in bytes.
const (
	MaxRequest = 256 << 10
	MaxAnswer  = 4 << 20
)

// MaxToken bounds a token in an answer, in bytes: the record keeps it.
const MaxToken = 16 << 10

// IsText reports whether s is 1 to limit printable ASCII characters without spaces.
func IsText(s string, limit int) bool {
	return s != "" && len(s) <= limit && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// Read reads one strict JSON request.
func Read(w http.ResponseWriter, r *http.Request, v any) error {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxRequest))
	if err != nil {
		return refusal.New("query_malformed", "the request is larger than %d bytes, or broke off", MaxRequest)
	}
	if err := strictjson.Parse(raw, v); err != nil {
		return refusal.New("query_malformed", "the request is malformed: %v", err)
	}
	return nil
}

// Write answers with v, or with the problem document of err.
func Write(w http.ResponseWriter, v any, err error) {
	if err != nil {
		problem.Write(w, err)
		return
	}
	body, err := json.Marshal(v)
	if err != nil {
		problem.Write(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(append(body, '\n'))
}

// Handle makes a handler of a function that answers a request.
func Handle[Ask, Answer any](do func(ctx context.Context, ask Ask) (Answer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var ask Ask
		var answer Answer
		err := Read(w, r, &ask)
		if err == nil {
			answer, err = do(Context(r), ask)
		}
		Write(w, answer, err)
	}
}

// Answer makes a handler of a function that answers a request without a body.
func Answer[A any](do func(*http.Request) (A, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer, err := do(r)
		Write(w, answer, err)
	}
}

// Peer is the other side of a call.
type Peer struct {
	HTTP        *http.Client
	Name        string // in refusals
	Unavailable string // code of a refusal without a proper answer
}

// Call reads the answer strictly: one document, without members that answer lacks. It fails with the code of a problem
// document, or else with Unavailable.
func (p Peer) Call(ctx context.Context, url string, ask, answer any) error {
	body, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	raw, err := p.Do(req)
	if err != nil {
		return err
	}
	if err := strictjson.ParseMembers(raw, answer); err != nil {
		return refusal.New(p.Unavailable, "the answer of %s cannot be read: %v", p.Name, err)
	}
	return nil
}

// Ready asks the process at base whether it is ready.
func (p Peer) Ready(ctx context.Context, base string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", nil)
	if err != nil {
		return err
	}
	if _, err = p.Do(req); err != nil {
		return refusal.New(p.Unavailable, "%s is not ready: %v", p.Name, err)
	}
	return nil
}

// Do returns the body of an answer, at most [MaxAnswer] bytes. It fails like [Peer.Call].
func (p Peer) Do(req *http.Request) ([]byte, error) {
	resp, err := p.Send(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		err := problem.Read(resp)
		var coded *problem.Error
		if errors.As(err, &coded) {
			return nil, err
		}
		return nil, refusal.New(p.Unavailable, "%s answered with status %d, but without a problem document", p.Name,
			resp.StatusCode)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	if err != nil || len(raw) > MaxAnswer {
		return nil, refusal.New(p.Unavailable, "the answer of %s broke off, or is larger than %d bytes", p.Name,
			MaxAnswer)
	}
	return raw, nil
}

// Send returns any answer, whose body the caller closes.
func (p Peer) Send(req *http.Request) (*http.Response, error) {
	req.GetBody = nil // never repeat a request: most consume something
	sendAccepted(req.Context(), req.Header)
	resp, err := p.HTTP.Do(req)
	if err != nil {
		return nil, refusal.New(p.Unavailable, "%s does not answer (%s)", p.Name, why(err))
	}
	return resp, nil
}

// why does not reveal the address.
func why(err error) string {
	var number syscall.Errno
	var timeout net.Error
	var other *tls.CertificateVerificationError
	var alert *net.OpError
	var name *net.DNSError
	switch {
	case errors.As(err, &other):
		return "its certificate is " + other.Err.Error()
	case errors.As(err, &alert) && alert.Op == "remote error": // in TLS
		return "it refused this process's certificate; its log says why"
	case errors.As(err, &number):
		return number.Error() // permission denied, no such file or directory, connection refused
	case errors.Is(err, context.Canceled):
		return "the caller has gone"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "it took too long"
	case errors.As(err, &name):
		return "its name cannot be resolved"
	case errors.Is(err, http.ErrSchemeMismatch):
		return "it speaks no TLS"
	}
	return "the connection was closed or broke"
}
