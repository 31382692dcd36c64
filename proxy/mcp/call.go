package mcp

import (
	"net/http"

	"github.com/actionproof/mediator/proxy/body"
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
	if c.Sent != nil && c.Sent.IsRequest() {
		c.Memory.Sent(c.Peer, c.Sent.ID)
	}
}

// Begin prepares an answer for the client, or refuses one that may list tools and cannot be read. Call it before
// relaying, because the client may answer the server's questions at once.
func (c *Call) Begin(resp *http.Response) error {
	if c.Unread {
		return nil
	}
	if resp.ContentLength < 0 { // over HTTP/2 there may be a length that net/http ignores
		resp.Header.Del("Content-Length")
	}
	c.Answer = NewAnswer(c.Watch, resp.StatusCode, resp.Header)
	// a stream without a request may resume the answer of a list
	if c.hides() && (c.Sent == nil || c.Sent.Method == listTools) {
		return c.Answer.filter(resp)
	}
	body.Watch(resp, c.Answer)
	return nil
}

// sent means that the request may have been sent.
func (c *Call) Done(sent bool) {
	var result Result
	if c.Answer != nil {
		result = c.Answer.Result()
	}
	c.Memory.End(c.Flight, result, sent)
	if q := c.Verdict.answered; !sent && q != nil {
		_ = c.Memory.ask(*q) // if it fails, the server has asked too much and counts as unread
	}
}
