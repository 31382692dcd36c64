package sidecar

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/translog"
	"github.com/actionproof/mediator/translog/leaf"
)

// LogRole is the role of the transparency log's key. The key needs no custody certificate: a policy names it.
const LogRole = "transparency_log"

type transparency struct {
	c        *config.TransparencyLog
	key      custody.Key // nil if it is in a file
	ledger   ledger.Log
	running  atomic.Pointer[translog.Log] // nil until begin
	vkey     string                       // of the version that signs; empty until begin
	failures *prometheus.CounterVec
	log      *zap.Logger
}

// addTransparency prepares the key of the log, if the configuration has one.
func (p *sidecar) addTransparency() (err error) {
	c := p.config.TransparencyLog
	if c == nil {
		return nil
	}
	t := &transparency{c: c, log: flood.Logger(p.Log), failures: prometheus.NewCounterVec(
		prometheus.CounterOpts{Name: "mediator_log_witness_failures_total",
			Help: "Requests for a cosignature of the transparency log that a witness did not grant."},
		[]string{"witness"})}
	if p.config.Custody.Type != "memory" {
		t.key, err = p.Keys.Key(LogRole, c.Key)
	}
	p.transparency, p.Followed = t, t.trusted
	return err
}

// LogKeyFile is the path of the log's key if no custody holds it.
func LogKeyFile(c *config.Sidecar) string { return filepath.Join(c.State, "log-key.pem") }

// LogKeys returns the keys of the log that the configuration names, oldest first. Without a custody that outlives the
// process, the key is in a file, which LogKeys makes at the first time. key is nil then; otherwise it is open.
func LogKeys(ctx context.Context, c *config.Sidecar, key custody.Key) (all []translog.Key, err error) {
	origin := c.TransparencyLog.Origin
	if key == nil {
		private, err := files.TakeKey(LogKeyFile(c))
		if err != nil {
			return nil, err
		}
		k, err := translog.NewKey(origin, private.Public().(ed25519.PublicKey),
			func(_ context.Context, m []byte) ([]byte, error) { return ed25519.Sign(private, m), nil })
		return []translog.Key{k}, err
	}
	versions, err := key.Versions(ctx)
	for _, v := range versions {
		k, err := translog.NewKey(origin, v.Public(), func(ctx context.Context, m []byte) ([]byte, error) {
			if _, err := key.Current(ctx); err != nil { // a key that has become unfit signs no more
				return nil, err
			}
			return v.Sign(ctx, m)
		})
		if err != nil {
			return nil, err
		}
		all = append(all, k)
	}
	return all, err
}

func (p *sidecar) openLedger(ctx context.Context) (err error) {
	if err := p.addExporter(); err != nil {
		return err
	}
	t := p.transparency
	var s store
	// openStore drops the callback of a part that the configuration does not have: t and p.exporter may be nil.
	if p.ledger, s, err = openLedger(ctx, p.config, t.logged, p.exporter.Wake, p.Log); err != nil {
		return err
	}
	if p.exports = s; t != nil {
		t.ledger = s
	}
	return nil
}

// beginTransparency begins the log, if there is one, before the first session.
func (p *sidecar) beginTransparency(ctx context.Context, group *errgroup.Group) error {
	t := p.transparency
	if t == nil {
		return nil
	}
	if err := t.begin(ctx, group, p.config, p.witnessClient()); err != nil {
		return err
	}
	t.follow(p.sessions)
	p.admin.Transparency, p.admin.Logged = t.status, t.ledger
	t.register(p.Metrics)
	return nil
}

// logged wakes the log after the ledger has stored leaves. When the log starts, it finds earlier ones by itself.
func (t *transparency) logged() {
	if log := t.running.Load(); log != nil {
		log.Wake()
	}
}

// begin resumes the log, whose key is open, and lets it run until ctx ends.
func (t *transparency) begin(ctx context.Context, group *errgroup.Group, c *config.Sidecar, witnesses *http.Client,
) error {
	keys, err := LogKeys(ctx, c, t.key)
	if err != nil {
		return err
	}
	key, policy := keys[len(keys)-1], t.c.Accepts
	if policy == nil {
		policy = translog.Unwitnessed(key)
	}
	i := len(keys) - 1
	for i >= 0 && !policy.Names(keys[i]) {
		i--
	}
	if i < 0 {
		return refusal.New("config_malformed",
			"the policy %s names no key of the log that is in custody: mediator log key prints these keys", t.c.Policy)
	}
	log, err := translog.New(ctx, t.ledger, translog.Options{Key: keys[i], Former: keys, Policy: policy,
		Interval: time.Duration(t.c.Interval), Now: time.Now, Client: witnesses, Failed: t.failed})
	if err != nil {
		return err
	}
	t.vkey = keys[i].String()
	t.running.Store(log)
	group.Go(func() error { log.Run(ctx); return nil })
	return nil
}

func (t *transparency) failed(err error) {
	var by *translog.WitnessError
	if errors.As(err, &by) {
		t.failures.WithLabelValues(by.Witness).Inc()
	}
	t.log.Error("the transparency log", zap.Error(err))
}

// register adds the log's metrics. The log runs.
func (t *transparency) register(r prometheus.Registerer) {
	gauge := func(name, help string, value func(s translog.Status) int64) {
		promauto.With(r).NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			return float64(value(t.running.Load().Progress()))
		})
	}
	r.MustRegister(t.failures)
	gauge("mediator_log_entries", "Entries in the newest checkpoint of the transparency log.",
		func(s translog.Status) int64 { return max(s.Signed.Size, s.Accepted.Size) })
	gauge("mediator_log_witnessed_entries", "Entries in its newest checkpoint that the log's policy accepts.",
		func(s translog.Status) int64 { return s.Accepted.Size })
	gauge("mediator_log_witnessed_seconds",
		"When the log's policy last accepted a checkpoint, in Unix seconds; before that, when the process began.",
		func(s translog.Status) int64 { return s.Since.Unix() })
}

// follow logs the sessions from now on.
func (t *transparency) follow(s *session.Set) {
	s.Opened = func(opened *session.Session) { t.addSession(leaf.SessionOpened, opened) }
	s.Ended = func(ended *session.Session) { t.addSession(leaf.SessionClosed, ended) }
}

func (t *transparency) addSession(kind leaf.Kind, s *session.Session) {
	t.running.Load().Add(kind, s.ID, leaf.Document{Session: s.ID})
}

// trusted logs the trust by which posts are judged from now on.
func (t *transparency) trusted(now *daemon.TrustFollower) {
	t.running.Load().Add(leaf.Trust, evidence.NewOrderedID(time.Now()), leaf.Document{Bundle: now.BundleHash(),
		Manifest: now.Strict.ManifestHash})
}

// publish serves the log to everyone until ctx ends, if the configuration says where.
func (t *transparency) publish(ctx context.Context, group *errgroup.Group, log *zap.Logger) error {
	if t.c.Listen == "" {
		return nil
	}
	l, err := net.Listen("tcp", t.c.Listen)
	if err != nil {
		return fmt.Errorf("transparencyLog.listen: %w", err)
	}
	group.Go(func() error {
		return endpoint.Serve(ctx, l, translog.Handler(t.ledger), endpoint.PublicLimits, time.Second, log)
	})
	return nil
}

// wait returns when the policy accepts a checkpoint with the intent of a post.
func (t *transparency) wait(ctx context.Context, post ledger.Record) error {
	return t.running.Load().WaitFor(ctx, post)
}

// ready fails if posts need a witnessed checkpoint and would not get one.
func (t *transparency) ready(ctx context.Context) error {
	if t == nil || !t.c.RequireWitness {
		return nil
	}
	return t.running.Load().Check(ctx)
}

func (t *transparency) status(ctx context.Context) (*admin.TransparencyLog, error) {
	s, err := t.running.Load().Status(ctx)
	if err != nil {
		return nil, err
	}
	out := &admin.TransparencyLog{Origin: t.c.Origin, Key: t.vkey, Entries: s.Size, Witnessed: s.Accepted.Size,
		Since: s.Since.UTC(), Demanded: t.c.Accepts != nil && t.c.Accepts.Witnessed(), Witnesses: s.Witnesses,
		Failures: make(map[string]string)}
	for witness, err := range s.Failures {
		out.Failures[witness] = err.Error()
	}
	return out, nil
}

// closeLogTimeout bounds the last entries and the last checkpoint of a process.
const closeLogTimeout = 5 * time.Second

func (t *transparency) close(open []*session.Session) {
	log := t.running.Load()
	if log == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeLogTimeout)
	defer cancel()
	for _, s := range open {
		t.addSession(leaf.SessionClosed, s)
	}
	if err := log.Close(ctx); err != nil {
		t.failed(err)
	}
}
