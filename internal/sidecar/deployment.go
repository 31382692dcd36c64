package sidecar

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/daemon"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/policy"
)

// deployment compares the manifest with what this sidecar and the other processes observe, again and again.
type deployment struct {
	own      *daemon.Observer
	more     func() []observe.Observation                // observations that need the trust bundle
	sessions func(context.Context) []observe.Observation // not kept, since a finding ends with its session
	peers    []admin.Peer
	manifest *policy.Manifest
	log      *zap.Logger
	// reputation looks for the reputation of the agent that posts.
	reputation func(context.Context) *admin.Reputation

	mu   sync.Mutex            // held while observing
	all  []observe.Observation // the last observations
	seen atomic.Pointer[[]policy.ObservedControl]
}

// lookPeriod is how often the deployment is observed, and custodyPeriod how often a custody is asked for that. Each
// question to a custody is two lines in its audit log. sessionsTimeout bounds the observation of the sessions.
const (
	lookPeriod      = 10 * time.Second
	custodyPeriod   = 5 * time.Minute
	sessionsTimeout = 3 * time.Second
)

// observe makes every observation once and compares the result with the manifest. A process that does not answer has
// observed nothing new. What a custody said at most maxAge ago may be told again.
func (d *deployment) observe(ctx context.Context, maxAge time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = observe.KeepContradictions(d.all, d.collect(ctx, maxAge))
	controls := d.manifest.Observe(slices.Concat(d.all, d.sessions(ctx)))
	now, before := policy.Contradicted(controls), error(nil)
	if last := d.seen.Swap(&controls); last != nil {
		before = policy.Contradicted(*last)
	}
	switch {
	case now != nil && before == nil:
		d.log.Error("posts are refused until this is mended", zap.Error(now))
	case now == nil && before != nil:
		d.log.Info("what was seen contradicts the manifest no more")
	}
}

// collect asks all processes for their observations, at the same time.
func (d *deployment) collect(ctx context.Context, maxAge time.Duration) []observe.Observation {
	of := make([][]observe.Observation, 1+len(d.peers))
	var wait sync.WaitGroup
	wait.Go(func() { of[0] = append(d.own.Observe(ctx, maxAge), d.more()...) })
	for i, p := range d.peers {
		wait.Go(func() {
			var err error
			if of[i+1], err = p.Observations(ctx, maxAge); err != nil {
				d.log.Debug("what another process sees is not known", zap.String("process", p.Name), zap.Error(err))
			}
		})
	}
	wait.Wait()
	return slices.Concat(of...)
}

func (d *deployment) watch(ctx context.Context) {
	for range every.Tick(ctx, lookPeriod) {
		d.observe(ctx, custodyPeriod)
	}
}

// lastObservations returns the last observations.
func (d *deployment) lastObservations() []observe.Observation {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all
}

// contradicted returns an error if the last observations contradict the manifest. look has to run before it.
func (d *deployment) contradicted() error {
	return policy.Contradicted(*d.seen.Load())
}

// contradictions returns how many controls the last observations contradict.
func (d *deployment) contradictions() (n int) {
	for _, c := range *d.seen.Load() {
		if c.State == policy.ObservedFalse {
			n++
		}
	}
	return n
}

// Controls makes every observation once, and returns each control of the manifest with the result.
func (d *deployment) Controls(ctx context.Context) []policy.ObservedControl {
	d.observe(ctx, 0)
	return *d.seen.Load()
}

// Reputation returns the reputation that a post would have now; nil if the manifest believes none.
func (d *deployment) Reputation(ctx context.Context) *admin.Reputation { return d.reputation(ctx) }

// openDeployment observes the deployment for the first time for a snapshot. Contradictions from before stay until they
// are observed to be mended.
func (p *process) openDeployment(ctx context.Context, s *snapshot) *deployment {
	d := &deployment{
		own: s.observer, manifest: s.manifest, log: p.Log, peers: p.admin.Peers,
		more: func() []observe.Observation { return []observe.Observation{observeKeys(s.trust.Verifier.Trust())} },
		sessions: func(ctx context.Context) []observe.Observation {
			ctx, cancel := context.WithTimeout(ctx, sessionsTimeout) // other observations do not wait for one that hangs
			defer cancel()
			_ = p.watch.Look(ctx)
			return observe.OfRuns(p.sessions.Runs())
		},
		reputation: func(ctx context.Context) *admin.Reputation { return p.reputation(ctx, s) },
	}
	if p.inForce != nil {
		d.all = p.inForce.deployment.lastObservations()
	}
	d.observe(ctx, 0)
	return d
}

// observeKeys observes whether each certified key has one purpose only.
func observeKeys(trust *evidence.Trust) observe.Observation {
	purposes := make(map[string]string)
	for _, c := range trust.Certified() {
		public := string(c.Public)
		for _, purpose := range c.Certificate.Purposes {
			if other, ok := purposes[public]; ok && other != purpose {
				return observe.New(observe.Keys, observe.Contradicts, fmt.Sprintf("One key is certified for %s and for %s.", other, purpose))
			}
			purposes[public] = purpose
		}
	}
	return observe.New(observe.Keys, observe.Holds, fmt.Sprintf("%d keys are certified, each for one purpose.", len(purposes)))
}
