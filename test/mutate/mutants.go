package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// mutant is the source with one check disabled.
type mutant struct {
	file string // as the compiler finds it
	line int
	// name says what is disabled, and where; it holds no line number, so that it outlives edits elsewhere in the file.
	name string
	// number is its place among the mutants of the package.
	number int
	// The bytes from start to end of the file are put between before and after, which hold a switch with the mutant's number for %d. So
	// all mutants are compiled at once. The rows of a table share the switch of the first.
	start, end    int
	before, after string
	// alone is a mutant that has to be compiled by itself: text stands for the bytes.
	alone bool
	text  string
}

// source is one file that mutants are made of.
type source struct {
	path string
	raw  []byte
	set  *token.FileSet
	// stack holds the nodes around the one that is looked at, outermost first.
	stack   []ast.Node
	mutants []mutant
}

// mutantsOf makes the mutants of a package in a directory.
func mutantsOf(dir string) ([]mutant, error) {
	pkg, err := build.ImportDir(dir, 0)
	if err != nil {
		return nil, err
	}
	var out []mutant
	for _, name := range pkg.GoFiles {
		path := filepath.Join(dir, name)
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		found, err := mutantsIn(path, raw)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	for i := range out {
		out[i].number = i
	}
	return out, nil
}

// mutantsIn makes the mutants of one file.
func mutantsIn(path string, raw []byte) ([]mutant, error) {
	s := &source{path: path, raw: raw, set: token.NewFileSet()}
	f, err := parser.ParseFile(s.set, path, raw, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.PreorderStack(f, nil, func(n ast.Node, stack []ast.Node) bool {
		s.stack = stack
		s.visit(n)
		return true
	})
	seen := make(map[string]int)
	for i := range s.mutants {
		m := &s.mutants[i]
		if seen[m.name]++; seen[m.name] > 1 {
			m.name += fmt.Sprintf(" (%d)", seen[m.name])
		}
	}
	return s.mutants, nil
}

// visit adds what can be disabled at n. The other files hold one method for each form that a check takes.
func (s *source) visit(n ast.Node) {
	switch n := n.(type) {
	case *ast.IfStmt:
		s.condition(n)
	case *ast.SwitchStmt:
		s.cases(n.Body, n.Tag == nil)
	case *ast.TypeSwitchStmt:
		s.cases(n.Body, false)
	case *ast.BinaryExpr:
		s.operands(n)
		s.boundary(n)
	case *ast.ReturnStmt:
		s.result(n)
	case *ast.CompositeLit:
		s.rows(n)
	case *ast.CallExpr:
		s.call(n)
	}
}

// add names a mutant of what is between from and to.
func (s *source) add(m mutant, from, to token.Pos, verb string, what ...ast.Node) {
	words := []string{s.function(), verb}
	for _, n := range what {
		words = append(words, s.textOf(n))
	}
	pos := s.set.Position(from)
	m.file, m.line, m.name = s.path, pos.Line, strings.Join(words, " ")
	m.start, m.end = pos.Offset, s.set.Position(to).Offset
	s.mutants = append(s.mutants, m)
}

// never makes e false.
func (s *source) never(e ast.Expr) {
	s.add(mutant{before: "(mutantOn != %d && (", after: "))"}, e.Pos(), e.End(), "never", e)
}

// always makes e true.
func (s *source) always(e ast.Expr) {
	s.add(mutant{before: "(mutantOn == %d || (", after: "))"}, e.Pos(), e.End(), "always", e)
}

// replace puts text in the place of what is between from and to.
func (s *source) replace(from, to token.Pos, text, verb string, what ...ast.Node) {
	s.add(mutant{alone: true, text: text}, from, to, verb, what...)
}

func (s *source) code(n ast.Node) string {
	return string(s.raw[s.set.Position(n.Pos()).Offset:s.set.Position(n.End()).Offset])
}

// textOf is the code of n on one line.
func (s *source) textOf(n ast.Node) string { return strings.Join(strings.Fields(s.code(n)), " ") }

// function names the function or the variable around the node that is looked at.
func (s *source) function() string {
	for _, n := range s.stack {
		switch n := n.(type) {
		case *ast.FuncDecl:
			return n.Name.Name + ":"
		case *ast.ValueSpec:
			return n.Names[0].Name + ":"
		}
	}
	return "file:"
}

// signature returns the result types of the function around the node that is looked at, a type for each result.
func (s *source) signature() []string {
	for i := len(s.stack) - 1; i >= 0; i-- {
		var t *ast.FuncType
		switch n := s.stack[i].(type) {
		case *ast.FuncDecl:
			t = n.Type
		case *ast.FuncLit:
			t = n.Type
		default:
			continue
		}
		var out []string
		if t.Results != nil {
			for _, field := range t.Results.List {
				for range max(1, len(field.Names)) {
					out = append(out, s.code(field.Type))
				}
			}
		}
		return out
	}
	return nil
}
