// Package demo plays every scenario of a post with real processes and compares the result with the expected one.
//
//	demo.go       the deployment and the player
//	scenarios.go  the scenarios, one a row, and how each is played
//	nodescenarios.go  scenarios with the node
//	config.go     the deployment's files
//	api.go        the two APIs
package demo

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/trial"
)

// Demo has a deployment in a temporary folder, and the APIs to which its agent posts.
type Demo struct {
	// First is the record of the first post.
	First admin.Record
	// Thought is the record of the post of the agent that thinks, with its receipts.
	Thought admin.Record

	own      *trial.Deployment
	aware    api          // takes part: it verifies evidence
	plain    api          // knows only its bearer token
	direct   *http.Client // reaches the APIs past the mediator, like a thief
	stopAPIs func()
	old      string    // an event that is too old for the last scenarios
	oldAt    time.Time // when it arrived
}

// Result is the expected and the actual result of a scenario.
type Result struct {
	Scenario string  `json:"scenario"`
	Expected string  `json:"expected"`
	Happened string  `json:"happened"`
	OK       bool    `json:"ok"`
	Millis   float64 `json:"ms"`
}

// Play plays the scenarios in order and calls each with every result.
func (d *Demo) Play(ctx context.Context, each func(Result)) {
	for _, s := range d.scenarios() {
		began := time.Now()
		happened, err := s.play(ctx)
		if err != nil {
			happened = "error: " + err.Error()
		}
		took := float64(time.Since(began).Microseconds()) / 1000
		each(Result{s.name, s.expect, happened, happened == s.expect, took})
	}
}

// New starts the deployment and both APIs. The caller stops the result, even after an error.
func New(ctx context.Context) (*Demo, error) {
	d := &Demo{stopAPIs: func() {}}
	if err := d.prepare(); err != nil {
		return d, err
	}
	var err error
	if d.own.Stack, err = devstack.Start(ctx, d.own.Dir); err != nil {
		return d, err
	}
	if err := errors.Join(d.own.Stack.Ready(ctx), d.startAPIs(ctx)); err != nil {
		return d, err
	}
	d.old, err = d.own.DeliverRelease(ctx)
	d.oldAt = time.Now()
	return d, err
}

func (d *Demo) prepare() error {
	dir, err := os.MkdirTemp("", "mediator-demo-")
	if err != nil {
		return err
	}
	if d.own, err = trial.New(dir); err != nil {
		return err
	}
	return errors.Join(
		os.Chmod(dir, 0o711), //nolint:gosec // the agent's user passes through to the CA's certificate
		devstack.Prepare(dir, d.files()),
		files.WriteAbsent(filepath.Join(dir, "secrets", "api-token"), []byte(trial.Token)),
		trial.WriteCertificates(dir, trial.AwareHost, trial.PlainHost),
		d.own.CopySelf(),
	)
}

func (d *Demo) startAPIs(ctx context.Context) error {
	certificate, err := os.ReadFile(filepath.Join(d.own.Dir, "api-ca.pem"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	d.direct = &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: config}}
	protect, closeLedger, err := newAPIGate(ctx, d.own.Dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var serving errgroup.Group
	d.stopAPIs = func() {
		cancel()
		_ = serving.Wait()
		_ = closeLedger()
	}
	for address, handler := range map[string]http.Handler{
		d.own.AwareAddr: d.aware.handler(protect),
		d.own.PlainAddr: d.plain.handler(nil),
	} {
		l, err := listen(d.own.Dir, address)
		if err != nil {
			return err
		}
		serving.Go(func() error { return serve(ctx, l, handler) })
	}
	return nil
}

// Stop ends everything that the demo started and removes its folder.
func (d *Demo) Stop() {
	d.stopAPIs()
	if d.own == nil {
		return
	}
	if d.own.Stack != nil { // nil after a start that failed
		d.own.Stack.Stop()
	}
	_ = os.RemoveAll(d.own.Dir)
}

// Logs returns the logs of all processes, to explain an unexpected result.
func (d *Demo) Logs() string { return d.own.Logs() }

const patience = 3 * time.Minute

// eventually tries until a try succeeds, and reports whether one did in time.
func eventually(ctx context.Context, try func(ctx context.Context) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !try(ctx) {
		if every.Sleep(ctx, 20*time.Millisecond) != nil {
			return false
		}
	}
	return true
}
