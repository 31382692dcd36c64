package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// A process keeps its certificates unless a command names it. A named process keeps only those that it still publishes.
func TestCertifyKeepsOtherProcesses(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"--post-quantum"}} {
		t.Run(strings.Join(flags, ""), func(t *testing.T) {
			d := kit.NewTeam(t, flags...)
			grant := kit.MemoryKey(t, "grant-key")
			control := kit.Publish(t, "control", kit.Grant(grant), kit.Decision(kit.MemoryKey(t, "decision-key")))
			serve := kit.Publish(t, "serve", kit.Proof(kit.MemoryKey(t, "proof-key")))
			certify := func(from string, certified, stay, out int) {
				t.Helper()
				d.Do(t, "certify", "--from", from).Done(fmt.Sprintf(
					"certified %d keys into %s; %d certificates stay, %d are left out", certified, d.Bundle, stay, out))
			}
			certify(control, 2, 0, 0)
			certify(serve, 1, 2, 0)
			d.WantKeys(t, "decision-key:v1", "grant-key:v1", "proof-key:v1")

			check.Must(t, grant.Rotate())
			certify(control, 1, 3, 0) // those that still hold stay as they are
			d.WantKeys(t, "decision-key:v1", "grant-key:v1", "grant-key:v2", "proof-key:v1")

			// A process that lost the keys in its memory starts again: the same names with other keys.
			again := kit.Publish(t, "again", kit.Grant(kit.MemoryKey(t, "grant-key")))
			certify(again, 1, 2, 2)
			d.WantKeys(t, "decision-key:v1", "grant-key:v1", "proof-key:v1")

			// Expired certificates are left out.
			registry := d.Registry(t)
			for _, tt := range []struct {
				after time.Duration
				stay  int
			}{{0, 3}, {89 * 24 * time.Hour, 3}, {91 * 24 * time.Hour, 0}} {
				registry.Options.Now = func() time.Time { return time.Now().Add(tt.after) }
				done, err := registry.Certify(t.Context(), keyring.Published{}, keyring.Declaration{})
				if err != nil || done.Kept != tt.stay {
					t.Errorf("after %s %d certificates stay, want %d, %v", tt.after, done.Kept, tt.stay, err)
				}
			}
		})
	}
}

// A version that was retired and is published again is not certified, since no running process would accept that
// bundle.
func TestCertifyBringsNothingBack(t *testing.T) {
	t.Parallel()
	d, grant := kit.NewTeam(t), kit.MemoryKey(t, "grant-key")
	control := kit.Publish(t, "control", kit.Grant(grant))
	first := kit.PublishedBy(t, control)
	check.Must(t, grant.Rotate())
	both := kit.PublishedBy(t, control)
	second := withoutFirst(t, both)
	d.Must(t, "certify", "--from", both)
	d.WantKeys(t, "grant-key:v1", "grant-key:v2")
	for _, from := range []string{second, both} {
		d.Must(t, "certify", "--from", from)
		d.WantKeys(t, "grant-key:v2")
	}
	d.Do(t, "certify", "--from", both, "--json").Done(`"certified": 0,`, `"stay": 1,`)
	d.Do(t, "revoke", "--key", "grant-key:v1", "--reason", "a drill", "--json").Done(`"id": "grant-key:v1"`)
	d.Do(t, "certify", "--from", first).Refused("grant-key:v1, was retired: the current version is 2")
	d.WantKeys(t, "grant-key:v2")
}

func withoutFirst(t *testing.T, published string) string {
	t.Helper()
	var p keyring.Publication
	check.Must(t, json.Unmarshal(kit.Read(t, strings.TrimPrefix(published, "file:")), &p))
	p.Roles[0].Keys = p.Roles[0].Keys[1:]
	raw, err := json.Marshal(p)
	check.Must(t, err)
	path := t.TempDir() + "/published.json"
	kit.Write(t, path, raw)
	return "file:" + path
}

// TestCertifyWhatIsNotPublished reads files that keys list --publication did not print. No file can leave out the
// observations by mistake.
func TestCertifyWhatIsNotPublished(t *testing.T) {
	t.Parallel()
	d := kit.NewTeam(t)
	good := kit.PublishedBy(t, kit.Publish(t, "control", kit.Grant(kit.MemoryKey(t, "grant-key"))))
	path := strings.TrimPrefix(good, "file:")
	published := string(kit.Read(t, path))
	kit.Mediator(t, "keys", "list", "--from", good).Done("grant-key:v1")
	kit.Mediator(t, "keys", "list", "--jwks", "--from", good).Done("grant-key:v1")
	roles, _, _ := strings.Cut(published, ",\n  \"looks\"")
	for _, content := range []string{
		"", "{}", "[]", `{"roles":[],"looks":[]}`, roles + "}", roles + `, "looks": null}`,
		strings.Replace(published, `"looks"`, `"looks": [], "others"`, 1),
		strings.Replace(published, `"crv": "Ed25519"`, `"crv": "Ed448"`, 1),
	} {
		kit.Write(t, path, content)
		d.Do(t, "certify", "--from", good).Refused("is not the output of mediator keys list --publication: ")
	}
	d.Do(t, "certify", "--watch", "--from", good).Misused()
}

// An observation of a process confirms a declaration, and is then listed as observed, or refuses it.
func TestCertifyWhatWasSeen(t *testing.T) {
	t.Parallel()
	d := kit.NewTeam(t)
	held := func(contradicted string) []look.Observation {
		var looks []look.Observation
		for _, name := range []string{look.Process, look.Files, look.Apart} {
			result := look.Holds
			if name == contradicted {
				result = look.Contradicts
			}
			looks = append(looks, look.New(name, result, name+" was seen.").For(evidence.PurposeActionGrant))
		}
		return looks
	}
	safe := []string{"--not-accessible-to-agent", "--not-accessible-to-users"}
	for _, tt := range []struct {
		name, contradicted string
		declare            []string
		refused            string
		observed           []string
	}{
		{"all holds", "", safe, "", []string{"accessibleToAgent", "keyExportable"}},
		{"all holds, nothing is declared", "", nil, "", []string{"keyExportable"}},
		{"the agent reaches the files", look.Files, safe, "cannot be certified as inaccessible to the agent: files was seen.",
			nil},
		{"the agent reaches the files, and that is what is declared", look.Files, nil, "", []string{"keyExportable"}},
		{"the token may use other keys", look.Apart, nil,
			"no key of the role action_grant is certified, because its process can use other keys too: apart was seen.", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at := kit.PublishSeen(t, "control", &daemon.Observer{
				Roles: []daemon.Role{kit.Grant(kit.MemoryKey(t, "grant-key"))},
				Plan:  daemon.Plan{Shown: held(tt.contradicted)}})
			for _, from := range []string{kit.PublishedBy(t, at), at} {
				e := d.Do(t, "certify", append([]string{"--from", from}, tt.declare...)...)
				if tt.refused != "" {
					e.Refused(tt.refused, "(deployment_contradicted)")
				} else {
					e.Done()
				}
			}
			if tt.refused != "" {
				return
			}
			c := d.Certified(t).Certified()[0].Certificate
			if !slices.Equal(c.Observed, tt.observed) || c.AccessibleToAgent != (tt.declare == nil) ||
				c.AccessibleToUsers != (tt.declare == nil) {
				t.Errorf("the certificate says %+v", c)
			}
		})
	}
}

// The registry follows a key by itself. A process that is away keeps its certificates.
func TestCertifyWatch(t *testing.T) {
	t.Parallel()
	d := kit.NewTeam(t)
	grant, proof := kit.MemoryKey(t, "grant-key"), kit.MemoryKey(t, "proof-key")
	control := kit.Publish(t, "control", kit.Grant(grant))
	serve := kit.Publish(t, "serve", kit.Proof(proof))
	stop := kit.Background(t, "keys", "certify", "--watch", "--registry-key", d.At("registry.key.jwk"), "--audience",
		"api", "--bundle", d.Bundle, "--from", control, "--from", serve)
	follows := func(want ...string) {
		t.Helper()
		kit.Until(t, fmt.Sprintf("the bundle to certify %v", want), func() bool {
			_, err := os.Stat(d.Bundle)
			return err == nil && slices.Equal(d.Keys(t), want)
		})
	}
	follows("grant-key:v1", "proof-key:v1")
	check.Must(t, grant.Rotate())
	follows("grant-key:v1", "grant-key:v2", "proof-key:v1")
	check.Must(t, os.Remove(strings.TrimPrefix(serve, "unix:")))
	check.Must(t, grant.Rotate())
	follows("grant-key:v1", "grant-key:v2", "grant-key:v3", "proof-key:v1")
	if said := stop(); !strings.Contains(said, "keys certified") {
		t.Errorf("said %s", said)
	}
}

// A registry whose key fails after two signatures keeps both certificates, says so each time, and continues from there.
func TestCertifyWatchBacklog(t *testing.T) {
	t.Parallel()
	d := kit.NewTeam(t, "--post-quantum")
	r := d.Registry(t)
	keys := newOwner(t, "grant-key", "decision-key", "proof-key").keys
	at := kit.Publish(t, "serve", kit.Grant(keys["grant-key"]), kit.Decision(keys["decision-key"]),
		kit.Proof(keys["proof-key"]))
	p, err := keyring.ReadPublished(t.Context(), []string{at})
	check.Must(t, err)
	for range 2 {
		for _, k := range keys {
			check.Must(t, k.Rotate())
		}
	}
	second := r.Options.Second
	log, lines := observer.New(zapcore.InfoLevel)
	left := 9
	for left > 0 {
		r.Options.Second = &failing{second, 2}
		err := r.CertifyDue(t.Context(), at, p.RolesByEndpoint, keyring.Declaration{}, zap.New(log))
		left = max(0, left-2)
		if (err != nil) != (left > 0) {
			t.Errorf("with %d left: %v", left, err)
		}
		said := lines.TakeAll()
		if len(said) != 1 || said[0].Message != "keys certified" || said[0].ContextMap()["left"] != int64(left) {
			t.Fatalf("with %d left it says %v", left, said)
		}
		if got := len(d.Certified(t).Certified()); got != 9-left {
			t.Errorf("with %d left %d versions are certified", left, got)
		}
	}
}

type failing struct {
	evidence.Key
	good int
}

func (k *failing) Sign(ctx context.Context, message []byte) ([]byte, error) {
	if k.good--; k.good < 0 {
		return nil, errors.New("the token is gone")
	}
	return k.Key.Sign(ctx, message)
}

// A registry that follows keys certifies no other role, key name or issuer for a process that was taken over.
func TestCertifyWatchKeepsToRoles(t *testing.T) {
	t.Parallel()
	proof := kit.Proof(kit.MemoryKey(t, "proof-key"))
	decision := kit.Decision(kit.MemoryKey(t, "decision-key"))
	before := kit.Publish(t, "before", proof)
	for name, tt := range map[string]struct {
		now     []daemon.Role
		changed bool
	}{
		"the same":           {[]daemon.Role{proof}, false},
		"one more role":      {[]daemon.Role{proof, decision}, true},
		"another role":       {[]daemon.Role{decision}, true},
		"another's key name": {[]daemon.Role{kit.Role(proof.Purpose, proof.Issuer, decision.Key)}, true},
		"another's issuer":   {[]daemon.Role{kit.Role(proof.Purpose, decision.Issuer, proof.Key)}, true},
		"no role":            {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := kit.NewTeam(t)
			r := d.Registry(t)
			p, err := keyring.ReadPublished(t.Context(), []string{before})
			check.Must(t, err)
			at := kit.Publish(t, "now", tt.now...)
			err = r.CertifyDue(t.Context(), at, map[string][]string{at: p.RolesByEndpoint[before]}, keyring.Declaration{},
				zap.NewNop())
			if tt.changed {
				check.WantCode(t, err, "roles_changed")
			} else {
				check.Must(t, err)
			}
			if _, err := os.Stat(d.Bundle); (err == nil) == tt.changed {
				t.Errorf("something was certified: %t", err == nil)
			}
		})
	}
}

func TestCertifyRefusesAnotherRegistrysBundle(t *testing.T) {
	t.Parallel()
	d, other := kit.NewTeam(t), kit.NewTeam(t)
	at := kit.Publish(t, "control", kit.Grant(kit.MemoryKey(t, "grant-key")))
	d.Must(t, "certify", "--from", at)
	before := kit.Read(t, d.Bundle)
	for verb, args := range map[string][]string{"certify": {"--from", at},
		"revoke": {"--key", "grant-key", "--reason", "lost"}} {
		kit.Team{Dir: other.Dir, Bundle: d.Bundle}.Do(t, verb, args...).Refused("move it away first", "(signature_invalid)")
	}
	if !bytes.Equal(before, kit.Read(t, d.Bundle)) {
		t.Error("the bundle has changed")
	}
}

func TestRevoke(t *testing.T) {
	t.Parallel()
	d := kit.NewTeam(t, "--post-quantum")
	at := kit.Publish(t, "control", kit.Grant(kit.MemoryKey(t, "grant-key")))
	listed := func(want ...string) {
		t.Helper()
		list, ok := d.Certified(t).Revocations()
		var got []string
		for _, r := range list.Revoked {
			got = append(got, r.Kind+" "+r.ID+" "+r.Reason)
		}
		slices.Sort(got)
		if !ok || !slices.Equal(got, want) {
			t.Errorf("the list holds %q, want %q", got, want)
		}
	}
	d.Must(t, "certify", "--from", at)
	if _, ok := d.Certified(t).Revocations(); ok {
		t.Error("there is a list that nobody has asked for")
	}
	d.Must(t, "revoke") // a list of nothing, for a manifest that demands one
	listed()
	d.Do(t, "revoke", "--key", "grant-key:v1").Misused() // no reason
	e := d.Do(t, "revoke", "--key", "grant-key:v1", "--artifact", "jti-1", "--reason", "lost in a train")
	if e.Done("key grant-key:v1 until 20", "2 entries"); e.Said != "" {
		t.Error(e.Said)
	}
	listed("artifact jti-1 lost in a train", "key grant-key:v1 lost in a train")
	d.Do(t, "revoke", "--key", "grant-kye", "--reason", "misspelt", "--keep", "0s").Done(
		"no certificate in " + d.Bundle + " is for key grant-kye")
	// The next signature drops an expired entry. A new entry replaces an older one for the same thing.
	d.Must(t, "revoke", "--artifact", "jti-1", "--reason", "found")
	listed("artifact jti-1 found", "key grant-key:v1 lost in a train")

	// keys certify signs the list again and keeps its entries.
	d.Must(t, "certify", "--from", at)
	listed("artifact jti-1 found", "key grant-key:v1 lost in a train")
	d.WantKeys(t, "grant-key:v1")
}

const exampleManifest = kit.Top + "/configs/manifest.yaml"

func TestRevocationReachesARunningProcess(t *testing.T) {
	t.Parallel()
	d := kit.NewTeam(t)
	kit.Run(t, "keys", "root", "--name", "auditor", "--out", d.Dir)
	kit.Run(t, "deployment", "certify", exampleManifest, "--auditor-key", d.At("auditor.key.jwk"), "--audience",
		"posting-api", "--bundle", d.Bundle)
	key := kit.Rotating(kit.MemoryKey(t, "action-grant-key"))
	at := kit.Publish(t, "control", kit.Role(evidence.PurposeActionGrant, "mediator-authorization", key))
	registry := []string{"--registry-key", d.At("registry.key.jwk"), "--audience", "posting-api", "--bundle", d.Bundle}
	kit.Run(t, append([]string{"keys", "certify", "--from", at, "--not-accessible-to-agent", "--not-accessible-to-users"},
		registry...)...)
	log, lines := observer.New(zapcore.InfoLevel)
	said := func(message string) {
		t.Helper()
		kit.Until(t, "the log to say "+message, func() bool { return lines.FilterMessage(message).Len() > 0 })
	}
	ctx, stop := context.WithCancel(t.Context())
	c := config.Trust{Registry: d.At("registry.jwk"), Auditor: d.At("auditor.jwk"), Bundle: d.Bundle}
	p := &daemon.Process{Log: zap.New(log)}
	deployment, err := p.WaitForDeployment(ctx, daemon.Plan{Process: config.Process{Trust: c}, Manifest: exampleManifest,
		CheckManifest: func(*policy.Strict) error { return nil }})
	check.Must(t, err)
	s := deployment.Trust
	p.Trust.Add(s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.FollowBundle(ctx, c)
	}()
	defer func() {
		stop()
		<-done
	}()
	before := kit.Read(t, d.Bundle)
	check.Must(t, s.Verifier.NotRevoked("grant", "action-grant-key:v1"))
	kit.Run(t, append([]string{"keys", "revoke", "--key", "action-grant-key:v1", "--reason", "lost"}, registry...)...)
	said("trust bundle taken over")
	wantRevoked := func() {
		t.Helper()
		check.WantCode(t, s.Verifier.NotRevoked("grant", "action-grant-key:v1"), "revoked")
	}
	wantRevoked()
	check.Must(t, files.Replace(d.Bundle, before, 0o644))
	said("the new trust bundle is not taken over")
	wantRevoked()
}
