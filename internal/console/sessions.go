package console

import (
	"cmp"
	"net/http"
	"strconv"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/cli/records"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/own"
)

type sessionsPage struct {
	Summary admin.Summary
	Older   string
	Live    bool
}

func (s *Server) sessions(r *http.Request) (view, error) {
	cursor := r.URL.Query().Get("cursor")
	found, err := get[admin.Summary](r.Context(), s.Admin, link("/v1/summary", "cursor", cursor))
	if err != nil {
		return view{}, err
	}
	p := sessionsPage{Summary: found, Live: cursor == ""}
	if found.Earlier != "" {
		p.Older = link("/sessions", "cursor", found.Earlier)
	}
	return view{"sessions", "Sessions", p}, nil
}

type sessionPage struct {
	ID, Event, Agent string
	Timeline         []records.Moment
	Unread           string // why there is no timeline
	Next             string // the page with the next moments
	Rows             []row
	Older            string
}

func (s *Server) session(r *http.Request) (view, error) {
	from := cmp.Or(number(r.URL.Query().Get("from")), 1)
	p := sessionPage{ID: r.PathValue("id")}
	found, older, err := s.list(r.Context(), filter{Query: ledger.Query{Session: p.ID}}, rows)
	if err != nil {
		return view{}, err
	}
	tokens, err := admin.Receipts(r.Context(), s.Admin, p.ID, from, maxMoments)
	if err != nil {
		p.Unread = err.Error()
	}
	if p.Timeline = records.Timeline(tokens); len(tokens) == maxMoments {
		p.Next = link("/sessions/"+p.ID, "from", count(from+maxMoments))
	}
	for _, call := range found {
		p.Event, p.Agent = cmp.Or(p.Event, call.Event), cmp.Or(p.Agent, call.Subject)
	}
	p.Rows = explained(found, "call", ask[own.Rules](r.Context(), s.Admin, "/v1/rules").Is.Rules)
	if older != "" {
		p.Older = link("/feed", "session", p.ID, "cursor", older)
	}
	return view{"session", "Session " + p.ID, p}, nil
}

// number reads a positive number; anything else is 0.
func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0
	}
	return n
}
