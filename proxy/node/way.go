package node

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/pattern"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/body"
	"github.com/actionproof/mediator/proxy/session"
)

// Way is a path of the node that agents reach by a rule. What an agent writes there is public.
type Way struct {
	Path    string
	Methods []string
	// MCP marks an MCP server. Only calls of the tools in Posts are public there; elsewhere every request is.
	MCP   bool
	Posts []string
	// Publishes marks a path where an agent publishes one document and the sidecar signs it.
	Publishes bool
}

var ways = []Way{
	{Path: "/mcp", Methods: []string{http.MethodGet, http.MethodPost, http.MethodDelete}, MCP: true,
		Posts: []string{"register_plugin"}},
	{Path: signalsPath, Methods: []string{http.MethodPost}, Publishes: true},
	{Path: disputePath, Methods: []string{http.MethodPost}, Publishes: true},
}

// WayAt returns the way at an escaped path.
func WayAt(path string) (Way, bool) {
	i := slices.IndexFunc(ways, func(w Way) bool { return w.Path == path })
	if i < 0 {
		return Way{}, false
	}
	return ways[i], true
}

// Publishes reports whether an agent publishes a document at a path.
func Publishes(path string) bool {
	way, _ := WayAt(path)
	return way.Publishes
}

// Paths names all paths.
func Paths() string {
	var all []string
	for _, w := range ways {
		all = append(all, w.Path)
	}
	return strings.Join(all, ", ")
}

// Takes reports whether the way accepts the HTTP method.
func (w Way) Takes(method string) bool { return slices.Contains(w.Methods, method) }

// maxSent bounds a request's body, in bytes, as the node does.
const maxSent = 2 << 20

// Send sends a request that a rule has passed to the node, once, for the session's agent, and returns the answer as it
// comes. Only headers about the body or MCP go out; only the caller token names the caller.
func (n *Relay) Send(s *session.Session, r *http.Request) (*http.Response, error) {
	if n == nil {
		return nil, errMissing()
	}
	defer r.Body.Close()
	text, err := io.ReadAll(io.LimitReader(r.Body, maxSent+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxSent {
		return nil, body.TooLarge(maxSent)
	}
	path := r.URL.EscapedPath()
	token, err := n.token(r.Context(), s, r.Method, path, text)
	if err != nil {
		return nil, err
	}
	h := make(http.Header)
	for name, values := range r.Header { // the agent's own statement was dropped before
		if name == interaction.StatementHeader || name == "Content-Type" || name == "Accept" || name == "Last-Event-Id" ||
			strings.HasPrefix(name, "Mcp-") {
			h[name] = values
		}
	}
	return n.o.Client.Send(r.Context(), r.Method, path, h, text, token)
}

func (n *Relay) token(ctx context.Context, s *session.Session, method, path string, text []byte) (string, error) {
	token, err := n.o.Issuer.Issue(ctx, interaction.Caller{
		Agent: n.o.Agent, Owner: n.o.Owner, Session: s.ID, EventID: s.Event.ID,
		Method: method, Path: path, BodyHash: evidence.HashBytes(text), ModelCalls: s.Chain.Answers(ctx),
	})
	return token.Token(), err
}

func errMissing() error {
	return refusal.New("not_configured", "this sidecar has no node that appraises receipts")
}

// readable lists the path segments that may follow a prefix, spelled so that the node cannot read another path.
var readable = []struct {
	prefix  string
	segment func(string) bool
}{
	{scorePath, evidence.IsHash}, {reputationPath, isAgent},
	{signalsPath + "/", pattern.New(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`).MatchString},
	{disputesPath, pattern.New(`^dsp_[0-9a-f]{32}$`).MatchString},
	{schemasPath, pattern.New(`^[a-z]{1,16}$`).MatchString},
}

// colons unescapes colons: agents' ids have them, and JavaScript's encodeURIComponent escapes them.
var colons = strings.NewReplacer("%3A", ":", "%3a", ":")

// Target returns the node's path for a request that every agent may make. Of an escaped path only colons may be.
func Target(method, path, query string) (target string, ok bool) {
	switch {
	case method == http.MethodPost:
		return path, query == "" && (path == issuePath || path == commitPath)
	case method != http.MethodGet || query != "":
		return "", false
	}
	path = colons.Replace(path)
	for _, r := range readable {
		if segment, ok := strings.CutPrefix(path, r.prefix); ok {
			return path, r.segment(segment)
		}
	}
	return "", false
}
