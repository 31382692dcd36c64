package api

import (
	"context"
	"net/http"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/translog"
)

// logPath has the log's key. Below it is the log, as c2sp.org/tlog-tiles has it.
const logPath = "/v1/disputes/log"

// spoken takes an agent's document. A sidecar adds a caller token and a statement; other agents sign the document.
func spoken[Answer any](a *server, take func(context.Context, reputation.Spoken) (Answer, error)) answer {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		from, err := a.readSpoken(w, r)
		if err != nil {
			return nil, err
		}
		answer, err := take(r.Context(), from)
		if err != nil && from.By == nil {
			a.limits.charge(r, 1) // anyone can make documents up, and each costs a signature check
		}
		return answer, err
	}
}

func (a *server) readSpoken(w http.ResponseWriter, r *http.Request) (from reputation.Spoken, err error) {
	if from.Statement, err = header(r, interaction.StatementHeader); err != nil {
		return from, err
	}
	if len(r.Header.Values(interaction.CallerHeader)) == 0 {
		from.Document, err = read(w, r, dispute.MaxSize)
		return from, err
	}
	by, raw, err := a.caller(r)
	from.By, from.Document = &by, raw
	return from, err
}

func one[Answer any](get func(ctx context.Context, id string) (Answer, error)) answer {
	return func(_ http.ResponseWriter, r *http.Request) (any, error) {
		return get(r.Context(), r.PathValue("id"))
	}
}

func (a *server) logKey(_ http.ResponseWriter, r *http.Request) (any, error) {
	log, err := a.service.DisputeLog()
	if err != nil {
		return nil, err
	}
	key, err := log.Key(r.Context())
	return map[string]string{"key": key.String()}, err
}

// tiles makes one handler for all requests: it bounds their reads at once.
func (a *server) tiles() answer {
	log, err := a.service.DisputeLog()
	h := http.StripPrefix(logPath, translog.Handler(log))
	return func(http.ResponseWriter, *http.Request) (any, error) { return h, err }
}

// handed takes a token of an arbiter or of the operator. Anyone can make one up, and each costs a signature check.
func handed[Ask, Answer any](a *server, take func(*http.Request, Ask) (Answer, error)) answer {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		raw, err := read(w, r, MaxRequest)
		if err != nil {
			return nil, err
		}
		var ask Ask
		if err := parse(raw, &ask); err != nil {
			return nil, err
		}
		answer, err := take(r, ask)
		if err != nil {
			a.limits.charge(r, 1)
		}
		return answer, err
	}
}

func (a *server) schema(_ http.ResponseWriter, r *http.Request) (any, error) {
	schema, ok := dispute.Schema(r.PathValue("name"))
	if !ok {
		return nil, refusal.New("not_found", "the node has no schema %.40q; it has signal, contract and challenge",
			r.PathValue("name"))
	}
	return document{schema, "no-store"}, nil
}
