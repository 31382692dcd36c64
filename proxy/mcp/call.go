package mcp

import (
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/actionproof/mediator/internal/refusal"
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
	c.Answer.watch(resp)
	return nil
}

func (a *Answer) watch(resp *http.Response) {
	if a.stream != nil { // by a length, its client would find its end before the answer does
		resp.Header.Del("Content-Length")
		resp.ContentLength = -1
	}
	body.Watch(resp, a)
	resp.Body = &judged{ReadCloser: resp.Body, answer: a}
}

// judged is the body of an answer, in which no text passes before the answer has read it: a server need not end what is
// whole, and some clients do not wait for the end.
type judged struct {
	io.ReadCloser
	answer *Answer
	text   []byte // may pass
	err    error  // follows the text
}

func (j *judged) Read(p []byte) (n int, err error) {
	for len(j.text) == 0 && j.err == nil {
		held := j.answer.held
		n, j.err = j.ReadCloser.Read(p)
		switch {
		case j.answer.json || j.answer.other: // the answer holds it
		case j.answer.cut != nil: // also by the end that comes with the last piece
			return 0, j.err
		case len(held) == 0:
			return n, j.err
		default:
			j.text = append(held, p[:n]...)
		}
	}
	n = copy(p, j.text)
	if j.text = j.text[n:]; len(j.text) == 0 {
		err = j.err
	}
	return n, err
}

// leads reports whether each client of [oldTransport] finds an endpoint's URI where its messages are read. They differ
// on one that begins with no slash.
func (a *Answer) leads(data []byte) bool {
	uri := strings.TrimSpace(string(data))
	path := a.peer.pathOf(uri)
	found := []string{path}
	if path != "" && strings.HasPrefix(uri, path) && path[0] != '/' && !strings.ContainsAny(path, ":@") {
		at := strings.TrimSuffix(a.Path, "/") + "/"
		found = []string{"/" + path, a.Path[:strings.LastIndex(a.Path, "/")+1] + path, at + path}
	}
	return !slices.ContainsFunc(found, func(path string) bool { return !a.Reads(http.MethodPost, path) })
}

// errEndpoint refuses to lead a client of [oldTransport] to where its messages would pass unread.
func errEndpoint() error {
	return refusal.New("mcp_answer_unread", "the server wants the client's messages at a URL whose rule is not for MCP")
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
