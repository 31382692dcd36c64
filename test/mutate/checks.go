package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
)

// leaving is how a block ends.
type leaving int

const (
	stays   leaving = iota
	refuses         // by returning anything but what accepts says
	accepts         // by returning nil or true as the last result
	skips           // continue, break
)

func ending(body []ast.Stmt) leaving {
	if len(body) == 0 {
		return stays
	}
	switch last := body[len(body)-1].(type) {
	case *ast.BranchStmt:
		return skips
	case *ast.ReturnStmt:
		if len(last.Results) > 0 && isNamed(last.Results[len(last.Results)-1], "nil", "true") {
			return accepts
		}
		return refuses
	}
	return stays
}

// condition disables an if that leaves: one that refuses never does, one that accepts always does. Where the condition is of several,
// each is disabled by operands.
func (s *source) condition(n *ast.IfStmt) {
	how, added := ending(n.Body.List), len(s.mutants)
	if (how == refuses || how == skips) && !isOp(n.Cond, token.LOR) {
		s.never(n.Cond)
	}
	alternative, ok := n.Else.(*ast.BlockStmt)
	if (how == accepts || how == skips || ok && ending(alternative.List) == refuses) && !isOp(n.Cond, token.LAND) {
		s.always(n.Cond)
	}
	if n.Init != nil {
		for i := range s.mutants[added:] {
			s.mutants[added+i].name += " after " + s.textOf(n.Init)
		}
	}
}

func isOp(e ast.Expr, op token.Token) bool {
	b, ok := e.(*ast.BinaryExpr)
	return ok && b.Op == op
}

// cases disables the cases of a switch: those of one without a tag by their conditions, those of others by taking them out.
func (s *source) cases(body *ast.BlockStmt, conditions bool) {
	for _, stmt := range body.List {
		c := stmt.(*ast.CaseClause)
		how := ending(c.Body)
		for i, e := range c.List {
			switch {
			case conditions && (how == accepts || len(c.Body) == 0):
				if !isOp(e, token.LAND) {
					s.always(e)
				}
			case conditions:
				if !isOp(e, token.LOR) {
					s.never(e)
				}
			case len(c.List) > 1:
				s.without("case", c.List, i, c.Colon)
			}
		}
		if !conditions && len(c.List) == 1 {
			s.replace(c.Pos(), c.End(), "", "without case", c.List[0])
		}
		if c.List == nil && how == refuses {
			s.replace(c.Pos(), c.End(), "", "without default")
		}
	}
}

// operands drops each side of && and ||.
func (s *source) operands(n *ast.BinaryExpr) {
	for _, side := range []ast.Expr{n.X, n.Y} {
		if inner, ok := side.(*ast.BinaryExpr); ok && inner.Op == n.Op {
			continue // its own operands are dropped one by one
		}
		switch n.Op {
		case token.LAND:
			s.always(side)
		case token.LOR:
			s.never(side)
		}
	}
}

// weakened is what takes the bound itself in where a comparison leaves it out, and the other way round.
var weakened = map[token.Token]token.Token{token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR}

// boundary moves the bound of a comparison by one. Where a loop ends is no check.
func (s *source) boundary(n *ast.BinaryExpr) {
	op, ordered := weakened[n.Op]
	if _, loop := s.stack[len(s.stack)-1].(*ast.ForStmt); !ordered || loop {
		return
	}
	other := fmt.Sprintf("%s %s %s", s.code(n.X), op, s.code(n.Y))
	s.add(mutant{before: "(mutantOn == %d && " + other + " || mutantOn != %d && (", after: "))"}, n.Pos(), n.End(), "weakened", n)
}

// result ignores the error that a function passes on, and turns the bool that a function returns.
func (s *source) result(n *ast.ReturnStmt) {
	types := s.signature()
	if len(n.Results) == 0 || len(types) == 0 {
		return
	}
	last := n.Results[len(n.Results)-1]
	call, isCall := last.(*ast.CallExpr)
	switch kind := types[len(types)-1]; {
	case kind == "bool" && len(n.Results) == len(types) && !isNamed(last, "true", "false"):
		s.always(last)
		s.never(last)
	case kind == "error" && isCall:
		// A new error is made under a condition, which is disabled; or, at the end of a function, because nothing before has accepted.
		if _, end := s.stack[len(s.stack)-2].(*ast.FuncDecl); makesError(call) && !end {
			return
		}
		if len(n.Results) == len(types) {
			types = types[len(types)-1:]
		}
		s.ignore(call, types)
	}
}

// ignore drops the error that a call returns last.
func (s *source) ignore(call *ast.CallExpr, types []string) {
	values := make([]string, len(types))
	for i := range types {
		values[i] = fmt.Sprintf("v%d", i)
	}
	list, err := strings.Join(values, ", "), values[len(values)-1]
	s.add(mutant{
		before: "func() (" + strings.Join(types, ", ") + ") { " + list + " := ",
		after:  "; if mutantOn == %d { " + err + " = nil }; return " + list + " }()",
	}, call.Pos(), call.End(), "ignored", call)
}

// makesError reports whether a call makes a new error: nothing has been verified by it.
func makesError(call *ast.CallExpr) bool {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name == "Refuse" || strings.HasPrefix(f.Name, "err")
	case *ast.SelectorExpr:
		return f.Sel.Name == "Refuse" || f.Sel.Name == "Errorf" || f.Sel.Name == "New" && isNamed(f.X, "errors")
	}
	return false
}

// rows takes out each row of a table, and each field of what a verifier is told to demand.
func (s *source) rows(n *ast.CompositeLit) {
	table, isList := n.Type.(*ast.ArrayType)
	_, isMap := n.Type.(*ast.MapType)
	if len(n.Elts) == 0 || isNumber(n.Elts[0]) { // bytes are no rows
		return
	}
	if isList && table.Len == nil {
		s.table(n.Elts, 1, mutant{before: "mutantList(%d, ", after: ")"}, n.Pos(), n.End())
		return
	}
	for i, e := range n.Elts {
		pair, named := e.(*ast.KeyValueExpr)
		switch {
		case isMap:
			s.row(e, mutant{before: "mutantMap(%d, ", after: ", " + s.code(pair.Key) + ")"}, n.Pos(), n.End())
		case demands(n.Type) && named:
			s.row(e, mutant{before: "mutantZero(%d, ", after: ")"}, pair.Value.Pos(), pair.Value.End())
		case isList || demands(n.Type):
			s.without("row", n.Elts, i, n.Rbrace)
		}
	}
}

// row adds a mutant that leaves out row e, by what is between from and to.
func (s *source) row(e ast.Expr, m mutant, from, to token.Pos) {
	s.add(m, from, to, "without row", e)
	s.mutants[len(s.mutants)-1].line = s.set.Position(e.Pos()).Line
}

// table adds a mutant for every row; a row takes so many of the elements. They share the switch m.
func (s *source) table(elements []ast.Expr, width int, m mutant, from, to token.Pos) {
	for i := 0; i < len(elements); i += width {
		s.row(elements[i], m, from, to)
		m = mutant{}
	}
}

func isNumber(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	return ok && lit.Kind != token.STRING
}

// demands reports whether a type holds what a verifier demands.
func demands(t ast.Expr) bool {
	if pkg, ok := t.(*ast.SelectorExpr); ok {
		t = pkg.Sel
	}
	name, ok := t.(*ast.Ident)
	return ok && (strings.HasPrefix(name.Name, "Want") || strings.HasSuffix(name.Name, "Expected") || strings.HasSuffix(name.Name, "SignerPolicy"))
}

// without takes one element out of a list that ends at end.
func (s *source) without(what string, list []ast.Expr, i int, end token.Pos) {
	from, to := list[i].Pos(), end
	switch {
	case i+1 < len(list):
		to = list[i+1].Pos()
	case i > 0:
		from = list[i-1].End()
		if s.set.Position(list[i].End()).Line != s.set.Position(end).Line {
			s.replace(from, to, ",\n", "without "+what, list[i])
			return
		}
	}
	s.replace(from, to, "", "without "+what, list[i])
}

// call disables the checks that are arguments: rows of a table, pairs of name and value, the condition of a report, a bound.
func (s *source) call(n *ast.CallExpr) {
	name, method := "", false
	switch f := n.Fun.(type) {
	case *ast.Ident:
		name = f.Name
	case *ast.SelectorExpr:
		name, method = f.Sel.Name, true
	}
	switch {
	case len(n.Args) == 0:
	case name == "when": // the policy audit's: report where this holds
		s.never(n.Args[0])
	case !method && (name == "texts" || name == "hashes"): // the artifacts': claims that must be there, and be what they should
		s.table(n.Args, 2, mutant{before: "mutantArgs(%d, 2, ", after: ")..."}, n.Args[0].Pos(), n.Args[len(n.Args)-1].End())
	case name == "LimitReader":
		s.replace(n.Pos(), n.End(), s.code(n.Args[0]), "without bound", n)
	case name == "MaxBytesReader":
		s.replace(n.Pos(), n.End(), s.code(n.Args[1]), "without bound", n)
	case name == "min" || name == "max":
		for i := range n.Args {
			s.without("bound", n.Args, i, n.Rparen)
		}
	default:
		if rows := s.variadic(n); len(rows) > 1 {
			s.table(rows, 1, mutant{before: "mutantArgs(%d, 1, ", after: ")..."}, rows[0].Pos(), rows[len(rows)-1].End())
		}
	}
}

// variadic returns the last arguments of a call if they are literals of one type: the rows of a table.
func (s *source) variadic(n *ast.CallExpr) []ast.Expr {
	i, kind := len(n.Args), ""
	for ; i > 0; i-- {
		lit, ok := n.Args[i-1].(*ast.CompositeLit)
		if !ok || lit.Type == nil || kind != "" && s.code(lit.Type) != kind {
			break
		}
		kind = s.code(lit.Type)
	}
	return n.Args[i:]
}

func isNamed(e ast.Expr, names ...string) bool {
	id, ok := e.(*ast.Ident)
	if !ok {
		return false
	}
	for _, name := range names {
		if id.Name == name {
			return true
		}
	}
	return false
}
