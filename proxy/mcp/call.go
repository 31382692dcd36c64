package mcp

import (
	"net/http"

	"github.com/actionproof/mediator/internal/refusal"
)

// Call is a call to an MCP server in progress.
type Call struct {
	Watch
	Verdict Verdict
	// the answer is not read
	Unread bool
	// nil before the answer begins, and if it is not read
	Answer *Answer
}

// Prepare changes the outgoing request so that its answer can be read.
func (c *Call) Prepare(out *http.Request) {
	out.Header.Set("Accept-Encoding", "identity") // a compressed answer could not be read
	if c.Flight != nil {
		c.Memory.Sent(c.Flight)
	}
}

// Begin makes an [Answer] the body of the response, and refuses one that is unreadable as a whole. Call it before
// relaying.
func (c *Call) Begin(resp *http.Response) error {
	if c.Unread {
		return nil
	}
	c.Answer = &Answer{Watch: c.Watch, peer: c.Peer, from: resp.Body}
	err := c.Answer.read(resp)
	if refusal.CodeOf(err) != "" {
		c.Answer.cut = err
	}
	return err
}

// Done ends the call. sent means that the request may have been sent.
func (c *Call) Done(sent bool) {
	c.Memory.End(c.Flight, "", sent)
	if q := c.Verdict.answered; !sent && q != nil {
		_ = c.Memory.ask(*q) // if it fails, the server has asked too much already
	}
}
