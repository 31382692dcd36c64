package mcp

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/jsonread"
	"github.com/actionproof/mediator/proxy/sse"
)

// hides reports whether the client sees only the tools that rules name.
func (w *Watch) hides() bool {
	return !slices.ContainsFunc(w.Rules, func(r *Rule) bool { return r.ListAll })
}

func (w *Watch) named(tool string) bool {
	return slices.ContainsFunc(w.Rules, func(r *Rule) bool { return slices.Contains(r.Tools, tool) })
}

// filter replaces an answer's body: its messages are written anew, so that every client reads what was judged, and
// their lists hold only tools that rules name. It refuses an answer that it cannot read; a stream ends there.
func (a *Answer) filter(resp *http.Response) error {
	if !a.json && a.stream == nil {
		if a.blind && !a.moved {
			return errList()
		}
		a.watch(resp)
		return nil
	}
	a.filters = true
	var from io.Reader = &filtered{from: resp.Body, answer: a}
	size := int64(-1)
	resp.Header.Del("Content-Length")
	if a.json {
		text, err := a.whole(resp.Body)
		if err != nil {
			return err
		}
		from, size = bytes.NewReader(text), int64(len(text))
		resp.Header.Set("Content-Length", strconv.Itoa(len(text)))
	}
	resp.ContentLength = size
	resp.Body = struct {
		io.Reader
		io.Closer
	}{from, resp.Body}
	return nil
}

// whole reads and filters a JSON answer. Of a failed one that it cannot read, only the status passes.
func (a *Answer) whole(from io.Reader) ([]byte, error) {
	a.length = -1
	_, err := io.Copy(a, from)
	text := a.held
	a.End(cmp.Or(err, io.EOF))
	if err == nil && len(text) > 0 {
		text, err = a.only(text)
	}
	if a.blind && err == nil {
		err = errList()
	}
	if err != nil && a.status >= http.StatusBadRequest {
		a.cut = nil
		return nil, nil
	}
	return text, cmp.Or(a.cut, err)
}

// Cut reports whether a filtered stream of events ended at something that it could not read.
func (a *Answer) Cut() bool { return a.filters && a.cut != nil }

// filtered is the body of a stream that [Answer.filter] has written anew.
type filtered struct {
	from   io.Reader
	answer *Answer
	err    error
}

func (f *filtered) Read(p []byte) (int, error) {
	a := f.answer
	for a.out.Len() == 0 && f.err == nil {
		var n int
		if n, f.err = f.from.Read(p); n > 0 {
			if _, refused := a.Write(p[:n]); refused != nil {
				f.err = refused
			} else if a.out.Len() == 0 {
				_, _ = a.out.WriteString(":\n") // a comment, because clients give up silent streams
			}
		}
		if f.err != nil {
			a.End(f.err)
		}
	}
	if a.out.Len() == 0 {
		return 0, f.err
	}
	return a.out.Read(p)
}

// pass writes an event that all clients read alike. The answer has judged it before.
func (a *Answer) pass(e sse.Event) {
	if len(e.Data) > 0 && e.IsMessage() && !a.blind {
		text, err := a.only(e.Data)
		if err != nil {
			a.cut = err
			return
		}
		e.Data = text
	}
	before := a.out.Cap()
	text, alike := e.Append(a.out.AvailableBuffer())
	if a.blind || !alike {
		a.cut = errList()
		return
	}
	_, _ = a.out.Write(text)
	if after := a.out.Cap(); after > before && !a.Take(after-before) {
		a.cut = errList()
	}
}

// only returns a message in the one form that all clients read, without the tools that no rule names.
func (a *Answer) only(text []byte) ([]byte, error) {
	defer a.Turn(len(text))()
	o, err := jsonread.Lenient(text, 2)
	if err != nil {
		return nil, errList()
	}
	result := o.Get("result").Members
	out := jsontext.Value(bytes.Clone(text))
	if tools := result.Get("tools").Value; tools != nil {
		kept, nameless := []byte{'['}, false
		eachTool(tools, func(name string, raw jsontext.Value) {
			nameless = nameless || name == ""
			if !a.named(name) {
				return
			}
			if len(kept) > 1 {
				kept = append(kept, ',')
			}
			kept = append(kept, raw...)
		})
		if nameless {
			return nil, errList()
		}
		out = o.With("result", result.With("tools", append(kept, ']')))
	}
	if err := out.Format(jsontext.EscapeForJS(true)); err != nil {
		return nil, errList()
	}
	return bytes.ReplaceAll(out, []byte("\u0085"), []byte(`\u0085`)), nil
}

func errList() error {
	return refusal.New("mcp_answer_unread",
		"the answer could not be read whole, so it may list tools that no rule names")
}
