package commands

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/program"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/gatetest"
)

// TestHostileFiles gives every command that reads a file files that are large in one way each. Each is refused with
// status 1 and few words, by a process whose memory the kernel limits.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	const most = "458752"                           // KiB of data: seven of the 64 MiB arenas that Go's heap grows by
	dir, binary := writeEvidence(t), kit.Program(t) // the test's own binary may be instrumented
	files := hostileFiles(t)
	binding := "--subject a --action b --resource c --content-hash " + evidence.HashBytes(nil)
	for _, command := range []string{
		"hash-payload --json FILE", "challenge solve --challenge FILE",
		"challenge verify --challenge FILE --response record.json",
		"challenge verify --challenge challenge.json --response FILE", "capability verify --capability FILE " + binding,
		"posts show FILE", "verify FILE", "verify record.json --bundle FILE", "verify record.json --registry FILE",
		"verify record.json --manifest FILE", "deployment hash FILE", "config check FILE", "setup --file FILE",
	} {
		t.Run(command[:min(len(command), 50)], func(t *testing.T) {
			t.Parallel()
			for name, file := range files {
				args := strings.Fields(command)
				for i := range args {
					if args[i] == "FILE" {
						args[i] = file
					}
				}
				if name == "kid" && args[0] == "hash-payload" {
					continue // JSON like any other
				}
				c := exec.Command("sh", append([]string{"-c", "ulimit -d " + most + `; exec "$0" "$@"`, binary}, args...)...)
				c.Dir, c.Env = dir, append(os.Environ(), "ACTIONPROOF_SECRET=replace-this-with-a-long-random-secret")
				out, err := c.CombinedOutput()
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.ExitCode() != program.Refused || len(out) == 0 || len(out) > 3000 ||
					bytes.Contains(out, []byte("goroutine")) {
					t.Errorf("%s: %v: %.300s", name, err, out)
				}
			}
		})
	}
}

func hostileFiles(t *testing.T) map[string]string {
	t.Helper()
	dir, files := t.TempDir(), make(map[string]string)
	var members bytes.Buffer
	for i := range 1_000_000 {
		members.WriteString(`,"k` + strconv.Itoa(i) + `":0`)
	}
	kid := strings.Repeat("k", 1<<20)
	for name, content := range map[string]string{
		"100 MB":              `{"id":"` + strings.Repeat("a", 100<<20) + `"}`,
		"100000 deep":         strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000),
		"objects 100000 deep": strings.Repeat(`{"id":`, 100_000) + "0" + strings.Repeat("}", 100_000),
		"a million members":   "{" + members.String()[1:] + "}",
		"a million values":    "[" + strings.Repeat("0,", 1_000_000) + "0]",
		"kid": `{"kty":"OKP","crv":"Ed25519","kid":"` + kid +
			`","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`,
		"an endless line of key": kid + ": 0\n",
	} {
		path := filepath.Join(dir, strconv.Itoa(len(files))+".json")
		kit.Write(t, path, content)
		files[name] = path
	}
	files["a file without end"] = "/dev/zero"
	return files
}

func TestHostileErrors(t *testing.T) {
	t.Parallel()
	dir := writeEvidence(t)
	const steer = "\x1b[2J\u009b2J\u202e\n9 verified"
	var k struct{ X string }
	check.Must(t, json.Unmarshal(kit.Read(t, dir+"/registry.jwk"), &k))
	root, err := json.Marshal(map[string]string{"kty": "OKP", "crv": "Ed25519", "x": k.X, "kid": steer})
	check.Must(t, err)
	tokens := strings.Fields(string(kit.Read(t, dir+"/receipts.txt")))
	parts := strings.Split(tokens[0], ".")
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	check.Must(t, err)
	var c struct{ Owner string }
	check.Must(t, json.Unmarshal(claims, &c))
	owner := "\u009b2J\u2028" + strings.Repeat("x", len(c.Owner)-7)
	parts[1] = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(claims), c.Owner, owner, 1)))
	for name, text := range map[string]string{
		"roots": `{"actionproof-evidence":{"version":1}}` + "\n" +
			`{"roots":{"registry":` + string(root) + `,"auditor":` + string(root) + "}}\n",
		"receipt": strings.Join(parts, ".") + "\n",
	} {
		in := func(name string) string { return filepath.Join(dir, name) }
		e := kit.MediatorReading(t, text, "verify", "-", "--registry", in("registry.jwk"), "--auditor", in("auditor.jwk"),
			"--bundle", in("trust.json"), "--manifest", in("manifest.yaml")).Refused()
		if e.Out != "" || strings.ContainsAny(e.Said, "\x1b\u009b\u202e") || strings.Count(e.Said, "\n") != 1 {
			t.Errorf("%s: %q", name, e.Said)
		}
	}
	rule, err := json.Marshal(steer)
	check.Must(t, err)
	policy := dir + "/policy.json"
	kit.Write(t, policy, `{"version":"1.0","rules":[{"name":`+string(rule)+`,"when":"("}]}`)
	for name, args := range map[string][]string{
		"rules": {"config", "check", policy}, "the name of a file": {"verify", steer},
		"usage": {"deployment", "hash", "--" + steer},
	} {
		said := kit.Mediator(t, args...).Said
		if strings.ContainsAny(said, "\x1b\u009b\u202e") || strings.Contains(said, "\n9 verified") ||
			!strings.Contains(said, "9 verified") {
			t.Errorf("%s: %q", name, said)
		}
	}
}

// FuzzConfig reads any configuration, policy or manifest file as the processes do. It does not panic, and its errors
// are bounded.
func FuzzConfig(f *testing.F) {
	for _, example := range configs.Dev {
		f.Add(example)
	}
	f.Add([]byte("runtime: &a [*a, *a]\nlisten: !!binary x\n"))
	f.Add([]byte("sources: {github: {}, github: {}}\n---\nsources: {}\n"))
	path := f.TempDir() + "/config.yaml"
	f.Fuzz(func(t *testing.T, raw []byte) {
		check.Must(t, os.WriteFile(path, raw, 0o600))
		if checked, err := config.CheckFile(path, true); err != nil && (err.Error() == "" || len(err.Error()) > 1<<20) {
			t.Errorf("%s: it says %d bytes", checked.Kind, len(err.Error()))
		}
	})
}

// FuzzShow draws any record. It does not panic, and prints no control sequences.
func FuzzShow(f *testing.F) {
	raw, err := json.Marshal(gatetest.New(f).Post(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(`{"artifacts":[{"name":"policyDecision","token":"\u001b[2J.e30.AA"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c := program.Command()
		var out, fault strings.Builder
		c.SetArgs([]string{"posts", "show", "-"})
		c.SetIn(bytes.NewReader(raw))
		c.SetOut(&out)
		c.SetErr(&fault)
		err := c.ExecuteContext(t.Context())
		if (err == nil) != strings.Contains(out.String(), "nonHumanIdentityProven: false") {
			t.Errorf("%v, and it says %q", err, out.String())
		}
		if i := strings.IndexFunc(out.String(), func(r rune) bool {
			return r != '\n' && r != '\t' && unicode.IsControl(r)
		}); i >= 0 {
			t.Errorf("it writes a control character: %q", out.String())
		}
	})
}
