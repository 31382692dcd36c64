package mediator_test

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/actionproof/mediator/test/check"
)

// layers is the order in which packages may import each other: each only those after it.
var layers = []string{
	"cmd/mediator",
	"internal/program",
	"internal/cli/start",
	"internal/cli/operate",
	"internal/cli/keys",
	"internal/cli/challenges",
	"internal/cli/chain",
	"internal/console",
	"internal/cli/records",
	"internal/cli/node",
	"internal/cli",
	"internal/viewer",
	"internal/demo",
	"internal/demo/agent",
	"internal/trial",
	"internal/setup",
	"internal/devstack",
	"internal/launch",
	"internal/isolate",
	"internal/process/sidecar",
	"internal/process/trigger",
	"internal/process/control",
	"internal/process/node",
	"internal/process/registrar",
	"internal/registrar",
	"internal/keyring",
	"internal/vaultaudit",
	"internal/admin",
	"internal/process/daemon",
	"internal/process/endpoint",
	"internal/keystore",
	"internal/auditexport",
	"internal/await",
	"internal/archive",
	"internal/car",
	"internal/preset",
	"internal/learn",
	"internal/rulesfile",
	"internal/logs",
	"internal/config",
	"internal/config/remote",
	"internal/config/secrets",
	"internal/config/fields",
	"internal/deployed",
	"internal/manifest",
	"proxy",
	"proxy/rules",
	"proxy/own",
	"proxy/spans",
	"proxy/node",
	"proxy/load",
	"proxy/session",
	"proxy/receipts",
	"proxy/reputations",
	"proxy/intercept",
	"proxy/generate",
	"proxy/match",
	"proxy/mcp",
	"proxy/inference/failure",
	"proxy/inference",
	"proxy/inference/members",
	"proxy/inference/kept",
	"proxy/frames",
	"proxy/sse",
	"proxy/graphql",
	"proxy/jsonread",
	"proxy/websocket",
	"proxy/body",
	"proxy/credential",
	"proxy/forward",
	"proxy/upstream",
	"proxy/echo",
	"reputation/client",
	"reputation/api",
	"reputation",
	"reputation/store",
	"gate",
	"gate/challenge",
	"trigger",
	"policy/decide",
	"policy",
	"signer",
	"reputation/verification/client",
	"reputation/verification/tools",
	"reputation/verification/xray",
	"reputation/verification",
	"internal/tracing",
	"internal/otlp",
	"internal/wire",
	"internal/agentpod",
	"internal/identity",
	"internal/problem",
	"reputation/erc8004",
	"reputation/dispute",
	"reputation/autonomy",
	"reputation/accrual",
	"reputation/strategy",
	"reputation/probes",
	"reputation/internal/limit",
	"reputation/internal/shelf",
	"evidence/interaction",
	"evidence",
	"botauth",
	"httpsig",
	"evidence/internal/codec",
	"internal/resolver",
	"custody/vault/bootstrap",
	"custody/vault",
	"custody/pkcs11",
	"custody",
	"translog",
	"ledger/postgres",
	"ledger/sqlite",
	"ledger/internal/tables",
	"internal/db/backend",
	"internal/db/postgres",
	"internal/db/sqlite",
	"internal/db",
	"translog/leaf",
	"ledger",
	"internal/strictjson",
	"internal/refusal",
	"internal/observe",
	"look",
	"internal/confine",
	"internal/guard",
	"internal/kube",
	"configs",
	"internal/files",
	"internal/strict",
	"internal/terminal",
	"internal/flood",
	"internal/every",
	"internal/cond",
	"internal/descriptor",
	"internal/share",
	"internal/lru",
	"internal/pattern",
	"internal/failpoint",
	"internal/freeport",
	"internal/runas",
}

// forbidden are imports that a package must not have, whatever its place.
var forbidden = map[string][]string{
	// artifacts know nothing of how they travel
	"evidence": {"net/http", "github.com/hashicorp/vault/api"},
	// keys know nothing of artifacts
	"custody": {"github.com/actionproof/mediator/evidence", "net/http"},
	// nor does the record
	"ledger": {"github.com/actionproof/mediator/evidence", "net/http"},
	// connections know nothing of posts
	"proxy/intercept": {"github.com/actionproof/mediator/evidence", "github.com/actionproof/mediator/ledger"},
	// nor do rules
	"proxy/match": {"github.com/actionproof/mediator/evidence", "github.com/actionproof/mediator/ledger"},
	// nor do upstreams
	"proxy/upstream": {"github.com/actionproof/mediator/evidence", "github.com/actionproof/mediator/ledger"},
	// nor does the search of answers
	"proxy/echo":       {"github.com/actionproof/mediator/evidence", "github.com/actionproof/mediator/ledger"},
	"internal/problem": {"github.com/actionproof/mediator/evidence", "github.com/actionproof/mediator/ledger"},
}

// verifiers are what the owner of an API links, with what it must not bring along: a database that the owner did not
// choose, YAML, the kernel's view of processes, and what decides and logs.
var verifiers = map[string][]string{
	"./gate": {
		"yaml", "procfs", "sqlite", "pgx", "modernc.org/", "zap", "hashicorp", "prometheus", "cel.dev/", "protobuf", "cobra",
		"json-experiment", "opentelemetry",
		"internal/observe", "mediator/proxy", "policy/decide",
	},
	"./ledger/postgres": {"yaml", "procfs", "sqlite", "modernc.org/", "zap", "hashicorp", "prometheus",
		"internal/observe"},
}

// TestVerifierLinksLittle lists everything that a verifier's binary is linked from.
func TestVerifierLinksLittle(t *testing.T) {
	for of, heavy := range verifiers {
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", of)
		out, err := list.Output()
		check.Must(t, err)
		if !bytes.Contains(out, []byte("mediator"+of[1:]+"\n")) {
			t.Fatalf("go list says %.200q", out)
		}
		for path := range strings.FieldsSeq(string(out)) {
			if slices.ContainsFunc(heavy, func(part string) bool { return strings.Contains(path, part) }) {
				t.Errorf("%s links %s", of, path)
			}
		}
	}
}

// TestImports holds the imports of the source against the layers. Every package has a layer, but for those below test/
// and examples/, and is named in docs/architecture.md.
func TestImports(t *testing.T) {
	const module = "github.com/actionproof/mediator/"
	page, err := os.ReadFile("docs/architecture.md")
	check.Must(t, err)
	_, page, _ = bytes.Cut(page, []byte("## Packages"))
	listed, _, _ := bytes.Cut(page, []byte("## Follow one post"))
	for _, layer := range layers {
		if !bytes.Contains(listed, []byte("`"+layer+"`")) {
			t.Errorf("docs/architecture.md does not name the package %s", layer)
		}
	}
	check.Must(t, filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || name == "." {
			return err
		}
		other := []string{".git", "node_modules", "testdata", "test", "examples", "bin", "dist"}
		if slices.Contains(other, d.Name()) || name == "tools" { // tools is a module of its own
			return filepath.SkipDir
		}
		files, err := filepath.Glob(filepath.Join(name, "*.go"))
		if len(files) > 0 && !slices.Contains(layers, name) {
			t.Errorf("the package %s has no layer", name)
		}
		return err
	}))
	for i, layer := range layers {
		files, err := filepath.Glob(layer + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", layer, len(files), err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, spec := range f.Imports {
				path, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				if slices.Contains(forbidden[layer], path) {
					t.Errorf("%s imports %s", name, path)
				}
				if ours, ok := strings.CutPrefix(path, module); ok && !slices.Contains(layers[i+1:], ours) {
					t.Errorf("%s imports %s, which does not stand below it", name, ours)
				}
			}
		}
	}
}
