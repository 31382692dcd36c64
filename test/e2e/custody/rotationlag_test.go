package custody

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

var verifying = []string{"trigger", "control", "serve"}

var bundleSetting = regexp.MustCompile(`(?m)^(trust: .*bundle: )trust\.json`)

func ownBundle(file string) string {
	for name, has := range map[string]string{"trigger": "\nsources:", "control": "\npolicy:", "serve": "\nactions:"} {
		if strings.Contains(file, has) && !strings.Contains(file, "\nowners:") {
			if !bundleSetting.MatchString(file) {
				panic("the configuration of " + name + " names no trust bundle")
			}
			return bundleSetting.ReplaceAllString(file, "${1}"+name+"-trust.json")
		}
	}
	return file
}

type delivery struct {
	dir  string
	held atomic.Pointer[string]
}

func (d *delivery) run(ctx context.Context) {
	for ctx.Err() == nil {
		raw, err := os.ReadFile(filepath.Join(d.dir, devstack.BundleFile))
		for _, name := range verifying {
			at := filepath.Join(d.dir, name+"-trust.json")
			if before, _ := os.ReadFile(at); err == nil && *d.held.Load() != name && string(before) != string(raw) {
				_ = files.Replace(at, raw, 0o644)
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (v *vaultRig) follows(t *testing.T, name, hash string) bool {
	t.Helper()
	return strings.Contains(kit.Metrics(t, v.Stack.Socket(name)), `sha256="`+hash+`",use="sign"`)
}

// While one process does not get the trust bundle, the versions that it knows sign; soon after it has it the newest
// do. No post is refused.
func TestVaultRotationWithASlowReader(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.Rig = kit.PrepareClientsRig(t, kit.ManyPosts, kit.Speaking, ownBundle, v.config)
	d, nobody := &delivery{dir: v.Dir}, ""
	d.held.Store(&nobody)
	go d.run(t.Context())
	v.Start(t)

	posts, stop := v.keepPosting(t, 3)
	defer stop()

	rotations := kit.Size(2, 8)
	version := 1
	for _, held := range verifying {
		d.held.Store(&held)
		for range rotations {
			for _, r := range rolesOfPosts() {
				v.vault.Write(t, "transit/keys/"+r.Key+"/rotate", nil)
			}
		}
		before := version
		version += rotations
		kit.Until(t, "all others to sign by a bundle that certifies every new version and has settled", func() bool {
			hash, newest := v.certified(t, version)
			for _, name := range verifying {
				if hash == "" || name != held && !v.follows(t, name, hash) {
					return false
				}
			}
			return time.Since(newest) > 4*time.Second || t.Failed()
		})
		more := posts.Load() + 30
		kit.Until(t, "more posts", func() bool { return posts.Load() >= more || t.Failed() })
		for key, kid := range v.kids(t) { // the trigger service's are verified by the other two, and signed by itself
			ofTrigger := strings.HasPrefix(key, "trigger-")
			if ofTrigger && evidence.KeyVersion(kid) != before {
				t.Errorf("while %s does not know it, %s signs", held, kid)
			}
		}
		d.held.Store(&nobody)
		kit.Until(t, "signatures by the newest versions", func() bool {
			kids, newest := v.kids(t), true
			for _, r := range rolesOfPosts() {
				newest = newest && evidence.KeyVersion(kids[r.Key]) == version
			}
			return newest || t.Failed()
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d posts, none refused", posts.Load())
}

// The hash of the trust bundle is empty until it certifies that version of each key.
func (v *vaultRig) certified(t *testing.T, version int) (hash string, newest time.Time) {
	t.Helper()
	b, raw, err := config.ReadBundle(v.In(devstack.BundleFile))
	check.Must(t, err)
	found := 0
	for _, token := range b.Certificates {
		c, err := evidence.UnverifiedClaims(evidence.SignerCertificateKind(), token)
		check.Must(t, err)
		if evidence.KeyVersion(c.SubjectKeyID) == version {
			found++
		}
		if at := time.Unix(c.IssuedAt, 0); at.After(newest) {
			newest = at
		}
	}
	if found < len(rolesOfPosts()) {
		return "", newest
	}
	return evidence.HashBytes(raw), newest
}
