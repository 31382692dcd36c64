// Package bootstrap makes in Vault what the mediator's roles need: a Transit engine, and for each role a key, a policy
// and a login. It carries the plan out, or prints it as commands.
package bootstrap

import (
	"fmt"
	"slices"
	"strings"

	"github.com/actionproof/mediator/configs"
)

// Role is one signing role of a deployment.
type Role struct {
	Process string // trigger, control, serve or reputation; registry or auditor for a root
	Purpose string // purpose of its key
	Key     string // name in the Transit engine
}

// Roles are the roles of the processes, with the keys of the example configurations.
var Roles = []Role{
	{"trigger", "trigger_origin_proof", "origin-proof-key"},
	{"trigger", "trigger_receipt", "trigger-receipt-key"},
	{"control", "policy_decision", "policy-decision-key"},
	{"control", "action_grant", "action-grant-key"},
	{"serve", "runtime_attestation", "runtime-key"},
	{"serve", "agent_session", "session-key"},
	{"serve", "request_proof", "request-proof-key"},
	{"serve", "interaction_receipt", "interaction-receipt-key"},
	{"serve", "agent_statement", "agent-statement-key"},
	{"reputation", "appraiser", "appraiser-key"},
}

// Log has the transparency log's key, which no certificate names. BotAuth has the key that signs requests, and nothing
// of a record.
var (
	Log     = Role{"serve", "transparency_log", "transparency-log-key"}
	BotAuth = Role{"serve", "web_bot_auth", "web-bot-auth-key"}
)

// Roots are the security team's roles, for keys that are not kept offline.
var Roots = []Role{
	{"registry", "signer_certificate", "registry"},
	{"auditor", "deployment_certificate", "auditor"},
}

// Authority is the registrar's second role, the CA for pods' TLS certificates. Its key comes with the roots. Reader is
// its third: it reads the public keys of all roles, and has no key.
var (
	Authority = Role{"registry", "tls_authority", "tls-authority-key"}
	Reader    = Role{"registry", "public_keys", ""}
)

func (r Role) name() string { return policyName(r.Purpose) }

// owner is the policy of the keys' owner, who rotates and retires them and never signs.
const owner = "owner"

func policyFor(purpose, transit string) (policy, error) {
	text, err := configs.VaultPolicy(purpose)
	return policy{policyName(purpose), strings.ReplaceAll(text, `path "transit/`, `path "`+transit+`/`)}, err
}

func policyName(purpose string) string { return "mediator-" + purpose }

func (o Options) roles() []Role {
	all := slices.Concat(Roles, []Role{Log, BotAuth})
	if o.Roots {
		all = slices.Concat(all, Roots, []Role{Authority, Reader})
	}
	return all
}

func (o Options) process(name string) error {
	if !slices.ContainsFunc(o.roles(), func(r Role) bool { return r.Process == name }) {
		return fmt.Errorf("%q is not a process with a key in Vault", name)
	}
	return nil
}
