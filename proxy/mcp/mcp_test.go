package mcp_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/test/check"
)

const origin = "https://api.example.com"

// peer is a server without sessions, and at one that gave the client a session.
var peer, at = mcp.NewPeer(origin, "/mcp", "", ""), mcp.NewPeer(origin, "/mcp", "", "s1")

// entry is one entry of a corpus: the values of its lines by key.
type entry map[string][]string

func (e entry) one(key string) string { return strings.Join(e[key], "\n") }

func readCorpus(t testing.TB, name string) (entries []entry) {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	check.Must(t, err)
	_, raw2, _ := strings.Cut(string(raw), "\n\n") // after the file's description
	for block := range strings.SplitSeq(strings.TrimSuffix(raw2, "\n"), "\n\n") {
		e := make(entry)
		for line := range strings.SplitSeq(block, "\n") {
			key, value, _ := strings.Cut(line, ":")
			e[key] = append(e[key], expand(t, strings.TrimPrefix(value, " ")))
		}
		entries = append(entries, e)
	}
	return entries
}

var short = regexp.MustCompile(`\$\{(?:(.+?)\*(\d+)|([0-9a-f]+))\}`)

func expand(t testing.TB, s string) string {
	return short.ReplaceAllStringFunc(s, func(m string) string {
		parts := short.FindStringSubmatch(m)
		if parts[3] != "" {
			raw, err := hex.DecodeString(parts[3])
			check.Must(t, err)
			return string(raw)
		}
		n, err := strconv.Atoi(parts[2])
		check.Must(t, err)
		return strings.Repeat(parts[1], n)
	})
}

// header returns the headers of an entry and those of every Streamable HTTP client.
func (e entry) header() http.Header {
	h := http.Header{"Accept": {"application/json, text/event-stream"}}
	replaced := false
	for _, line := range e["header"] {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Accept" && !replaced {
			h, replaced = http.Header{}, true
		}
		h[http.CanonicalHeaderKey(name)] = append(h[http.CanonicalHeaderKey(name)], value)
	}
	return h
}

// watch is for a request whose answer is read; for an event stream that the client opens if sent is nil.
func watch(t testing.TB, memory *mcp.Memory, from mcp.Peer, sent *mcp.Message, of ...*mcp.Rule) mcp.Watch {
	t.Helper()
	w := mcp.Watch{
		Sent: sent, Path: "/mcp", Peer: from, Memory: memory, Shared: new(mcp.Definitions), Rules: of,
		Take: func(int) bool { return true }, Free: func() {}, Changed: func(string, string, string) {},
		Listed: func(string, string, bool) {},
		Turn:   func(int) func() { return func() {} },
		Reads:  func(_, path string) bool { return strings.HasPrefix(path, "/mcp") || path == "/messages" },
	}
	if of == nil {
		w.Rules = rules("")
	}
	if sent != nil && sent.IsRequest() {
		var err error
		w.Flight, err = memory.Begin(sent, from, w.Rules, sent.Name == "create_issue")
		check.Must(t, err)
	}
	return w
}

func read(t testing.TB, body string, header ...string) *mcp.Message {
	t.Helper()
	m, err := mcp.Read([]byte(body), entry{"header": header}.header())
	check.Must(t, err)
	return m
}

// request is one of a method, for the tool get_issue.
func request(t testing.TB, method string, id int) *mcp.Message {
	t.Helper()
	return read(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"name":"get_issue"}}`, id, method))
}

const stream, plain = "text/event-stream", "application/json"

// events is a stream of messages.
func events(messages ...string) (all string) {
	for _, m := range messages {
		all += "data: " + m + "\n\n"
	}
	return all
}

// reply is an answer on its way. Its parts come as the test sends them.
type reply struct {
	*mcp.Answer
	call mcp.Call
	to   *io.PipeWriter
	got  chan string // what the client has read, once the answer has ended
	err  chan error
}

// begin has a server begin an answer whose body comes in parts. It fails if the answer is refused.
func begin(t testing.TB, w mcp.Watch, kind string) *reply {
	t.Helper()
	from, to := io.Pipe()
	r := &reply{call: mcp.Call{Watch: w}, to: to, got: make(chan string, 1), err: make(chan error, 1)}
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}}, Body: from}
	check.Must(t, r.call.Begin(resp))
	r.Answer = r.call.Answer
	go func() {
		text, err := io.ReadAll(resp.Body)
		_ = from.CloseWithError(io.ErrClosedPipe)
		r.got <- string(text)
		r.err <- err
	}()
	return r
}

// say returns once the mediator has read the messages, or no longer reads.
func (r *reply) say(messages ...string) {
	_, _ = io.WriteString(r.to, events(messages...))
	_, _ = io.WriteString(r.to, ":\n") // is read after the messages were judged
}

// end ends the answer and returns what the client has read of it.
func (r *reply) end(err error) string {
	_ = r.to.CloseWithError(err)
	text := <-r.got
	r.call.Done(true)
	return text
}

// answer passes a whole answer to the client. refused is the code by which the mediator withholds it, or its rest.
func answer(w mcp.Watch, status int, header http.Header, body string) (passes, refused string, result mcp.Result) {
	c := mcp.Call{Watch: w}
	resp := &http.Response{StatusCode: status, Header: header, ContentLength: -1,
		Body: io.NopCloser(iotest.DataErrReader(iotest.HalfReader(strings.NewReader(body))))}
	err := c.Begin(resp)
	var text []byte
	if err == nil {
		text, err = io.ReadAll(resp.Body)
	}
	result = c.Answer.Result()
	c.Done(true)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		refused = check.CodeOf(err)
	}
	return comments.ReplaceAllString(string(text), ""), refused, result
}

var comments = regexp.MustCompile(`(?m)^:\n`)

func typed(kind string) http.Header { return http.Header{"Content-Type": {kind}} }

// listen has a server say something on a stream that the client opens.
func listen(t testing.TB, memory *mcp.Memory, from mcp.Peer, text string) (passes, refused string) {
	t.Helper()
	passes, refused, _ = answer(watch(t, memory, from, nil), http.StatusOK, typed(stream), text)
	return passes, refused
}

// show shows a memory what a server sent: a message on an event stream or, after a method, the answer to a request.
func show(t testing.TB, memory *mcp.Memory, seen string) {
	t.Helper()
	method, said, isAnswer := strings.Cut(seen, " ")
	if !isAnswer || strings.HasPrefix(seen, "{") {
		listen(t, memory, peer, events(seen))
		return
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"name":"create_issue"}}`
	w := watch(t, memory, peer, read(t, body))
	answer(w, http.StatusOK, typed(plain), said)
}

func rules(of string) []*mcp.Rule {
	return []*mcp.Rule{
		{Tools: []string{"create_issue"}, Post: true},
		{Tools: []string{"get_issue"}, ListAll: true, Elicitation: strings.Contains(of, "elicitation"),
			Sampling: strings.Contains(of, "sampling")},
	}
}

func judge(e entry, memory *mcp.Memory) string {
	h := e.header()
	m, err := mcp.Read([]byte(e.one("body")), h)
	if err != nil {
		return check.CodeOf(err)
	}
	at := peer
	at.Session = h.Get("Mcp-Session-Id")
	v, err := mcp.Judge(m, h, rules(e.one("rules")), at, memory)
	if err != nil {
		return check.CodeOf(err)
	}
	verdict := "pass " + []string{"issues", "reads"}[v.Rule]
	if v.Human {
		verdict += " human"
	}
	return verdict
}

func TestMessages(t *testing.T) {
	entries := readCorpus(t, "messages.txt")
	if len(entries) < 120 {
		t.Fatalf("the corpus has %d messages", len(entries))
	}
	for _, e := range entries {
		t.Run(e.one("name"), func(t *testing.T) {
			memory := new(mcp.Memory)
			for _, seen := range e["seen"] {
				show(t, memory, seen)
			}
			if got := judge(e, memory); got != e.one("want") {
				t.Errorf("got %s, want %s", got, e.one("want"))
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	for _, e := range readCorpus(t, "answers.txt") {
		said := strings.NewReplacer(`\n`, "\n", `\r`, "\r").Replace(e.one("answer"))
		t.Run(e.one("name"), func(t *testing.T) {
			status, err := strconv.Atoi(e.one("status"))
			check.Must(t, err)
			h := e.header()
			h.Set("Content-Type", e.one("type"))
			body := `{"jsonrpc":"2.0","id":1,"method":"` + e.one("sent") + `","params":{"name":"get_issue"}}`
			if strings.HasPrefix(e.one("sent"), "notifications/") {
				body = strings.Replace(body, `"id":1,`, "", 1)
			}
			c := mcp.Call{Watch: watch(t, new(mcp.Memory), peer, read(t, body))}
			resp := &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(iotest.OneByteReader(
				strings.NewReader(said)))}
			if err = c.Begin(resp); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
			}
			got := string(c.Answer.Result())
			if c.Answer.Resumable(mcp.Result(got)) {
				got += " resumable"
			}
			if got != e.one("want") {
				t.Errorf("got %q, want %q: %v", got, e.one("want"), err)
			}
		})
	}
}

func FuzzMessage(f *testing.F) {
	for _, e := range readCorpus(f, "messages.txt") {
		f.Add([]byte(e.one("body")))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		h := entry{}.header()
		m, err := mcp.Read(body, h)
		if err != nil {
			return
		}
		wantSameReading(t, body, m)
		_, _ = mcp.Judge(m, h, rules("elicitation sampling"), peer, new(mcp.Memory))
	})
}
