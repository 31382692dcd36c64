package mcp

import (
	"bytes"
	"cmp"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/lru"
	"github.com/actionproof/mediator/proxy/jsonread"
)

const (
	maxParams     = 32
	maxParamDepth = 16
	maxParamSize  = 256 // a header's name and its argument's path, in bytes
)

type definition struct {
	hash string // of its canonical JSON, or empty
	// params maps a header's canonical name to the path of the argument that it repeats (x-mcp-header).
	params map[string][]string

	era     int  // the memory's era when the client saw it, or -1
	changed bool // the session has seen another definition
}

// Definitions are the hashes of the latest definitions in all sessions. Safe for concurrent use.
type Definitions struct {
	mu     sync.Mutex
	hashes *lru.Cache[[2]string, string] // by server and tool
}

func (d *Definitions) show(server, tool, hash string) (before string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hashes == nil {
		d.hashes = lru.New[[2]string, string](maxTools)
	}
	key := [2]string{server, tool}
	before, _ = d.hashes.Get(key)
	d.hashes.Put(key, hash)
	return before
}

// show notes the definitions of the tools that rules name. taken says that the client takes the result for the list it
// asked for.
func (a *Answer) show(result object, taken bool) {
	tools := result.Get("tools").Value
	if tools == nil {
		return
	}
	if a.hides() && !a.filters {
		a.cut = errList()
	}
	eachTool(tools, func(tool string, raw jsontext.Value) {
		if tool == "" {
			a.miss()
			return
		}
		now := define(raw)
		named, before := a.named(tool), ""
		a.Listed(tool, now.hash, named)
		if !taken && isToolName(tool) { // the client may take it for the list of another URL, as over [oldTransport]
			before = a.Memory.show(a.peer.origin(), tool, now, false)
		}
		if !named {
			return // it cannot be called here
		}
		before = cmp.Or(a.Memory.show(a.peer.tools(), tool, now, taken), before)
		before = cmp.Or(before, a.Shared.show(a.peer.Server, tool, now.hash))
		for _, r := range a.Rules {
			before = cmp.Or(r.Pin[tool], before)
		}
		if before != "" && before != now.hash {
			a.Changed(tool, before, now.hash)
		}
	})
}

// eachTool calls do with the name and the definition of each tool in a list. The name is empty if the value is not a
// list, or an element is not a tool with one name.
func eachTool(list jsontext.Value, do func(name string, raw jsontext.Value)) {
	err := jsonread.Each(list, func(raw jsontext.Value) error {
		o, _ := jsonread.Lenient(raw, 1)
		name, _ := o.Get("name").Text()
		if _, _, found := o.OtherCase("name"); found {
			name = ""
		}
		do(name, raw)
		return nil
	})
	if err != nil || list.Kind() == 'n' {
		do("", nil)
	}
}

// define returns the zero definition for one that has no hash.
func define(raw jsontext.Value) (d definition) {
	o, _ := jsonread.Lenient(raw, 2) // cannot fail: its name was read
	var err error
	if d.hash, err = evidence.HashJSON(raw); err != nil {
		return definition{}
	}
	d.params = make(map[string][]string)
	d.collect(o.Get("inputSchema").Value, nil)
	return d
}

// collect adds the headers named in a schema's properties. Only a chain of properties counts.
func (d *definition) collect(schema jsontext.Value, path []string) {
	if schema.Kind() != '{' || len(path) >= maxParamDepth || !bytes.Contains(schema, []byte("x-mcp-header")) {
		return
	}
	o, err := jsonread.Lenient(schema, 3)
	if err != nil {
		return
	}
	for _, p := range o.Get("properties").Members {
		at := append(path[:len(path):len(path)], p.Name)
		header, ok := p.Members.Get("x-mcp-header").Text()
		if ok && len(d.params) < maxParams && len(header)+len(strings.Join(at, "")) <= maxParamSize {
			d.params[http.CanonicalHeaderKey("Mcp-Param-"+header)] = at
		}
		d.collect(p.Value, at)
	}
}

func (d definition) checkHeaders(c *Message, header http.Header) error {
	if len(d.params) == 0 {
		return nil
	}
	args := c.arguments(maxParamDepth)
	for name, path := range d.params {
		values, arg := header[name], argument(args, path)
		absent := arg.Value == nil || arg.Value.Kind() == 'n'
		switch {
		case absent && len(values) == 0:
		case absent:
			return mismatch("the header %s repeats an argument that the call does not have", name)
		// earlier revisions do not require it
		case len(values) == 0 && header.Get("Mcp-Protocol-Version") < headersMirror:
		case len(values) != 1 || !repeatable(object{{Value: arg.Value}}).has(values[0]):
			return mismatch("the header %s differs from the argument %s", name, strings.Join(path, "."))
		}
	}
	return nil
}

func (m *Message) arguments(keep int) object {
	o, _ := jsonread.Lenient(m.Arguments, keep) // cannot fail: the message was read before
	return o
}

func argument(args object, path []string) (found member) {
	for _, name := range path {
		found = args.Get(name)
		args = found.Members
	}
	return found
}

// hasArguments refuses an Mcp-Param-* header that repeats no argument. Which one it must repeat is known only once the
// server has shown the definition.
func (m *Message) hasArguments(header http.Header) error {
	var all values
	for name, values := range header {
		param, ok := strings.CutPrefix(name, "Mcp-Param-")
		if !ok {
			continue
		}
		if all.texts == nil {
			all = repeatable(m.arguments(jsonread.MaxDepth))
		}
		if len(values) != 1 || param == "" || !m.IsCall() || !all.has(values[0]) {
			return mismatch("the header %.80s repeats no argument of the call", name)
		}
	}
	return nil
}

// values are what a header can repeat; integers are compared as numbers.
type values struct {
	texts    map[string]bool
	integers map[float64]bool
}

func repeatable(o object) values {
	v := values{make(map[string]bool), make(map[float64]bool)}
	v.add(o)
	return v
}

func (v values) add(o object) {
	for _, m := range o {
		switch m.Value.Kind() {
		case '{':
			v.add(m.Members)
		case '"':
			if text, ok := m.Text(); ok {
				v.texts[text] = true
			}
		case 't', 'f':
			v.texts[string(m.Value)] = true
		case '0':
			if n, ok := integer(string(m.Value)); ok {
				v.integers[n] = true
			}
		}
	}
}

func (v values) has(header string) bool {
	said, ok := decodeHeader(header)
	n, isInteger := integer(said)
	return ok && (v.texts[said] || isInteger && v.integers[n])
}

func integer(text string) (float64, bool) {
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && n == math.Trunc(n) && math.Abs(n) <= maxInteger
}
