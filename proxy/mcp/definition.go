package mcp

import (
	"bytes"
	"cmp"
	"math"
	"net/http"
	"slices"
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

// tool is a tool in a server's list.
type tool struct {
	name  string
	named bool // by a rule
	definition
}

// list reads a list of tools, and leaves out those that no rule names unless a rule shows all.
func list(rules []*Rule, result member) (tools []tool, passes jsontext.Value, err error) {
	listed := result.Members.Get("tools").Value
	if listed == nil {
		return nil, result.Value, nil
	}
	all := slices.ContainsFunc(rules, func(r *Rule) bool { return r.ListAll })
	kept := []byte{'['}
	err = jsonread.Each(listed, func(raw jsontext.Value) error {
		o, err := jsonread.Lenient(raw, 2)
		name, _ := o.Get("name").Text()
		if _, _, found := o.OtherCase("name"); err != nil || found || name == "" {
			return jsonread.ErrMalformed
		}
		named := slices.ContainsFunc(rules, func(r *Rule) bool { return slices.Contains(r.Tools, name) })
		if named || all {
			if len(kept) > 1 {
				kept = append(kept, ',')
			}
			kept = append(kept, raw...)
		}
		tools = append(tools, tool{name, named, define(raw, o)})
		return nil
	})
	if err != nil {
		return nil, nil, unread("the server's list of tools is no list, or has a tool without one name")
	}
	return tools, result.Members.With("tools", append(kept, ']')), nil
}

// show notes the definitions of the tools that rules name: no others can be called.
func (a *Answer) show(f *Flight, tools []tool) {
	for _, t := range tools {
		a.Listed(t.name, t.hash, t.named)
		if !t.named {
			continue
		}
		before := cmp.Or(a.Memory.show(f.peer.tools(), t.name, t.definition), a.Shared.show(f.peer.Server, t.name, t.hash))
		for _, r := range f.rules {
			before = cmp.Or(r.Pin[t.name], before)
		}
		if before != "" && before != t.hash {
			a.Changed(t.name, before, t.hash)
		}
	}
}

// define returns the zero definition for one that has no hash.
func define(raw jsontext.Value, o object) (d definition) {
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
