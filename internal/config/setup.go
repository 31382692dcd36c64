package config

import (
	"fmt"

	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/policy"
)

// CheckCeiling refuses (ceiling_exceeded) a rule that exceeds a manifest's egressCeiling.
func (c *Sidecar) CheckCeiling(patterns []policy.EgressPattern) error {
	ceiling, err := deployed.Ceiling(patterns)
	if err != nil {
		return err
	}
	for name, m := range c.Matches() {
		if err := ceiling.CheckRule(m); err != nil {
			return fmt.Errorf("the rule %s: %w", name, err)
		}
	}
	return nil
}

// LoadProxy returns the proxy's address and the file of the CA's certificate from a sidecar's configuration. It reads
// no other file: the agent, who asks, may read no secrets.
func LoadProxy(path string) (listen, certificate string, err error) {
	c := new(Sidecar)
	f, err := load(path, c)
	if err != nil {
		return "", "", err
	}
	if f.Address("listen", c.Listen); c.State == "" {
		f.Add("state", "is required")
	}
	return c.Listen, c.CAFile(), f.Err()
}
