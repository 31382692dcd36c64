package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/policy"
)

// deploymentWatch holds the manifest against what this sidecar and the two other processes see, on a period.
type deploymentWatch struct {
	own      *observer
	more     func() []observe.Look                // what shows only once the trust is there
	sessions func(context.Context) []observe.Look // what was found in a session is over with it
	peers    []peer
	manifest *policy.Manifest
	log      *zap.Logger

	mu   sync.Mutex     // held while looking
	all  []observe.Look // of the last time
	seen atomic.Pointer[[]policy.ObservedControl]
}

// peer is another process that looks.
type peer struct {
	name string
	at   endpoint
}

// lookPeriod is how often the deployment is looked at, ownLookTimeout how long a process may look, and lookTimeout how long it may take to
// say what it saw.
const (
	lookPeriod     = 10 * time.Second
	ownLookTimeout = 2 * time.Second
	lookTimeout    = 3 * time.Second
)

// look looks once, at everything. A process that does not answer has seen nothing new.
func (d *deploymentWatch) look(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = observe.Keep(d.all, d.looks(ctx))
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

// looks has all processes look, at the same time.
func (d *deploymentWatch) looks(ctx context.Context) []observe.Look {
	of := make([][]observe.Look, 1+len(d.peers))
	var wait sync.WaitGroup
	wait.Go(func() { of[0] = append(d.own.looks(ctx), d.more()...) })
	for i, p := range d.peers {
		wait.Go(func() {
			var err error
			if of[i+1], err = p.looks(ctx); err != nil {
				d.log.Debug("what another process sees is not known", zap.String("process", p.name), zap.Error(err))
			}
		})
	}
	wait.Wait()
	return slices.Concat(of...)
}

func (d *deploymentWatch) watch(ctx context.Context) {
	for range every.Tick(ctx, lookPeriod) {
		d.look(ctx)
	}
}

// last returns what was seen the last time.
func (d *deploymentWatch) last() []observe.Look {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all
}

// contradicted is nil unless the last look contradicts the manifest; look comes first.
func (d *deploymentWatch) contradicted() error {
	return policy.Contradicted(*d.seen.Load())
}

func (p peer) looks(ctx context.Context) ([]observe.Look, error) {
	var looks []observe.Look
	err := p.ask(ctx, "/v1/looks", &looks)
	return looks, err
}

// ask asks the process for what it saw, into out.
func (p peer) ask(ctx context.Context, path string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	client, base := p.at.client()
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %d", p.name, resp.StatusCode)
	}
	return json.NewDecoder(io.LimitReader(resp.Body, wire.MaxAnswer)).Decode(out)
}
