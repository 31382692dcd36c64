package config

// Node says where the node is that appraises this sidecar's receipts.
type Node struct {
	Endpoint `yaml:",inline"`
	// Audience is the name of the node, as its configuration has it: what the sidecar signs of an agent that calls the node is meant for
	// that node alone. Required.
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
