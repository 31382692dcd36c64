package config

import (
	"fmt"

	"github.com/actionproof/mediator/internal/config/secrets"
	"github.com/actionproof/mediator/proxy"
	"github.com/actionproof/mediator/proxy/node"
)

// Node says where the node is that appraises this sidecar's receipts.
type Node struct {
	Peer `yaml:",inline"`
	// Audience equals the node's `audience`.
	Audience string `yaml:"audience" need:"yes"`
}

func (c *Sidecar) checkNodeRules(f *findings) {
	check := func(key, host string, credential *secrets.Credential) bool {
		if host != proxy.InternalHost {
			return false
		}
		if c.Reputation == nil {
			f.Add(key+".match.url", "names %s, where the node answers: set the section reputation too", host)
		}
		if credential != nil {
			f.Add(key+".credential", "the node takes no credential: the sidecar names the calling agent")
		}
		return true
	}
	for i, a := range c.Actions {
		key := fmt.Sprintf("actions[%d]", i)
		if check(key, c.ActionRules[i].Match.Host, a.Credential) && a.API != nil {
			f.Add(key+".gate", "the node verifies no chain: leave gate and api out")
		}
		if m := c.ActionRules[i].Match; m.Host == proxy.InternalHost && node.Publishes(m.Path) &&
			c.Keys.AgentStatement == nil {
			f.Add(key+".match.url", "has the path %s, where the agent publishes: set keys.agentStatement too", m.Path)
		}
	}
	for i, e := range c.Egress {
		check(fmt.Sprintf("egress[%d]", i), c.EgressRules[i].Match.Host, e.Credential)
	}
}
