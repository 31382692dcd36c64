package graphql

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/proxy/jsonread"
)

// parameters are the members of a request (https://graphql.github.io/graphql-over-http). Other members are refused:
// some servers use them to find a document that the request does not contain.
type parameters struct {
	Query         string                     `json:"query"`
	OperationName string                     `json:"operationName"`
	Variables     map[string]json.RawMessage `json:"variables"`
	Extensions    map[string]json.RawMessage `json:"extensions"`
}

// ReadPost reads a POST request, whose body the caller has bounded.
func ReadPost(header http.Header, url *url.URL, body []byte) ([]Operation, error) {
	if url.RawQuery != "" || url.ForceQuery {
		return nil, refusal.New("override_refused",
			"a POST with a GraphQL request takes no query in its URL: some servers read the document there")
	}
	if kind, _, err := mime.ParseMediaType(header.Get("Content-Type")); err != nil || kind != "application/json" ||
		len(header["Content-Type"]) != 1 {
		return nil, refusal.New("content_malformed",
			"a GraphQL request is sent as application/json; application/graphql, forms and uploads are not taken")
	}
	if text := bytes.TrimLeft(body, " \t\r\n"); len(text) > 0 && text[0] == '[' {
		return nil, refusal.New("message_malformed", "the body is a batch of requests; each goes in a call of its own")
	}
	if !utf8.Valid(body) {
		return nil, malformed("the body is not UTF-8")
	}
	if jsonread.TooMany(body) {
		return nil, refusal.New("content_too_large", "the body has more than %d names and values", jsonread.MaxItems)
	}
	var p parameters
	if err := strictjson.ParseMembers(body, &p); err != nil {
		return nil, malformed("the body is no GraphQL request: %v", err)
	}
	return p.operations()
}

// ReadGet reads a GET request from the query of its URL.
func ReadGet(url *url.URL) ([]Operation, error) {
	values, err := parseQuery(url.RawQuery)
	if err != nil {
		return nil, err
	}
	p := parameters{Query: values["query"], OperationName: values["operationName"]}
	for name, to := range map[string]*map[string]json.RawMessage{"variables": &p.Variables, "extensions": &p.Extensions} {
		if text := values[name]; text != "" {
			if err := strictjson.ParseMembers([]byte(text), to); err != nil {
				return nil, malformed("%s in the URL is not a JSON object: %v", name, err)
			}
		}
	}
	return p.operations()
}

// parseQuery reads a URL's query, in which each parameter may occur once.
func parseQuery(query string) (map[string]string, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, malformed("the query of the URL cannot be read in one way")
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

// operations reads the request's document.
func (p *parameters) operations() ([]Operation, error) {
	for name := range p.Extensions {
		if strings.EqualFold(name, "persistedQuery") { // even beside a document: the server may use the hash
			return nil, refusal.New("graphql_refused", "the request names a persisted query; what that does is not to be seen")
		}
	}
	if p.Query == "" {
		return nil, refusal.New("graphql_refused", "the request has no document")
	}
	return readDocument(p.Query)
}

func malformed(format string, args ...any) error {
	return refusal.New("message_malformed", format, args...)
}
