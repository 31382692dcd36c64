package config

import (
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/policy/decide"
)

// Control configures the control plane: mediator control.
type Control struct {
	File    `yaml:"-"`
	Process `yaml:",inline"`

	// Internal is the endpoint for sidecars, out of agents' reach.
	Internal Endpoint `yaml:"internal" need:"yes"`
	// Keys are the two signing keys.
	Keys ControlKeys `yaml:"keys" need:"yes"`
	// Audience is the aud claim of decisions and grants.
	Audience string `yaml:"audience" need:"yes"`
	// Manifest is the file of the deployment manifest.
	Manifest string `yaml:"manifest" is:"public" reload:"yes" need:"yes"`
	// Policy is the policy file with the CEL rules.
	Policy string `yaml:"policy" is:"public" reload:"yes" need:"yes"`
	// WebBotAuth is a host:port that publishes keys of Web Bot Auth over plain HTTP.
	WebBotAuth string `yaml:"webBotAuth" is:"listen"`

	// Rules are the rules of Policy.
	Rules *decide.Rules `yaml:"-"`
}

type ControlKeys struct {
	// Decision signs policy decisions.
	Decision SigningKey `yaml:"decision" need:"yes"`
	// Grant signs action grants.
	Grant SigningKey `yaml:"grant" need:"yes"`
}

func (c *Control) checkAll(f *findings) {
	c.Agent.keepFrom(f, "internal", c.Internal)
	if c.Policy != "" {
		var err error
		if c.Rules, err = deployed.ReadRules(c.Policy); err != nil {
			f.Add("policy", "%v", err)
		}
	}
}
