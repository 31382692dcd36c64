package config

import "github.com/actionproof/mediator/reputation"

// Reputation configures the node: mediator reputation.
type Reputation struct {
	File `yaml:"-"`

	// Internal is where sidecars reach it, out of the agent's reach. Required.
	Internal Endpoint `yaml:"internal"`
	// Public is where everybody else reaches it. Default: nobody else does.
	Public *Public `yaml:"public"`
	// State is the folder of the store; it must exist and belong to the node's user alone. Required.
	State string `yaml:"state" is:"path"`
	// Store says where receipts, challenges and baselines are kept. Default: in a file in State, for this process alone.
	Store Store `yaml:"store"`
	// Retention is how long the receipts of a session are kept after its last one; 0s keeps them for ever. Default 2160h, 90 days.
	Retention *Duration `yaml:"retention"`
	// Limits bound what the node takes and keeps.
	Limits NodeLimits `yaml:"limits"`
	// Custody says where its signing key is.
	Custody Custody `yaml:"custody"`
	// Keys names its signing role.
	Keys ReputationKeys `yaml:"keys"`
	// Audience is the name of this node. What a sidecar signs of a caller has to be meant for it. Required.
	Audience string `yaml:"audience"`
	// Trust names the trust bundle: a version of the node's key signs once it is certified there.
	Trust Trust `yaml:"trust"`
	// Agent is the user that the agent runs as.
	Agent Agent `yaml:"agent"`
	// Owners are the deployments whose receipts are taken. Required.
	Owners []Owner `yaml:"owners" reload:"yes"`
	// BelievedHosts are the hosts of models that count, each as host or host:port (443 if it is left out): whoever serves another host could
	// answer whatever makes a good score. Default none: no call to a model counts.
	BelievedHosts []string `yaml:"believedHosts" reload:"yes"`
	// Verification offers the verification of agents over MCP. Default: it is not offered.
	Verification *Verification `yaml:"verification"`
	// Disputes takes signals of agents, and disputes between agents. It needs verification, which registers agents. Default: none are taken.
	Disputes *Disputes `yaml:"disputes"`
	// Confine says what the process keeps for itself once it serves.
	Confine Confine `yaml:"confine"`
	// Log configures the log on standard error.
	Log Log `yaml:"log"`

	// StoreDSN is how to connect to the store's database; empty if the store is a file.
	StoreDSN string `yaml:"-" of:"store.postgres.dsnFile"`
	// ModelHosts are BelievedHosts as receipts name them: host:port.
	ModelHosts []string `yaml:"-"`
}

// NodeLimits bounds what the node takes and keeps.
type NodeLimits struct {
	// Sessions is how many are kept of each owner; the receipts of further ones are refused (owner_full). Default 100000.
	Sessions int64 `yaml:"sessions"`
	// Receipts is how many are kept of each owner; further ones are refused (owner_full). Each takes about four kilobytes. Default 2000000.
	Receipts int64 `yaml:"receipts"`
	// Challenges is how many are kept of each owner; no further one is issued (owner_full). Default 200000.
	Challenges int64 `yaml:"challenges"`
	// ReceiptsPerSecond is how many receipts each owner can deliver, on the average; ten times as many at once, and at least one delivery
	// (node_rate_limited). At most 1000000. Default 200.
	ReceiptsPerSecond int `yaml:"receiptsPerSecond"`
	// CallsPerSecond is how many requests the agents of each owner can make about challenges, on the average; ten times as many at once
	// (node_rate_limited). At most 1000000. Default 20.
	CallsPerSecond int `yaml:"callsPerSecond"`
	// PublicPerSecond is how many requests one address can make at the public address, on the average; five times as many at once
	// (node_rate_limited). At most 1000000. Default 20.
	PublicPerSecond int `yaml:"publicPerSecond"`
	// Cached is how many receipts of a usual size the sessions that are kept in memory have together; each takes some hundred bytes. Default 200000.
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
	// Appraiser signs autonomy scores.
	Appraiser AudienceKey `yaml:"appraiser"`
}

// Public is an address that everybody can reach, over HTTPS alone.
type Public struct {
	// Listen is its host:port. Required.
	Listen string `yaml:"listen"`
	// TLSCertificate is a PEM file; it and TLSKey are read again when they change. Required.
	TLSCertificate string `yaml:"tlsCertificate" is:"path"`
	// TLSKey is the key of TLSCertificate. Required.
	TLSKey string `yaml:"tlsKey" is:"path"`
}

// Store says where the node's store is.
type Store struct {
	// Postgres keeps it in a PostgreSQL database, which several replicas share.
	Postgres *Postgres `yaml:"postgres"`
}

// Owner is a deployment whose receipts the node takes, and what they have to be. Both files are read again when they change.
type Owner struct {
	// Name is how the log and metrics call it. Required.
	Name string `yaml:"name"`
	// Registry is the path of the public key (JWK) of its key registry, which is pinned: its thumbprint is the owner that receipts
	// name. Required.
	Registry string `yaml:"registry" is:"path"`
	// Bundle is the path of its trust bundle. The history that lies beside the bundle is read too, if there is one. Required.
	Bundle string `yaml:"bundle" is:"path"`
	// Certificates are the custody certificates that are believed.
	Certificates BelievedCertificates `yaml:"certificates"`
	// Receipts are the interaction receipts and tokens of callers that are believed.
	Receipts BelievedReceipts `yaml:"receipts"`
	// Statements are what its agents publish. Default: they publish nothing.
	Statements *BelievedStatements `yaml:"statements"`
}

// BelievedCertificates say which custody certificates of an owner are believed. The pinned registry has to have signed them.
type BelievedCertificates struct {
	// Issuers are those of the registry. Required.
	Issuers []string `yaml:"issuers"`
	// Audiences are those that certificates are meant for. Required.
	Audiences []string `yaml:"audiences"`
}

// BelievedReceipts say which receipts of an owner are believed.
type BelievedReceipts struct {
	// Issuers are those of the sidecars' keys.interactionReceipt. Required.
	Issuers []string `yaml:"issuers"`
	// Audiences are those of the sidecars. Required.
	Audiences []string `yaml:"audiences"`
	// Keys are the names of the sidecars' keys, without a version. Required.
	Keys []string `yaml:"keys"`
}
