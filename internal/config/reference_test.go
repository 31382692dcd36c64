package config

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/actionproof/mediator/internal/config/fields"
	"github.com/actionproof/mediator/internal/config/remote"
	"github.com/actionproof/mediator/internal/config/secrets"
	"github.com/actionproof/mediator/test/check"
)

var update = flag.Bool("update", false, "write the page that the test compares with")

// TestDocsConfiguration compares the configuration reference with the types; -update writes it.
func TestDocsConfiguration(t *testing.T) {
	const path = "../../docs/configuration.md"
	var want bytes.Buffer
	check.Must(t, writeReference(&want))
	if *update {
		check.Must(t, os.WriteFile(path, want.Bytes(), 0o644))
	}
	got, err := os.ReadFile(path)
	check.Must(t, err)
	if !bytes.Equal(got, want.Bytes()) {
		t.Error("docs/configuration.md is not what the types say: run make docs")
	}
}

type optionDoc struct{ key, comment string }

func configDocs() (map[string][]optionDoc, error) {
	names, err := filepath.Glob("*.go")
	below, _ := filepath.Glob("*/*.go")
	if err != nil {
		return nil, err
	}
	options := make(map[string][]optionDoc)
	for _, name := range append(names, below...) {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		addOptions(options, file)
	}
	return options, nil
}

func addOptions(options map[string][]optionDoc, file *ast.File) {
	for _, decl := range file.Decls {
		g, ok := decl.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		spec, ok := g.Specs[0].(*ast.TypeSpec)
		if !ok {
			continue
		}
		fields, ok := spec.Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, f := range fields.Fields.List {
			if f.Tag == nil || len(f.Names) == 0 {
				continue
			}
			key, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("yaml"), ",")
			if key == "-" || key == "" { // not a key of the file
				continue
			}
			// A comment begins with the field's Go name; the reference shows the key.
			comment := strings.Replace(oneLine(f.Doc), f.Names[0].Name, "`"+key+"`", 1)
			options[spec.Name.Name] = append(options[spec.Name.Name], optionDoc{key, comment})
		}
	}
}

func oneLine(g *ast.CommentGroup) string { return strings.Join(strings.Fields(g.Text()), " ") }

func allowed(k fields.Key) (text string) {
	switch {
	case k.From != "":
		text = " From " + k.From + " to " + k.To + "."
	case k.To != "":
		text = " At most " + k.To + map[reflect.Kind]string{reflect.String: " bytes"}[k.Of.Kind()] + "."
	}
	if len(k.One) > 0 && !k.Need {
		text += " Default " + k.One[0] + "."
	}
	return text
}

var titles = map[string]string{
	"serve": "The sidecar: `mediator serve`", "trigger": "The trigger service: `mediator trigger`",
	"control": "The control plane: `mediator control`", "reputation": "The node: `mediator reputation`",
	"registrar": "The registrar: `mediator registrar`", "client": "An operator's client: `https://HOST:PORT,FILE`",
	"console":  "A console for a team: `mediator console --config`",
	"contexts": "An operator's contexts: `~/.config/mediator/contexts.yaml`",
	"root":     "A root key in Vault or a PKCS #11 token: `--registry-key`, `--auditor-key`",
}

var shared = []struct {
	title   string
	block   reflect.Type
	example string
}{
	{"Arbiter", reflect.TypeFor[Arbiter](), "arbiters: [{key: trust/ann.jwk}, {key: trust/ben.jwk}, {key: trust/eve.jwk}]"},
	{"Audience key", reflect.TypeFor[AudienceKey](),
		"origin: {key: origin-proof-key, issuer: mediator-source-verifier, audience: mediator-trigger}"},
	{"Believed receipts", reflect.TypeFor[BelievedReceipts](),
		"receipts: {issuers: [mediator-observer], audiences: [posting-api], keys: [interaction-receipt-key]}"},
	{"Client certificate", reflect.TypeFor[secrets.ClientCertificate](),
		"clientCertificate: {file: secrets/client.pem, keyFile: secrets/client.key}"},
	{"Collector", reflect.TypeFor[remote.Collector](),
		`otlp: {endpoint: "https://collector.example.com:4318", headersFile: secrets/otlp}`},
	{"Credential", reflect.TypeFor[secrets.Credential](), `credential: {prefix: "Bearer ", file: secrets/github-token}`},
	{"Custody", reflect.TypeFor[secrets.Custody](), `custody:
  type: vault
  vault:
    address: https://vault.internal:8200
    keys: [runtime-key, session-key, request-proof-key]
    auth: {kubernetes: {role: "mediator-{role}"}}`},
	{"Endpoint", reflect.TypeFor[Endpoint](),
		`internal: {tcp: "0.0.0.0:8444", callers: ["spiffe://example.org/pod/agents/*"]}`},
	{"Match", reflect.TypeFor[Match](),
		`match: {url: "https://api.github.com/repos/{owner}/{repo}/issues", methods: [POST]}`},
	{"Peer", reflect.TypeFor[Peer](), `control: {tcp: "control.mediator:8445"}`},
	{"Process", reflect.TypeFor[Process](), `custody: {type: memory}
trust: {registry: trust/registry.jwk, auditor: trust/auditor.jwk, bundle: trust/trust.json}
agent: {uid: 2000}`},
	{"Postgres", reflect.TypeFor[Postgres](), "postgres: {dsnFile: secrets/postgres}"},
	{"Rate", reflect.TypeFor[Rate](), "session: {perSecond: 20, burst: 60}"},
	{"Rule", reflect.TypeFor[Rule](), `reads:
  name: reads
  match: {url: "https://api.example.com/**", methods: [GET]}
  comment: "Reads for the Monday report"
  owner: reports@example.org
  expires: 2027-01-31`},
	{"Store", reflect.TypeFor[Store](), "store: {postgres: {dsnFile: secrets/postgres}}"},
	{"Signing key", reflect.TypeFor[SigningKey](), "runtime: {key: runtime-key, issuer: mediator-runtime, lifetime: 30s}"},
	{"TLS", reflect.TypeFor[TLS](),
		"tls: {certificate: tls/bundle.pem, key: tls/bundle.pem, authorities: tls/authorities.pem}"},
	{"Token endpoint", reflect.TypeFor[secrets.TokenEndpoint](), `identityProvider:
  tokenURL: https://login.example.com/token
  clientID: mediator
  clientSecretFile: secrets/idp-client`},
	{"Webhook", reflect.TypeFor[Webhook](), "standardWebhooks: {secretFiles: [secrets/billing]}"},
	{"XRay server", reflect.TypeFor[remote.XRayServer](), "govern: {url: https://xray.internal/mcp, tokenFile: secrets/xray}"},
}

func writeReference(w io.Writer) error {
	options, err := configDocs()
	if err != nil {
		return err
	}
	fmt.Fprint(w, `# Configuration

`+"`make docs`"+` makes this page.

- Files are strict YAML: an unknown key, a duplicate key, a key without a value or a second document is an error.
- `+"`mediator config check FILE`"+` checks a file as its process would.
- `+"`mediator config schema serve|trigger|control|reputation|registrar|client|console|contexts|root`"+` prints a JSON
  Schema.
- Relative paths start at the file's own folder. Durations are written like 15s.
- Keys in **bold** are required. Any other key without a stated default is empty, false or off.
- A linked key has the keys of that shared block.
- A [reload](operations/reload.md) applies changes of *reloadable* keys and of keys below them. Others need a restart.
- [configs](../configs) has complete examples.
`)
	for _, kind := range fileKinds {
		if kind.schema != "" {
			fmt.Fprintf(w, "\n## %s\n\n", titles[kind.schema])
			writeOptions(w, kind.keys, "", options)
		}
	}
	fmt.Fprint(w, "\n## Shared blocks\n")
	for _, s := range shared {
		if err := isExample(s.block, s.example); err != nil {
			return err
		}
		fmt.Fprintf(w, "\n### %s\n\n```yaml\n%s\n```\n\n", s.title, s.example)
		writeOptions(w, s.block, "", options)
	}
	return nil
}

// isExample reads an example of a block, or of a key with that block, as strictly as a process would.
func isExample(block reflect.Type, example string) error {
	file := reflect.New(reflect.MapOf(reflect.TypeFor[string](), block))
	switch block {
	case reflect.TypeFor[Process]():
		file = reflect.New(block)
	case reflect.TypeFor[Arbiter](): // only in lists
		file = reflect.New(reflect.MapOf(reflect.TypeFor[string](), reflect.SliceOf(block)))
	}
	if err := yaml.Load([]byte(example), file.Interface(), yaml.WithKnownFields()); err != nil {
		return fmt.Errorf("the example of %s: %w", block.Name(), err)
	}
	return nil
}

// writeOptions lists the keys of a type and, indented, the keys below them. It links to a shared block instead.
func writeOptions(w io.Writer, t reflect.Type, indent string, options map[string][]optionDoc) {
	for i := range t.NumField() {
		if f := t.Field(i); strings.HasSuffix(f.Tag.Get("yaml"), ",inline") {
			fmt.Fprintf(w, "%s- All keys of %s.\n", indent, linkTo(f.Type))
		}
	}
	for _, f := range fields.Keys(t) {
		if f.Owner != t.Name() {
			continue
		}
		comment := ""
		for _, o := range options[f.Owner] {
			if o.key == f.Name {
				comment = o.comment
			}
		}
		comment += allowed(f)
		if f.Reload {
			comment += " *Reloadable.*"
		}
		below := f.Of
		for below.Kind() == reflect.Pointer || below.Kind() == reflect.Slice {
			below = below.Elem()
		}
		key := "`" + f.Name + "`"
		shown := key
		if anchor := anchorOf(below); anchor != "" {
			shown = "[" + key + "](" + anchor + ")"
		}
		if comment = isOrAre.ReplaceAllString(comment, "$1: "); f.Need {
			shown = "**" + shown + "**"
		}
		comment = strings.Replace(comment, key, shown, 1)
		writeItem(w, indent, comment)
		if below.Kind() == reflect.Struct && linkTo(below) == "" {
			writeOptions(w, below, indent+"  ", options)
		}
	}
}

func writeItem(w io.Writer, indent, text string) {
	line := indent + "-"
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > 120 {
			fmt.Fprintln(w, line)
			line = indent + " "
		}
		line += " " + word
	}
	fmt.Fprintln(w, line)
}

var isOrAre = regexp.MustCompile("^(`\\w+`) (?:is|are) ")

func linkTo(t reflect.Type) string {
	for _, s := range shared {
		if s.block == t {
			return fmt.Sprintf("[%s](%s)", s.title, anchorOf(t))
		}
	}
	return ""
}

// anchorOf returns the link to a shared block.
func anchorOf(t reflect.Type) string {
	for _, s := range shared {
		if s.block == t {
			return "#" + strings.ReplaceAll(strings.ToLower(s.title), " ", "-")
		}
	}
	return ""
}

func TestSharedBlocks(t *testing.T) {
	uses := make(map[reflect.Type]int)
	var walk func(reflect.Type)
	walk = func(at reflect.Type) {
		for i := range at.NumField() {
			below := at.Field(i).Type
			for below.Kind() == reflect.Pointer || below.Kind() == reflect.Slice {
				below = below.Elem()
			}
			if tag := at.Field(i).Tag.Get("yaml"); below.Kind() != reflect.Struct || tag == "" || tag == "-" {
				continue
			}
			if uses[below]++; uses[below] == 1 {
				walk(below)
			}
		}
	}
	for _, kind := range fileKinds {
		if kind.schema != "" {
			walk(kind.keys)
		}
	}
	for block, n := range uses {
		if n > 1 && linkTo(block) == "" {
			t.Errorf("%d keys have the block %s: list it in shared, with an example", n, block.Name())
		}
	}
}
