package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/actionproof/mediator/proxy/sse"
)

// maxAnswer bounds one message of a server, in bytes.
const maxAnswer = 8 << 20

const (
	jsonType   = "application/json"
	streamType = "text/event-stream"
)

// Watch says which answer to read, and what to do with it.
type Watch struct {
	Sent   *Message // nil for an event stream that the client opens
	Flight *Flight  // of Sent; nil if Sent expects no answer
	Path   string   // of the request, as sent
	Peer   Peer
	Memory *Memory
	Shared *Definitions
	Rules  []*Rule
	// reports whether a request to a path of the origin is refused, or read like its answer
	Reads func(method, path string) bool
	// reserves n bytes of memory, until Free; if it fails, the answer is refused
	Take func(n int) bool
	Free func()
	// Turn waits until a text of this size may be read, which takes many times its memory.
	Turn func(size int) (done func())
	// for each tool that the server lists, whether a rule names it, with its definition's hash if it has one
	Listed func(tool, hash string, named bool)
	// for each tool whose definition differs from the pinned one, or from one shown before in any session
	Changed func(tool, before, now string)
	// gets a tool call's result as JSON; may be nil
	Returned func(result []byte)
}

// Answer is the body of a server's answer. It passes only messages that it has read, and writes each anew in one form
// that all clients read alike. Before a message passes, the session's memory notes its question or its tools. An
// unreadable message ends the answer. It is not safe for concurrent use.
type Answer struct {
	Watch
	peer      Peer // includes the session that the answer starts, or is the endpoint that it names
	from      io.ReadCloser
	stream    *sse.Reader // nil if the body does not pass as it comes
	endpoint  []byte      // that a stream of [oldTransport] names
	resumable bool        // the result may come on a stream, though this answer ends
	out       bytes.Buffer
	cut       error // why the answer does not pass from here on
	end       error
}

// read prepares an answer for the client.
func (a *Answer) read(resp *http.Response) error {
	a.session(resp.Header)
	kind, err := contentType(resp.Header)
	for _, name := range []string{"Content-Type", "Content-Encoding", "Content-Length"} {
		resp.Header.Del(name)
	}
	resp.ContentLength = -1
	resp.Body = a
	a.resumable = a.Flight != nil && resp.StatusCode == http.StatusAccepted // the old transport answers on its stream
	switch status := resp.StatusCode; {
	case status/100 == 3:
		return a.move(resp)
	case status >= http.StatusBadRequest && a.Flight != nil:
		return a.fail(resp, err == nil && kind != streamType)
	case status >= http.StatusBadRequest, a.Sent != nil && a.Flight == nil,
		slices.Contains([]int{http.StatusAccepted, http.StatusNoContent, http.StatusResetContent}, status):
		return nil // no client needs the body
	case err == nil && kind == streamType:
		a.stream = sse.NewReader(maxAnswer)
		resp.Header.Set("Content-Type", streamType)
		return nil
	}
	text, readErr := a.whole()
	switch {
	case readErr != nil:
		return readErr
	case len(text) == 0:
		return nil
	case err != nil:
		return err
	case kind != jsonType || a.Sent == nil:
		return unread("the server's answer is of another type than application/json or text/event-stream")
	}
	text, err = a.message(text)
	a.replace(resp, jsonType, text)
	return err
}

// contentType fails for an encoding that not all clients would read.
func contentType(header http.Header) (string, error) {
	encoding := strings.Join(header["Content-Encoding"], ", ")
	kind, params, err := mime.ParseMediaType(strings.ToLower(strings.Join(header["Content-Type"], ", ")))
	c := params["charset"]
	if c != "" && c != "utf-8" && c != "utf8" || encoding != "" && encoding != "identity" {
		return "", unread("the server's answer is compressed, or not in UTF-8")
	}
	if err != nil { // clients would disagree
		return "", nil
	}
	return kind, nil
}

// whole reads a body that is not a stream.
func (a *Answer) whole() ([]byte, error) {
	var text bytes.Buffer
	for {
		before := text.Cap()
		_, err := io.CopyN(&text, a.from, 32<<10)
		if grown := text.Cap() - before; text.Len() > maxAnswer || grown > 0 && !a.Take(grown) {
			return nil, unread("the server's answer is too large to be read")
		}
		switch {
		case err == io.EOF: //nolint:errorlint // io.Reader's contract
			return text.Bytes(), nil
		case err != nil:
			return nil, err
		}
	}
}

// replace makes a text the whole answer.
func (a *Answer) replace(resp *http.Response, kind string, text []byte) {
	if a.end = io.EOF; len(text) == 0 {
		return
	}
	resp.Header.Set("Content-Type", kind)
	resp.Header.Set("Content-Length", strconv.Itoa(len(text)))
	resp.ContentLength = int64(len(text))
	_, _ = a.out.Write(text)
}

// session removes every session but the one that an answer starts: some clients would move their requests to it.
func (a *Answer) session(header http.Header) {
	const name = "Mcp-Session-Id"
	given := header[name]
	starts := a.Sent != nil && a.Sent.Method == initialize
	switch {
	case starts && len(given) == 1 && given[0] != "" && len(given[0]) <= maxHeader: // a longer one no request may name
		a.peer.Session = given[0]
		a.Memory.enter(a.Flight, a.peer.Session)
	case len(given) != 1 || given[0] != a.Peer.Session:
		header.Del(name)
	}
}

// fail gives the client a failed answer: the request's error, or, if the server names none, one line of text. Some
// clients know that their session has ended by a text, or by an error without an id. Clients differ in what else they
// read from it.
func (a *Answer) fail(resp *http.Response, readable bool) error {
	var text []byte
	if readable {
		text, _ = a.whole()
	}
	defer a.Turn(len(text))()
	s, err := readSaid(text)
	named := err == nil && s.failed.Value != nil
	if !named {
		raw, _ := json.Marshal(rpcError{Code: resp.StatusCode})
		s = said{failed: member{Value: raw}}
	}
	passes, err := a.respond(a.Flight, s)
	kind := jsonType
	switch {
	case passes == nil:
	case named && s.id == nil:
		passes = s.text("null")
	case !named:
		kind = "text/plain; charset=utf-8"
		passes = fmt.Appendf(nil, "the server answered %d %s: %.2048q", resp.StatusCode,
			http.StatusText(resp.StatusCode), text)
	}
	a.replace(resp, kind, passes)
	return err
}

// move passes a redirect by which the client repeats its request where the answer is read. Most clients make a GET of a
// request unless the status forbids it.
func (a *Answer) move(resp *http.Response) error {
	method, redirects := http.MethodPost, []int{http.StatusTemporaryRedirect, http.StatusPermanentRedirect}
	if a.Sent == nil {
		method = http.MethodGet
		redirects = append(redirects, http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther)
	}
	to, ok := a.resolve(strings.Join(resp.Header["Location"], ", "))
	if !ok || !slices.Contains(redirects, resp.StatusCode) || !a.Reads(method, to.EscapedPath()) {
		return unread("the server sends the client where its answer is not read, with the status %d", resp.StatusCode)
	}
	resp.Header.Set("Location", to.String())
	if a.Flight != nil {
		a.Memory.move(a.Flight)
	}
	return nil
}

// resolve returns the URL at the request's origin that a server means. It is written so that all clients find the same.
func (a *Answer) resolve(said string) (*url.URL, bool) {
	base, err := url.Parse(a.peer.origin() + a.Path)
	if err != nil {
		return nil, false
	}
	said = strings.TrimSpace(said)
	to, err := base.Parse(said)
	isVisible := !strings.ContainsFunc(said, func(r rune) bool { return r <= ' ' || r > '~' })
	if err != nil || !isVisible || to.Scheme != base.Scheme || !strings.EqualFold(to.Host, base.Host) || to.Opaque != "" ||
		!strings.HasPrefix(to.Path, "/") || strings.HasPrefix(to.Path, "//") {
		return nil, false
	}
	return &url.URL{Scheme: base.Scheme, Host: base.Host, Path: to.Path, RawPath: to.RawPath, RawQuery: to.RawQuery}, true
}

// Read implements [io.Reader].
func (a *Answer) Read(p []byte) (int, error) {
	for a.out.Len() == 0 && a.end == nil {
		n, err := a.from.Read(p)
		if a.end = err; a.stream == nil || n == 0 {
			continue
		}
		held := a.stream.Held() + a.out.Cap()
		a.stream.Write(p[:n], a.event)
		grown := a.stream.Held() + a.out.Cap() - held
		if a.cut == nil && (a.stream.Over() || grown > 0 && !a.Take(grown)) {
			a.cut = unread("an event of the server is too large to be read")
		}
		if a.cut != nil {
			a.end = a.cut
		} else if a.out.Len() == 0 {
			_, _ = a.out.WriteString(":\n") // a comment, because clients give up silent streams
		}
	}
	if a.out.Len() == 0 {
		return 0, a.end
	}
	return a.out.Read(p)
}

// Close implements [io.Closer].
func (a *Answer) Close() error {
	a.end = cmp.Or(a.end, io.ErrClosedPipe)
	a.Free()
	return a.from.Close()
}

func (a *Answer) event(e sse.Event) {
	if a.cut != nil {
		return
	}
	switch {
	case strings.ContainsAny(e.ID, sse.LineEnds):
		a.cut = unread("some clients find other lines in the id of an event of the server")
	case len(e.Data) == 0:
		e.Type = ""
	case string(e.Data) == "{}": // servers of the official TypeScript SDK resume an answer with it
		e.Type, e.Data = "", nil
	case e.IsMessage():
		e.Data, a.cut = a.message(e.Data)
	case e.Type == "endpoint" && a.Sent == nil:
		e.Data, a.cut = a.leads(e.Data)
	default: // no message
		e.Type, e.Data = "", nil
	}
	if a.cut != nil || e.Data == nil && e.ID == "" && e.Retry == "" {
		return
	}
	_, _ = a.out.Write(e.Append(a.out.AvailableBuffer()))
	a.resumable = a.resumable || e.ID != ""
}

// leads reads the endpoint to which a client of [oldTransport] sends its messages. The stream has their answers.
func (a *Answer) leads(data []byte) ([]byte, error) {
	to, ok := a.resolve(string(data))
	if !ok || !a.Reads(http.MethodPost, to.EscapedPath()) {
		return nil, unread("the server wants the client's messages at a URL whose rule is not for MCP")
	}
	if uri := []byte(to.RequestURI()); a.endpoint == nil || bytes.Equal(a.endpoint, uri) {
		a.endpoint = uri
		a.peer = NewPeer(a.peer.origin(), to.EscapedPath(), to.RawQuery, a.peer.Session)
		return uri, nil
	}
	return nil, unread("the server wants the client's messages at two URLs")
}

// message returns a message as the client reads it, or nothing if no client waits for it.
func (a *Answer) message(text []byte) ([]byte, error) {
	defer a.Turn(len(text))()
	s, err := readSaid(text)
	if err != nil {
		return nil, err
	}
	method, asks := s.method.Text()
	id, err := saidID(s.id)
	switch {
	case !asks && a.Sent == nil:
		f, unclear := a.Memory.awaiting(a.peer, id)
		if err != nil || f == nil {
			return nil, unclear
		}
		return a.respond(f, s)
	case !asks && s.id == nil && s.failed.Value != nil, !asks && err == nil && id.like() == a.Sent.ID.like():
		return a.respond(a.Flight, s)
	case !asks:
		return nil, unread("the server answers another request than the one with the id %s", a.Sent.ID)
	case s.id == nil: // a notification
		return s.text(""), nil
	case err != nil:
		return nil, unread("the server asks with an id that clients read in different ways")
	}
	if err := a.Memory.ask(question{peer: a.peer, id: id, asks: map[string]string{"": bounded(method)}}); err != nil {
		return nil, err
	}
	return s.text(id), nil
}
