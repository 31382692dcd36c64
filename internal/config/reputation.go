package config

import (
	"fmt"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/dispute"
)

// Reputation configures the node: mediator reputation.
type Reputation struct {
	File    `yaml:"-"`
	Process `yaml:",inline"`

	// Internal is the endpoint for sidecars, out of agents' reach.
	Internal Endpoint `yaml:"internal" need:"yes"`
	// Public is the HTTPS endpoint for everyone else.
	Public *Public `yaml:"public"`
	// State is the store's folder, for the node's user alone.
	State string `yaml:"state" is:"folder" need:"yes"`
	// Store keeps receipts, challenges, and baselines of scores.
	Store Store `yaml:"store"`
	// Retention keeps a session's receipts this long after the last one. Default 2160h.
	Retention Duration `yaml:"retention"`
	// Limits bound the node's load and its store.
	Limits NodeLimits `yaml:"limits"`
	// Keys has the one signing key.
	Keys ReputationKeys `yaml:"keys" need:"yes"`
	// Audience is this node's name: the aud claim of sidecars' tokens for it.
	Audience string `yaml:"audience" need:"yes"`
	// Owners are the deployments whose receipts are accepted.
	Owners []Owner `yaml:"owners" reload:"yes" need:"yes" to:"256"`
	// BelievedHosts are the model hosts that you trust, as host or host:port (default port 443). Only calls to them
	// count in scores.
	BelievedHosts []string `yaml:"believedHosts" reload:"yes"`
	// Verification offers the verification of agents over MCP.
	Verification *Verification `yaml:"verification"`
	// Disputes lets agents publish signals and dispute them. It needs `verification`, which registers agents.
	Disputes *Disputes `yaml:"disputes"`

	// ModelHosts are BelievedHosts as receipts name them: host:port.
	ModelHosts []string `yaml:"-"`
}

// NodeLimits bounds what the node takes and keeps.
type NodeLimits struct {
	// Sessions bounds each owner's sessions (owner_full). Default 100000.
	Sessions int64 `yaml:"sessions"`
	// Receipts bounds each owner's receipts (owner_full), each of about 4 kB. Default 2000000.
	Receipts int64 `yaml:"receipts"`
	// ReceiptsPerSecond bounds each owner's average rate of receipts, with tenfold bursts (rate_limited). Default 200.
	ReceiptsPerSecond int `yaml:"receiptsPerSecond" to:"1000000"`
	// PublicPerSecond bounds each public address's average rate of requests, with fivefold bursts. Default 20.
	PublicPerSecond int `yaml:"publicPerSecond" to:"1000000"`
}

// Of returns the limits that the service applies.
func (l NodeLimits) Of() reputation.Limits {
	return reputation.Limits{Sessions: l.Sessions, Receipts: l.Receipts, Rate: l.ReceiptsPerSecond}
}

type ReputationKeys struct {
	// Appraiser signs autonomy scores and the node's other documents.
	Appraiser AudienceKey `yaml:"appraiser" need:"yes"`
}

// Public is an address that everybody can reach, over HTTPS alone.
type Public struct {
	// Listen is the host:port.
	Listen string `yaml:"listen" need:"yes" is:"listen"`
	// TLSCertificate is a PEM file for `listen`, reread with its key when it changes.
	TLSCertificate string `yaml:"tlsCertificate" is:"public" need:"yes"`
	// TLSKey is the PEM file of its key.
	TLSKey string `yaml:"tlsKey" is:"secret" need:"yes"`
}

// Store says where a process keeps what must survive it.
type Store struct {
	// Postgres is a database that replicas can share. Default: a file in `state`.
	Postgres *Postgres `yaml:"postgres"`
}

// Owner is a deployment whose receipts the node accepts. Both files are read again when they change, and so by no check
// of this file.
type Owner struct {
	// Name appears in the log and in metrics.
	Name string `yaml:"name" need:"yes" unique:"name"`
	// Registry is the pinned public key (JWK) of the owner's key registry; its thumbprint names the owner.
	Registry string `yaml:"registry" is:"public" need:"yes" unique:"registry"`
	// Bundle is the owner's trust bundle. History files beside it are read too.
	Bundle string `yaml:"bundle" is:"public" need:"yes"`
	// Certificates are the accepted custody certificates.
	Certificates BelievedCertificates `yaml:"certificates" need:"yes"`
	// Receipts are the accepted interaction receipts, and tokens that name a calling agent.
	Receipts BelievedReceipts `yaml:"receipts" need:"yes"`
	// Statements are the accepted signals and disputes of the owner's agents.
	Statements *BelievedReceipts `yaml:"statements"`
}

// BelievedCertificates selects the accepted custody certificates of an owner. The pinned registry must have signed
// them.
type BelievedCertificates struct {
	// Issuers are the accepted iss claims.
	Issuers []string `yaml:"issuers" need:"yes"`
	// Audiences are the accepted aud claims.
	Audiences []string `yaml:"audiences" need:"yes"`
}

// BelievedReceipts selects what an owner's sidecars signed: its receipts, or the statements of its agents.
type BelievedReceipts struct {
	// Issuers are the accepted iss claims: those of the sidecars' keys.interactionReceipt or, in `statements`,
	// keys.agentStatement.
	Issuers []string `yaml:"issuers" need:"yes"`
	// Audiences are the accepted aud claims: the sidecars' `audience`.
	Audiences []string `yaml:"audiences" need:"yes"`
	// Keys are the names of these signing keys, without a version; NAME/* covers the key NAME of every pod.
	Keys []string `yaml:"keys" need:"yes"`
}

// Disputes offers signals, which agents publish, and disputes between agents.
type Disputes struct {
	// Windows are the times in which new signals can be disputed.
	Windows Windows `yaml:"windows"`
	// Deadline ends an unresolved dispute as inconclusive. Default 72h.
	Deadline Duration `yaml:"deadline" from:"1s" to:"2160h"`
	// Arbiters decide disputes of type general, by majority. Without them, such disputes end inconclusive.
	Arbiters []Arbiter `yaml:"arbiters" to:"15"`
	// Appeal are other arbiters, to whom the loser can appeal within `deadline`.
	Appeal []Arbiter `yaml:"appeal" to:"15"`

	// Operator is the operator's public key (JWK), for setting the log's time back after a wrong clock. Keep the private
	// key offline.
	Operator string `yaml:"operator" is:"public"`

	// OperatorRoot is what the file holds; nil without it.
	OperatorRoot *evidence.Root `yaml:"-" of:"operator"`
}

// Arbiter decides disputes of type general, with others.
type Arbiter struct {
	// Key is its public key (JWK).
	Key string `yaml:"key" is:"public" need:"yes"`
	// Owner is the thumbprint of its owner, whose agents' disputes it does not decide. Default: none.
	Owner string `yaml:"owner"`

	// Root is what Key holds.
	Root *evidence.Root `yaml:"-" of:"key"`
}

// Windows are the times in which signals can be disputed, by horizon.
type Windows struct {
	// Short is for signals of horizon short. Default 24h.
	Short Duration `yaml:"short" from:"1s" to:"2160h"`
	// Long is for signals of horizon long. Default 72h.
	Long Duration `yaml:"long" from:"1s" to:"2160h"`
}

// Rules returns the rules of disputes.
func (d *Disputes) Rules() dispute.Rules {
	return dispute.Rules{
		Short: d.Windows.Short.Or(dispute.DefaultRules.Short), Long: d.Windows.Long.Or(dispute.DefaultRules.Long),
		Deadline: d.Deadline.Or(dispute.DefaultRules.Deadline),
	}
}

func (d *Disputes) Check(key string, f *findings) {
	d.OperatorRoot = offline(d.Operator, key+".operator", f)
	seen := make(map[string]bool)
	panel := func(name string, arbiters []Arbiter) {
		for i := range arbiters {
			a, at := &arbiters[i], fmt.Sprintf("%s.%s[%d]", key, name, i)
			if a.Root = offline(a.Key, at+".key", f); a.Root == nil {
				continue
			}
			for what, of := range map[string]string{"key": a.Root.KeyID, "owner": a.Owner} {
				if of != "" && seen[of] {
					f.Add(at+"."+what, "is also another arbiter's: one could decide alone")
				}
				seen[of] = true
			}
		}
	}
	panel("arbiters", d.Arbiters)
	panel("appeal", d.Appeal)
	if len(d.Appeal) > 0 && len(d.Arbiters) == 0 {
		f.Add(key+".appeal", "needs arbiters, against whose decisions agents appeal")
	}
}

// Court returns the arbiters with their keys.
func (d *Disputes) Court() dispute.Court {
	panel := func(arbiters []Arbiter) (p dispute.Panel) {
		for _, a := range arbiters {
			p = append(p, dispute.Arbiter{Root: *a.Root, Owner: a.Owner})
		}
		return p
	}
	return dispute.Court{First: panel(d.Arbiters), Appeal: panel(d.Appeal)}
}

// offline reads the public key of someone who signs offline, or returns nil without a path.
func offline(path, key string, f *findings) *evidence.Root {
	if path == "" {
		return nil
	}
	raw, err := files.Read(path)
	if err == nil {
		var root evidence.Root
		if root, err = evidence.ParseRoot(raw, evidence.PurposeArbiter); err == nil {
			return &root
		}
	}
	f.Add(key, "%v", err)
	return nil
}
