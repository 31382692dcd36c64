package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/problem"
)

// seedFunctions are the functions and the commands that the seed documents. Each stands in a first column of docs/parity.md.
var seedFunctions = strings.Fields(`
	createChallenge solvePublicTask verifyResponse verifyCapability hashActionPayload hashChallengeBinding
	createTriggerOriginProof createTriggerReceipt createRuntimeAttestation verifyRuntimeAttestation createAutonomousAgentSessionReceipt
	verifyAutonomousAgentSessionReceipt createAutonomousRequestProof verifyAutonomousRequestProof createAutonomousPolicyDecision
	verifyAutonomousPolicyDecision hashAutonomousPolicyDecision createAutonomousActionGrant createSignerCustodyCertificate
	createStrictAutonomousDeploymentCertificate verifyStrictAutonomousDeploymentCertificate
	createAutonomousRuntimePolicy createStrictAutonomousActionPolicy auditAutonomousActionPolicy auditStrictAutonomousDeploymentManifest
	hashStrictAutonomousDeploymentManifest createStrictAutonomousDeploymentPolicy assessAutonomousPostingAssurance
	verifyAutonomousAction verifyStrictAutonomousResponse verifyStrictAutonomousAction verifyStrictAutonomousDeploymentResponse
	verifyStrictAutonomousDeploymentAction verifyStrictGrantedAutonomousAction verifyStrictGrantedAutonomousDeploymentAction
	createStrictGrantedAutonomousPostingProof verifyStrictGrantedAutonomousPosting
	generate verify verify-capability hash-payload`)

// otherSeeds are what the seeds about receipts, reputations and disputes name; each stands in a first column too.
var otherSeeds = []string{
	"ReceiptV1", "AgentReputation", "Challenge", "challenge_type", "status", "outcome", "resolver", "POST /v1/challenge/issue", "POST /v1/challenge/commit",
	"POST /v1/generate", "GET /v1/score/:receipt_hash", "GET /v1/reputation/:agent_id", "POST /v1/dispute",
}

// TestDocsParity holds docs/parity.md against the source: every function of the seed has a row, every row a test, and whatever a row
// names is there. In a column `here` stand Go names, in `command` commands with their flags, in `code` codes of refusals, and in `test` tests,
// of which each says one of the row's codes. What stands after a test's slash is a part of it, and says the code in one expression.
func TestDocsParity(t *testing.T) {
	page, err := os.ReadFile("../../docs/parity.md")
	if err != nil {
		t.Fatal(err)
	}
	src := readSource(t)
	seen := make(map[string]bool)
	for _, row := range tableRows(string(page)) {
		first := row.cells[row.columns[0]]
		for _, name := range spans(first) {
			seen[name] = true
		}
		if len(spans(row.cells["test"])) == 0 {
			t.Errorf("no test is named in the row %q", first)
		}
		for _, name := range spans(row.cells["here"]) {
			if !src.names[name] {
				t.Errorf("%q: there is no %s", first, name)
			}
		}
		for _, command := range spans(row.cells["command"]) {
			checkCommand(t, command)
		}
		codes := spans(row.cells["code"])
		for _, code := range codes {
			if !slices.ContainsFunc(problem.Codes(), func(c problem.Code) bool { return c.Name == code }) {
				t.Errorf("%q: %s is not a code", first, code)
			}
		}
		asserted := make(map[string]bool)
		for _, name := range spans(row.cells["test"]) {
			said, fault := src.saidBy(name)
			if fault != "" {
				t.Errorf("%q: %s", first, fault)
			}
			about := slices.DeleteFunc(slices.Clone(codes), func(c string) bool { return !slices.Contains(said, c) })
			if len(codes) > 0 && len(about) == 0 {
				t.Errorf("%q: %s says none of the codes", first, name)
			}
			for _, code := range about {
				asserted[code] = true
			}
		}
		for _, code := range codes {
			if !asserted[code] {
				t.Errorf("%q: no test says %s", first, code)
			}
		}
	}
	for _, name := range append(otherSeeds, seedFunctions...) {
		if !seen[name] {
			t.Errorf("the seed's %s has no row", name)
		}
	}
}

// tableRow is one row of a table in Markdown, by the names of its columns.
type tableRow struct {
	columns []string
	cells   map[string]string
}

func tableRows(page string) (rows []tableRow) {
	var columns []string
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			columns = nil
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case columns == nil:
			columns = cells
		case strings.HasPrefix(cells[0], "--"):
		default:
			row := tableRow{columns, make(map[string]string)}
			for i, c := range cells {
				row.cells[columns[i]] = c
			}
			rows = append(rows, row)
		}
	}
	return rows
}

var span = regexp.MustCompile("`([^`]+)`")

// spans are the names in a cell: what stands between backticks.
func spans(cell string) (names []string) {
	for _, m := range span.FindAllStringSubmatch(cell, -1) {
		names = append(names, m[1])
	}
	return names
}

// checkCommand finds a command and its flags in the program.
func checkCommand(t *testing.T, command string) {
	t.Helper()
	var words []string
	flags := strings.Fields(command)
	for len(flags) > 0 && !strings.HasPrefix(flags[0], "-") {
		words, flags = append(words, flags[0]), flags[1:]
	}
	c, rest, err := rootCommand().Find(words)
	if err != nil || len(rest) > 0 {
		t.Errorf("there is no command %q", command)
		return
	}
	for _, flag := range flags {
		if c.Flags().Lookup(strings.TrimPrefix(flag, "--")) == nil {
			t.Errorf("mediator %s has no flag %s", strings.Join(words, " "), flag)
		}
	}
}

// source is what the Go source declares and its tests say.
type source struct {
	names map[string]bool        // pkg.Name and pkg.Type.Member
	tests map[string][]*ast.File // of a package, with the packages of helpers that they import
}

// packageName is how docs/parity.md calls the package of a folder: by the last part of its path.
func packageName(dir string) string { return filepath.Base(dir) }

func readSource(t *testing.T) source {
	t.Helper()
	s := source{make(map[string]bool), make(map[string][]*ast.File)}
	helpers := make(map[string][]*ast.File) // files of packages that help tests, by import path
	var dirs []string
	for _, pattern := range []string{"../../*", "../../*/*", "../../*/*/*"} {
		found, err := filepath.Glob(pattern + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range found {
			dirs = append(dirs, filepath.Dir(name))
		}
	}
	slices.Sort(dirs)
	for _, dir := range slices.Compact(dirs) {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(name, "_test.go") {
				s.tests[packageName(dir)] = append(s.tests[packageName(dir)], f)
				continue
			}
			s.declare(packageName(dir), f)
			if strings.HasSuffix(dir, "test") {
				path := "github.com/actionproof/mediator/" + strings.TrimPrefix(dir, "../../")
				helpers[path] = append(helpers[path], f)
			}
		}
	}
	for name, files := range s.tests {
		imported := make(map[string]bool)
		for _, f := range files {
			for _, i := range f.Imports {
				imported[unquote(i.Path.Value)] = true
			}
		}
		for path := range imported {
			s.tests[name] = append(s.tests[name], helpers[path]...)
		}
	}
	return s
}

func unquote(literal string) string {
	text, err := strconv.Unquote(literal)
	if err != nil {
		panic(err)
	}
	return text
}

// declare takes over the exported names of a file: functions, types, variables and constants, and the members of types.
func (s source) declare(pkg string, f *ast.File) {
	add := func(parts ...string) { s.names[pkg+"."+strings.Join(parts, ".")] = true }
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				add(d.Name.Name)
				continue
			}
			add(receiver(d.Recv.List[0].Type), d.Name.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						add(n.Name)
					}
				case *ast.TypeSpec:
					add(spec.Name.Name)
					for _, m := range members(spec.Type) {
						add(spec.Name.Name, m)
					}
				}
			}
		}
	}
}

// receiver is the name of a receiver's type, without its pointer and its parameters.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func members(e ast.Expr) (names []string) {
	var list *ast.FieldList
	switch e := e.(type) {
	case *ast.StructType:
		list = e.Fields
	case *ast.InterfaceType:
		list = e.Methods
	default:
		return nil
	}
	for _, f := range list.List {
		for _, n := range f.Names {
			names = append(names, n.Name)
		}
	}
	return names
}

// saidBy are the texts in the source of a test that the page names, or what is wrong with the name.
func (s source) saidBy(name string) (said []string, fault string) {
	test, part, _ := strings.Cut(name, "/")
	pkg, function, _ := strings.Cut(test, ".")
	if !slices.ContainsFunc(s.tests[pkg], func(f *ast.File) bool { return declaresTest(f, function) }) {
		return nil, "there is no test " + test
	}
	if function == "TestScripts" {
		script, err := os.ReadFile("testdata/script/" + part + ".txtar")
		if err != nil {
			return nil, err.Error()
		}
		return regexp.MustCompile("[a-z_]+").FindAllString(string(script), -1), ""
	}
	for _, f := range s.tests[pkg] {
		said = append(said, textsBeside(f, part)...)
	}
	if len(said) == 0 {
		return nil, test + " has no part " + strconv.Quote(part)
	}
	return said, ""
}

func declaresTest(f *ast.File, name string) bool {
	return slices.ContainsFunc(f.Decls, func(d ast.Decl) bool {
		function, ok := d.(*ast.FuncDecl)
		return ok && function.Recv == nil && function.Name.Name == name && (strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz"))
	})
}

// textsBeside are the texts in the smallest expressions that hold part and another text; in the whole node where part is empty.
func textsBeside(n ast.Node, part string) (out []string) {
	if part == "" {
		return texts(n)
	}
	ast.Inspect(n, func(inner ast.Node) bool {
		if inner != n && inner != nil {
			out = append(out, textsBeside(inner, part)...)
			return false
		}
		return true
	})
	switch n.(type) {
	case *ast.CallExpr, *ast.CompositeLit, *ast.KeyValueExpr:
		if all := texts(n); len(out) == 0 && len(all) > 1 && slices.Contains(all, part) {
			return all
		}
	}
	return out
}

func texts(n ast.Node) (out []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			out = append(out, unquote(l.Value))
		}
		return true
	})
	return out
}
