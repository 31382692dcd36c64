package kit

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

// ExportOfTwoRoots exports a post and a refused post from before and from after new roots certified the keys of one
// manifest again: another registry, and also another auditor or the same one. A refused post has no deployment
// certificate. The new registry revokes a key of all posts if revoked. It returns the file, and the flags that pin each
// pair of roots.
func ExportOfTwoRoots(t *testing.T, otherAuditor, revoked bool) (path string, pins [2][]string) {
	t.Helper()
	var all archive.Archive
	var posts []ledger.Record
	k := gatetest.New(t)
	for i := range pins {
		if i > 0 {
			k.Clock.Advance(time.Hour)
			if k.ReplaceRegistry(t); otherAuditor {
				k = gatetest.NewAt(t, k.Clock.Now())
			}
			if revoked {
				k.Revoke(t, evidence.Revocation{Kind: evidence.RevokedKey,
					ID: k.Key(t, evidence.PurposeTriggerOriginProof).KeyID()})
			}
		}
		f := k.Files(t, t.TempDir())
		k.Clock.Advance(time.Minute)
		whole, refused := k.Post(t), k.Post(t)
		whole.ID, refused.ID = fmt.Sprint("post_of_", i), fmt.Sprint("refused_of_", i)
		refused.State, refused.Artifacts = ledger.StateRefused, refused.Artifacts[:4]
		trust, err := archive.Read(config.Trust{Registry: f.Registry, Auditor: f.Auditor, Bundle: f.Bundle}, f.Manifest)
		check.Must(t, err)
		all, posts = append(archive.Archive{trust}, all...), append(posts, whole, refused)
		pins[i] = []string{"--registry", f.Registry, "--auditor", f.Auditor}
	}
	path = filepath.Join(t.TempDir(), "posts.jsonl")
	file, err := os.Create(path)
	check.Must(t, err)
	defer file.Close()
	records := func(yield func(ledger.Record, error) bool) {
		_ = slices.ContainsFunc(posts, func(r ledger.Record) bool { return !yield(r, nil) })
	}
	_, err = archive.Export(t.Context(), file, all, records, nil, nil)
	check.Must(t, err)
	return path, pins
}
