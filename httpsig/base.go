package httpsig

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/dunglas/httpsfv"
	"golang.org/x/net/http/httpguts"
)

// Message is a request, or a response with the request that it answers.
type Message struct {
	Method string
	Target *url.URL // absolute, as the sender addressed it
	Status int      // of a response; zero for a request
	Header http.Header
	// Request is what a response answers. Components with req need it.
	Request *Message
}

// Bounds: on a signature's components, and in bytes on its base and on the fields that describe it.
const maxComponents, maxBase, maxField = 32, 16 << 10, 8 << 10

// Value returns the value of a component of m, such as "@target-uri;req".
func (m *Message) Value(component string) (string, error) {
	id, err := parseComponent(component)
	if err != nil {
		return "", err
	}
	return m.value(id)
}

func parseComponent(component string) (httpsfv.Item, error) {
	name, params, _ := strings.Cut(component, ";")
	if params != "" {
		params = ";" + params
	}
	id, err := httpsfv.UnmarshalItem([]string{`"` + name + `"` + params})
	if err != nil {
		return id, fmt.Errorf("httpsig: %.80q is no component: %w", component, err)
	}
	return id, nil
}

func (m *Message) value(id httpsfv.Item) (string, error) {
	name, ok := id.Value.(string)
	if !ok {
		return "", errors.New("httpsig: a component's name is not a string")
	}
	var key *string // of a field's member
	for _, p := range id.Params.Names() {
		v, _ := id.Params.Get(p)
		switch text, isText := v.(string); {
		case p == "key" && isText && !strings.HasPrefix(name, "@"):
			key = &text
		case p != "req" || v != true:
			return "", fmt.Errorf("httpsig: the component %.80q has a parameter that is not known here", name)
		case m.Status == 0 || m.Request == nil:
			return "", fmt.Errorf("httpsig: %.80q comes from a request, and the message has none", name)
		default:
			m = m.Request
		}
	}
	value, err := m.derived(name)
	switch {
	case err != nil || strings.HasPrefix(name, "@"):
	case key != nil:
		value, err = memberOf(m.Header, name, *key)
	default:
		value, err = field(m.Header, name)
	}
	if err != nil {
		return "", err
	}
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r > '~' }) {
		return "", fmt.Errorf("httpsig: %.80q is not plain ASCII", name)
	}
	return value, nil
}

// derived returns a derived component (section 2.2), or nothing for a field.
func (m *Message) derived(name string) (string, error) {
	switch {
	case !strings.HasPrefix(name, "@"):
		return "", nil
	case m.Status != 0:
		if name == "@status" {
			return strconv.Itoa(m.Status), nil
		}
		return "", fmt.Errorf("httpsig: a response has no %.80q", name)
	case m.Target == nil || m.Target.Host == "" || m.Target.Opaque != "":
		return "", errors.New("httpsig: the request has no absolute target")
	}
	scheme, authority := strings.ToLower(m.Target.Scheme), strings.ToLower(m.Target.Host)
	if port := map[string]string{"http": ":80", "https": ":443"}[scheme]; port != "" {
		authority = strings.TrimSuffix(authority, port)
	}
	path, query := m.Target.EscapedPath(), ""
	if path == "" {
		path = "/"
	}
	if m.Target.RawQuery != "" || m.Target.ForceQuery {
		query = "?" + m.Target.RawQuery
	}
	switch name {
	case "@method":
		return m.Method, nil
	case "@target-uri":
		return scheme + "://" + authority + path + query, nil
	case "@authority":
		return authority, nil
	case "@scheme":
		return scheme, nil
	case "@path":
		return path, nil
	case "@query":
		return "?" + m.Target.RawQuery, nil
	}
	return "", fmt.Errorf("httpsig: the component %.80q is not known here", name)
}

// field returns a field's lines as one (section 2.1).
func field(h http.Header, name string) (string, error) {
	if name != strings.ToLower(name) || !httpguts.ValidHeaderFieldName(name) {
		return "", fmt.Errorf("httpsig: %.80q is not the lowercase name of a field", name)
	}
	lines := slices.Clone(h.Values(name))
	if len(lines) == 0 {
		return "", fmt.Errorf("httpsig: the message has no field %.80q", name)
	}
	for i, line := range lines {
		lines[i] = strings.Trim(line, " \t")
	}
	return strings.Join(lines, ", "), nil
}

// memberOf returns a member of a field that is a dictionary (section 2.1.2).
func memberOf(h http.Header, name, key string) (string, error) {
	if _, err := field(h, name); err != nil {
		return "", err
	}
	d, err := dictionary(h, name)
	if err != nil {
		return "", err
	}
	member, ok := d.Get(key)
	if !ok {
		return "", fmt.Errorf("httpsig: the field %.80q has no member %.80q", name, key)
	}
	value, err := httpsfv.Marshal(member)
	if err != nil {
		return "", fmt.Errorf("httpsig: %w", err)
	}
	return value, nil
}

const paramsLine = `"@signature-params": `

// base returns the signature base (section 2.5).
func (m *Message) base(covered httpsfv.InnerList) (string, error) {
	if len(covered.Items) > maxComponents {
		return "", fmt.Errorf("httpsig: a signature covers at most %d components", maxComponents)
	}
	var b strings.Builder
	seen := make(map[string]bool)
	for _, id := range covered.Items {
		value, err := m.value(id)
		if err != nil {
			return "", err
		}
		line, err := httpsfv.Marshal(id)
		if err != nil {
			return "", fmt.Errorf("httpsig: %w", err)
		}
		if seen[line] {
			return "", fmt.Errorf("httpsig: %.80s is covered twice", line)
		}
		seen[line] = true
		b.WriteString(line + ": " + value + "\n")
	}
	params, err := httpsfv.Marshal(covered)
	if err != nil {
		return "", fmt.Errorf("httpsig: %w", err)
	}
	b.WriteString(paramsLine + params)
	if b.Len() > maxBase {
		return "", fmt.Errorf("httpsig: a signature base has at most %d bytes", maxBase)
	}
	return b.String(), nil
}
