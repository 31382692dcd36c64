package mcp

import (
	"io"
	"net/http"
)

// Call is a call to an MCP server on its way.
type Call struct {
	Watch
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

// Begin puts a reader beside the answer.
func (c *Call) Begin(resp *http.Response) {
	if c.Unread {
		return
	}
	c.Answer = NewAnswer(c.Watch, resp.StatusCode, resp.Header)
	resp.Body = &watched{resp.Body, c.Answer}
}

// watched is an answer's body that is read on its way.
type watched struct {
	io.ReadCloser
	answer *Answer
}

// Read reads a piece, and looks at it before it goes on: the client may answer at once what it asks.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if n > 0 {
		_, _ = w.answer.Write(p[:n])
	}
	if err != nil {
		w.answer.End(err)
	}
	return n, err
}
