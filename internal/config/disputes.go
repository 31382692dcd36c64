package config

import (
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/reputation/dispute"
)

// Disputes offers signals, which agents publish, and disputes between agents.
type Disputes struct {
	// Windows are how long signals can be disputed. A signal keeps the window that it was published with.
	Windows Windows `yaml:"windows"`
	// Deadline is how long a dispute waits for its resolution; then it ends inconclusive. Default 72h.
	Deadline Duration `yaml:"deadline"`
	// Arbiter is the path of the public key (JWK) that resolves disputes of type general. Its private key stays offline, and belongs to no agent's
	// owner. Default: nobody resolves them, so they end inconclusive at their deadline.
	Arbiter string `yaml:"arbiter" is:"path"`
	// OpenSignals is how many signals of each agent can be within their windows; further ones are refused (dispute_full). All agents of one owner
	// can have a hundred times as many, and so can all agents without an owner together. At most and by default 64.
	OpenSignals int64 `yaml:"openSignals"`
	// OpenDisputes is how many disputes of each challenger can wait for their resolution, likewise. Default 20.
	OpenDisputes int64 `yaml:"openDisputes"`

	// ArbiterRoot is what Arbiter holds; nil without it.
	ArbiterRoot *evidence.Root `yaml:"-" of:"arbiter"`
}

// Windows are how long signals can be disputed, by their horizon.
type Windows struct {
	// Short is for signals of the horizon short. Default 24h.
	Short Duration `yaml:"short"`
	// Long is for signals of the horizon long. Default 72h.
	Long Duration `yaml:"long"`
}

// BelievedStatements say which statements of an owner's agents are believed: signals and disputes that the sidecars sign for them.
type BelievedStatements struct {
	// Issuers are those of the sidecars' keys.agentStatement. Required.
	Issuers []string `yaml:"issuers"`
	// Audiences are those of the sidecars. Required.
	Audiences []string `yaml:"audiences"`
	// Keys are the names of the sidecars' keys, without a version. Required.
	Keys []string `yaml:"keys"`
}

// Rules returns what disputes are judged by.
func (d *Disputes) Rules() dispute.Rules {
	return dispute.Rules{
		Short: d.Windows.Short.Or(dispute.DefaultRules.Short), Long: d.Windows.Long.Or(dispute.DefaultRules.Long), Deadline: d.Deadline.Or(dispute.DefaultRules.Deadline),
	}
}

// maxWait bounds windows and deadlines: what is provisional for longer is of use to nobody.
const maxWait = 90 * 24 * time.Hour

// check adds the mistakes in the disputes to f, and reads the arbiter's key.
func (d *Disputes) check(f *findings) {
	for _, wait := range [...]struct {
		key string
		is  Duration
	}{{"windows.short", d.Windows.Short}, {"windows.long", d.Windows.Long}, {"deadline", d.Deadline}} {
		if is := time.Duration(wait.is); is != 0 && (is < time.Second || is > maxWait) {
			f.Add("disputes."+wait.key, "%v is not between 1s and %v", is, maxWait)
		}
	}
	if d.OpenSignals > dispute.MaxRunning {
		f.Add("disputes.openSignals", "is at most %d, not %d", dispute.MaxRunning, d.OpenSignals)
	}
	if d.Arbiter == "" {
		return
	}
	raw, err := files.Read(d.Arbiter)
	if err == nil {
		var root evidence.Root
		if root, err = evidence.ParseRoot(raw, evidence.PurposeArbiter); err == nil {
			d.ArbiterRoot = &root
		}
	}
	if err != nil {
		f.Add("disputes.arbiter", "%v", err)
	}
}
