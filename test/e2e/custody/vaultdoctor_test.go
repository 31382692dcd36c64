package custody

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/vaulttest"
)

func (v *vaultRig) allow(t *testing.T, role bootstrap.Role, path, capability string) {
	t.Helper()
	c := v.vault.Client(t)
	text, err := c.Sys().GetPolicyWithContext(t.Context(), "mediator-"+role.Purpose)
	check.Must(t, err)
	check.Must(t,
		c.Sys().PutPolicyWithContext(t.Context(), "mediator-"+role.Purpose,
			text+fmt.Sprintf("\npath %q { capabilities = [%q] }\n", path, capability)))
}

func (v *vaultRig) set(t *testing.T, key, property string, to bool) {
	t.Helper()
	v.vault.Write(t, "transit/keys/"+key+"/config", map[string]any{property: to})
}

func (v *vaultRig) remake(t *testing.T, key, property string, value any) {
	t.Helper()
	v.set(t, key, "deletion_allowed", true)
	_, err := v.vault.Client(t).Logical().DeleteWithContext(t.Context(), "transit/keys/"+key)
	check.Must(t, err)
	how := map[string]any{"type": "ed25519"}
	how[property] = value
	v.vault.Write(t, "transit/keys/"+key, how)
}

type change struct {
	name string
	make func(*testing.T, *vaultRig)
	said string // what is seen of it
}

func changesOfRights() []change {
	var out []change
	for i, r := range bootstrap.Roles {
		other := bootstrap.Roles[(i+1)%len(bootstrap.Roles)]
		out = append(out, change{r.Purpose + " can sign as another", func(t *testing.T, v *vaultRig) {
			v.allow(t, r, "transit/sign/"+other.Key, "update")
		}, "update on transit/sign/" + other.Key})
	}
	runtime := bootstrap.Roles[4]
	for path, capability := range map[string]string{
		"transit/export/signing-key/runtime-key": "read", "transit/byok-export/session-key/runtime-key": "read",
		"transit/backup/runtime-key":             "read",
		"transit/export/signing-key/session-key": "read", "transit/restore/runtime-key": "update",
		"transit/keys/runtime-key/config": "update", "transit/keys/runtime-key/rotate": "update",
		"transit/keys/session-key": "read",
		"auth/token/create":        "update", "sys/policies/acl/*": "update", "sys/auth/*": "sudo",
	} {
		out = append(out, change{capability + " on " + path, func(t *testing.T, v *vaultRig) {
			v.allow(t, runtime, path, capability)
		}, strings.TrimSuffix(path, "*")})
	}
	return append(out, change{"a wildcard", func(t *testing.T, v *vaultRig) {
		v.allow(t, runtime, "transit/sign/*", "update")
	}, "update on transit/sign/"})
}

// The doctor sees each change, posts are refused, and go out again once it is undone.
func TestDoctorAsksVault(t *testing.T) {
	t.Parallel()
	v := newVaultRig(t, kit.ManyPosts, kit.Speaking)
	a := v.OpenAgent(t)
	var text string
	kit.Until(t, "doctor to find the deployment sound, once Vault has answered all questions", func() bool {
		doctor, controls := v.Doctor(t)
		text = doctor.Out
		return doctor.Status == 0 && len(controls[policy.ObservedTrue]) >= 25 && len(controls[policy.ObservedFalse]) == 0 &&
			!strings.Contains(text, "has not said yet")
	})
	a.MustPost(t)
	for _, r := range bootstrap.Roles {
		held := "Vault says that the key " + r.Key +
			" is Ed25519, and that it can be neither exported, nor backed up in plaintext, nor deleted."
		apart := "Vault says that the token for the key " + r.Key + " (policies mediator-" + r.Purpose + ", good for "
		if slices.Contains([]string{"runtime_attestation", "trigger_receipt", "policy_decision", "action_grant"},
			r.Purpose) && !strings.Contains(text, apart) {
			t.Errorf("doctor does not say %q", apart)
		}
		// No control covers these; a finding contradicts their certificates.
		if !slices.Contains([]string{"action_grant", "interaction_receipt", "agent_statement", "appraiser"}, r.Purpose) &&
			!strings.Contains(text, held) {
			t.Errorf("doctor does not say %q", held)
		}
	}
	undo := func(t *testing.T, v *vaultRig) { v.apply(t) } // the bootstrap puts policies and deletion_allowed right again
	changes := append(changesOfRights(), change{"the key for receipts can be deleted", func(t *testing.T, v *vaultRig) {
		v.set(t, "interaction-receipt-key", "deletion_allowed", true)
	}, "the key interaction-receipt-key can be deleted"}, change{"a key can be deleted", func(t *testing.T, v *vaultRig) {
		v.set(t, "action-grant-key", "deletion_allowed", true)
	}, "the key action-grant-key can be deleted"})
	for _, c := range changes {
		t.Run(c.name, func(t *testing.T) {
			c.make(t, v)
			v.wantContradicted(t, a, c.said)
			undo(t, v)
			kit.Until(t, "doctor to be content", func() bool { doctor, _ := v.Doctor(t); return doctor.Status == 0 })
			if o := a.Post(); o.Code != "" {
				t.Errorf("posts do not go out again: %+v", o)
			}
		})
	}
	t.Run("and then Vault is gone", func(t *testing.T) {
		c := changes[0]
		c.make(t, v)
		v.wantContradicted(t, a, c.said)
		v.proxy.Set(t, vaulttest.Fault{Refuse: true})
		doctor, _ := v.Doctor(t)
		doctor.Refused(c.said) // what was seen is not forgotten
		v.proxy.Set(t, vaulttest.Fault{})
		undo(t, v)
		kit.Until(t, "posts", func() bool { v.Doctor(t); return a.Post().Code == "" })
	})
	t.Run("an exportable key", func(t *testing.T) { v.exportable(t, a) })
	t.Run("a key that was replaced", func(t *testing.T) { v.replaced(t, a) })
}

func (v *vaultRig) wantContradicted(t *testing.T, a kit.Agent, said string) {
	t.Helper()
	v.wantSaid(t, said)
	sent := v.Posts.Load()
	if o := a.Post(); o.Code != "deployment_contradicted" || o.Retry == 0 || !strings.Contains(a.Reason(o), said) {
		t.Errorf("got %+v", o)
	}
	if v.Posts.Load() != sent {
		t.Error("a post went out")
	}
}

func (v *vaultRig) wantSaid(t *testing.T, said string) {
	t.Helper()
	kit.Until(t, "doctor to say "+said, func() bool {
		doctor, controls := v.Doctor(t)
		return doctor.Status != 0 && len(controls[policy.ObservedFalse]) > 0 && strings.Contains(doctor.Out, said)
	})
}

// Vault never takes this back. Without the doctor, posts are refused once the key was read again, because its artifacts
// declare it, and then as a contradiction at the next look.
func (v *vaultRig) exportable(t *testing.T, a kit.Agent) {
	v.set(t, "session-key", "exportable", true)
	began, met := time.Now(), make(map[string]string)
	kit.Until(t, "posts to be refused as contradicted", func() bool {
		o := a.Post()
		if met[o.Code] == "" {
			met[o.Code] = time.Since(began).Round(time.Millisecond).String()
		}
		if !slices.Contains([]string{"", "key_custody", "deployment_contradicted"}, o.Code) {
			t.Errorf("got %+v", o)
		}
		if o.Code == "" && met["key_custody"] != "" {
			t.Error("a post went out again")
		}
		return o.Code == "deployment_contradicted"
	})
	t.Logf("after a key was made exportable, posts met first: %v (those without a code went out)", met)
	v.wantContradicted(t, a, "the key session-key can be exported")
}

func (v *vaultRig) replaced(t *testing.T, a kit.Agent) {
	const key = "policy-decision-key"
	v.remake(t, key, "type", "ed25519")
	v.wantSaid(t, "version 1 of the key "+key+" in Vault is not the same key as before: somebody has replaced it")
	if o := a.Post(); o.Code != "deployment_contradicted" {
		t.Errorf("got %+v", o)
	}
}

// No process starts on a key or with a token that the manifest does not allow.
func TestVaultThatIsNotAsItShouldBe(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	grant := bootstrap.Roles[slices.IndexFunc(bootstrap.Roles, func(r bootstrap.Role) bool {
		return r.Purpose == "action_grant"
	})]
	const (
		unfit = " and is not a plain ed25519 key: make another one with a name of its own (custody_unfit)"
		held  = ". (custody:action_grant) (deployment_contradicted)"
		apart = ". (apart:action_grant) (deployment_contradicted)"
	)
	allowed := func(path, capability string) func(*testing.T) {
		return func(t *testing.T) { v.allow(t, grant, path, capability) }
	}
	remade := func(property string, value any) func(*testing.T) {
		return func(t *testing.T) { v.remake(t, grant.Key, property, value) }
	}
	for _, tt := range []struct {
		name string
		make func(*testing.T)
		edit func(string) string
		want string
	}{
		{name: "an RSA key", make: remade("type", "rsa-2048"), want: "has the type rsa-2048" + unfit},
		{name: "a key for encryption", make: remade("type", "aes256-gcm96"), want: "has the type aes256-gcm96" + unfit},
		{name: "a derived key", make: remade("derived", true), want: unfit},
		{name: "an exportable key", make: remade("exportable", true),
			want: "this process does not start: Vault says that the key action-grant-key can be exported" + held},
		{name: "a plaintext backup", make: remade("allow_plaintext_backup", true),
			want: "can be had as a plaintext backup" + held},
		{name: "a key that can be deleted", make: func(t *testing.T) { v.set(t, grant.Key, "deletion_allowed", true) },
			want: "can be deleted and made again" + held},
		{name: "a token that can export", make: allowed("transit/export/signing-key/"+grant.Key, "read"),
			want: "The token for the key action-grant-key may do more than sign with it: read on " +
				"transit/export/signing-key/action-grant-key" + apart},
		{name: "a token that can sign as another role", make: allowed("transit/sign/request-proof-key", "update"),
			want: "update on transit/sign/request-proof-key" + apart},
		{name: "a root token", edit: v.rootTokens(t), want: "everything: it is a root token"},
		{name: "a secret id that the agent can read", make: v.open, want: fmt.Sprintf(
			"/action_grant.secret-id; the agent's user %d can read %s/policy_decision.secret-id. (files:policy_decision) "+
				"(deployment_contradicted)", trial.User(), v.auth)},
		{name: "a socket that admits the agent", edit: func(file string) string {
			return strings.Replace(file, "internal: {unix: run/control.sock}",
				fmt.Sprintf("internal: {unix: run/control.sock, uids: [%d]}", trial.User()), 1)
		}, want: "internal.uids: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v.remake(t, grant.Key, "type", "ed25519")
			v.redeliver(t)
			if tt.make != nil {
				tt.make(t)
			}
			d := v.unstarted(t, func(file string) string {
				if file = v.config(file); tt.edit != nil {
					file = tt.edit(file)
				}
				return file
			})
			kit.OpenTo(t, d.Dir+"/run")
			wantNoStart(t, d, "control", tt.want)
		})
	}
}

func (v *vaultRig) rootTokens(t *testing.T) func(string) string {
	for _, r := range bootstrap.Roles {
		kit.Write(t, filepath.Join(v.auth, r.Purpose+".token"), v.vault.Token)
	}
	return func(file string) string {
		before, _, ok := strings.Cut(file, "      appRole:")
		_, after, _ := strings.Cut(file, `.secret-id"`)
		if !ok {
			return file
		}
		return before + fmt.Sprintf("      tokenFile: \"%s/{role}.token\"", v.auth) + after
	}
}

func (v *vaultRig) open(t *testing.T) {
	kit.OpenTo(t, v.auth)
	for _, r := range bootstrap.Roles {
		check.Must(t, os.Chmod(filepath.Join(v.auth, r.Purpose+".secret-id"), 0o644)) //nolint:gosec // on purpose
	}
}
