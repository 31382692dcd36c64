package proxy

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/ledger"
)

// egress forwards a call that is no post: streamed both ways, without evidence, recorded with its times.
func (p *Pipeline) egress(c *call, w http.ResponseWriter, r *http.Request, s *Session, target Target, e *Egress) error {
	c.post.Rule = e.Name
	if err := p.o.Record.Room(); err != nil {
		return err
	}
	s.Note("egress " + r.Method + " " + c.post.Host + c.post.Path)
	stripProtocolHeaders(r.Header)
	body := &agentBody{ReadCloser: r.Body}
	if r.Body != http.NoBody {
		r.Body = body
	}
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	out := forwardRequest(traced, r, target, r.Body)
	credential, err := e.Credential.now(r.Context())
	if err != nil {
		return err
	}
	if e.Credential != nil {
		credential.inject(out.Header)
		credential.remove(out.Trailer)
	}
	// An upstream may answer while the request is still on its way, if only its last read. Without this net/http would close the request's
	// body at the first byte of the answer, and the transport would take that for a broken request and close the upstream's connection.
	// HTTP/2 needs no such leave.
	_ = http.NewResponseController(w).EnableFullDuplex()
	c.post.State = ledger.StateForwarding
	resp, err := p.o.Transport.RoundTrip(out)
	c.step("upstream")
	if err != nil {
		err = classifyError(cmp.Or(body.failed(), err))
		c.permit.settle(0, err)
		switch {
		case connected.Load():
			c.post.State = ledger.StateIndeterminate
		case errors.Is(err, evidence.Refuse("egress_address_denied", "")): // by us, and nothing was dialled
			c.post.State = ledger.StateRefused
		default:
			c.post.State = ledger.StateFailed
		}
		return err
	}
	defer resp.Body.Close()
	c.permit.settle(resp.StatusCode, nil)
	credential.answered(resp)
	c.post.State, c.post.Status, c.answered = ledger.StateForwarded, resp.StatusCode, true
	c.post.BytesIn, err = relayResponse(w, resp)
	c.step("relay")
	return err
}

// agentBody is a body as the agent sends it. It keeps why it could not be read to its end: the transport knows only that it has
// nothing to send.
type agentBody struct {
	io.ReadCloser
	mu  sync.Mutex // guards err: the transport reads in a goroutine of its own
	err error
}

func (b *agentBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // io.Reader's contract
		err = readError(err, 0)
		b.mu.Lock()
		b.err = err
		b.mu.Unlock()
	}
	return n, err
}

func (b *agentBody) failed() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// protocolHeaders belong to the mediator's own protocol: an agent never speaks for it.
var protocolHeaders = []string{
	"Actionproof-Capability", "Actionproof-Request-Proof", "Actionproof-Challenge", "Actionproof-Response",
}

func stripProtocolHeaders(h http.Header) {
	for _, name := range protocolHeaders {
		delete(h, name)
	}
}
