package mcp_test

import (
	"encoding/hex"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/actionproof/mediator/proxy/mcp"
	"github.com/actionproof/mediator/test/check"
)

var peer = mcp.Peer{Server: "https://api.example.com/mcp"}

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

func watch(sent *mcp.Message, memory *mcp.Memory) mcp.Watch {
	return mcp.Watch{
		Sent: sent, Header: http.Header{}, Peer: peer, Memory: memory, Shared: new(mcp.Definitions), Rules: rules(""),
		Take: func(int) bool { return true }, Free: func() {}, Changed: func(string, string, string) {},
		Listed: func(string, string, bool) {},
		Turn:   func(int) func() { return func() {} },
		Reads:  func(_, path string) bool { return strings.HasPrefix(path, "/mcp") },
	}
}

func read(t testing.TB, body string, header ...string) *mcp.Message {
	t.Helper()
	m, err := mcp.Read([]byte(body), entry{"header": header}.header())
	check.Must(t, err)
	return m
}

// show shows a memory what a server sent: a message on an event stream or, after a method, the answer to a request.
func show(t testing.TB, memory *mcp.Memory, seen string) {
	t.Helper()
	method, answer, isAnswer := strings.Cut(seen, " ")
	if !isAnswer || strings.HasPrefix(seen, "{") {
		a := mcp.NewAnswer(watch(nil, memory), http.StatusOK, http.Header{"Content-Type": {"text/event-stream"}})
		_, _ = io.WriteString(a, "data: "+seen+"\n\n")
		a.End(io.EOF)
		return
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"name":"create_issue"}}`
	w := watch(read(t, body), memory)
	var err error
	w.Flight, err = memory.Begin(w.Sent, peer, false)
	check.Must(t, err)
	a := mcp.NewAnswer(w, http.StatusOK, http.Header{"Content-Type": {"application/json"}})
	_, _ = io.WriteString(a, answer)
	a.End(io.EOF)
	memory.End(w.Flight, a.Result(), true)
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
		answer := strings.NewReplacer(`\n`, "\n", `\r`, "\r").Replace(e.one("answer"))
		for name, size := range map[string]int{"whole": len(answer) + 1, "in pieces": 1 + len(answer)/1000} {
			t.Run(e.one("name")+" "+name, func(t *testing.T) {
				status, err := strconv.Atoi(e.one("status"))
				check.Must(t, err)
				h := e.header()
				h.Set("Content-Type", e.one("type"))
				body := `{"jsonrpc":"2.0","id":1,"method":"` + e.one("sent") + `","params":{"name":"get_issue"}}`
				if strings.HasPrefix(e.one("sent"), "notifications/") {
					body = strings.Replace(body, `"id":1,`, "", 1)
				}
				a := mcp.NewAnswer(watch(read(t, body), new(mcp.Memory)), status, h)
				for rest := answer; rest != ""; rest = rest[min(size, len(rest)):] {
					_, _ = io.WriteString(a, rest[:min(size, len(rest))])
				}
				a.End(io.EOF)
				got := string(a.Result())
				if a.Resumable() {
					got += " resumable"
				}
				a.Close()
				if got != e.one("want") {
					t.Errorf("got %q, want %q", got, e.one("want"))
				}
			})
		}
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

func FuzzAnswer(f *testing.F) {
	for _, e := range readCorpus(f, "answers.txt") {
		if answer := e.one("answer"); len(answer) < 1<<10 {
			f.Add([]byte(strings.NewReplacer(`\n`, "\n", `\r`, "\r").Replace(answer)), 3, e.one("type"))
		}
	}
	f.Fuzz(func(t *testing.T, answer []byte, at int, kind string) {
		at = min(max(at, 0), len(answer))
		var results []mcp.Result
		for _, pieces := range [][][]byte{{answer}, {answer[:at], answer[at:]}} {
			sent := read(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
			a := mcp.NewAnswer(watch(sent, new(mcp.Memory)), http.StatusOK, http.Header{"Content-Type": {kind}})
			for _, p := range pieces {
				_, _ = a.Write(p)
			}
			a.End(io.EOF)
			results = append(results, a.Result())
		}
		if results[0] != results[1] {
			t.Errorf("in one piece %s, in two %s", results[0], results[1])
		}
	})
}
