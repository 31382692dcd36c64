package config

import (
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/translog"
)

// TransparencyLog configures the log in which each post leaves an intent and an outcome.
type TransparencyLog struct {
	// Origin names the log, such as log.example.com/prod: no spaces, no +. A new ledger needs a new
	// origin.
	Origin string `yaml:"origin" need:"yes"`
	// Key is the name of the signing key in `custody` (role transparency_log). With custody in memory, the key is in
	// `state` instead.
	Key string `yaml:"key" need:"yes" unique:"key"`
	// Policy is a file that names the log's keys, its witnesses and their quorum (c2sp.org/tlog-policy). The newest key
	// version in it signs. Default: no witnesses; the newest version signs.
	Policy string `yaml:"policy" is:"public"`
	// Interval is the longest time from an entry to a checkpoint that covers it. Default 10s.
	Interval Duration `yaml:"interval" from:"1s" to:"1m"`
	// RequireWitness makes each post wait for a witnessed checkpoint with its intent, or fail after `timeouts.step`
	// (log_unwitnessed).
	RequireWitness bool `yaml:"requireWitness"`
	// Listen is a host:port that publishes the log to everyone, over plain HTTP (c2sp.org/tlog-tiles).
	Listen string `yaml:"listen" is:"listen"`

	// PolicyText is what Policy holds, and Accepts what it says; empty and nil without Policy.
	PolicyText string           `yaml:"-" of:"policy"`
	Accepts    *translog.Policy `yaml:"-"`
}

func (t *TransparencyLog) Check(key string, f *findings) {
	if t.Origin != "" {
		if _, err := translog.NewKey(t.Origin, make([]byte, 32), nil); err != nil {
			f.Add(key+".origin", "%v", err)
		}
	}
	if t.Policy != "" {
		raw, err := files.Read(t.Policy)
		if err == nil {
			t.PolicyText = string(raw)
			t.Accepts, err = translog.ParsePolicy(raw)
		}
		switch {
		case err != nil:
			f.Add(key+".policy", "%v", err)
			return
		case t.Accepts.Origin() != t.Origin:
			f.Add(key+".origin", "%q is not the log that the policy names: %q", t.Origin, t.Accepts.Origin())
		}
	}
	if t.RequireWitness && (t.Accepts == nil || !t.Accepts.Witnessed()) {
		f.Add(key+".requireWitness", "needs a policy with a quorum of witnesses")
	}
}

// LoadTransparencyLog reads which log a sidecar's configuration has, and the custody of its key. It reads no other
// file: the log's policy names the key, and may not be there yet.
func LoadTransparencyLog(path string) (*Sidecar, error) {
	c := new(Sidecar)
	f, err := load(path, c)
	if err != nil {
		return nil, err
	}
	f.Check("custody", &c.Custody)
	switch t := c.TransparencyLog; {
	case t == nil:
		f.Add("transparencyLog", "is required: without it, the sidecar keeps no log")
	case t.Origin == "" || t.Key == "":
		f.Add("transparencyLog", "needs origin and key")
	}
	if c.State == "" {
		f.Add("state", "is required")
	}
	return c, f.Err()
}
