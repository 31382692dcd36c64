package evidence

import (
	"slices"
	"time"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/internal/pattern"
	"github.com/actionproof/mediator/internal/refusal"
)

// Possession says that a process holds a key, which signs it. The registrar needs it before it certifies the key. Its
// iss is the SPIFFE id of the process, its aud the registrar, its jti the registrar's nonce.
type Possession struct {
	Registered
	// of the publication that names the key
	PublicationHash string `json:"publicationHash"`
}

// AudienceRegistrar is the aud of all that is made for a registrar.
const AudienceRegistrar = "mediator-registrar"

// RegistrarRules say which processes the registrar certifies. The auditor signs them.
type RegistrarRules struct {
	Registered
	// what the registrar adds to the revocation list
	Revoked []Revocation    `json:"revoked,omitempty"`
	Rules   []RegistrarRule `json:"rules"`
	// A registrar refuses a lower number than it has seen.
	Serial int64 `json:"serial"`
}

// RegistrarRule allows certificates for some processes: those with an id, or the pods of a service account.
type RegistrarRule struct {
	// declared of the keys, as by mediator keys certify
	AccessibleToAgent bool `json:"accessibleToAgent"`
	AccessibleToUsers bool `json:"accessibleToUsers"`
	// hash of the manifest whose issuers and key ids the processes may use
	DeploymentHash string `json:"deploymentHash"`
	// further names in TLS certificates of the pods
	DNSNames []string `json:"dnsNames,omitempty"`
	// SPIFFE id; a segment of its path may be *
	ID string `json:"id,omitempty"`
	// of the images of the containers that hold the pod's certificate, as sha256:HEX
	ImageDigests   []string `json:"imageDigests,omitempty"`
	Namespace      string   `json:"namespace,omitempty"`
	Role           string   `json:"role"` // see RolePurposes
	ServiceAccount string   `json:"serviceAccount,omitempty"`
}

// Roles of a [RegistrarRule].
const (
	RoleSidecar = "sidecar"
	RoleTrigger = "trigger"
	RoleControl = "control"
	RoleNode    = "node"
	RoleAgent   = "agent" // a pod with an agent and no keys: its certificate only names it
)

// RolePurposes returns the purposes of the keys that a role may have. An unknown role may have none.
func RolePurposes(role string) []string {
	switch role {
	case RoleSidecar:
		return []string{PurposeRuntimeAttestation, PurposeAgentSession, PurposeRequestProof, PurposeInteraction,
			PurposeStatement, PurposeWebBotAuth}
	case RoleTrigger:
		return []string{PurposeTriggerOriginProof, PurposeTriggerReceipt}
	case RoleControl:
		return []string{PurposePolicyDecision, PurposeActionGrant}
	case RoleNode:
		return []string{PurposeAppraiser}
	case RoleAgent:
		return []string{}
	}
	return nil
}

const (
	maxRules     = 256
	maxRuleNames = 16 // image digests or DNS names of a rule
	maxRulesSize = 256 << 10
)

var (
	imageDigest = pattern.New(`^sha256:[0-9a-f]{64}$`)
	spiffeID    = pattern.New(`^spiffe://[a-z0-9._-]+(/([A-Za-z0-9._-]+|\*))+$`)
	label       = pattern.New(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

	possession     = newKind[Possession](algEdDSA, "key-possession+jwt", "key_possession", shortLived)
	registrarRules = upTo(maxRulesSize, newKind[RegistrarRules](algEdDSA, "registrar-rules+jwt",
		PurposeDeploymentCertificate, longLived))
)

// RegistrarRulesKind returns the kind of a registrar's rules.
func RegistrarRulesKind() Kind[RegistrarRules] { return registrarRules }

// PossessionKind returns the kind of a proof of possession. No certificate grants its purpose.
func PossessionKind() Kind[Possession] { return possession }

func (r *RegistrarRules) check() error {
	if len(r.Rules) == 0 || len(r.Rules) > maxRules || r.Serial <= 0 {
		return refusal.New("artifact_malformed",
			"the %s have %d rules and the serial number %d: write 1 to %d rules, and a "+
				"number above 0", registrarRules.Typ, len(r.Rules), r.Serial, maxRules)
	}
	for i, rule := range r.Rules {
		if why := rule.wrong(); why != "" {
			return refusal.New("artifact_malformed", "rule %d of the %s: %s", i+1, registrarRules.Typ, why)
		}
	}
	return checkRevocations(registrarRules.Typ, r.Revoked)
}

func (r RegistrarRule) wrong() string {
	named := func(form pattern.Pattern, texts []string) bool {
		unlike := func(s string) bool { return !form.MatchString(s) }
		return len(texts) <= maxRuleNames && !slices.ContainsFunc(texts, unlike)
	}
	switch {
	case RolePurposes(r.Role) == nil:
		return "its role must be one of sidecar, trigger, control, node and agent"
	case (r.ID == "") == (r.Namespace == ""):
		return "it needs either an id, or a namespace with a serviceAccount"
	case r.ID != "" && (r.ServiceAccount != "" || len(r.ImageDigests)+len(r.DNSNames) > 0):
		return "serviceAccount, imageDigests and dnsNames go with a namespace, and not with an id"
	case r.ID != "" && (len(r.ID) > maxName || !spiffeID.MatchString(r.ID)):
		return "its id is not a SPIFFE id such as spiffe://example.org/sidecar/*"
	case r.Namespace != "" && !named(label, []string{r.Namespace, r.ServiceAccount}):
		return "its namespace or its serviceAccount is not a name of Kubernetes"
	case r.Namespace != "" && (len(r.ImageDigests) == 0 || !named(imageDigest, r.ImageDigests)):
		return "imageDigests must be 1 to 16 digests, each of the form sha256:HEX"
	case !named(label, r.DNSNames):
		return "dnsNames must be at most 16 DNS names"
	}
	return ""
}

// OpenPossession verifies that the key kid with this public key signed the token, and that it has not expired. The
// caller compares the claims.
func OpenPossession(token, kid string, public ed25519.PublicKey, now time.Time) (Possession, error) {
	p, err := parse(token, algEdDSA, possession.Typ, possession.maxToken)
	if err != nil {
		return Possession{}, err
	}
	if p.header.Kid != kid || !verify(public, p) {
		return Possession{}, errSignature(possession.Typ, kid)
	}
	c, err := decode(possession, p.payload)
	if err != nil {
		return Possession{}, err
	}
	anyone := Expected{Issuers: []string{c.Issuer}, Audiences: []string{c.Audience}, KeyIDs: []string{kid},
		MaxAge: possession.MaxLifetime}
	return *c, anyone.admits(possession.Typ, kid, c.Registered, KeyClaims{}, moment{now, MaxSkew})
}
