package setup_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/vault/api"

	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/setup"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/vaulttest"
)

var server *vaulttest.Server

func TestMain(m *testing.M) {
	os.Exit(vaulttest.Main(m, func(s *vaulttest.Server) { server = s }))
}

// machine is a folder of configuration whose users are all the one that runs the test.
func machine(t *testing.T) (setup.Setup, map[string]string) {
	t.Helper()
	did := make(map[string]string)
	dir := t.TempDir()
	return setup.Setup{
		Dir: dir,
		User: func(name string) (setup.User, error) {
			u := setup.User{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
			if name == "mediator-agent" {
				u = setup.User{UID: 2000, GID: 2000, Groups: []uint32{20, 30}}
			}
			return u, nil
		},
		Vault: func(_ setup.Vault, do func(*api.Client) error) error { return do(server.Client(t)) },
		Did:   func(d bootstrap.Done) { did[strings.TrimPrefix(d.What, dir+"/")] = d.Did },
	}, did
}

func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	check.Must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, dir+"/")] = string(raw)
		return err
	}))
	return all
}

func TestSetup(t *testing.T) {
	s, did := machine(t)
	check.Must(t, os.MkdirAll(filepath.Join(s.Dir, "secrets"), 0o700))
	check.Must(t, os.WriteFile(filepath.Join(s.Dir, "secrets/anthropic-key"), []byte("a secret key"), 0o644))
	if !s.Fresh() {
		t.Error("an empty folder is not fresh")
	}
	check.Must(t, s.Run(t.Context(), setup.Answers{
		Presets: []string{"claude-code"}, Sources: []string{"github", "nightly"}, Node: true}))
	for _, name := range []string{"mediator.yaml", "trigger.yaml", "control.yaml", "reputation.yaml", "manifest.yaml",
		"policy.yaml"} {
		_, err := config.CheckFile(filepath.Join(s.Dir, name), true)
		check.Must(t, err)
	}
	first := read(t, s.Dir)
	for name, has := range map[string]string{
		"mediator.yaml": "credential: {header: X-Api-Key, file: secrets/anthropic-key}",
		"trigger.yaml":  "name: nightly", "secrets/github-webhook": "whsec_",
		"control.yaml": "agent: {uid: 2000, gids: [20, 30]}", "reputation.yaml": "believedHosts",
		"keys/auditor.key.jwk": "priv", "trust/registry.jwk": "ML-DSA-65",
		"trust/trust.json": `"deploymentCertificate": "ey`,
		"registry.env": fmt.Sprintf("NODE=\"--from unix:/run/mediator/reputation.sock,%d\"\nAUDIENCE=\"posting-api\"\n",
			os.Geteuid()),
	} {
		if !strings.Contains(first[name], has) {
			t.Errorf("%s has no %q:\n%s", name, has, first[name])
		}
	}
	for name, has := range map[string]string{
		"trigger.yaml": "billing", "mediator.yaml": "actions:", "reputation.yaml": "8443"} {
		if strings.Contains(first[name], has) {
			t.Errorf("%s has %q", name, has)
		}
	}
	for name, mode := range map[string]os.FileMode{"secrets/anthropic-key": 0o400, "secrets/github-webhook": 0o400,
		"keys/registry.key.jwk": 0o600, "keys": os.ModeDir | 0o700, "mediator.yaml": 0o644} {
		if info, err := os.Stat(filepath.Join(s.Dir, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}

	// Repeated, it only pins and certifies what changed.
	changed := filepath.Join(s.Dir, "mediator.yaml")
	check.Must(t, os.WriteFile(changed, []byte(first["mediator.yaml"]+"# changed\n"), 0o644))
	clear(did)
	if s.Fresh() {
		t.Error("a configured folder is fresh")
	}
	check.Must(t, s.Run(t.Context(), setup.Answers{Presets: []string{"slack"}}))
	pin, err := config.PinnedHash(changed)
	check.Must(t, err)
	second := read(t, s.Dir)
	var differ []string
	for name := range second {
		if first[name] != second[name] {
			differ = append(differ, name)
		}
	}
	slices.Sort(differ)
	want := []string{"manifest.yaml", "mediator.yaml", "trust/trust-history.json", "trust/trust.json"}
	if len(first) != len(second) || !slices.Equal(differ, want) || strings.Count(second["manifest.yaml"], pin) != 2 {
		t.Errorf("%v changed, to %v:\n%v", differ, slices.Sorted(maps.Keys(second)), did)
	}
}

func TestSetupElsewhere(t *testing.T) {
	team, _ := machine(t)
	check.Must(t, team.Run(t.Context(), setup.Answers{}))
	s, did := machine(t)
	a := setup.Answers{Roots: filepath.Join(team.Dir, "trust"),
		Vault: &setup.Vault{Address: server.Address, CA: server.CAFile, TokenFile: "token"}}
	check.Must(t, s.Run(t.Context(), a))
	got := read(t, s.Dir)
	if got["trust/registry.jwk"] != read(t, team.Dir)["trust/registry.jwk"] || got["trust/trust.json"] != "" ||
		got["keys/auditor.key.jwk"] != "" || did["manifest.yaml"] != "for the auditor to certify" ||
		did["transit/keys/policy-decision-key"] != "made" {
		t.Error(did)
	}
	c, err := config.Load[config.Control](filepath.Join(s.Dir, "control.yaml"))
	check.Must(t, err)
	for _, file := range c.Custody.SecretFiles("policy_decision") {
		if info, err := os.Stat(file); err != nil || info.Mode() != 0o400 {
			t.Errorf("%s: %v", file, err)
		}
	}
	other, _ := machine(t)
	if err := other.Run(t.Context(), setup.Answers{Roots: filepath.Join(team.Dir, "keys")}); err == nil {
		t.Error("a folder without public keys is taken")
	}
}

func TestAnswers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "answers.yaml")
	for name, tt := range map[string]struct{ text, want string }{
		"all":              {"{roots: pins, presets: [github], sources: [jobs], agent: '7', node: true}", ""},
		"an unknown key":   {"preset: [github]", "did you mean presets?"},
		"no such preset":   {"presets: [claude-kode]", "did you mean claude-code"},
		"no such source":   {"sources: [gitlab]", `no example of a source "gitlab"; there are github, billing`},
		"Vault by http":    {"vault: {address: 'http://v', tokenFile: t}", "is not https://host:port"},
		"a break in Vault": {"vault: {address: \"https://v\\nx: y\", tokenFile: t}", "is not https://host:port"},
		"no token":         {"vault: {address: 'https://v'}", "name the file with an administrator's token"},
	} {
		check.Must(t, os.WriteFile(path, []byte(tt.text), 0o600))
		a, err := setup.Read(path)
		switch {
		case tt.want == "":
			check.Must(t, err)
			if a.Roots != filepath.Join(filepath.Dir(path), "pins") {
				t.Error(a.Roots)
			}
		case err == nil || !strings.Contains(err.Error(), tt.want):
			t.Errorf("%s: %v", name, err)
		default:
			check.WantCode(t, err, "config_malformed")
		}
	}
	packaged, err := setup.Read("../../deploy/debian/setup.yaml")
	if err != nil || packaged.Roots != "here" || packaged.Agent != "mediator-agent" {
		t.Errorf("%+v, %v", packaged, err)
	}
}

func TestAsk(t *testing.T) {
	var out strings.Builder
	a, err := setup.Ask(strings.NewReader("\nclaude-kode\nclaude-code, github\n\n\nY\nhttps://v:8200\n\ntoken\n"),
		&out)
	if err != nil || a.Roots != "here" || !slices.Equal(a.Presets, []string{"claude-code", "github"}) || !a.Node ||
		a.Vault.Address != "https://v:8200" || a.Vault.CA != "" || a.Vault.TokenFile != "token" ||
		!strings.Contains(out.String(), "did you mean claude-code") {
		t.Errorf("%+v, %v\n%s", a, err, &out)
	}
	a, err = setup.Ask(strings.NewReader(strings.Repeat("\n", 6)), &out)
	if err != nil || a.Vault != nil || a.Presets != nil {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err = setup.Ask(strings.NewReader("\n"), &out); err == nil {
		t.Error("the end of the input is an answer")
	}
}

func FuzzRead(f *testing.F) {
	f.Add("roots: here\nvault: {address: 'https://v', tokenFile: t}\n")
	f.Add("presets: &a [*a]")
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "answers.yaml")
		check.Must(t, os.WriteFile(path, []byte(text), 0o600))
		_, _ = setup.Read(path)
	})
}

// TestUnitsKeepPins: the processes with a root's key write the folder of trust, but not the pinned roots there.
func TestUnitsKeepPins(t *testing.T) {
	units, err := filepath.Glob("../../deploy/systemd/*.service")
	check.Must(t, err)
	found := 0
	for _, name := range units {
		raw, err := os.ReadFile(name)
		check.Must(t, err)
		if !strings.Contains(string(raw), "ReadWritePaths=/etc/mediator/trust\n") {
			continue
		}
		if found++; !strings.Contains(string(raw),
			"\nReadOnlyPaths=-/etc/mediator/trust/registry.jwk -/etc/mediator/trust/auditor.jwk\n") {
			t.Errorf("%s can replace the pinned roots", name)
		}
	}
	check.WantEqual(t, found, 3)
}
