package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
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

// Bounds on what is kept of a definition.
const (
	maxParams     = 32
	maxParamDepth = 16
	maxParamSize  = 1 << 10 // bytes of the name of a header and of the path to its argument
)

// definition is what is kept of the definition of a tool.
type definition struct {
	hash string // of its canonical JSON; empty if it has none
	// params holds, by the canonical name of a header, the path of the argument that the header repeats (x-mcp-header).
	params map[string][]string
}

// definitions are the definitions of tools that were shown last. Those that a rule names are kept apart, so that a server cannot have one of them
// forgotten by showing many others.
type definitions struct {
	named, others *lru.Cache[[2]string, definition]
}

func (d *definitions) get(server, tool string) (definition, bool) {
	for _, known := range []*lru.Cache[[2]string, definition]{d.named, d.others} {
		if known == nil {
			continue
		}
		if found, ok := known.Get([2]string{server, tool}); ok {
			return found, true
		}
	}
	return definition{}, false
}

func (d *definitions) isNamed(server, tool string) bool {
	if d.named == nil {
		return false
	}
	_, ok := d.named.Get([2]string{server, tool})
	return ok
}

// put keeps a definition and returns the hash of the one before, which is empty if there was none.
func (d *definitions) put(server, tool string, now definition, named bool) (before string) {
	old, _ := d.get(server, tool)
	to := &d.others
	if named || d.isNamed(server, tool) { // by the rules as they were
		to = &d.named
	}
	if *to == nil {
		*to = lru.New[[2]string, definition](maxTools)
	}
	(*to).Put([2]string{server, tool}, now)
	return old.hash
}

// Definitions are the definitions of tools that all sessions were shown last. It is safe for concurrent use; the zero value is empty.
type Definitions struct {
	mu    sync.Mutex // guards known
	known definitions
}

func (d *Definitions) show(server, tool string, now definition, named bool) (before string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known.put(server, tool, now, named)
}

// define reads the definition of a tool.
func define(raw jsontext.Value) (tool string, d definition, err error) {
	o, err := jsonread.Lenient(raw, 2)
	if err != nil {
		return "", d, err
	}
	tool, ok := o.Get("name").Text()
	if !ok {
		return "", d, fmt.Errorf("a tool has no name")
	}
	if d.hash, err = evidence.HashJSON(raw); err != nil {
		return tool, d, err
	}
	d.params = make(map[string][]string)
	d.collect(o.Get("inputSchema").Value, nil)
	return tool, d, nil
}

// collect takes over the headers that the properties of a schema name. Only those count that are reached by properties alone.
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

// checkHeaders holds the headers of a call against the arguments that they repeat.
func (d definition) checkHeaders(c *Message, header http.Header) error {
	for name, path := range d.params {
		values, arg := header[name], argument(c.Arguments, path)
		absent := arg.Value == nil || arg.Value.Kind() == 'n'
		switch {
		case absent && len(values) == 0:
		case absent:
			return mismatch("the header %s repeats an argument that the call does not have", name)
		case len(values) == 0 && header.Get("Mcp-Protocol-Version") < headersMirror: // no revision before demands it
		case len(values) != 1 || !repeats(values[0], arg.Value):
			return mismatch("the header %s does not say what the argument %s says", name, strings.Join(path, "."))
		}
	}
	return nil
}

// argument returns the argument at a path.
func argument(args json.RawMessage, path []string) (found member) {
	value := jsontext.Value(args)
	for _, name := range path {
		if value == nil || value.Kind() != '{' {
			return member{}
		}
		o, err := jsonread.Lenient(value, 1)
		if err != nil {
			return member{}
		}
		found = o.Get(name)
		value = found.Value
	}
	return found
}

// hasArgument refuses a header Mcp-Param-* that repeats no argument of the call. Which one it has to repeat is known only where the server
// has shown the definition of the tool: see [definition.checkHeaders].
func (m *Message) hasArgument(name, param string, values []string) error {
	if len(values) == 1 && param != "" && m.IsCall() && anyRepeats(values[0], jsontext.Value(m.Arguments), 0) {
		return nil
	}
	return mismatch("the header %.80s repeats no argument of the call", name)
}

func anyRepeats(header string, value jsontext.Value, depth int) bool {
	if value == nil || depth > jsonread.MaxDepth {
		return false
	}
	if value.Kind() != '{' {
		return repeats(header, value)
	}
	o, err := jsonread.Lenient(value, 1)
	if err != nil {
		return false
	}
	for _, m := range o {
		if anyRepeats(header, m.Value, depth+1) {
			return true
		}
	}
	return false
}

// repeats reports whether a header says what a text, an integer or a truth value says. Integers are compared as numbers.
func repeats(header string, value jsontext.Value) bool {
	said, ok := decodeHeader(header)
	if !ok {
		return false
	}
	switch value.Kind() {
	case '"':
		text, ok := member{Value: value}.Text()
		return ok && text == said
	case 't', 'f':
		return said == string(value)
	case '0':
		a, err := strconv.ParseFloat(said, 64)
		b, err2 := strconv.ParseFloat(string(value), 64)
		return err == nil && err2 == nil && a == b && a == math.Trunc(a) && math.Abs(a) <= maxInteger
	}
	return false
}
