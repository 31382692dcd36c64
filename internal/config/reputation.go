package config

import "github.com/actionproof/mediator/reputation"

// Reputation configures the node: mediator reputation.
type Reputation struct {
	File `yaml:"-"`

	// Internal is the endpoint for sidecars, out of the agent's reach. Required.
	Internal Endpoint `yaml:"internal"`
	// Public is the endpoint for everyone else. Default: none.
	Public *Public `yaml:"public"`
	// State is the folder of the store. It must exist and belong to the node's user alone. Required.
	State string `yaml:"state" is:"path"`
	// Store is where receipts, challenges and baselines are kept. Default: a file in the state folder, for this
	// process alone.
	Store Store `yaml:"store"`
	// Retention keeps a session's receipts this long after the last one; 0s is for ever. Default 2160h, 90 days.
	Retention *Retention `yaml:"retention"`
	// Limits bound the node's load and its store.
	Limits NodeLimits `yaml:"limits"`
	// Custody holds the signing key. Required.
	Custody Custody `yaml:"custody"`
	// Keys holds the signing key. Required.
	Keys ReputationKeys `yaml:"keys"`
	// Audience is this node's name. Sidecars' tokens about callers must be meant for it. Required.
	Audience string `yaml:"audience"`
	// Trust pins the root keys. Required.
	Trust Trust `yaml:"trust"`
	// Agent is the agent's user.
	Agent Agent `yaml:"agent"`
	// Owners are the deployments whose receipts are accepted. Required.
	Owners []Owner `yaml:"owners" reload:"yes"`
	// BelievedHosts are the model hosts that count, as host or host:port (default port 443). The operator of any other
	// host could fake answers for a good score. Default none: no call counts.
	BelievedHosts []string `yaml:"believedHosts" reload:"yes"`
	// Verification offers the verification of agents over MCP. Default: not offered.
	Verification *Verification `yaml:"verification"`
	// Disputes accepts agents' signals and disputes. It needs verification, which registers agents. Default: none are
	// accepted.
	Disputes *Disputes `yaml:"disputes"`
	// Confine restricts the process before it listens.
	Confine Confine `yaml:"confine"`
	// Log is on standard error.
	Log Log `yaml:"log"`

	// StoreDSN is how to connect to the store's database; empty if the store is a file.
	StoreDSN string `yaml:"-" of:"store.postgres.dsnFile"`
	// ModelHosts are BelievedHosts as receipts name them: host:port.
	ModelHosts []string `yaml:"-"`
}

// NodeLimits bounds what the node takes and keeps.
type NodeLimits struct {
	// Sessions is the number of sessions per owner; receipts of more are refused (owner_full). Default 100000.
	Sessions int64 `yaml:"sessions"`
	// Receipts is the number of receipts per owner, each about 4 kB (owner_full). Default 2000000.
	Receipts int64 `yaml:"receipts"`
	// Challenges is the number of challenges per owner (owner_full). Default 200000.
	Challenges int64 `yaml:"challenges"`
	// ReceiptsPerSecond is each owner's average rate of receipts, at most 1000000. The burst is ten times that, and at
	// least one delivery (rate_limited). Default 200.
	ReceiptsPerSecond int `yaml:"receiptsPerSecond"`
	// CallsPerSecond is the average rate of requests about challenges by each owner's agents, at most 1000000. The
	// burst is ten times that (rate_limited). Default 20.
	CallsPerSecond int `yaml:"callsPerSecond"`
	// PublicPerSecond is the average rate of requests from one address at the public endpoint, at most 1000000. The
	// burst is five times that (rate_limited). Default 20.
	PublicPerSecond int `yaml:"publicPerSecond"`
	// Cached is the size of the sessions in memory, counted in receipts of usual size, each some hundred bytes.
	// Default 200000.
	Cached int `yaml:"cached"`
}

// Of returns the limits that the service applies.
func (l NodeLimits) Of() reputation.Limits {
	return reputation.Limits{
		Sessions: l.Sessions, Receipts: l.Receipts, Challenges: l.Challenges, Rate: l.ReceiptsPerSecond, Calls: l.CallsPerSecond, Cached: l.Cached,
	}
}

// ReputationKeys is the node's role.
type ReputationKeys struct {
	// Appraiser signs autonomy scores. Required.
	Appraiser AudienceKey `yaml:"appraiser"`
}

// Public is an address that everybody can reach, over HTTPS alone.
type Public struct {
	// Listen is its host:port. Required.
	Listen string `yaml:"listen"`
	// TLSCertificate is a PEM file; it and its key are read again when they change. Required.
	TLSCertificate string `yaml:"tlsCertificate" is:"path"`
	// TLSKey is the PEM file of its key. Required.
	TLSKey string `yaml:"tlsKey" is:"path"`
}

// Store says where the node's store is.
type Store struct {
	// Postgres is a PostgreSQL database, which several replicas share.
	Postgres *Postgres `yaml:"postgres"`
}

// Owner is a deployment whose receipts the node accepts. Both files are read again when they change.
type Owner struct {
	// Name appears in the log and in metrics. Required.
	Name string `yaml:"name"`
	// Registry is the pinned public key (JWK) of the owner's key registry. Receipts name the owner by its thumbprint.
	// Required.
	Registry string `yaml:"registry" is:"path"`
	// Bundle is the owner's trust bundle. Its history beside it is read too. Required.
	Bundle string `yaml:"bundle" is:"path"`
	// Certificates are the accepted custody certificates. Required.
	Certificates BelievedCertificates `yaml:"certificates"`
	// Receipts are the accepted interaction receipts and tokens about callers. Required.
	Receipts BelievedReceipts `yaml:"receipts"`
	// Statements are the accepted signals and disputes of its agents. Default: none.
	Statements *BelievedStatements `yaml:"statements"`
}

// BelievedCertificates selects the accepted custody certificates of an owner. The pinned registry must have signed
// them.
type BelievedCertificates struct {
	// Issuers of the registry. Required.
	Issuers []string `yaml:"issuers"`
	// Audiences of the certificates. Required.
	Audiences []string `yaml:"audiences"`
}

// BelievedReceipts say which receipts of an owner are believed.
type BelievedReceipts struct {
	// Issuers of the sidecars' keys.interactionReceipt. Required.
	Issuers []string `yaml:"issuers"`
	// Audiences of the sidecars. Required.
	Audiences []string `yaml:"audiences"`
	// Keys are the names of the sidecars' keys, without a version. Required.
	Keys []string `yaml:"keys"`
}
