package config

import (
	"fmt"

	"github.com/actionproof/mediator/botauth"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/proxy"
	"github.com/actionproof/mediator/proxy/intercept"
)

// SidecarKeys are the sidecar's roles.
type SidecarKeys struct {
	// Runtime signs runtime attestations.
	Runtime SigningKey `yaml:"runtime" need:"yes"`
	// Session signs agent session receipts.
	Session SigningKey `yaml:"session" need:"yes"`
	// RequestProof signs request proofs.
	RequestProof SigningKey `yaml:"requestProof" need:"yes"`
	// InteractionReceipt signs interaction receipts. Required with `receipts`; takes no `lifetime`.
	InteractionReceipt *SigningKey `yaml:"interactionReceipt"`
	// AgentStatement signs the documents that agents post to http://mediator.internal/v1/signals and /v1/dispute. Needs
	// `receipts` and `reputation`; takes no `lifetime`.
	AgentStatement *SigningKey `yaml:"agentStatement"`
	// WebBotAuth signs requests, by rules with `sign`. `issuer` is the https origin that publishes the key; `lifetime` is
	// that of a signature.
	WebBotAuth *SigningKey `yaml:"webBotAuth"`
}

type Receipts struct {
	// Subject is the agent's name in receipts. Every action must have the same `subject`.
	Subject string `yaml:"subject" need:"yes" to:"256"`
}

// checkKeys checks the keys, and whether receipts can be made for every rule that needs them.
func (c *Sidecar) checkKeys(f *findings) {
	key := c.Keys.InteractionReceipt
	if speaker := c.Keys.AgentStatement; speaker != nil {
		if speaker.Lifetime != 0 {
			f.Add("keys.agentStatement.lifetime", "has no meaning: an agent's statements are valid for ten minutes")
		}
		if c.Reputation == nil {
			f.Add("reputation", "is required with keys.agentStatement: agents publish at the node")
		}
	}
	if k := c.Keys.WebBotAuth; k != nil {
		if err := botauth.CheckOrigin(k.Issuer); k.Issuer != "" && err != nil {
			f.Add("keys.webBotAuth.issuer", "%v", err)
		}
	}
	switch {
	case c.Receipts == nil && key != nil:
		f.Add("receipts", "is required with keys.interactionReceipt, because receipts.subject names the agent")
	case c.Receipts != nil && key == nil:
		f.Add("keys.interactionReceipt", "is required with receipts, because this key signs them")
	case key != nil && key.Lifetime != 0:
		f.Add("keys.interactionReceipt.lifetime", "has no meaning: interaction receipts are valid for ten minutes")
	}
	for i, e := range c.Egress {
		if e.Observe != "" && c.Receipts == nil {
			f.Add(fmt.Sprintf("egress[%d].observe", i),
				"needs receipts and keys.interactionReceipt: an observed call leaves a receipt")
		}
	}
	if c.Receipts == nil {
		return
	}
	if len(c.Runtime) > interaction.MaxRuntimeID {
		f.Add("runtime", "has %d bytes; a receipt holds at most %d", len(c.Runtime), interaction.MaxRuntimeID)
	}
	for i, a := range c.Actions {
		if a.Subject != c.Receipts.Subject && a.Subject != "" && c.Receipts.Subject != "" {
			f.Add(fmt.Sprintf("actions[%d].subject", i),
				"%q differs from receipts.subject, %q: a session's receipts are about one agent", a.Subject,
				c.Receipts.Subject)
		}
	}
}

// Hosts returns the hosts of the rules and the mediator's own name. The interception CA certifies these.
func (c *Sidecar) Hosts() []string {
	hosts := []string{proxy.InternalHost}
	for _, m := range c.Matches() {
		hosts = append(hosts, m.Host)
	}
	if c.Denied != nil {
		hosts = append(hosts, c.Denied.Hosts()...)
	}
	return hosts
}

// Constraints returns the name constraints of a new interception CA, or nil if it has none.
func (c *Sidecar) Constraints() (*intercept.NameConstraints, error) {
	if c.CA.Unconstrained {
		return nil, nil
	}
	return intercept.Constrain(append(c.Hosts(), c.CA.Permit...))
}

func (c *Sidecar) checkCA(f *findings) {
	if c.CA.Unconstrained && len(c.CA.Permit) > 0 {
		f.Add("ca.permit", "has no meaning with ca.unconstrained, which permits every host")
	}
	for i, host := range c.CA.Permit {
		if _, err := intercept.Constrain([]string{host}); err != nil {
			f.Add(fmt.Sprintf("ca.permit[%d]", i), "%q is neither a host name, such as example.com, nor an IP address",
				host)
		}
	}
}
