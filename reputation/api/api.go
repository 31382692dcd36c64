// Package api is the HTTP interface of the node, with the paths of VIN v0.4. GET /openapi.json describes it.
package api

import (
	"context"
	_ "embed" // the description
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/autonomy"
)

// Bounds on the bodies of requests, in bytes.
const (
	MaxReceipts = 4 << 20
	MaxRequest  = 64 << 10
)

//go:embed openapi.json
var description []byte

// Description returns the OpenAPI document.
func Description() []byte { return slices.Clone(description) }

// Options configure a handler. Zero values mean the defaults.
type Options struct {
	// Now is the clock; required.
	Now func() time.Time
	// Log gets the node's own failures; required.
	Log *zap.Logger
	// Operators opens the endpoints for operators. Set it only where no one else reaches the handler.
	Operators bool
	// Rate bounds the mean requests of one address per second, but not on a unix socket; zero means DefaultRate.
	Rate int
	// MCP, if set, answers at MCPPath. It must bound the bodies it reads, below MaxReceipts.
	MCP http.Handler
	// Pins, if set, answers at PinsPath: what others need to verify the node's tokens.
	Pins func() ([]byte, error)
}

// The paths of Options.MCP and Options.Pins.
const (
	MCPPath  = "/mcp"
	PinsPath = "/.well-known/mediator-node"
)

const receiptsPath = "/v1/receipts"

type server struct {
	service *reputation.Service
	limits  *limits
	log     *zap.Logger
}

type endpoint struct {
	method, path string
	answer       answer
}

func (e endpoint) longest() int64 {
	switch {
	case e.method == http.MethodGet:
		return 0
	case e.path == receiptsPath:
		return MaxReceipts
	}
	return MaxRequest
}

// answer returns a [document], an [http.Handler], or a value to write as JSON. w is only for reading the body.
type answer func(w http.ResponseWriter, r *http.Request) (any, error)

type document struct {
	text  []byte
	cache string
}

// Handler answers everyone. It trusts no listener: receipts are signed, and sidecars name callers in signed tokens.
func Handler(s *reputation.Service, o Options) http.Handler {
	a := &server{service: s, limits: newLimits(o), log: flood.Logger(o.Log)}
	byPath := make(map[string][]endpoint)
	all := a.endpoints(o.Operators)
	if o.Pins != nil {
		all = append(all, endpoint{http.MethodGet, PinsPath, func(http.ResponseWriter, *http.Request) (any, error) {
			text, err := o.Pins()
			return document{text, "no-store"}, err
		}})
	}
	for _, e := range all {
		byPath[e.path] = append(byPath[e.path], e)
	}
	mux := http.NewServeMux()
	for path, of := range byPath {
		mux.Handle(path, a.only(of))
	}
	if o.MCP != nil {
		mux.HandleFunc(MCPPath, func(w http.ResponseWriter, r *http.Request) {
			done, err := a.limits.admit(r, MaxReceipts)
			if err != nil {
				a.refuse(w, err)
				return
			}
			defer done()
			o.MCP.ServeHTTP(w, r)
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		a.refuse(w, refusal.New("not_found", "the node has no endpoint %.100q", r.URL.Path))
	})
	return mux
}

func (a *server) endpoints(operators bool) []endpoint {
	tiles := a.tiles()
	all := []endpoint{
		{http.MethodPost, receiptsPath, a.receipts},
		{http.MethodPost, "/v1/challenge/issue", a.issue},
		{http.MethodPost, "/v1/challenge/commit", a.commit},
		{http.MethodGet, "/v1/score/{id}", one(a.service.Score)},
		{http.MethodGet, "/v1/sessions/{session}/score", ofSession(a.service.SessionScore)},
		{http.MethodGet, "/v1/reputation/{id}", one(a.service.Reputation)},
		{http.MethodGet, "/v1/baselines/{id}", forEver(a.service.Baseline)},
		{http.MethodGet, "/openapi.json", func(http.ResponseWriter, *http.Request) (any, error) {
			return document{description, "no-store"}, nil
		}},
		{http.MethodPost, "/v1/signals", spoken(a, a.service.Publish)},
		{http.MethodGet, "/v1/signals/{id}", one(a.service.Signal)},
		{http.MethodPost, "/v1/dispute", spoken(a, a.service.File)},
		{http.MethodGet, "/v1/disputes/{id}", one(a.service.Dispute)},
		{http.MethodPost, "/v1/disputes/{id}/resolution", handed(a, func(r *http.Request, ask struct {
			Decision string `json:"decision"`
		}) (reputation.Dispute, error) {
			return a.service.Arbitrate(r.Context(), r.PathValue("id"), ask.Decision)
		})},
		{http.MethodPost, "/v1/disputes/clock", handed(a, func(r *http.Request, ask struct {
			Clock string `json:"clock"`
		}) (accrual.Log, error) {
			return a.service.SetBack(r.Context(), ask.Clock)
		})},
		{http.MethodGet, logPath, a.logKey},
		{http.MethodGet, logPath + "/checkpoint", tiles}, {http.MethodGet, logPath + "/tile/", tiles},
		{http.MethodGet, "/v1/schemas/{name}", a.schema},
	}
	if operators {
		all = append(all, endpoint{http.MethodGet, "/v1/sessions/{session}/challenges", ofSession(a.revealed)},
			endpoint{http.MethodGet, "/v1/reputation", a.agents})
	}
	return all
}

func (a *server) only(of []endpoint) http.Handler {
	var allow []string
	for _, e := range of {
		allow = append(allow, e.method)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		at := slices.Index(allow, method)
		if at < 0 {
			w.Header().Set("Allow", strings.Join(allow, ", "))
			a.refuse(w, refusal.New("node_method", "%s accepts only %s", of[0].path, strings.Join(allow, ", ")))
			return
		}
		done, err := a.limits.admit(r, of[at].longest())
		if err != nil {
			a.refuse(w, err)
			return
		}
		defer done()
		answer, err := of[at].answer(w, r)
		if err == nil {
			err = write(w, r, answer)
		}
		if err != nil {
			a.refuse(w, err)
		}
	})
}

// public explains refusals, but not the node's own failures.
func public(err error) problem.Details {
	d := problem.ForAgent(err, "")
	if full := problem.DetailsOf(err); d.Status < http.StatusInternalServerError {
		d.Detail = full.Detail
	}
	return d
}

func (a *server) refuse(w http.ResponseWriter, err error) {
	d := public(err)
	if d.Status >= http.StatusInternalServerError {
		a.log.Error("a request was not answered", zap.String("code", d.Code), zap.Error(err))
	}
	d.Write(w)
}

// write writes an answer. Only documents may be cached.
func write(w http.ResponseWriter, r *http.Request, answer any) error {
	if h, ok := answer.(http.Handler); ok {
		h.ServeHTTP(w, r)
		return nil
	}
	d, ok := answer.(document)
	if !ok {
		body, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		d = document{append(body, '\n'), "no-store"}
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", d.cache)
	_, _ = w.Write(d.text)
	return nil
}

// read bounds a body. With a nil w, an oversized body does not close the connection.
func read(w http.ResponseWriter, r *http.Request, bound int64) ([]byte, error) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bound))
	if err != nil {
		return nil, refusal.New("content_too_large", "the body is larger than %d bytes, or broke off", bound)
	}
	return raw, nil
}

func parse(raw []byte, v any) error {
	if err := strictjson.Parse(raw, v); err != nil {
		return refusal.New("query_malformed", "the request is malformed: %v", err)
	}
	return nil
}

// sessionAnswer says how far a session's chain has come. Problem is set if receipts were refused.
type sessionAnswer struct {
	Owner      string           `json:"owner"`
	Session    string           `json:"session"`
	Next       int64            `json:"next"`
	Problem    *problem.Details `json:"problem,omitempty"`
	RetryAfter int              `json:"retry_after,omitempty"` // seconds, if a later try can succeed
}

func (a *server) receipts(w http.ResponseWriter, r *http.Request) (any, error) {
	raw, err := read(w, r, MaxReceipts)
	if err != nil {
		return nil, err
	}
	var ask struct {
		Receipts []string `json:"receipts"`
	}
	var received []reputation.Received
	if err = parse(raw, &ask); err == nil && ask.Receipts == nil {
		err = refusal.New("query_malformed", "the request has no receipts")
	}
	if err == nil {
		received, err = a.service.Receive(r.Context(), ask.Receipts)
	}
	if err != nil {
		a.limits.charge(r, len(raw)/MaxRequest) // reading it cost as much as that many requests
		return nil, err
	}
	answers, refused := []sessionAnswer{}, 0
	for _, one := range received {
		s := sessionAnswer{Owner: one.Owner, Session: one.Session, Next: one.Next}
		if one.Err != nil {
			d := public(one.Err)
			s.Problem, s.RetryAfter = &d, d.RetryAfter
			refused++
		}
		answers = append(answers, s)
	}
	a.limits.charge(r, refused) // anyone can make receipts up, and each session costs a signature check
	return map[string][]sessionAnswer{"sessions": answers}, nil
}

func (a *server) caller(r *http.Request) (by reputation.Caller, raw []byte, err error) {
	if raw, err = read(nil, r, MaxRequest); err == nil {
		by, err = Caller(a.service, r, raw)
	}
	return by, raw, err
}

// Caller returns the agent that calls by a request with this body.
func Caller(s *reputation.Service, r *http.Request, body []byte) (reputation.Caller, error) {
	named, err := header(r, interaction.CallerHeader)
	if err != nil {
		return reputation.Caller{}, err
	}
	return s.Caller(r.Context(), named, r.Method, r.URL.EscapedPath(), body)
}

// header returns the value of a header that a request may have once.
func header(r *http.Request, name string) (string, error) {
	values := r.Header.Values(name)
	if len(values) > 1 {
		return "", refusal.New("query_malformed", "the request has %d headers named %s; at most one is allowed", len(values),
			name)
	}
	return strings.Join(values, ""), nil
}

func (a *server) issue(_ http.ResponseWriter, r *http.Request) (any, error) {
	by, raw, err := a.caller(r)
	if err != nil {
		return nil, err
	}
	if err := parse(raw, &struct{}{}); err != nil {
		return nil, err
	}
	return a.service.Issue(r.Context(), by)
}

func (a *server) commit(_ http.ResponseWriter, r *http.Request) (any, error) {
	by, raw, err := a.caller(r)
	if err != nil {
		return nil, err
	}
	var ask struct {
		Nonce    string          `json:"challenge_nonce"`
		Hash     string          `json:"commitment_hash,omitempty"`
		Salt     string          `json:"salt,omitempty"`
		Strategy json.RawMessage `json:"strategy,omitempty"`
	}
	if err := parse(raw, &ask); err != nil {
		return nil, err
	}
	switch {
	case ask.Hash != "" && ask.Salt == "" && ask.Strategy == nil:
		return a.service.Commit(r.Context(), by, ask.Nonce, ask.Hash)
	case ask.Hash == "" && ask.Strategy != nil:
		return a.service.Reveal(r.Context(), by, ask.Nonce, ask.Salt, ask.Strategy)
	}
	return nil, refusal.New("query_malformed",
		"to commit, send commitment_hash only; to reveal, send salt and strategy only")
}

func ofSession[Answer any](get func(ctx context.Context, owner, session string) (Answer, error)) answer {
	return func(_ http.ResponseWriter, r *http.Request) (any, error) {
		return get(r.Context(), r.URL.Query().Get("owner"), r.PathValue("session"))
	}
}

func (a *server) revealed(ctx context.Context, owner, session string) (any, error) {
	revealed, err := a.service.Revealed(ctx, owner, session)
	return map[string][]autonomy.Challenge{"revealed": append([]autonomy.Challenge{}, revealed...)}, err
}

func (a *server) agents(_ http.ResponseWriter, r *http.Request) (any, error) {
	all, err := a.service.Agents(r.Context(), r.URL.Query().Get("after"))
	return map[string][]accrual.Reputation{"agents": all}, err
}

// forEver answers with content that is named by its hash and never changes.
func forEver(get func(ctx context.Context, hash string) ([]byte, error)) answer {
	return func(_ http.ResponseWriter, r *http.Request) (any, error) {
		text, err := get(r.Context(), r.PathValue("id"))
		return document{text, "public, max-age=31536000, immutable"}, err
	}
}
