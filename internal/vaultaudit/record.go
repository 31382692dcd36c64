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

// plain is the [Hash] of an audit device that logs in plaintext; isPlain reports whether a signature comes from one.
func plain(_ context.Context, text string) (string, error) { return text, nil }

func isPlain(value string) bool { return strings.HasPrefix(value, "vault:v") }

// item is an artifact of a record, or a refused post.
type item struct {
	Entry
	refused *refusedPost // then there is no artifact, and Time is when the post started
}

// refusedPost is a post for which something may have been signed that its record lacks.
type refusedPost struct {
	id             string
	started, until time.Time // a signature between these may have been for it
}

// late bounds the time from the end of a post to a signature for it: Vault signs even without a waiting caller.
const late = 5 * time.Second

// maxCall bounds the time from a call's start to the signature of an artifact: many times the default of a post's
// steps.
const maxCall = time.Hour

// recorded yields the artifacts of the keys, and refused posts, in the order of time. Records come in the order of
// their start, and an artifact of a slow call may be younger than those of later calls: it waits for a record that
// started after it. Without a hash, artifacts have no value. An error comes last.
func recorded(ctx context.Context, records iter.Seq2[ledger.Record, error], keys map[string]bool,
	hash Hash) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		var waiting []item // in the order of time
		for r, err := range records {
			var found []Entry
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
				waiting = insert(waiting, item{Entry{Difference: Difference{Time: r.Started}},
					&refusedPost{r.ID, r.Started, r.Finished.Add(late)}})
			}
			for _, a := range found {
				waiting = insert(waiting, item{Entry: a})
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

func artifactsOf(ctx context.Context, r ledger.Record, keys map[string]bool, hash Hash) ([]Entry, error) {
	var found []Entry
	var texts []string
	for _, a := range r.Artifacts {
		kid := evidence.KeyIDOf(a.Token)
		if !keys[evidence.KeyName(kid)] {
			continue
		}
		found = append(found, Entry{Difference: Difference{Only: OnlyRecord, Time: signedAt(a.Token, r.Started), Key: kid,
			Post: r.ID, Artifact: a.Name}})
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

// vaultSignature returns the signature of a token in Vault's form, or "none".
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
