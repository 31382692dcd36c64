package console

import (
	"cmp"
	"net/http"
	"strconv"

	. "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/cli/records"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/own"
)

func (s *Server) sessions(r *http.Request) (view, error) {
	cursor := r.URL.Query().Get("cursor")
	found, err := get[admin.Summary](r.Context(), s.Admin, string(link("/v1/summary", "cursor", cursor)))
	if err != nil {
		return view{}, err
	}
	older := place("")
	if found.Earlier != "" {
		older = link("/sessions", "cursor", found.Earlier)
	}
	return view{"/sessions", "Sessions", Div(If(cursor == "", following),
		H1(Text("Sessions")),
		dim(say("The sessions of %d calls", found.Calls),
			If(found.Calls > 0, Group{Text(", from "), lived(found.First, found.Last)}),
			Text(". A session is one agent run, opened by one event.")),
		list(found.Sessions, "No session is on record yet.", Ol, "list", showSession),
		next(older, "Older sessions"))}, nil
}

func showSession(s admin.SessionSummary) Node {
	open := Span(Class("mark unknown"), Text("● ended"))
	if s.Open {
		open = Span(Class("mark good"), Text("○ open"))
	}
	about := Group{If(s.Agent != "", Group{bdi(s.Agent), Text(" · ")}),
		say("%d calls, %d posts, %d to models · ", s.Calls, s.Posts, s.Models), lived(s.First, s.Last)}
	for _, of := range states {
		if n := s.States[of]; n > 0 {
			about = append(about, say(" · %d ", n), state(of))
		}
	}
	return Li(A(Class("row"), to(under("/sessions/", s.ID)), open, space, code(s.ID)), P(about))
}

func (s *Server) session(r *http.Request) (view, error) {
	from := cmp.Or(number(r.URL.Query().Get("from")), 1)
	id := r.PathValue("id")
	found, older, err := s.list(r.Context(), filter{Query: ledger.Query{Session: id}}, rows)
	if err != nil {
		return view{}, err
	}
	tokens, unread := admin.Receipts(r.Context(), s.Admin, id, from, maxMoments)
	moments := timeline(records.Timeline(tokens),
		"No receipt: the session has made no observed call to a model, and no post.")
	if unread != nil {
		moments = P(say("Not read: %v", unread))
	}
	var later, earlier place
	if len(tokens) == maxMoments {
		later = link(string(under("/sessions/", id)), "from", strconv.FormatInt(from+maxMoments, 10))
	}
	if older != "" {
		earlier = link("/feed", "session", id, "cursor", older)
	}
	var event, agent string
	for _, call := range found {
		event, agent = cmp.Or(event, call.Event), cmp.Or(agent, call.Subject)
	}
	rules := ask[own.Rules](r.Context(), s.Admin, "/v1/rules").Is.Rules
	return view{"/sessions", "Session " + id, Group{
		H1(Text("Session "), code(id)),
		dim(If(agent != "", Group{bdi(agent), Text(" · ")}),
			If(event != "", Group{Text("event "), code(event), Text(" · ")}),
			A(to(link("/feed", "session", id)), Text("its calls in the feed"))),
		Div(Class("columns wide"),
			section("timeline", "Models, tools and posts", moments, next(later, "Later moments")),
			section("calls", "Calls", calls(found, "call", rules, "No call of this session is on record."),
				next(earlier, "Older calls")))}}, nil
}

// number reads a positive number; anything else is 0.
func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0
	}
	return n
}
