package config

import (
	"github.com/actionproof/mediator/proxy"
	"github.com/actionproof/mediator/proxy/node"
)

// Node says where the node is that appraises this sidecar's receipts.
type Node struct {
	Peer `yaml:",inline"`
	// Audience equals the node's `audience`.
	Audience string `yaml:"audience" need:"yes"`
}

// checkForNode checks a rule for the mediator's own name.
func (c *Sidecar) checkForNode(key string, r *Rule, f *findings) {
	if c.Reputation == nil {
		f.Add(key+".match.url", "names %s, where the node answers: set the section reputation too", proxy.InternalHost)
	}
	if r.Credential != nil {
		f.Add(key+".credential", "the node takes no credential: the sidecar names the calling agent")
	}
}

// checkPublishes checks an action for a path of the mediator's own name.
func (c *Sidecar) checkPublishes(key string, a Action, path string, f *findings) {
	if a.API != nil {
		f.Add(key+".gate", "the node verifies no chain: leave gate and api out")
	}
	if node.Publishes(path) && c.Keys.AgentStatement == nil {
		f.Add(key+".match.url", "has the path %s, where the agent publishes: set keys.agentStatement too", path)
	}
}
