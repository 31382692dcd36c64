package vaultaudit

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/vault/api"
	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/ledger"
)

// Hash returns a text as the audit log has it.
type Hash func(ctx context.Context, text string) (string, error)

// AuditHash asks Vault for hashes under the salt of an audit device. The token of c needs update on
// sys/audit-hash/DEVICE.
func AuditHash(c *api.Client, device string) Hash {
	return func(ctx context.Context, text string) (string, error) {
		secret, err := c.Logical().WriteWithContext(ctx, "sys/audit-hash/"+device, map[string]any{"input": text})
		if err != nil {
			return "", fmt.Errorf("hash as the audit device %s does: %w", device, err)
		}
		if secret != nil {
			if hash, ok := secret.Data["hash"].(string); ok {
				return hash, nil
			}
		}
		return "", errors.New("the answer of Vault has no hash")
	}
}

func plain(_ context.Context, text string) (string, error) { return text, nil }

func isPlain(value string) bool { return strings.HasPrefix(value, "vault:v") }

// maxCall bounds the time from a call's start to the signature of an artifact: many times the default of a post's
// steps.
const maxCall = time.Hour

// recorded yields the artifacts of the keys in the order of time. Records come in the order of their start, and an
// artifact of a slow call may be younger than those of later calls: it waits for a record that started after it. An
// error comes last.
func recorded(ctx context.Context, records iter.Seq2[ledger.Record, error], keys map[string]bool,
	hash Hash) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		var waiting []Entry // in the order of time
		for r, err := range records {
			var found []Entry
			if err == nil {
				found, err = artifactsOf(ctx, r, keys, hash)
			}
			if err == nil && len(waiting)+len(found) >= maxHeld {
				err = errWindow
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
			waiting = append(waiting, found...)
			slices.SortStableFunc(waiting, func(a, b Entry) int { return a.Time.Compare(b.Time) })
			for len(waiting) > 0 && !waiting[0].Time.After(r.Started) {
				if !yield(waiting[0], nil) {
					return
				}
				waiting = waiting[1:]
			}
		}
		for _, a := range waiting {
			if !yield(a, nil) {
				return
			}
		}
	}
}

func artifactsOf(ctx context.Context, r ledger.Record, keys map[string]bool, hash Hash) ([]Entry, error) {
	var found []Entry
	var texts []string
	for _, a := range r.Artifacts {
		kid := evidence.KeyIDOf(a.Token)
		if !keys[evidence.KeyName(kid)] {
			continue
		}
		found = append(found,
			Entry{Difference: Difference{Only: OnlyRecord, Time: signedAt(a.Token, r.Started), Key: kid,
				Post: r.ID, Artifact: a.Name}})
		texts = append(texts, vaultSignature(kid, a.Token))
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

func vaultSignature(kid, token string) string {
	_, version, _ := strings.Cut(kid, evidence.KeyName(kid)+":")
	sig, err := base64.RawURLEncoding.DecodeString(token[strings.LastIndexByte(token, '.')+1:])
	if err != nil {
		return "none"
	}
	return fmt.Sprintf("vault:%s:%s", version, base64.StdEncoding.EncodeToString(sig))
}

// signedAt returns the time in a token, or the call's start if that time is missing or outside the call: tokens have
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
