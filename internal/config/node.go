package config

import (
	"fmt"

	"github.com/actionproof/mediator/proxy"
	"github.com/actionproof/mediator/proxy/node"
)

// Node says where the node is that appraises this sidecar's receipts.
type Node struct {
	Endpoint `yaml:",inline"`
	// Audience is the audience of the node's own configuration. Tokens about a calling agent are valid for that node
	// alone. Required.
	Audience string `yaml:"audience"`
}

// checkNode checks where the node is. Without receipts there is nothing to hand over.
func (c *Sidecar) checkNode(f *findings) {
	n := c.Reputation
	if n == nil {
		return
	}
	f.required("reputation.audience", n.Audience)
	n.checkRemote("reputation", f)
	if c.Receipts == nil {
		f.Add("reputation", "needs receipts and keys.interactionReceipt: the node appraises receipts")
	}
	for _, other := range []struct {
		key string
		at  Endpoint
	}{{"admin", c.Admin}, {"trigger", c.Trigger}, {"control", c.Control}} {
		if at := n.where(); at != "" && at == other.at.where() {
			f.Add("reputation", "is the endpoint of %s too", other.key)
		}
	}
}

// checkNodeRules checks the rules for the mediator's own name, whose calls go to the node. The node believes the sidecar
// alone about the caller.
func (c *Sidecar) checkNodeRules(f *findings) {
	check := func(key, host string, credential *Credential) bool {
		if host != proxy.InternalHost {
			return false
		}
		if c.Reputation == nil {
			f.Add(key+".match.url", "names %s: such a call goes to the node, so reputation is needed", host)
		}
		if credential != nil {
			f.Add(key+".credential", "the node takes none: the sidecar says which agent calls")
		}
		return true
	}
	for i, a := range c.Actions {
		key := fmt.Sprintf("actions[%d]", i)
		if check(key, c.ActionRules[i].Match.Host, a.Credential) && a.API != nil {
			f.Add(key+".gate", "the node verifies no chain: leave gate and api out")
		}
		if m := c.ActionRules[i].Match; m.Host == proxy.InternalHost && node.Publishes(m.Path) && c.Keys.AgentStatement == nil {
			f.Add(key+".match.url", "names %s, where the agent publishes: keys.agentStatement is needed, to sign for it", m.Path)
		}
	}
	for i, e := range c.Egress {
		check(fmt.Sprintf("egress[%d]", i), c.EgressRules[i].Match.Host, e.Credential)
	}
}
