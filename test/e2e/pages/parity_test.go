package pages

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/program"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

//go:embed testdata/seeds.txt
var seeds string

var endpoints = []string{
	"POST /v1/challenge/issue", "POST /v1/challenge/commit", "POST /v1/generate", "GET /v1/score/:receipt_hash",
	"GET /v1/reputation/:agent_id", "POST /v1/dispute",
}

var update = flag.Bool("update", false, "write docs/parity.md")

// TestParity checks testdata/parity.txt: every name of the specifications has a row with tests, and all names in it
// exist.
func TestParity(t *testing.T) {
	table, err := os.ReadFile("testdata/parity.txt")
	check.Must(t, err)
	const page = "../../../docs/parity.md"
	want := parityPage(string(table))
	if *update {
		check.Must(t, os.WriteFile(page, []byte(want), 0o644))
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != want {
		t.Errorf("%s is not what the table says: run make docs (%v)", page, err)
	}
	source := sourceByPackage(t)
	declares := func(pkg, declaration string) bool {
		found, err := regexp.MatchString(declaration, source[pkg])
		check.Must(t, err)
		return found
	}
	exists := map[string]func(name string) bool{
		"here": func(name string) bool {
			pkg, rest, _ := strings.Cut(name, ".")
			return declares(pkg, `\b`+rest[strings.LastIndex(rest, ".")+1:]+`\b`)
		},
		"command": commandExists,
		"code": func(name string) bool {
			return slices.ContainsFunc(problem.Codes(), func(c problem.Code) bool { return c.Name == name })
		},
		"test": func(name string) bool {
			test, part, _ := strings.Cut(name, "/")
			pkg, function, _ := strings.Cut(test, ".")
			if function == "TestScripts" {
				_, err := os.Stat("../commands/testdata/script/" + part + ".txtar")
				return err == nil
			}
			return declares(pkg, `func `+function+`\(`)
		},
	}
	rows := make(map[string]bool)
	for _, row := range tableRows(string(table)) {
		for _, name := range row.names(row.columns[0]) {
			rows[name] = true
		}
		if len(row.names("test")) == 0 {
			t.Errorf("the row %q names no test", row.cells[row.columns[0]])
		}
		for column, exists := range exists {
			for _, name := range row.names(column) {
				if !exists(name) {
					t.Errorf("the row %q names the %s %s, which does not exist", row.cells[row.columns[0]], column, name)
				}
			}
		}
	}
	for _, name := range append(endpoints, strings.Fields(seeds)...) {
		if !rows[name] {
			t.Errorf("%s has no row", name)
		}
	}
}

const parityHead = `# Parity with the specifications

~make docs~ makes this page from ~test/e2e/pages/testdata/parity.txt~, which also names the tests. Parentheses name the
code and the command.

The claims of artifacts keep the seed's names.
`

func parityPage(table string) string {
	var page, refusals strings.Builder
	page.WriteString(strings.ReplaceAll(parityHead, "~", "`"))
	for section := range strings.SplitSeq("\n"+table, "\n#") {
		title, _, _ := strings.Cut(strings.TrimLeft(section, "# "), "\n")
		rows := tableRows(section)
		switch {
		case len(rows) == 0:
		case slices.Contains(rows[0].columns, "code"):
			fmt.Fprintf(&refusals, "- %s, %d cases\n", title, len(rows))
		default:
			fmt.Fprintf(&page, "\n## %s\n\n", title)
			for _, r := range rows {
				var by []string // what does it, and the command
				if names := r.names("here"); len(names) > 0 {
					by = append(by, "`"+names[0]+"`")
				} else if here := r.cells["here"]; here != "" {
					by = append(by, here)
				}
				if commands := r.names("command"); len(commands) > 0 {
					command, _, _ := strings.Cut(commands[0], " --")
					by = append(by, "`"+command+"`")
				}
				line := "- " + r.cells[r.columns[0]]
				if len(by) > 0 {
					line += " (" + strings.Join(by, "; ") + ")"
				}
				page.WriteString(wrapped(line) + "\n")
			}
		}
	}
	page.WriteString("\n## What must be refused\n\nEach case has a test that asserts its code.\n\n" + refusals.String())
	return page.String()
}

func wrapped(text string) string {
	var out strings.Builder
	at := 0
	for word := range strings.FieldsSeq(text) {
		if at > 0 && at+1+len(word) > 118 {
			out.WriteString("\n ")
			at = 1
		}
		if at > 0 {
			out.WriteString(" ")
			at++
		}
		out.WriteString(word)
		at += len(word)
	}
	return out.String()
}

type tableRow struct {
	columns []string
	cells   map[string]string
}

var inBackticks = regexp.MustCompile("`([^`]+)`")

func (r tableRow) names(column string) (all []string) {
	for _, m := range inBackticks.FindAllStringSubmatch(r.cells[column], -1) {
		all = append(all, m[1])
	}
	return all
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
		case !strings.HasPrefix(cells[0], "--"):
			row := tableRow{columns, make(map[string]string)}
			for i, c := range cells {
				row.cells[columns[i]] = c
			}
			rows = append(rows, row)
		}
	}
	return rows
}

func commandExists(command string) bool {
	words, flags, _ := strings.Cut(command+" ", " -")
	c, rest, err := program.Command().Find(strings.Fields(words))
	if err != nil || len(rest) > 0 {
		return false
	}
	for flag := range strings.FieldsSeq(flags) {
		if c.Flags().Lookup(strings.TrimLeft(flag, "-")) == nil {
			return false
		}
	}
	return true
}

func sourceByPackage(t *testing.T) map[string]string {
	t.Helper()
	source := make(map[string]string)
	for _, pattern := range []string{"*", "*/*", "*/*/*"} {
		files, err := filepath.Glob(filepath.Join(kit.Top, pattern, "*.go"))
		check.Must(t, err)
		for _, file := range files {
			raw := kit.Read(t, file)
			source[filepath.Base(filepath.Dir(file))] += string(raw)
		}
	}
	return source
}
