package vaultaudit

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/ledger"
)

// Hash returns a text as the audit log has it.
type Hash func(ctx context.Context, text string) (string, error)

// plain is the [Hash] of an audit device that logs everything as it is, and isPlain reports whether a signature is from one.
func plain(_ context.Context, text string) (string, error) { return text, nil }

func isPlain(value string) bool { return strings.HasPrefix(value, "vault:v") }

// artifacts yields the artifacts that the keys have signed. Without a hash they have no value. An error is the last thing
// that it yields.
func artifacts(ctx context.Context, records iter.Seq2[ledger.Record, error], keys map[string]bool, hash Hash) iter.Seq2[Artifact, error] {
	return func(yield func(Artifact, error) bool) {
		for r, err := range records {
			var found []Artifact
			if err == nil {
				found, err = artifactsOf(ctx, r, keys, hash)
			}
			if err != nil {
				yield(Artifact{}, err)
				return
			}
			for _, a := range found {
				if !yield(a, nil) {
					return
				}
			}
		}
	}
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

// vaultSignature returns the signature of a token as Vault gave it. For a token that is none, it returns what no
// signature is.
func vaultSignature(kid, token string) string {
	_, version, _ := strings.Cut(kid, evidence.KeyName(kid)+":")
	sig, err := base64.RawURLEncoding.DecodeString(token[strings.LastIndexByte(token, '.')+1:])
	if err != nil {
		return "none"
	}
	return fmt.Sprintf("vault:%s:%s", version, base64.StdEncoding.EncodeToString(sig))
}

// signedAt returns when a token says that it was signed. A token that does not say so, or names a time that is not about that of its
// record, counts as signed when the call started: it must not bring the order of time about.
func signedAt(token string, started time.Time) time.Time {
	parts := strings.Split(token, ".")
	var claims struct {
		IssuedAt int64 `json:"iat"`
	}
	if len(parts) == 3 {
		if raw, err := base64.RawURLEncoding.DecodeString(parts[1]); err == nil && json.Unmarshal(raw, &claims) == nil {
			if at := time.Unix(claims.IssuedAt, 0); at.Sub(started).Abs() < time.Hour {
				return at
			}
		}
	}
	return started
}
