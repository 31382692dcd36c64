package config

import "github.com/actionproof/mediator/policy/decide"

// Control configures the control plane: mediator control.
type Control struct {
	File `yaml:"-"`

	// Internal is where sidecars reach it, out of the agent's reach. Required.
	Internal Endpoint `yaml:"internal"`
	// Custody says where its two signing keys are.
	Custody Custody `yaml:"custody"`
	// Keys names the two signing roles.
	Keys ControlKeys `yaml:"keys"`
	// Agent is the user that the agent runs as.
	Agent Agent `yaml:"agent"`
	// Audience is the aud of what it signs: the APIs that verify it. Required.
	Audience string `yaml:"audience"`
	// Trust pins the two root keys and names the trust bundle.
	Trust Trust `yaml:"trust"`
	// Manifest is the path of the strict deployment manifest. Required.
	Manifest string `yaml:"manifest" is:"path" reload:"yes"`
	// Policy is the path of the policy file with its CEL rules. Required.
	Policy string `yaml:"policy" is:"path" reload:"yes"`
	// Confine says what the process keeps for itself once it serves.
	Confine Confine `yaml:"confine"`
	// Log configures the log on standard error.
	Log Log `yaml:"log"`

	// Rules are the rules of Policy.
	Rules *decide.Rules `yaml:"-"`
}

// ControlKeys are the control plane's two roles.
type ControlKeys struct {
	// Decision is the policy engine, which signs policy decisions.
	Decision SigningKey `yaml:"decision"`
	// Grant is the authorization service, which signs action grants.
	Grant SigningKey `yaml:"grant"`
}
