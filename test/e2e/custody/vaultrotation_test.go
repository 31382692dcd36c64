package custody

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

func TestVaultRotateAll(t *testing.T) {
	t.Parallel()
	v := newVaultRig(t, kit.ManyPosts, kit.Speaking)
	a := v.OpenAgent(t)
	a.MustPost(t)
	args := []string{"keys", "rotate", "--all", "--retire-after", "1s"}
	for _, at := range kit.Processes {
		args = append(args, "--from", "unix:"+v.Stack.Socket(at))
	}
	out := v.asOwner(t, args...)
	for _, r := range bootstrap.Roles { // the observer's and the node's too
		if !strings.Contains(out, "made "+r.Key+":v2;") ||
			!strings.Contains(out, "versions of "+r.Key+" before 2 are retired") {
			t.Errorf("nothing of %s is said: %s", r.Key, out)
		}
	}
	kit.Until(t, "a post with the new versions alone", func() bool {
		if o := a.Post(); o.Code != "" {
			t.Fatalf("a post is lost: %+v", o)
		}
		kids := v.kids(t)
		return !slices.ContainsFunc(rolesOfPosts(), func(r bootstrap.Role) bool { return kids[r.Key] != r.Key+":v2" })
	})
}

func (v *vaultRig) asOwner(t *testing.T, args ...string) string {
	t.Helper()
	token := t.TempDir() + "/token"
	kit.Write(t, token, v.vault.Token)
	return kit.Run(t, kit.With(args, "--address", v.vault.Address, "--ca", v.vault.CAFile, "--token-file", token)...)
}

// kids returns the key id of each key that signed for the newest forwarded post: none before the first.
func (v *vaultRig) kids(t *testing.T) map[string]string {
	t.Helper()
	kids := make(map[string]string)
	for _, post := range v.Records(t, "limit=1&flow=post&state=forwarded") {
		for _, a := range post.Artifacts {
			kids[evidence.KeyName(evidence.KeyIDOf(a.Token))] = evidence.KeyIDOf(a.Token)
		}
	}
	return kids
}

// No post may be refused. stop may be called twice.
func (v *vaultRig) keepPosting(t *testing.T, agents int) (posts *atomic.Int64, stop func()) {
	t.Helper()
	posts = new(atomic.Int64)
	var all sync.WaitGroup
	var done atomic.Bool
	for range agents {
		a := v.OpenAgent(t)
		all.Go(func() {
			for !done.Load() {
				if o := a.Post(); o.Code != "" {
					t.Errorf("a post is refused: %+v: %s", o, a.Reason(o))
					return
				}
				posts.Add(1)
				time.Sleep(10 * time.Millisecond) // leaves the processors to the other tests
			}
		})
	}
	return posts, func() { done.Store(true); all.Wait() }
}

// Keys rotate by the command and directly in Vault: each in turn, and one of them every time. No post is lost.
func TestVaultRotation(t *testing.T) {
	t.Parallel()
	v := newVaultRig(t, kit.ManyPosts, kit.Speaking)
	posts, stop := v.keepPosting(t, 3)
	defer stop()
	var all []string
	for _, r := range rolesOfPosts() {
		all = append(all, r.Key)
	}
	newest := map[string]int{}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for i := range kit.Size(7, 20) {
		for _, key := range []string{"request-proof-key", all[i%len(all)]} {
			newest[key]++
			if i%2 == 0 {
				v.asOwner(t, "keys", "rotate", key)
			} else {
				v.vault.Write(t, "transit/keys/"+key+"/rotate", nil)
			}
		}
		<-tick.C
	}
	took := kit.Until(t, "signatures with the newest versions", func() bool {
		kids := v.kids(t)
		for key, n := range newest {
			if kids[key] != fmt.Sprintf("%s:v%d", key, n+1) {
				return false
			}
		}
		return true
	})
	stop()
	t.Logf("%d posts; every artifact is signed with the newest version of its key %s after the last second", posts.Load(),
		took.Round(time.Millisecond))
	if n := v.Posts.Load(); n != posts.Load() {
		t.Errorf("%d posts arrived, and agents saw %d answers", n, posts.Load())
	}

	// The certificates and the JWKS have followed by themselves.
	for _, at := range kit.Processes {
		out := kit.Run(t, "keys", "list", "--jwks", "--from", "unix:"+v.Stack.Socket(at))
		for key, n := range newest {
			if kid := fmt.Sprintf(`"%s:v%d"`, key, n+1); strings.Contains(out, `"`+key+`:v1"`) && !strings.Contains(out, kid) {
				t.Errorf("the keys of %s are without %s", at, kid)
			}
		}
	}
	v.verifyAll(t, newest, posts.Load())
}

func (v *vaultRig) verifyAll(t *testing.T, newest map[string]int, posts int64) {
	t.Helper()
	for key, n := range newest {
		v.asOwner(t, "keys", "retire", key, "--oldest", fmt.Sprint(n+1))
	}
	kit.Until(t, "a bundle without the retired versions", func() bool {
		b, _, err := deployed.ReadBundle(v.In(devstack.BundleFile))
		return err == nil && len(b.Certificates) == len(bootstrap.Roles)
	})
	file := t.TempDir() + "/posts.jsonl.gz"
	kit.Run(t, kit.With(v.Trust(), "posts", "export", "--out", file, "--flow", "post", "--admin", v.Stack.Admin())...)
	out := kit.Run(t, "verify", file, "--registry", v.In(devstack.RegistryFile), "--auditor", v.In(devstack.AuditorFile))
	if want := fmt.Sprintf(
		"Authentic:   %d verified, 0 incomplete (their records say that the post was refused), 0 REFUSED\n",
		posts); !strings.HasPrefix(out, want) {
		t.Errorf("got %.3000s, want %s", out, want)
	}
}

// The signatures of the retired version are refused soon, the record shows which they are, and posts go on.
func TestVaultRetireNow(t *testing.T) {
	t.Parallel()
	v := newVaultRig(t, kit.ManyPosts, kit.Speaking)
	a := v.OpenAgent(t)
	for range 3 {
		a.MustPost(t)
	}
	posts := v.Records(t, "limit=1&flow=post")
	i := slices.IndexFunc(posts[0].Artifacts, func(a ledger.Artifact) bool { return a.Name == "runtimeAttestation" })
	token := posts[0].Artifacts[i].Token
	roots, err := deployed.ReadRoots(v.In(devstack.RegistryFile), v.In(devstack.AuditorFile))
	check.Must(t, err)
	verify := func() error {
		b, _, err := deployed.ReadBundle(v.In(devstack.BundleFile))
		check.Must(t, err)
		trust, err := evidence.NewTrust(roots, b, evidence.SignerPolicy{})
		check.Must(t, err)
		verifier, err := evidence.NewVerifier(trust, evidence.VerifierOptions{Now: func() time.Time {
			return posts[0].Started
		}, Skew: time.Minute})
		check.Must(t, err)
		_, err = evidence.Open(verifier, evidence.RuntimeAttestationKind(), token, evidence.Expected{})
		return err
	}
	if err := verify(); err != nil && check.CodeOf(err) == "key_retired" {
		t.Fatal(err)
	}

	out := v.asOwner(t, "keys", "rotate", "runtime-key", "--retire")
	if !strings.Contains(out, "made runtime-key:v2;") ||
		!strings.Contains(out, "versions of runtime-key before 2 are retired") {
		t.Errorf("said %s", out)
	}
	refused := kit.Until(t, "the refusal of what the retired version has signed", func() bool {
		return check.CodeOf(verify()) == "key_retired"
	})
	again := kit.Until(t, "a post with the next version", func() bool { return a.Post().Code == "" })
	t.Logf("refused after %s; a post went out %s later", refused.Round(time.Millisecond), again.Round(time.Millisecond))
	if kid := v.kids(t)["runtime-key"]; kid != "runtime-key:v2" {
		t.Errorf("signed with %s", kid)
	}

	for key, want := range map[string]int{"runtime-key:v1": 3, "runtime-key:v2": 1, "runtime-key": 4,
		"runtime-key:v3": 0} {
		out := kit.Run(t, "posts", "list", "--admin", v.Stack.Admin(), "--key", key, "--state", "forwarded")
		if got := strings.Count(out, "POST"); got != want {
			t.Errorf("%d posts with an artifact of %s, want %d: %s", got, key, want, out)
		}
	}

	// A retired version stays retired although Vault accepts it again: no verifier would take a bundle that certifies
	// it.
	v.vault.Write(t, "transit/keys/runtime-key/config", map[string]any{"min_decryption_version": 1})
	kit.Until(t, "the process to publish the first version again", func() bool {
		return strings.Contains(kit.Mediator(t, "keys", "list", "--from", v.Stack.Admin()).Out, "runtime-key:v1")
	})
	if out := v.asOwner(t, "keys", "rotate", "runtime-key", "--retire", "--json"); !strings.Contains(out,
		`"version": 3`) || !strings.Contains(out, `"oldest": 3`) {
		t.Errorf("said %s", out)
	}
	kit.Until(t, "a post with the version after it", func() bool {
		return a.Post().Code == "" && v.kids(t)["runtime-key"] == "runtime-key:v3"
	})
	check.WantCode(t, verify(), "key_retired")
}

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

// While one process does not get the trust bundle, the versions that it knows sign.
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

	rotations := kit.Size(1, 8)
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
		more := posts.Load() + 10
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
	b, raw, err := deployed.ReadBundle(v.In(devstack.BundleFile))
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
