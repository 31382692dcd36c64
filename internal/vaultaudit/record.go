package vaultaudit

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/ledger"
)

// Hash returns a text as the audit log has it.
type Hash func(ctx context.Context, text string) (string, error)

// plain is the [Hash] of an audit device that logs in plaintext; isPlain reports whether a signature comes from one.
func plain(_ context.Context, text string) (string, error) { return text, nil }

func isPlain(value string) bool { return strings.HasPrefix(value, "vault:v") }

// item is an artifact of a record, or a refused post.
type item struct {
	Artifact
	refused *refusedPost // then there is no artifact, and Time is when the post started
}

// refusedPost is a post for which something may have been signed that its record lacks.
type refusedPost struct {
	id             string
	started, until time.Time // what was signed between these may have been for it
}

// Vault may sign for a post until late after its end: it answers even without a waiting caller.
const late = 5 * time.Second

// maxCall bounds how long after its start a call gets artifacts signed: many times the default of a post's steps.
const maxCall = time.Hour

// recorded yields the artifacts that the keys signed, and refused posts, in the order of time. Records come in the
// order of their start, and an artifact of a slow call may be younger than those of later calls: it waits for a record
// that started after it. Without a hash artifacts have no value. An error comes last.
func recorded(ctx context.Context, records iter.Seq2[ledger.Record, error], keys map[string]bool,
	hash Hash) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		var waiting []item // in the order of time
		for r, err := range records {
			var found []Artifact
			if err == nil {
				found, err = artifactsOf(ctx, r, keys, hash)
			}
			if err == nil && len(waiting)+len(found) >= maxHeld {
				err = errWindow
			}
			if err != nil {
				yield(item{}, err)
				return
			}
			if r.Flow == flowPost && r.State == ledger.StateRefused && r.Event != "" {
				waiting = insert(waiting, item{Artifact{Time: r.Started}, &refusedPost{r.ID, r.Started, r.Finished.Add(late)}})
			}
			for _, a := range found {
				waiting = insert(waiting, item{Artifact: a})
			}
			for len(waiting) > 0 && !waiting[0].Time.After(r.Started) {
				if !yield(waiting[0], nil) {
					return
				}
				waiting = waiting[1:]
			}
		}
		for _, i := range waiting {
			if !yield(i, nil) {
				return
			}
		}
	}
}

// flowPost is the flow of the calls that Vault signs for.
const flowPost = "post"

// insert puts i behind those of the same time.
func insert(waiting []item, i item) []item {
	n := len(waiting)
	for n > 0 && waiting[n-1].Time.After(i.Time) {
		n--
	}
	return slices.Insert(waiting, n, i)
}

func artifactsOf(ctx context.Context, r ledger.Record, keys map[string]bool, hash Hash) ([]Artifact, error) {
	var found []Artifact
	var texts []string
	for _, a := range r.Artifacts {
		kid := evidence.KeyIDOf(a.Token)
		if !keys[evidence.KeyName(kid)] {
			continue
		}
		found = append(found, Artifact{Time: signedAt(a.Token, r.Started), Key: kid, Post: r.ID, Name: a.Name})
		texts = append(texts, vaultSignature(kid, a.Token))
	}
	if hash == nil {
		return found, nil
	}
	group, ctx := errgroup.WithContext(ctx)
	for i, text := range texts {
		group.Go(func() (err error) {
			found[i].Value, err = hash(ctx, text)
			return err
		})
	}
	return found, group.Wait()
}

// vaultSignature returns the signature of a token as Vault gave it, or for anything else a text that is no signature.
func vaultSignature(kid, token string) string {
	_, version, _ := strings.Cut(kid, evidence.KeyName(kid)+":")
	sig, err := base64.RawURLEncoding.DecodeString(token[strings.LastIndexByte(token, '.')+1:])
	if err != nil {
		return "none"
	}
	return fmt.Sprintf("vault:%s:%s", version, base64.StdEncoding.EncodeToString(sig))
}

// signedAt returns the time in a token, or the call's start if it has none or one outside of the call: tokens have
// whole seconds, and clocks differ.
func signedAt(token string, started time.Time) time.Time {
	parts := strings.Split(token, ".")
	var claims struct {
		IssuedAt int64 `json:"iat"`
	}
	if len(parts) == 3 {
		if raw, err := base64.RawURLEncoding.DecodeString(parts[1]); err == nil && json.Unmarshal(raw, &claims) == nil {
			if at := time.Unix(claims.IssuedAt, 0); at.After(started) && at.Sub(started) < maxCall {
				return at
			}
		}
	}
	return started
}
