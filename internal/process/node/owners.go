package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation"
)

type owner struct {
	reputation.Owner
	from    config.Owner
	stamp   string // of the files; see stampOf
	refused bool   // its files have changed since, and are not believed

	revocations string              // the bundle's list
	whole       *evidence.PastTrust // of the history that was read last
	lacks       error               // why the history beside the bundle cannot be read; nil if it can
}

type owners struct {
	audience string
	skew     time.Duration
	believe  func(reputation.Believed) error
	log      *zap.Logger

	mu      sync.Mutex // held while owners are read and applied
	inForce []*owner
	hosts   []string
	others  context.CancelFunc // ends the following of the files of inForce; nil if nothing follows them
}

func (o *owners) take(c *config.Reputation) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var next []*owner
	for _, of := range c.Owners {
		read, err := o.read(of)
		if err == nil {
			err = read.lacks
		}
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(next, func(other *owner) bool { return other.ID == read.ID }); i >= 0 {
			return refusal.New("trust_malformed", "the owners %s and %s have the same key registry", next[i].Name, read.Name)
		}
		next = append(next, read)
	}
	if err := o.set(next, c.ModelHosts); err != nil {
		return err
	}
	if o.others != nil {
		o.others()
	}
	return nil
}

// set applies owners and hosts, or fails and changes nothing.
func (o *owners) set(next []*owner, hosts []string) error {
	b := reputation.Believed{Owners: make([]reputation.Owner, len(next)), Hosts: hosts}
	for i, n := range next {
		b.Owners[i] = n.Owner
	}
	if err := o.believe(b); err != nil {
		return err
	}
	o.inForce, o.hosts = next, hosts
	return nil
}

// read refuses a bundle that undoes what the current one says, such as the retirement of a key version.
func (o *owners) read(c config.Owner) (*owner, error) {
	read, err := o.open(c)
	if err != nil {
		return nil, fmt.Errorf("the owner %s: %w", c.Name, err)
	}
	for _, before := range o.inForce {
		if before.ID != read.ID {
			continue
		}
		if err := read.Live.Trust().Succeeds(before.Live.Trust()); err != nil {
			return nil, fmt.Errorf("the owner %s: %s: %w", c.Name, c.Bundle, err)
		}
	}
	return read, nil
}

// open reads and verifies the files of an owner. Without a readable history it has no past, and lacks says why.
func (o *owners) open(c config.Owner) (*owner, error) {
	read := &owner{from: c, stamp: stampOf(c)}
	raw, err := files.Read(c.Registry)
	if err != nil {
		return nil, fmt.Errorf("its registry: %w", err)
	}
	root, err := evidence.ParseRoot(raw, evidence.PurposeSignerCertificate)
	if err != nil {
		return nil, fmt.Errorf("its registry %s: %w", c.Registry, err)
	}
	b, _, err := deployed.ReadBundle(c.Bundle)
	if err != nil {
		return nil, err
	}
	roots, certificates := []evidence.Root{root}, certificatePolicy(c, root)
	live, err := evidence.NewTrust(roots, b, certificates)
	if err != nil {
		return nil, fmt.Errorf("trust bundle %s: %w", c.Bundle, err)
	}
	read.ID, read.Name, read.revocations = interaction.Owner(root.Public), c.Name, b.Revocations
	h, segments, err := archive.ReadHistory(c.Bundle, b)
	if err == nil {
		read.whole, err = evidence.ReadPastTrust(roots, b, h.Revocations, certificates, segments...)
	}
	if err == nil {
		err = read.whole.VerifyAll(nil)
	}
	if read.Past = read.whole; err != nil {
		read.lacks = fmt.Errorf("the owner %s: trust bundle %s and its history: %w", c.Name, c.Bundle, err)
	}
	if read.Live, err = evidence.NewVerifier(live, evidence.VerifierOptions{Now: time.Now, Skew: o.skew}); err != nil {
		return nil, err
	}
	read.Receipts = evidence.Expected{
		Issuers: c.Receipts.Issuers, Audiences: c.Receipts.Audiences, KeyIDs: c.Receipts.Keys, MaxAge: interaction.Lifetime,
	}
	read.Callers = read.Receipts
	read.Callers.Audiences, read.Callers.MaxAge = []string{o.audience}, interaction.CallerLifetime
	if s := c.Statements; s != nil {
		read.Statements = &evidence.Expected{Issuers: s.Issuers, Audiences: s.Audiences, KeyIDs: s.Keys,
			MaxAge: interaction.Lifetime}
	}
	return read, nil
}

// certificatePolicy demands of an owner's keys what a strict manifest demands.
func certificatePolicy(c config.Owner, root evidence.Root) evidence.SignerPolicy {
	p := evidence.SignerPolicy{DenyAgentAccessible: true, DenyUserAccessible: true}
	p.Expected = evidence.Expected{
		Issuers: c.Certificates.Issuers, Audiences: c.Certificates.Audiences, KeyIDs: []string{root.KeyID},
		MaxAge:  evidence.SignerCertificateKind().MaxLifetime,
		Custody: []string{evidence.CustodyExternalMediator, evidence.CustodyHardwareBacked}, RequireNonExportable: true,
	}
	return p
}

// stampOf tells two states of an owner's files apart without reading them: a history may be large.
func stampOf(c config.Owner) (stamp string) {
	history, _ := archive.HistoryFiles(c.Bundle) // reading says what is wrong with the folder
	for _, path := range append(history, c.Bundle) {
		var is unix.Stat_t
		if unix.Stat(path, &is) == nil { // a file that is not there has no stamp
			stamp += fmt.Sprintln(is.Ino, is.Size, is.Mtim)
		}
	}
	return stamp
}

// watch applies changed bundles until ctx ends. It keeps the previous one while it refuses a new one.
func (o *owners) watch(ctx context.Context) {
	for ctx.Err() == nil {
		these, end := context.WithCancel(ctx)
		o.mu.Lock()
		o.others = end
		var bundles []string
		for _, one := range o.inForce {
			bundles = append(bundles, one.from.Bundle)
		}
		o.mu.Unlock()
		files.Follow(these, bundles, o.follow, func(error) {}) // follow logs its errors
		end()
	}
}

// follow fails while files are refused: the remedy may be a history file beside the bundle, which is not watched.
func (o *owners) follow() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	next, changed := slices.Clone(o.inForce), false
	for i, before := range next {
		stamp := stampOf(before.from)
		if stamp == before.stamp {
			continue
		}
		read, err := o.read(before.from)
		if err == nil && read.ID != before.ID {
			err = refusal.New("restart_required",
				"the owner %s has a new key registry, and only a reload of the node accepts it",
				before.Name)
		}
		lacks := err
		if err == nil {
			lacks = read.lacks
		}
		if lacks != nil {
			o.log.Error("the new trust bundle of an owner is not taken over", zap.Error(lacks))
			kept := *before
			kept.stamp, kept.refused = stamp, true
			if err == nil { // revocations count at once, even with a damaged history
				kept.Live, changed = read.Live, true
				if kept.Past, err = before.whole.Revoking(read.revocations); err != nil {
					kept.Past = before.Past // not to be expected: the list was verified with the bundle
				}
			}
			next[i] = &kept
			continue
		}
		o.log.Info("trust bundle of an owner taken over", zap.String("owner", before.Name),
			zap.String("path", before.from.Bundle))
		next[i], changed = read, true
	}
	if !changed {
		o.inForce = next
	} else if err := o.set(next, o.hosts); err != nil {
		o.log.Error("the new trust bundles of owners are not taken over", zap.Error(err))
		return err
	}
	if slices.ContainsFunc(o.inForce, func(one *owner) bool { return one.refused }) {
		return errors.New("the files of an owner are refused")
	}
	return nil
}
