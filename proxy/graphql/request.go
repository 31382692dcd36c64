package graphql

import (
	"errors"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/proxy/jsonread"
)

// parameters are all members of a request (https://graphql.github.io/graphql-over-http). Some servers use others to
// find a document that the request does not contain.
type parameters struct {
	query      string
	extensions jsonread.Object
}

// Members that are not read here must still have their type.
func (p *parameters) read(o jsonread.Object) error {
	for _, m := range o {
		kind := m.Value.Kind()
		isText := m.Name == "query" || m.Name == "operationName"
		switch {
		case !isText && m.Name != "variables" && m.Name != "extensions":
			return malformed("the request has the member %.60q, which no GraphQL request has", m.Name)
		case kind == 'n':
		case isText && kind != '"', !isText && kind != '{':
			return malformed("the member %s of the request has the wrong type", m.Name)
		}
	}
	p.query, _ = o.Get("query").Text()
	p.extensions = o.Get("extensions").Members
	return nil
}

// ReadPost reads a POST request, whose body the caller has bounded.
func ReadPost(header http.Header, url *url.URL, body []byte) ([]Operation, error) {
	if url.RawQuery != "" || url.ForceQuery {
		return nil, refusal.New("override_refused",
			"a GraphQL POST must not have a query in its URL: some servers read the document there")
	}
	if kind, _, err := mime.ParseMediaType(header.Get("Content-Type")); err != nil || kind != "application/json" ||
		len(header["Content-Type"]) != 1 {
		return nil, refusal.New("content_malformed",
			"a GraphQL request is sent as application/json; application/graphql, forms and uploads are not accepted")
	}
	if jsonread.Exceeds(body) {
		return nil, refusal.New("content_too_large",
			"the body has more than %d names and values, or is nested too deeply", jsonread.MaxItems)
	}
	o, err := jsonread.Lenient(body, 2) // the names of variables may differ in case alone
	if errors.Is(err, jsonread.ErrList) {
		return nil, refusal.New("message_malformed",
			"the body is a batch of requests: send each request in its own call")
	} else if err != nil {
		return nil, malformed("the body is not a GraphQL request: %v", err)
	}
	var p parameters
	if err := p.read(o); err != nil {
		return nil, err
	}
	return p.operations()
}

// ReadGet reads a GET request from the query of its URL.
func ReadGet(url *url.URL) ([]Operation, error) {
	values, err := parseQuery(url.RawQuery)
	if err != nil {
		return nil, err
	}
	p := parameters{query: values["query"]}
	for _, name := range []string{"variables", "extensions"} {
		text := values[name]
		if text == "" || text == "null" {
			continue
		}
		o, err := jsonread.Lenient([]byte(text), 1)
		if err != nil {
			return nil, malformed("%s in the URL is not a JSON object: %v", name, err)
		}
		if name == "extensions" {
			p.extensions = o
		}
	}
	return p.operations()
}

func parseQuery(query string) (map[string]string, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, malformed("the query of the URL can be read in more than one way")
	}
	one := make(map[string]string, len(values))
	for name, list := range values {
		switch name {
		case "query", "operationName", "variables", "extensions":
		default:
			return nil, malformed("the URL has the parameter %.60q, which no GraphQL request has", name)
		}
		if len(list) != 1 {
			return nil, malformed("the URL has the parameter %s %d times", name, len(list))
		}
		one[name] = list[0]
	}
	return one, nil
}

func (p *parameters) operations() ([]Operation, error) {
	for _, m := range p.extensions {
		if strings.EqualFold(m.Name, "persistedQuery") { // even beside a document: the server may use the hash
			return nil, refusal.New("graphql_refused",
				"the request names a persisted query, whose content cannot be seen")
		}
	}
	if p.query == "" {
		return nil, refusal.New("graphql_refused", "the request has no document")
	}
	return readDocument(p.query)
}

func malformed(format string, args ...any) error {
	return refusal.New("message_malformed", format, args...)
}

// MayMutate reports whether some GraphQL server may read more than queries in a URL.
func MayMutate(u *url.URL) bool {
	found := false
	for name, value := range wire.Parameters(u.RawQuery) {
		name = wire.FoldParameter(name)
		found = found || (name == "query" || name == "extensions") && strings.Contains(value, "{")
	}
	if !found {
		return false
	}
	operations, err := ReadGet(u)
	return err != nil || slices.ContainsFunc(operations, func(o Operation) bool { return o.Type != Query })
}
