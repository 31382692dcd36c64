package own

import (
	"context"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/node"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/trigger"
)

// MaxWait bounds an agent's wait for its next event.
const MaxWait = 60 * time.Second

// Triggers is the trigger service.
type Triggers interface {
	Claim(ctx context.Context, c trigger.Claim) (trigger.Event, error)
	Done(ctx context.Context, eventID, runtime string) (trigger.Event, error)
}

// Pages answers an agent's questions about its own session.
type Pages struct {
	Sessions *session.Set
	Triggers Triggers
	Rules    Rules // without a session
	// Agent is the agent's name at the node, or empty without a node. Runtime names this runtime.
	Agent, Runtime string
	// Standing lets an agent without credentials wait for the next event.
	Standing bool
	Now      func() time.Time
	Log      *zap.Logger
}

// Event is the answer to GET /v1/event and GET /v1/event/next.
type Event struct {
	Session string        `json:"session"`
	Runtime string        `json:"runtime"`
	Agent   string        `json:"agent,omitempty"`
	Event   trigger.Event `json:"event"`
}

// offered lists the pages. Those after the CA are the node's: see proxy/node/read.go.
const offered = "GET /v1/event, /v1/event/next?wait=30s, /v1/refusals, /v1/rules, /v1/ca.pem, " +
	"/v1/score/{receipt_hash}, /v1/reputation/{agent_id}, /v1/signals/{id}, /v1/disputes/{id} and " +
	"/v1/schemas/{name}, and POST /v1/generate, /v1/challenge/issue and /v1/challenge/commit"

// Page returns the document for a request.
func (p Pages) Page(r *http.Request, route intercept.Route) (document any, err error) {
	page := r.Method + " " + r.URL.Path
	switch page {
	case "GET /v1/event/next":
		return p.nextEvent(r, route)
	case "GET /v1/event", "GET /v1/refusals", "GET /v1/rules":
	default:
		return nil, refusal.New("not_found",
			"%s does not offer %.32s %.100q; it offers %s and, if a rule allows them, %s",
			match.Own, r.Method, r.URL.Path, offered, node.Paths())
	}
	s, err := p.Sessions.Of(route)
	switch {
	case err != nil:
		return nil, err
	case page == "GET /v1/event" && s.Learning:
		return nil, refusal.New("learning_refused", "a learning session has no event")
	case page == "GET /v1/event":
		return p.event(s), nil
	case page == "GET /v1/refusals":
		return Refusals{Session: s.ID, Refusals: s.Refusals()}, nil
	}
	rules := p.Rules
	rules.Session, rules.Event = s.ID, s.Event.ID
	return rules, nil
}

func (p Pages) event(s *session.Session) Event {
	return Event{Session: s.ID, Runtime: s.Runtime, Agent: p.Agent, Event: s.Event}
}

// nextEvent waits for the next event and then replaces the pod's session by one for it. An agent started for one event
// has a listener or credentials for that event alone.
func (p Pages) nextEvent(r *http.Request, route intercept.Route) (any, error) {
	if !p.Standing || route.ProxyAuthorization != "" || route.Session != "" {
		return nil, refusal.New("event_closed",
			"this agent was started for one event; only a pod's standing session waits for the next")
	}
	wait := 30 * time.Second
	if q := r.URL.Query().Get("wait"); q != "" {
		d, err := time.ParseDuration(q)
		if err != nil || d < 0 || d > MaxWait {
			return nil, refusal.New("query_malformed", "wait=%.40q is not a duration between 0s and %s", q, MaxWait)
		}
		wait = d
	}
	agent := route.Agent
	began, before := p.Now(), p.Sessions.Standing(agent)
	done, ok := p.Sessions.Turn(r.Context(), agent, wait)
	if !ok {
		return nil, refusal.New("event_none", "another call was already waiting for the next event, and none came")
	}
	defer done()
	if s := p.Sessions.Standing(agent); s != nil && s != before {
		return p.event(s), nil // another call was first: the pod has one session, and it has their next event
	}
	claim := trigger.Claim{Runtime: p.Runtime, Wait: max(0, wait-p.Now().Sub(began))}
	event, err := p.Triggers.Claim(r.Context(), claim)
	if err != nil {
		return nil, err
	}
	if ended := p.Sessions.CloseStanding(agent); ended != nil {
		if _, err := p.Triggers.Done(r.Context(), ended.Event.ID, ended.Runtime); err != nil {
			p.Log.Warn("the ended session's event could not be marked as done; without a session it allows no posts",
				zap.String("event", ended.Event.ID), zap.Error(err))
		}
	}
	return p.event(p.Sessions.OpenStanding(event, p.Runtime, agent)), nil
}
