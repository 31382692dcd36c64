package mcp

import (
	"net/http"

	"github.com/actionproof/mediator/proxy/body"
)

// Call is a call to an MCP server on its way.
type Call struct {
	Watch
	Verdict Verdict
	// Unread is set where nothing is to be learnt from the answer.
	Unread bool
	// Answer reads the answer; nil until there is one, and where it is not read.
	Answer *Answer
}

// Prepare readies the request that is sent.
func (c *Call) Prepare(out *http.Request) {
	out.Header.Set("Accept-Encoding", "identity") // or the answer could not be read
	if c.Sent != nil && c.Sent.IsRequest() {
		c.Memory.Sent(c.Peer, c.Sent.ID)
	}
}

// Begin puts a reader before the relay of the answer: the client may answer at once what it asks.
func (c *Call) Begin(resp *http.Response) {
	if c.Unread {
		return
	}
	if resp.ContentLength < 0 { // over HTTP/2 there may be a length that net/http does not believe
		resp.Header.Del("Content-Length")
	}
	c.Answer = NewAnswer(c.Watch, resp.StatusCode, resp.Header)
	body.Watch(resp, c.Answer)
}

// Done says that the call is over, and whether it may have been sent.
func (c *Call) Done(sent bool) {
	var result Result // of what had no answer, which shows nothing
	if c.Answer != nil {
		result = c.Answer.Result()
	}
	c.Memory.End(c.Flight, result, sent)
	if !sent {
		c.Memory.notSent(c.Verdict)
	}
}
