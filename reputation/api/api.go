// Package api is the HTTP interface of the node. GET /openapi.json describes it; the paths are those of VIN v0.4.
//
//	api.go           the endpoints, and how they answer
//	disputes.go      those about signals and disputes
//	verifications.go what operators see of verifications
//	limits.go        how much strangers may ask
//	openapi.json     the description
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
	// Log gets the failures of the node itself; required.
	Log *zap.Logger
	// Operators is true where only operators, and what they run, reach the handler: it also answers what is for them alone, what agents have
	// revealed and the list of agents.
	Operators bool
	// Rate bounds the requests that one address makes in a second, on the average; zero means DefaultRate. Requests on a unix socket, which
	// admits users by their ids, are not bounded.
	Rate int
	// Verifications are what Operators see of verifications; left out, there are none.
	Verifications Verifications
	// MCP answers at MCPPath, if it is there. It reads bodies of a few megabytes at most.
	MCP http.Handler
}

// MCPPath is the path of Options.MCP.
const MCPPath = "/mcp"

// server answers requests.
type server struct {
	service       *reputation.Service
	verifications Verifications
	limits        *limits
	log           *zap.Logger
}

// endpoint answers one method of one path.
type endpoint struct {
	method, path string
	answer       answer
}

// answer returns what a request is answered with: what is written as JSON, or a [document]. w is only for reading the body.
type answer func(w http.ResponseWriter, r *http.Request) (any, error)

// document is JSON that is written as it is.
type document struct {
	text  []byte
	cache string // for how long it can be kept
}

// Handler answers the requests of sidecars and of everybody else. Who may reach it is the listener's business: receipts are signed, and
// callers are named by their sidecars, so nothing rests on the listener.
func Handler(s *reputation.Service, o Options) http.Handler {
	a := &server{service: s, verifications: o.Verifications, limits: newLimits(o), log: flood.Logger(o.Log)}
	byPath := make(map[string][]endpoint)
	for _, e := range a.endpoints(o.Operators) {
		byPath[e.path] = append(byPath[e.path], e)
	}
	mux := http.NewServeMux()
	for path, of := range byPath {
		mux.Handle(path, a.only(of))
	}
	if o.MCP != nil {
		mux.HandleFunc(MCPPath, func(w http.ResponseWriter, r *http.Request) {
			if err := a.limits.admit(r); err != nil {
				a.refuse(w, err)
				return
			}
			done, err := a.limits.calls.take(r)
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
	all := []endpoint{
		{http.MethodPost, "/v1/receipts", a.receipts},
		{http.MethodPost, "/v1/challenge/issue", a.issue},
		{http.MethodPost, "/v1/challenge/commit", a.commit},
		{http.MethodGet, "/v1/score/{receipt_hash}", a.score},
		{http.MethodGet, "/v1/sessions/{session}/score", a.sessionScore},
		{http.MethodGet, "/v1/reputation/{agent_id}", a.reputation},
		{http.MethodGet, "/v1/baselines/{hash}", a.baseline},
		{http.MethodGet, "/v1/scoring/{hash}", a.scoring},
		{http.MethodGet, "/openapi.json", a.describe},
	}
	all = append(all, a.disputeEndpoints()...)
	if operators {
		all = append(all, endpoint{http.MethodGet, "/v1/sessions/{session}/challenges", a.revealed}, endpoint{http.MethodGet, "/v1/reputation", a.agents},
			endpoint{http.MethodGet, "/v1/verifications", a.overviews}, endpoint{http.MethodGet, "/v1/verifications/{session}", a.overview})
	}
	return all
}

// only answers the methods of one path.
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
			a.refuse(w, refusal.New("node_method", "%s takes %s", of[0].path, strings.Join(allow, ", ")))
			return
		}
		err := a.limits.admit(r)
		if err == nil {
			var answer any
			if answer, err = of[at].answer(w, r); err == nil {
				err = write(w, answer)
			}
		}
		if err != nil {
			a.refuse(w, err)
		}
	})
}

// public makes the document for err that everybody may read: a refusal speaks of the request, a failure of the node's insides.
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

// Values of Cache-Control. What is named by its hash never changes.
const (
	never   = "no-store"
	forEver = "public, max-age=31536000, immutable"
)

// write writes an answer. What is no document is not to be kept.
func write(w http.ResponseWriter, answer any) error {
	d, ok := answer.(document)
	if !ok {
		body, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		d = document{append(body, '\n'), never}
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", d.cache)
	_, _ = w.Write(d.text)
	return nil
}

// read reads a bounded body.
func read(w http.ResponseWriter, r *http.Request, bound int64) ([]byte, error) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bound)) // w may be nil: then the connection stays open
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

type receiptsAnswer struct {
	Sessions []sessionAnswer `json:"sessions"`
}

// sessionAnswer says where the chain of a session stands. Problem is there only if receipts of the session were refused.
type sessionAnswer struct {
	Owner      string           `json:"owner"`
	Session    string           `json:"session"`
	Next       int64            `json:"next"`
	Problem    *problem.Details `json:"problem,omitempty"`
	RetryAfter int              `json:"retry_after,omitempty"` // seconds, if a later try can succeed
}

func (a *server) receipts(w http.ResponseWriter, r *http.Request) (any, error) {
	done, err := a.limits.large.take(r)
	if err != nil {
		return nil, err
	}
	defer done()
	raw, err := read(w, r, MaxReceipts)
	if err != nil {
		return nil, err
	}
	received, err := a.receive(r.Context(), raw)
	if err != nil {
		a.limits.charge(r, len(raw)/MaxRequest) // reading it has cost as much as that many others
		return nil, err
	}
	answer, refused := receiptsAnswer{Sessions: []sessionAnswer{}}, 0
	for _, one := range received {
		s := sessionAnswer{Owner: one.Owner, Session: one.Session, Next: one.Next}
		if one.Err != nil {
			d := public(one.Err)
			s.Problem, s.RetryAfter = &d, d.RetryAfter
			refused++
		}
		answer.Sessions = append(answer.Sessions, s)
	}
	a.limits.charge(r, refused) // anybody can make receipts up, and each session costs a signature to verify
	return answer, nil
}

// receive reads a delivery and takes its receipts.
func (a *server) receive(ctx context.Context, raw []byte) ([]reputation.Received, error) {
	var ask struct {
		Receipts []string `json:"receipts"`
	}
	if err := parse(raw, &ask); err != nil {
		return nil, err
	}
	if ask.Receipts == nil {
		return nil, refusal.New("query_malformed", "the request has no receipts")
	}
	return a.service.Receive(ctx, ask.Receipts)
}

func (a *server) caller(r *http.Request) (reputation.Caller, []byte, error) {
	return Caller(a.service, r, MaxRequest)
}

// Caller reads the body of a request, of at most bound bytes, and says which agent makes it.
func Caller(s *reputation.Service, r *http.Request, bound int64) (reputation.Caller, []byte, error) {
	raw, err := read(nil, r, bound)
	if err != nil {
		return reputation.Caller{}, nil, err
	}
	named := r.Header.Values(interaction.CallerHeader)
	if len(named) > 1 {
		return reputation.Caller{}, nil, refusal.New("query_malformed", "the request has %d headers %s", len(named), interaction.CallerHeader)
	}
	by, err := s.Caller(r.Context(), strings.Join(named, ""), r.Method, r.URL.EscapedPath(), raw)
	return by, raw, err
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
	return nil, refusal.New("query_malformed", "the request has neither commitment_hash, to commit, nor salt and strategy, to reveal")
}

func (a *server) score(_ http.ResponseWriter, r *http.Request) (any, error) {
	return a.service.Score(r.Context(), r.PathValue("receipt_hash"))
}

func (a *server) sessionScore(_ http.ResponseWriter, r *http.Request) (any, error) {
	return a.service.SessionScore(r.Context(), r.URL.Query().Get("owner"), r.PathValue("session"))
}

// revealedAnswer is what agents have revealed in a session.
type revealedAnswer struct {
	Revealed []autonomy.Challenge `json:"revealed"`
}

func (a *server) revealed(_ http.ResponseWriter, r *http.Request) (any, error) {
	revealed, err := a.service.Revealed(r.Context(), r.URL.Query().Get("owner"), r.PathValue("session"))
	return revealedAnswer{append([]autonomy.Challenge{}, revealed...)}, err
}

func (a *server) reputation(_ http.ResponseWriter, r *http.Request) (any, error) {
	return a.service.Reputation(r.Context(), r.PathValue("agent_id"))
}

// agents lists agents, without tokens. A list that is as long as it may be goes on after its last one.
func (a *server) agents(_ http.ResponseWriter, r *http.Request) (any, error) {
	all, err := a.service.Agents(r.Context(), r.URL.Query().Get("after"))
	return struct {
		Agents []accrual.Reputation `json:"agents"`
	}{all}, err
}

func (a *server) baseline(_ http.ResponseWriter, r *http.Request) (any, error) {
	text, err := a.service.Baseline(r.Context(), r.PathValue("hash"))
	return document{text, forEver}, err
}

func (a *server) scoring(_ http.ResponseWriter, r *http.Request) (any, error) {
	text, err := a.service.Scoring(r.PathValue("hash"))
	return document{text, forEver}, err
}

func (a *server) describe(_ http.ResponseWriter, _ *http.Request) (any, error) {
	return document{description, never}, nil
}
