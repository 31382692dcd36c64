package main

import (
	"context"
	"crypto/rand"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/ledger"
)

// parts are what a post cannot be without, and nothing else: its signatures and verifications over texts as long as its tokens, and what it
// makes durable. No token is made or read, no process asked, no rule looked at: the result means nothing.
type parts struct {
	public    ed25519.PublicKey
	private   ed25519.PrivateKey
	signature []byte
	budget    ledger.Store  // the trigger service's
	posts     *ledger.Queue // the sidecar's
}

// serveParts is goproxy with the parts of a post, in one process.
func serveParts(ctx context.Context, address, dir string) (err error) {
	var p parts
	if p.public, p.private, err = ed25519.GenerateKey(rand.Reader); err != nil {
		return err
	}
	p.signature = ed25519.Sign(p.private, signedText)
	if p.budget, err = ledger.Open(ctx, filepath.Join(dir, "budget.db"), ledger.Options{Now: time.Now}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.budget.Close()) }()
	posts, err := ledger.Open(ctx, filepath.Join(dir, "posts.db"), ledger.Options{Now: time.Now})
	if err != nil {
		return err
	}
	p.posts = ledger.NewQueue(posts, func(ledger.Record, error) {})
	defer func() { err = errors.Join(err, p.posts.Close()) }()
	return serveGoproxy(ctx, address, dir, p.post)
}

// What a post of this benchmark has: docs/scaling.md counts it.
const (
	signatures    = 7
	verifications = 6
	tokens        = 10
	keys          = 9
)

var (
	signedText = []byte(strings.Repeat("m", 900))
	token      = strings.Repeat("t", 1250)
	hash       = strings.Repeat("0", 64)
)

// post does the parts of one post, before it is sent; its outcome is stored later, as the sidecar does it.
func (p *parts) post(ctx context.Context) error {
	for range signatures {
		ed25519.Sign(p.private, signedText)
	}
	for range verifications {
		if !ed25519.Verify(p.public, signedText, p.signature) {
			return errors.New("a signature does not verify")
		}
	}
	now := time.Now()
	until := now.Add(time.Minute)
	if err := p.budget.Consume(ctx, ledger.Key{Kind: "budget", ID: evidence.NewID(), Expires: until}); err != nil {
		return err
	}
	post := ledger.Record{
		ID: evidence.NewOrderedID(now), Flow: "post", Session: evidence.NewID(), Event: evidence.NewID(), Rule: "post", Subject: "agent", Action: "posts:create", Resource: "bench:posts",
		Method: "POST", Host: host, Path: "/posts", ContentHash: hash, BindingHash: hash, CapabilityID: evidence.NewID(), Manifest: hash, Started: now,
	}
	for range tokens {
		post.Artifacts = append(post.Artifacts, ledger.Artifact{Name: "artifact", Token: token})
	}
	var used []ledger.Key
	for range keys {
		used = append(used, ledger.Key{Kind: "artifact", ID: evidence.NewOrderedID(now), Expires: until})
	}
	if err := p.posts.Begin(ctx, post, used...); err != nil {
		return err
	}
	post.State, post.Status, post.Finished = ledger.StateForwarded, 201, time.Now()
	return p.posts.FinishLater(ctx, post)
}
