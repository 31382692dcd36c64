package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/dispute"
)

func (a *server) disputeEndpoints() []endpoint {
	return []endpoint{
		{http.MethodPost, "/v1/signals", a.spoken(func(ctx context.Context, from reputation.Spoken) (any, error) { return a.service.Publish(ctx, from) })},
		{http.MethodGet, "/v1/signals", a.list("signals", func(ctx context.Context, agent string, after int64) (any, error) {
			return a.service.Signals(ctx, agent, after)
		})},
		{http.MethodGet, "/v1/signals/{id}", a.one(func(ctx context.Context, id string) (any, error) { return a.service.Signal(ctx, id) })},
		{http.MethodPost, "/v1/dispute", a.spoken(func(ctx context.Context, from reputation.Spoken) (any, error) { return a.service.File(ctx, from) })},
		{http.MethodGet, "/v1/disputes", a.list("disputes", func(ctx context.Context, agent string, after int64) (any, error) {
			return a.service.Disputes(ctx, agent, after)
		})},
		{http.MethodGet, "/v1/disputes/{id}", a.one(func(ctx context.Context, id string) (any, error) { return a.service.Dispute(ctx, id) })},
		{http.MethodPost, "/v1/disputes/{id}/resolution", a.arbitrate},
		{http.MethodGet, "/v1/disputes/log", a.list("entries", func(ctx context.Context, _ string, after int64) (any, error) { return a.service.DisputeLog(ctx, after) })},
		{http.MethodGet, "/v1/disputes/root", a.one(func(ctx context.Context, _ string) (any, error) { return a.service.DisputeRoot(ctx) })},
		{http.MethodGet, "/v1/schemas/{name}", a.schema},
	}
}

// spoken takes a document of an agent. A sidecar's agent has a caller token and a statement; an agent elsewhere signs the document itself.
func (a *server) spoken(take func(context.Context, reputation.Spoken) (any, error)) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		from, err := a.readSpoken(w, r)
		if err != nil {
			return err
		}
		answer, err := take(r.Context(), from)
		if err != nil {
			if from.By == nil {
				a.limits.charge(r, 1) // anybody can make documents up, and each costs a signature to verify
			}
			return err
		}
		return write(w, answer)
	}
}

func (a *server) readSpoken(w http.ResponseWriter, r *http.Request) (from reputation.Spoken, err error) {
	statements := r.Header.Values(interaction.StatementHeader)
	if len(statements) > 1 {
		return from, refusal.New("query_malformed", "the request has %d headers %s", len(statements), interaction.StatementHeader)
	}
	from.Statement = strings.Join(statements, "")
	if len(r.Header.Values(interaction.CallerHeader)) == 0 {
		from.Document, err = read(w, r, dispute.MaxSize)
		return from, err
	}
	by, raw, err := a.caller(r)
	from.By, from.Document = &by, raw
	return from, err
}

// one answers with what the path names.
func (a *server) one(get func(ctx context.Context, id string) (any, error)) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		answer, err := get(r.Context(), r.PathValue("id"))
		if err != nil {
			return err
		}
		return write(w, answer)
	}
}

// list answers with a part of a list, after the number of the log that the query names.
func (a *server) list(name string, get func(ctx context.Context, agent string, after int64) (any, error)) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		after, query := int64(0), r.URL.Query()
		if text := query.Get("after"); text != "" {
			var err error
			if after, err = strconv.ParseInt(text, 10, 64); err != nil || after < 0 || after > 1<<53 {
				return refusal.New("query_malformed", "after is %.40q, and no number of the log", text)
			}
		}
		all, err := get(r.Context(), query.Get("agent"), after)
		if err != nil {
			return err
		}
		return write(w, map[string]any{name: all})
	}
}

func (a *server) arbitrate(w http.ResponseWriter, r *http.Request) error {
	raw, err := read(w, r, MaxRequest)
	if err != nil {
		return err
	}
	var ask struct {
		Decision string `json:"decision"`
	}
	if err := parse(raw, &ask); err != nil {
		return err
	}
	answer, err := a.service.Arbitrate(r.Context(), r.PathValue("id"), ask.Decision)
	if err != nil {
		a.limits.charge(r, 1)
		return err
	}
	return write(w, answer)
}

func (a *server) schema(w http.ResponseWriter, r *http.Request) error {
	schema, ok := dispute.Schema(r.PathValue("name"))
	if !ok {
		return refusal.New("schema_unknown", "the node has no schema %.40q; it has signal, contract and challenge", r.PathValue("name"))
	}
	return writeJSON(w, schema, never)
}
