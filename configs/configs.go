// Package configs holds the example configuration files, and those that mediator dev starts from.
package configs

import (
	"embed"
	"fmt"
)

var (
	//go:embed mediator.yaml
	serve []byte
	//go:embed trigger.yaml
	trigger []byte
	//go:embed control.yaml
	control []byte
	//go:embed reputation.yaml
	reputation []byte
	//go:embed dev/mediator.yaml
	devServe []byte
	//go:embed dev/trigger.yaml
	devTrigger []byte
	//go:embed dev/control.yaml
	devControl []byte
	//go:embed dev/reputation.yaml
	devReputation []byte
	//go:embed manifest.yaml
	manifest []byte
	//go:embed policy.yaml
	policy []byte
	//go:embed policy-reputation.yaml
	policyReputation []byte
	// Presets has the presets, in the folder presets.
	//
	//go:embed presets/*.yaml
	Presets embed.FS
	//go:embed vault/*.hcl
	vaultPolicies embed.FS
)

// Dev are the files of a development deployment, by name. The manifest and the policy are the examples themselves.
var Dev = map[string][]byte{
	"mediator.yaml": devServe, "trigger.yaml": devTrigger, "control.yaml": devControl, "reputation.yaml": devReputation,
	"manifest.yaml": manifest, "policy.yaml": policy,
}

// Examples are the example files of a deployment, by name.
var Examples = map[string][]byte{
	"mediator.yaml": serve, "trigger.yaml": trigger, "control.yaml": control, "reputation.yaml": reputation,
	"manifest.yaml": manifest, "policy.yaml": policy,
}

// Manifest returns the example of a strict deployment manifest, which audits clean.
func Manifest() []byte { return manifest }

// Policy returns the example of a policy file.
func Policy() []byte { return policy }

// PolicyReputation returns the example of a policy file that asks for the reputation of agents.
func PolicyReputation() []byte { return policyReputation }

// VaultPolicy returns the Vault policy of a role, by the purpose of its key, or of the keys' owner ("owner"). It is
// written for a Transit engine at transit/.
func VaultPolicy(purpose string) (string, error) {
	raw, err := vaultPolicies.ReadFile("vault/" + purpose + ".hcl")
	if err != nil {
		return "", fmt.Errorf("there is no Vault policy for %q", purpose)
	}
	return string(raw), nil
}
