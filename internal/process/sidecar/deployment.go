package sidecar

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/policy"
)

// deployment compares the manifest with what this sidecar and the other processes observe, again and again.
type deployment struct {
	own      *daemon.Observer
	more     func() []look.Observation            // observations that need the trust bundle
	runs     func(context.Context) []*observe.Run // of the sessions
	none     func() <-chan struct{}               // see [session.Set.None]
	peers    []admin.Peer
	manifest *policy.Manifest
	log      *zap.Logger

	mu    sync.Mutex         // held while observing
	all   []look.Observation // the last observations
	seen  atomic.Pointer[contradictions]
	rests atomic.Bool // nothing observes until a session opens
}

// contradictions are the observed controls, and the refusals of posts that follow.
type contradictions struct {
	at       time.Time // when the observation began
	controls []policy.ObservedControl
	all      error // refuses the posts of all sessions
	shared   error // refuses the posts of sessions that are not isolated
}

// lookPeriod is the time between observations, and custodyPeriod the time between questions to a custody, each two
// lines in its audit log. sessionsTimeout bounds the observation of the sessions.
const (
	lookPeriod      = 10 * time.Second
	custodyPeriod   = 5 * time.Minute
	sessionsTimeout = 3 * time.Second
)

// observe makes every observation once and compares the result with the manifest. A contradiction counts until the same
// observation is made without it. A custody's answer counts for maxAge.
func (d *deployment) observe(ctx context.Context, maxAge time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.observeLocked(ctx, maxAge)
}

// observeLocked is observe for a caller that holds d.mu.
func (d *deployment) observeLocked(ctx context.Context, maxAge time.Duration) {
	began := time.Now()
	d.all = observe.KeepContradictions(d.all, d.collect(ctx, maxAge))
	runs := d.runs(ctx)
	with := func(runs []*observe.Run) []policy.ObservedControl {
		return d.manifest.Observe(slices.Concat(d.all, observe.OfRuns(runs)))
	}
	now := &contradictions{
		at: began, controls: with(runs), all: policy.Contradicted(with(nil)),
		shared: policy.Contradicted(with(slices.DeleteFunc(slices.Clone(runs), (*observe.Run).Isolated))),
	}
	before := d.seen.Swap(now)
	if before == nil {
		before = new(contradictions)
	}
	switch {
	case now.all != nil && before.all == nil:
		d.log.Error("posts are refused until this is mended", zap.Error(now.all))
	case now.shared != nil && before.shared == nil:
		d.log.Error("posts of sessions that are not isolated are refused until this is mended", zap.Error(now.shared))
	case now.shared == nil && before.shared != nil:
		d.log.Info("no observation contradicts the manifest any more")
	}
}

func (d *deployment) collect(ctx context.Context, maxAge time.Duration) []look.Observation {
	of := make([][]look.Observation, 1+len(d.peers))
	var wait sync.WaitGroup
	wait.Go(func() { of[0] = append(d.own.Observe(ctx, maxAge), d.more()...) })
	for i, p := range d.peers {
		wait.Go(func() {
			var err error
			if of[i+1], err = p.Observations(ctx, maxAge); err != nil {
				d.log.Debug("another process does not say what it observes", zap.String("process", p.Name),
					zap.Error(err))
			}
		})
	}
	wait.Wait()
	return slices.Concat(of...)
}

// watch observes until ctx ends. It rests while no session is open: then current observes when somebody asks.
func (d *deployment) watch(ctx context.Context) {
	tick := time.NewTicker(lookPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if opened := d.none(); opened != nil {
			d.rests.Store(true)
			select {
			case <-ctx.Done():
				return
			case <-opened:
				tick.Reset(lookPeriod)
			}
		}
		d.observe(ctx, custodyPeriod)
		d.rests.Store(false)
	}
}

// current returns what an observation saw that, but for the time that it takes, is no older than lookPeriod.
func (d *deployment) current() *contradictions {
	stale := func() bool { return d.rests.Load() && time.Since(d.seen.Load().at) > lookPeriod }
	if stale() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if stale() { // not observed meanwhile
			d.observeLocked(context.Background(), custodyPeriod)
		}
	}
	return d.seen.Load()
}

func (d *deployment) lastObservations() []look.Observation {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all
}

// contradicted returns an error if the last observations contradict the manifest for a session with this run, or with
// none. Sessions that are not isolated share a user, so a finding in one counts for all of them. observe must run
// first.
func (d *deployment) contradicted(run *observe.Run) error {
	seen := d.current()
	if run.Isolated() {
		return seen.all
	}
	return seen.shared
}

func (p *sidecar) posts(ctx context.Context) error {
	s := p.current.Load()
	for _, check := range []daemon.Check{
		func(context.Context) error {
			return cmp.Or(s.deployment.current().all, p.guard.check(), p.record.Full())
		},
		func(ctx context.Context) error { return p.record.Consume(ctx) }, // without a key: checks the ledger
		p.triggers.Ready, p.control.Ready,
		func(ctx context.Context) error {
			honoured, err := p.control.Manifests(ctx)
			if err == nil && !slices.Contains(honoured, s.Strict.ManifestHash) {
				err = refusal.New("deployment_mismatch", "the control plane does not decide by the manifest %s",
					s.Strict.ManifestHash)
			}
			return err
		},
		p.transparency.ready,
		s.checkPosts,
	} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (d *deployment) contradictions() (n int) {
	for _, c := range d.current().controls {
		if c.State == policy.ObservedFalse {
			n++
		}
	}
	return n
}

// openDeployment observes the deployment for the first time for a snapshot. Earlier contradictions stay until an
// observation shows that they are mended.
func (p *sidecar) openDeployment(ctx context.Context, s *snapshot) *deployment {
	d := &deployment{
		own: s.Observer, manifest: s.Manifest, log: p.Log, peers: p.admin.Peers, none: p.sessions.None,
		more: func() []look.Observation { return []look.Observation{observeKeys(s.Trust.Verifier.Trust())} },
		runs: func(ctx context.Context) []*observe.Run {
			ctx, cancel := context.WithTimeout(ctx, sessionsTimeout) // one that hangs must not hold up the others
			defer cancel()
			_ = p.watch.Look(ctx)
			return p.sessions.Runs()
		},
	}
	if old := p.current.Load(); old != nil {
		d.all = old.deployment.lastObservations()
	}
	d.observe(ctx, custodyPeriod) // each process has asked its custody when it started
	return d
}

func observeKeys(trust *evidence.Trust) look.Observation {
	purposes := make(map[string]string)
	for _, c := range trust.Certified() {
		public := string(c.Public)
		for _, purpose := range c.Certificate.Purposes {
			if other, ok := purposes[public]; ok && other != purpose {
				return look.New(look.Keys, look.Contradicts, fmt.Sprintf("One key is certified for %s and for %s.",
					other, purpose))
			}
			purposes[public] = purpose
		}
	}
	return look.New(look.Keys, look.Holds, fmt.Sprintf("%d keys are certified, each for one purpose.", len(purposes)))
}
