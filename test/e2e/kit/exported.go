package kit

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

// ExportOfTwoRoots exports two refused posts, from before and after new roots certified the keys of one manifest again.
// Such posts have no deployment certificate. It returns the file, and the flags that pin each pair of roots.
func ExportOfTwoRoots(t *testing.T) (path string, pins [2][]string) {
	t.Helper()
	var all archive.Archive
	var posts []ledger.Record
	for i := range pins {
		k, dir := gatetest.NewAt(t, gatetest.Start.Add(time.Duration(i)*time.Hour)), t.TempDir()
		f := k.Files(t, dir)
		k.Clock.Advance(time.Minute)
		r := k.Post(t)
		r.ID, r.State, r.Artifacts = fmt.Sprint("post_of_", i), ledger.StateRefused, r.Artifacts[:4]
		trust, err := archive.Read(config.Trust{Registry: f.Registry, Auditor: f.Auditor, Bundle: f.Bundle}, f.Manifest)
		check.Must(t, err)
		all, posts = append(archive.Archive{trust}, all...), append(posts, r)
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
