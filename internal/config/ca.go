package config

import (
	"fmt"

	"github.com/actionproof/mediator/proxy"
	"github.com/actionproof/mediator/proxy/intercept"
)

// Hosts returns the hosts of the rules and the mediator's own name. The interception CA certifies these.
func (c *Sidecar) Hosts() []string {
	hosts := []string{proxy.InternalHost}
	for _, a := range c.ActionRules {
		hosts = append(hosts, a.Match.Host)
	}
	for _, e := range c.EgressRules {
		hosts = append(hosts, e.Match.Host)
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
			f.Add(fmt.Sprintf("ca.permit[%d]", i), "%q is neither a host name, such as example.com, nor an IP address", host)
		}
	}
}
