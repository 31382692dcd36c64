package config

import "github.com/actionproof/mediator/policy/decide"

// Control configures the control plane: mediator control.
type Control struct {
	File `yaml:"-"`

	// Internal is the endpoint for sidecars, out of the agent's reach. Required.
	Internal Endpoint `yaml:"internal"`
	// Custody holds the two signing keys. Required.
	Custody Custody `yaml:"custody"`
	// Keys are the two signing keys. Required.
	Keys ControlKeys `yaml:"keys"`
	// Agent is the agent's user.
	Agent Agent `yaml:"agent"`
	// Audience is the aud of its signatures: the APIs that verify them. Required.
	Audience string `yaml:"audience"`
	// Trust pins the root keys. Required.
	Trust Trust `yaml:"trust"`
	// Manifest is the path of the strict deployment manifest. Required.
	Manifest string `yaml:"manifest" is:"path" reload:"yes"`
	// Policy is the path of the policy file with the CEL rules. Required.
	Policy string `yaml:"policy" is:"path" reload:"yes"`
	// Confine restricts the process before it listens.
	Confine Confine `yaml:"confine"`
	// Log is on standard error.
	Log Log `yaml:"log"`

	// Rules are the rules of Policy.
	Rules *decide.Rules `yaml:"-"`
}

// ControlKeys are the control plane's two roles.
type ControlKeys struct {
	// Decision is the policy engine's key, for policy decisions. Required.
	Decision SigningKey `yaml:"decision"`
	// Grant is the authorization service's key, for action grants. Required.
	Grant SigningKey `yaml:"grant"`
}
