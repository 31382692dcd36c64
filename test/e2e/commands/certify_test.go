package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/program"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestCertifyKeepsOtherProcesses: a process keeps its certificates unless a command names it. A named process keeps
// only those that it still publishes.
func TestCertifyKeepsOtherProcesses(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"--post-quantum"}} {
		t.Run(strings.Join(flags, ""), func(t *testing.T) {
			d := kit.NewTeam(t, flags...)
			grant, decision, proof := kit.MemoryKey(t, "grant-key"), kit.MemoryKey(t, "decision-key"),
				kit.MemoryKey(t, "proof-key")
			control := kit.Publish(t, "control", kit.Grant(grant), kit.Decision(decision))
			serve := kit.Publish(t, "serve", kit.Proof(proof))
			certify := func(want string, args ...string) {
				t.Helper()
				status, out, said := d.Do(t, "certify", args...)
				if status != 0 || !strings.Contains(out, want) {
					t.Fatalf("status %d: %s%s, want %s", status, out, said, want)
				}
			}
			certify("certified 2 keys", "--from", control)
			certify("certified 1 keys into "+d.Bundle+"; 2 certificates stay, 0 are left out", "--from", serve)
			d.WantKeys(t, "decision-key:v1", "grant-key:v1", "proof-key:v1")

			check.Must(t, grant.Rotate())
			// those that still hold stay as they are
			certify("certified 1 keys into "+d.Bundle+"; 3 certificates stay, 0 are left out", "--from", control)
			d.WantKeys(t, "decision-key:v1", "grant-key:v1", "grant-key:v2", "proof-key:v1")

			// A process that lost the keys in its memory starts again: the same names with other keys.
			again := kit.Publish(t, "again", kit.Grant(kit.MemoryKey(t, "grant-key")))
			certify("certified 1 keys into "+d.Bundle+"; 2 certificates stay, 2 are left out", "--from", again)
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

// TestCertifyBringsNothingBack: a version that was retired and is published again is not certified, since no running
// process would accept that bundle.
func TestCertifyBringsNothingBack(t *testing.T) {
	t.Parallel()
	d, grant := kit.NewTeam(t), kit.MemoryKey(t, "grant-key")
	control := kit.Publish(t, "control", kit.Grant(grant))
	first := kit.PublishedBy(t, control)
	check.Must(t, grant.Rotate())
	both := kit.PublishedBy(t, control)
	raw := kit.Read(t, strings.TrimPrefix(both, "file:"))
	var p keyring.Publication
	check.Must(t, json.Unmarshal(raw, &p))
	p.Roles[0].Keys = p.Roles[0].Keys[1:]
	second := filepath.Join(t.TempDir(), "second.json")
	raw, err := json.Marshal(p)
	check.Must(t, err)
	check.Must(t, os.WriteFile(second, raw, 0o600))
	for _, tt := range []struct {
		from string
		want []string
	}{{both, []string{"grant-key:v1", "grant-key:v2"}}, {"file:" + second, []string{"grant-key:v2"}},
		{both, []string{"grant-key:v2"}}} {
		d.Must(t, "certify", "--from", tt.from)
		d.WantKeys(t, tt.want...)
	}
	if _, out, _ := d.Do(t, "certify", "--from", both, "--json"); !strings.Contains(out, `"certified": 0,`) ||
		!strings.Contains(out, `"stay": 1,`) {
		t.Errorf("said %s", out)
	}
	if _, out, _ := d.Do(t, "revoke", "--key", "grant-key:v1", "--reason", "a drill", "--json"); !strings.Contains(out,
		`"id": "grant-key:v1"`) {
		t.Errorf("said %s", out)
	}
	if status, _, said := d.Do(t, "certify", "--from", first); status != program.Refused ||
		!strings.Contains(said, "grant-key:v1, was retired: the current version is 2") {
		t.Errorf("%d: %s", status, said)
	}
	d.WantKeys(t, "grant-key:v2")
}

// TestCertifyWhatIsNotPublished reads files that keys publish did not print. No file can leave out the observations by
// mistake.
func TestCertifyWhatIsNotPublished(t *testing.T) {
	t.Parallel()
	d := kit.NewTeam(t)
	good := kit.PublishedBy(t, kit.Publish(t, "control", kit.Grant(kit.MemoryKey(t, "grant-key"))))
	path := strings.TrimPrefix(good, "file:")
	raw := kit.Read(t, path)
	for _, cmd := range []string{"list", "publish --jwks"} {
		args := append([]string{"keys"}, strings.Fields(cmd)...)
		if status, out, said := kit.Invoke(t, append(args, "--from", good)...); status != 0 ||
			!strings.Contains(out, "grant-key:v1") {
			t.Errorf("keys %s: status %d: %s%s", cmd, status, out, said)
		}
	}
	roles, _, _ := strings.Cut(string(raw), ",\n  \"looks\"")
	for name, content := range map[string]string{
		"nothing": "", "an empty object": "{}", "a list": "[]",
		"no roles":           `{"roles":[],"looks":[]}`,
		"nothing was seen":   roles + "}",
		"null was seen":      roles + `, "looks": null}`,
		"an unknown member":  strings.Replace(string(raw), `"looks"`, `"looks": [], "others"`, 1),
		"another public key": strings.Replace(string(raw), `"crv": "Ed25519"`, `"crv": "Ed448"`, 1),
	} {
		kit.Write(t, path, content)
		if status, _, said := d.Do(t, "certify", "--from", good); status != program.Refused ||
			!strings.Contains(said, "is not what mediator keys publish prints: ") {
			t.Errorf("%s: status %d: %s", name, status, said)
		}
	}
	if status, _, said := d.Do(t, "certify", "--watch", "--from", good); status != program.Usage {
		t.Errorf("status %d: %s", status, said)
	}
}

// TestCertifyWhatWasSeen: an observation of a process confirms a declaration, and is then listed as observed, or
// refuses it.
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
		{"the agent reaches the files", look.Files, safe, "is not certified to be out of the agent's reach: files was seen.",
			nil},
		{"the agent reaches the files, and that is what is declared", look.Files, nil, "", []string{"keyExportable"}},
		{"the token may use other keys", look.Apart, nil,
			"no key of the role action_grant is certified for it alone: apart was seen.", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := &daemon.Observer{Roles: []daemon.Role{kit.Grant(kit.MemoryKey(t, "grant-key"))},
				FromConfig: held(tt.contradicted)}
			at := kit.PublishSeen(t, "control", o)
			status, _, said := d.Do(t, "certify", append([]string{"--from", kit.PublishedBy(t, at)}, tt.declare...)...)
			onSite, _, saidOnSite := d.Do(t, "certify", append([]string{"--from", at}, tt.declare...)...)
			if onSite != status || said != saidOnSite {
				t.Errorf("of the process: status %d: %s\nof what it publishes: status %d: %s", onSite, saidOnSite, status, said)
			}
			if tt.refused != "" {
				if status != 1 || !strings.Contains(said, tt.refused) || !strings.Contains(said, "(deployment_contradicted)") {
					t.Errorf("status %d: %s", status, said)
				}
				return
			}
			if status != 0 {
				t.Fatal(said)
			}
			c := d.Certified(t).Certified()[0].Certificate
			if !slices.Equal(c.Observed, tt.observed) || c.AccessibleToAgent != (tt.declare == nil) ||
				c.AccessibleToUsers != (tt.declare == nil) {
				t.Errorf("the certificate says %+v", c)
			}
		})
	}
}

// TestCertifyWatch: the registry follows a key by itself. A process that is away keeps its certificates.
func TestCertifyWatch(t *testing.T) {
	t.Parallel()
	d := kit.NewTeam(t)
	grant, proof := kit.MemoryKey(t, "grant-key"), kit.MemoryKey(t, "proof-key")
	control := kit.Publish(t, "control", kit.Grant(grant))
	serve := kit.Publish(t, "serve", kit.Proof(proof))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan string)
	go func() {
		var out, diag bytes.Buffer
		args := []string{"keys", "certify", "--watch", "--registry-key", d.At("registry.key.jwk"), "--audience", "api",
			"--bundle", d.Bundle, "--from", control, "--from", serve}
		program.Run(ctx, args, strings.NewReader(""), &out, &diag)
		done <- out.String() + diag.String()
	}()
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
	stop()
	if said := <-done; !strings.Contains(said, "keys certified") {
		t.Errorf("said %s", said)
	}
}

// TestCertifyWatchBacklog: a registry whose key fails after two signatures keeps both certificates, says so each time,
// and continues from there.
func TestCertifyWatchBacklog(t *testing.T) {
	t.Parallel()
	d := kit.NewTeam(t, "--post-quantum")
	r := d.Registry(t)
	grant, decision, proof := kit.MemoryKey(t, "grant-key"), kit.MemoryKey(t, "decision-key"),
		kit.MemoryKey(t, "proof-key")
	at := kit.Publish(t, "serve", kit.Grant(grant), kit.Decision(decision),
		kit.Proof(proof))
	p, err := keyring.ReadPublished(t.Context(), []string{at})
	check.Must(t, err)
	for range 2 {
		for _, k := range []*custody.Memory{grant, decision, proof} {
			check.Must(t, k.Rotate())
		}
	}
	second := r.Options.Second
	log, lines := observer.New(zapcore.InfoLevel)
	left := 9
	for left > 0 {
		r.Options.Second = &failing{second, 2}
		err := r.CertifyDue(t.Context(), at, p.RolesByEndpoint[at], keyring.Declaration{}, zap.New(log))
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

// failing is a key that fails after some signatures.
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

// TestCertifyWatchKeepsToRoles: a registry that follows keys certifies no other role, key name or issuer for a process
// that was taken over.
func TestCertifyWatchKeepsToRoles(t *testing.T) {
	t.Parallel()
	proof := kit.Proof(kit.MemoryKey(t, "proof-key"))
	decision := kit.Decision(kit.MemoryKey(t, "decision-key"))
	before := kit.Publish(t, "before", proof)
	for name, tt := range map[string]struct {
		now  []daemon.Role
		code string
	}{
		"the same":           {[]daemon.Role{proof}, ""},
		"one more role":      {[]daemon.Role{proof, decision}, "roles_changed"},
		"another role":       {[]daemon.Role{decision}, "roles_changed"},
		"another's key name": {[]daemon.Role{kit.Role(proof.Purpose, proof.Issuer, decision.Key)}, "roles_changed"},
		"another's issuer":   {[]daemon.Role{kit.Role(proof.Purpose, decision.Issuer, proof.Key)}, "roles_changed"},
		"no role":            {nil, "roles_changed"},
	} {
		t.Run(name, func(t *testing.T) {
			d := kit.NewTeam(t)
			r := d.Registry(t)
			p, err := keyring.ReadPublished(t.Context(), []string{before})
			check.Must(t, err)
			err = r.CertifyDue(t.Context(), kit.Publish(t, "now", tt.now...), p.RolesByEndpoint[before], keyring.Declaration{},
				zap.NewNop())
			if tt.code == "" && err != nil || tt.code != "" && !errors.Is(err, refusal.New(tt.code, "")) {
				t.Errorf("got %v", err)
			}
			if _, err := os.Stat(d.Bundle); (err == nil) != (tt.code == "") {
				t.Errorf("something was certified: %t", err == nil)
			}
		})
	}
}

// TestCertifyRefusesAnotherRegistrysBundle: the registry neither answers for certificates of another one nor drops
// them.
func TestCertifyRefusesAnotherRegistrysBundle(t *testing.T) {
	t.Parallel()
	d, other := kit.NewTeam(t), kit.NewTeam(t)
	at := kit.Publish(t, "control", kit.Grant(kit.MemoryKey(t, "grant-key")))
	d.Must(t, "certify", "--from", at)
	before := kit.Read(t, d.Bundle)
	for verb, args := range map[string][]string{"certify": {"--from", at},
		"revoke": {"--key", "grant-key", "--reason", "lost"}} {
		status, _, said := kit.Team{Dir: other.Dir, Bundle: d.Bundle}.Do(t, verb, args...)
		if status != 1 || !strings.Contains(said, "move it away first") || !strings.Contains(said, "(signature_invalid)") {
			t.Errorf("%s: status %d, %s", verb, status, said)
		}
	}
	if after, err := os.ReadFile(d.Bundle); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the bundle has changed: %v", err)
	}
}

func TestRevoke(t *testing.T) {
	t.Parallel()
	d := kit.NewTeam(t, "--post-quantum")
	at := kit.Publish(t, "control", kit.Grant(kit.MemoryKey(t, "grant-key")))
	revoke := func(want int, args ...string) (string, string) {
		t.Helper()
		status, out, said := d.Do(t, "revoke", args...)
		if status != want {
			t.Fatalf("status %d, want %d: %s%s", status, want, out, said)
		}
		return out, said
	}
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
	revoke(0) // a list of nothing, for a manifest that demands one
	listed()
	revoke(2, "--key", "grant-key:v1") // no reason
	out, said := revoke(0, "--key", "grant-key:v1", "--artifact", "jti-1", "--reason", "lost in a train")
	if !strings.Contains(out, "key grant-key:v1 until 20") || !strings.Contains(out, "2 entries") || said != "" {
		t.Errorf("%s%s", out, said)
	}
	listed("artifact jti-1 lost in a train", "key grant-key:v1 lost in a train")
	_, said = revoke(0, "--key", "grant-kye", "--reason", "misspelt", "--keep", "0s")
	if !strings.Contains(said, "no certificate in "+d.Bundle+" is for key grant-kye") {
		t.Error(said)
	}
	// The next signature drops an expired entry. A new entry replaces an older one for the same thing.
	revoke(0, "--artifact", "jti-1", "--reason", "found")
	listed("artifact jti-1 found", "key grant-key:v1 lost in a train")

	// keys certify signs the list again and keeps its entries.
	d.Must(t, "certify", "--from", at)
	listed("artifact jti-1 found", "key grant-key:v1 lost in a train")
	d.WantKeys(t, "grant-key:v1")
}

// TestRevocationReachesARunningProcess: a process refuses a revoked key once the bundle file says so, and does not
// accept a bundle that takes it back.
func TestRevocationReachesARunningProcess(t *testing.T) {
	t.Parallel()
	d := kit.NewTeam(t)
	key := kit.MemoryKey(t, "action-grant-key")
	at := kit.Publish(t, "control", kit.Role(evidence.PurposeActionGrant, "mediator-authorization", kit.Rotating(key)))
	manifest := filepath.Join("..", "..", "..", "configs", devstack.ManifestFile)
	registry := []string{"--registry-key", d.At("registry.key.jwk"), "--audience", "posting-api", "--bundle", d.Bundle}
	for _, args := range [][]string{
		{"keys", "root", "--name", "auditor", "--out", d.Dir},
		append([]string{"keys", "certify", "--from", at, "--not-accessible-to-agent", "--not-accessible-to-users"},
			registry...),
		{"deployment", "certify", manifest, "--auditor-key", d.At("auditor.key.jwk"), "--audience", "posting-api", "--bundle",
			d.Bundle},
	} {
		kit.Run(t, args...)
	}
	log, lines := observer.New(zapcore.InfoLevel)
	said := func(message string) {
		t.Helper()
		kit.Until(t, "the log to say "+message, func() bool { return lines.FilterMessage(message).Len() > 0 })
	}
	_, strict, err := config.ReadAuditedManifest(manifest)
	check.Must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	c := config.Trust{Registry: d.At("registry.jwk"), Auditor: d.At("auditor.jwk"), Bundle: d.At("trust.json")}
	p := &daemon.Process{Log: zap.New(log)}
	check.Must(t, p.WaitForRoots(ctx, c))
	s, err := p.WaitForTrust(ctx, c, strict)
	check.Must(t, err)
	p.Trust.Add(s)
	certified, err := p.WaitForCertificates(ctx, c)
	check.Must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		certified.Watch(ctx)
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
		if err := s.Verifier.NotRevoked("grant", "action-grant-key:v1"); !errors.Is(err, refusal.New("revoked", "")) {
			t.Errorf("got %v", err)
		}
	}
	wantRevoked()
	check.Must(t, files.Replace(d.Bundle, before, 0o644))
	said("the new trust bundle is not taken over")
	wantRevoked()
}
