package config

import (
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/reputation/dispute"
)

// Disputes offers signals, which agents publish, and disputes between agents.
type Disputes struct {
	// Windows are the times in which signals can be disputed. A signal keeps the window of its publication.
	Windows Windows `yaml:"windows"`
	// Deadline ends an unresolved dispute as inconclusive. Default 72h.
	Deadline Duration `yaml:"deadline"`
	// Arbiter is the public key (JWK) that resolves disputes of type general. Its private key stays offline and
	// belongs to no agent's owner. Default: such disputes end inconclusive at their deadline.
	Arbiter string `yaml:"arbiter" is:"path"`
	// OpenSignals bounds the signals of one agent that are open to dispute (too_many_open). All agents of one owner
	// have a hundred times as many, and so have all agents without an owner. Default and maximum 64.
	OpenSignals int64 `yaml:"openSignals"`
	// OpenDisputes bounds the unresolved disputes of one challenger in the same way. Default 20.
	OpenDisputes int64 `yaml:"openDisputes"`

	// ArbiterRoot is what Arbiter holds; nil without it.
	ArbiterRoot *evidence.Root `yaml:"-" of:"arbiter"`
}

// Windows are the times in which signals can be disputed, by horizon.
type Windows struct {
	// Short is for signals of horizon short. Default 24h.
	Short Duration `yaml:"short"`
	// Long is for signals of horizon long. Default 72h.
	Long Duration `yaml:"long"`
}

// BelievedStatements selects the accepted statements of an owner's agents: signals and disputes that sidecars sign.
type BelievedStatements struct {
	// Issuers of the sidecars' keys.agentStatement. Required.
	Issuers []string `yaml:"issuers"`
	// Audiences of the sidecars. Required.
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

// maxWait bounds windows and deadlines.
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
