package control

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"net"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/botauth"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/process/endpoint"
)

// publish serves the directory of Web Bot Auth to everyone until ctx ends, if the configuration says where.
func (p *plane) publish(ctx context.Context, group *errgroup.Group) error {
	at := p.config.WebBotAuth
	if at == "" {
		return nil
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		return fmt.Errorf("webBotAuth: %w", err)
	}
	handler := botauth.Handler(func() botauth.Directory { return directory(p.directory.Load()) })
	group.Go(func() error { return endpoint.Serve(ctx, l, handler, endpoint.PublicLimits, time.Second, p.Log) })
	return nil
}

// directory returns the keys that the manifest allows, and the trust bundle certifies and has not revoked.
func directory(t *daemon.TrustFollower) botauth.Directory {
	want := t.Strict.WebBotAuth
	kids := t.Verifier.Accepts(evidence.PurposeWebBotAuth, want)
	d := botauth.Directory{Keys: make([]ed25519.PublicKey, 0, len(kids)), MaxAge: want.MaxAge}
	certified := make(map[string]evidence.Certified)
	for _, c := range t.Verifier.Trust().Certified() {
		certified[c.Certificate.SubjectKeyID] = c
	}
	for _, kid := range kids {
		c, ok := certified[kid] // none if the bundle has just changed
		said := c.Certificate
		if ok && slices.Contains(want.Issuers, said.SubjectIssuer) && slices.Contains(want.Custody, said.KeyCustody) &&
			!(want.RequireNonExportable && said.KeyExportable) {
			d.Keys = append(d.Keys, ed25519.PublicKey(c.Public))
		}
	}
	return d
}
