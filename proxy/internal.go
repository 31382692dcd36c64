package proxy

import (
	"encoding/json"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/node"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/trigger"
)

// maxWait bounds how long an agent may wait for its next event.
const maxWait = 60 * time.Second

// eventDocument is what an agent sees of its session and event.
type eventDocument struct {
	Session string        `json:"session"`
	Runtime string        `json:"runtime"`
	Agent   string        `json:"agent,omitempty"` // how the node names it, where there is one
	Event   trigger.Event `json:"event"`
}

func (p *Pipeline) documentOf(s *session.Session) eventDocument {
	return eventDocument{Session: s.ID, Runtime: s.Runtime, Agent: p.o.Node.AgentID(), Event: s.Event}
}

// serveInternal answers a call to the mediator itself. Nothing is forwarded.
func (p *Pipeline) serveInternal(c *call, route intercept.Route) error {
	c.record.Flow = flowInternal
	w, r := c.w, c.r
	if target, ok := node.Target(r.Method, r.URL.EscapedPath(), r.URL.RawQuery); ok {
		return p.askNode(c, route, target)
	}
	var (
		body any
		err  error
	)
	switch r.Method + " " + r.URL.Path {
	case "GET /v1/event":
		body, err = p.currentEvent(route)
	case "GET /v1/event/next":
		body, err = p.nextEvent(r, route)
	case "GET /v1/refusals":
		body, err = p.ownRefusals(route)
	case "GET /v1/rules":
		body, err = p.ownRules(r.Context(), route)
	case "GET /v1/ca.pem":
		w.Header().Set("Content-Type", "application/x-pem-file")
		c.answered, c.record.State, c.record.Status = true, ledger.StateForwarded, http.StatusOK
		_, err = w.Write(p.o.CAPEM)
		return err
	default:
		err = refusal.New("internal_unknown", "%s has no %.32s %.100q; it offers %s; by a rule also %s", InternalHost, r.Method, r.URL.Path, pages, node.Paths())
	}
	if err != nil {
		return err
	}
	c.answered, c.record.State, c.record.Status = true, ledger.StateForwarded, http.StatusOK
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	return json.NewEncoder(w).Encode(body)
}

// pages are what every agent may ask for. The node gives those after the CA; proxy/node/read.go says how they are spelled.
const pages = "GET /v1/event, /v1/event/next?wait=30s, /v1/refusals, /v1/rules, /v1/ca.pem, /v1/score/{receipt_hash}, /v1/reputation/{agent_id}, " +
	"/v1/signals/{id}, /v1/signals?agent={agent_id}, /v1/disputes/{id}, /v1/disputes?agent={agent_id}, /v1/disputes/log, /v1/disputes/root and /v1/schemas/{name}, " +
	"and POST /v1/generate, /v1/challenge/issue and /v1/challenge/commit"

func (p *Pipeline) currentEvent(route intercept.Route) (any, error) {
	s, err := p.o.Sessions.Of(route)
	if err != nil {
		return nil, err
	}
	return p.documentOf(s), nil
}

// nextEvent waits for the next event, and opens the pod's session for it in place of the one before. While it waits, and where no event
// comes, that one stays open. An agent that was started for one event has a listener or credentials for that one alone.
func (p *Pipeline) nextEvent(r *http.Request, route intercept.Route) (any, error) {
	if !p.o.Standing || route.ProxyAuthorization != "" || route.Session != "" {
		return nil, refusal.New("session_single_event", "this agent was started for one event; only a pod's standing session waits for the next")
	}
	wait := 30 * time.Second
	if q := r.URL.Query().Get("wait"); q != "" {
		d, err := time.ParseDuration(q)
		if err != nil || d < 0 || d > maxWait {
			return nil, refusal.New("wait_malformed", "wait=%.40q is not a duration between 0s and %s", q, maxWait)
		}
		wait = d
	}
	began, before := p.o.Now(), p.o.Sessions.Standing()
	done, ok := p.o.Sessions.Turn(r.Context(), wait)
	if !ok {
		return nil, refusal.New("event_none", "no event came while another call waited for it, and this one for its turn")
	}
	defer done()
	if s := p.o.Sessions.Standing(); s != nil && s != before { // another call waited as well: the pod has one session, and its event is the next one of both
		return p.documentOf(s), nil
	}
	event, err := p.o.Triggers.Claim(r.Context(), trigger.Claim{Runtime: p.o.RuntimeID, Wait: max(0, wait-p.o.Now().Sub(began))})
	if err != nil {
		return nil, err
	}
	if ended := p.o.Sessions.CloseStanding(); ended != nil {
		if _, err := p.o.Triggers.Done(r.Context(), ended.Event.ID, ended.Runtime); err != nil {
			p.o.Log.Warn("the ended session's event is not marked as done; it stands behind no post without a session", zap.String("event", ended.Event.ID), zap.Error(err))
		}
	}
	return p.documentOf(p.o.Sessions.OpenStanding(event, p.o.RuntimeID)), nil
}
