package proxy

import (
	"encoding/json"
	"net/http"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/node"
	"github.com/actionproof/mediator/proxy/own"
)

// InternalHost is the mediator's own name for agents, reachable through the proxy.
const InternalHost = match.Own

// own answers a call to the mediator's own name. It returns true for a call that continues: by a rule to the node, or
// to a model.
func (p *Pipeline) own(c *call, route intercept.Route) (goesOn bool, err error) {
	asksModel, byRule := isPrompt(c), isForNode(c)
	target, asksNode := node.Target(c.r.Method, c.r.URL.EscapedPath(), c.r.URL.RawQuery)
	if !asksModel && !byRule {
		c.record.Flow = flowInternal
		if !asksNode {
			return false, p.answerPage(c, route)
		}
	}
	if err := p.findSession(c, route); err != nil {
		return false, err
	}
	if asksModel {
		err = c.prompt()
		return err == nil, err
	}
	if c.learns() {
		return false, refusal.New("learning_refused", "the node takes no requests from a learning session")
	}
	if err := p.load.Node(c.session); err != nil {
		return false, err
	}
	if byRule {
		c.via, c.conversation = toNode{c}, &publishing{plain: plain{c}}
		return true, nil
	}
	return false, c.askNode(target)
}

// page starts an answer of the mediator itself and returns its header.
func (c *call) page(contentType string) http.Header {
	c.answers()
	c.forwarded(http.StatusOK)
	h := c.w.Header()
	h.Set("Content-Type", contentType)
	return h
}

// answerPage answers an agent's question about its own session.
func (p *Pipeline) answerPage(c *call, route intercept.Route) error {
	if c.r.Method == http.MethodGet && c.r.URL.Path == "/v1/ca.pem" {
		c.page("application/x-pem-file")
		certificate := p.o.CAPEM
		if c.learns() {
			certificate = c.session.CAPEM
		}
		_, err := c.w.Write(certificate)
		return err
	}
	if err := p.load.Session(c.session); err != nil { // not for the CA: the forwarder in the agent's pod asks for it
		return err
	}
	document, err := p.pages().Page(c.r, route)
	if err != nil {
		return err
	}
	c.page("application/json").Set("Cache-Control", "no-store")
	return json.NewEncoder(c.w).Encode(document)
}

func (p *Pipeline) pages() own.Pages {
	o := &p.o
	return own.Pages{
		Sessions: o.Sessions, Triggers: o.Triggers, Rules: o.Rules.Shown(), Agent: o.Node.AgentID(),
		Runtime:  o.RuntimeID,
		Standing: o.Standing, Now: o.Now, Log: o.Log,
	}
}
