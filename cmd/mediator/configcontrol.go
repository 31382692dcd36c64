package main

// controlConfig configures the control plane: mediator control.
type controlConfig struct {
	// Internal is where sidecars reach it, out of the agent's reach. Required.
	Internal endpointConfig `yaml:"internal"`
	// Custody says where its two signing keys are.
	Custody custodyConfig `yaml:"custody"`
	// Keys names the two signing roles.
	Keys controlKeys `yaml:"keys"`
	// Agent is the user that the agent runs as.
	Agent agentConfig `yaml:"agent"`
	// Audience is the aud of what it signs: the APIs that verify it. Required.
	Audience string `yaml:"audience"`
	// Trust pins the two root keys and names the trust bundle.
	Trust trustConfig `yaml:"trust"`
	// Manifest is the path of the strict deployment manifest. Required.
	Manifest string `yaml:"manifest" reload:"yes"`
	// Policy is the path of the policy file with its CEL rules. Required.
	Policy string `yaml:"policy" reload:"yes"`
	// Confine says what the process keeps for itself once it serves.
	Confine confineConfig `yaml:"confine"`
	// Log configures the log on standard error.
	Log logConfig `yaml:"log"`
}

// controlKeys are the control plane's two roles.
type controlKeys struct {
	// Decision is the policy engine, which signs policy decisions.
	Decision keyConfig `yaml:"decision"`
	// Grant is the authorization service, which signs action grants.
	Grant keyConfig `yaml:"grant"`
}
