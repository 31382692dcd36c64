package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestMutants looks at what is disabled in each form of a check.
func TestMutants(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, body string
		want       []string
	}{
		{"a refusal", `if a < b { return errors.New("") }`, []string{"never a < b", "weakened a < b"}},
		{"an error passed on in an if", `if err := g(); err != nil { return err }`, []string{"never err != nil after err := g()"}},
		{"an acceptance", `if a < b { return nil }`, []string{"always a < b", "weakened a < b"}},
		{"a loop that skips", `for { if a < b { continue } }`, []string{"never a < b", "always a < b", "weakened a < b"}},
		{"what leaves otherwise", `if a < b { a = b } else { return g() }`, []string{"always a < b", "ignored g()", "weakened a < b"}},
		{"what does not leave", `if a == b { a = b }`, nil},
		{"comparisons", `x := a <= b; y := a > b; z := a >= b; for a < b {}; return nil`, []string{"weakened a <= b", "weakened a > b", "weakened a >= b"}},
		{"or", `if a == b || b == 0 { return errors.New("") }`, []string{"never a == b", "never b == 0"}},
		{"and", `if a == b && b == 0 && b != a { return errors.New("") }`, []string{"never a == b && b == 0 && b != a", "always a == b", "always b == 0", "always b != a"}},
		{"cases", `switch { case a == b: return errors.New(""); case b == 0: return nil }`, []string{"never a == b", "always b == 0"}},
		{"cases of a value", `switch a { case 1, 2: return nil; case 3: return errors.New(""); default: return errors.New("") }`,
			[]string{"without case 1", "without case 2", "without case 3", "without default"}},
		{"an error passed on", `return g()`, []string{"ignored g()"}},
		{"the end of a function", `return errors.New("")`, []string{`ignored errors.New("")`}},
		{"a table", `rows([]int{a, b}); return nil`, []string{"without row a", "without row b"}},
		{"a table of arguments", `rows(x, row{1}, row{2}); return nil`, []string{"without row row{1}", "without row row{2}"}},
		{"claims", `texts("a", x, "b", y); return nil`, []string{`without row "a"`, `without row "b"`}},
		{"bytes", `rows([]byte{1, 2}); return nil`, nil},
		{"what is demanded", `open(evidence.Expected{Issuers: x, MaxAge: y}); return nil`, []string{"without row Issuers: x", "without row MaxAge: y"}},
		{"bounds", `rows(io.LimitReader(x, 1), min(a, b)); return nil`, []string{"without bound io.LimitReader(x, 1)", "without bound a", "without bound b"}},
	} {
		found, err := mutantsIn("x.go", []byte("package x\nfunc f() error {\n"+row.body+"\n}\n"))
		if err != nil {
			t.Fatalf("%s: %v", row.name, err)
		}
		var got []string
		for _, m := range found {
			got = append(got, strings.TrimPrefix(m.name, "f: "))
		}
		slices.Sort(got)
		slices.Sort(row.want)
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %q", row.name, got)
		}
	}
}

// TestRun runs the mutants of a package one check of which is not tested.
func TestRun(t *testing.T) {
	t.Parallel()
	const lived = "testdata/checked/checked.go: Half: always n != 10"
	for _, row := range []struct {
		name, equivalent string
		status           int
		want             []string
	}{
		{"a survivor", "", 1, []string{"survived: testdata/checked/checked.go:32: Half: always n != 10\n", "mutate: 12 mutants, 11 killed, 0 timed out, 0 not compiled, 0 equivalent, 1 survived\n"}},
		{"an equivalent one", "# why\n" + lived + " -- said\n", 0, []string{"mutate: 12 mutants, 11 killed, 0 timed out, 0 not compiled, 1 equivalent, 0 survived\n"}},
		{"one that is none", lived + " -- said\ntestdata/checked/checked.go: Gone: never x -- said\n", 1, []string{"stale: testdata/checked/checked.go: Gone: never x"}},
		{"one without a reason", lived + " -- \n", 2, nil},
	} {
		list := filepath.Join(t.TempDir(), "equivalent.txt")
		if err := os.WriteFile(list, []byte(row.equivalent), 0o600); err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		status := run(context.Background(), []string{"-equivalent", list, "testdata/checked"}, &stdout, &stderr)
		if status != row.status {
			t.Errorf("%s: status %d\n%s%s", row.name, status, &stdout, &stderr)
		}
		for _, want := range row.want {
			if !strings.Contains(stdout.String(), want) {
				t.Errorf("%s: no %q in\n%s%s", row.name, want, &stdout, &stderr)
			}
		}
	}
}
