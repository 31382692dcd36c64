package config

import (
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/reputation/dispute"
)

// Disputes offers signals, which agents publish, and disputes between agents.
type Disputes struct {
	// Windows for disputing signals. A signal keeps that of its publication.
	Windows Windows `yaml:"windows"`
	// Deadline ends an unresolved dispute as inconclusive. Default 72h.
	Deadline Duration `yaml:"deadline" from:"1s" to:"2160h"`
	// Arbiter is the public key (JWK) that resolves disputes of type general. Keep its private key offline, away from
	// agents' owners. Default: they end inconclusive at their deadline.
	Arbiter string `yaml:"arbiter" is:"path"`

	// ArbiterRoot is what Arbiter holds; nil without it.
	ArbiterRoot *evidence.Root `yaml:"-" of:"arbiter"`
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

func (d *Disputes) check(key string, f *findings) {
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
		f.Add(key+".arbiter", "%v", err)
	}
}
