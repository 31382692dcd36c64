// Command gosec runs gosec's rules over folders of Go source. It is in a module of its own, because the product does
// not need gosec. Excluded findings have a reason in excluded.json, or beside the line as "//nolint:gosec // reason".
//
//	go run -C tools ./gosec FOLDER...
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/securego/gosec/v2"
	"github.com/securego/gosec/v2/analyzers"
	"github.com/securego/gosec/v2/issue"
	"github.com/securego/gosec/v2/rules"
)

//go:embed excluded.json
var excluded []byte

// exclusion excludes findings of a rule in the files below a path, on lines that contain Code.
type exclusion struct {
	Rule   string `json:"rule"`
	Path   string `json:"path"` // from the repository's root; empty for all
	Code   string `json:"code"` // that the finding's line has; empty for any
	Reason string `json:"reason"`

	used bool
}

func main() {
	found, err := run(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gosec:", err)
		os.Exit(2)
	}
	if found > 0 {
		fmt.Fprintf(os.Stderr, "gosec: %d findings: mend them, or say in tools/gosec/excluded.json why they are none\n",
			found)
		os.Exit(1)
	}
}

// run checks the folders, the first of which is the repository's root, and returns the number of findings that it
// printed.
func run(folders []string, out io.Writer) (int, error) {
	if len(folders) == 0 {
		return 0, fmt.Errorf("name the repository's root, and then the folders")
	}
	list, err := exclusions()
	if err != nil {
		return 0, err
	}
	analyzer := gosec.NewAnalyzer(gosec.NewConfig(), false, true, false, runtime.NumCPU(), log.New(io.Discard, "", 0))
	analyzer.LoadRules(rules.Generate(false).RulesInfo())
	analyzer.LoadAnalyzers(analyzers.Generate(false).AnalyzersInfo())
	if err := analyzer.Process(nil, folders[1:]...); err != nil {
		return 0, err
	}
	issues, metrics, faults := analyzer.Report()
	if metrics.NumFiles == 0 || len(faults) > 0 {
		return 0, fmt.Errorf("%d files were read, and these not: %v", metrics.NumFiles, faults)
	}
	n := 0
	for _, i := range issues {
		path, err := filepath.Rel(folders[0], i.File)
		if err != nil {
			return n, err
		}
		if !excludes(list, path, i) {
			fmt.Fprintf(out, "%s:%s: %s: %s\n", path, i.Line, i.RuleID, i.What)
			n++
		}
	}
	for _, e := range list {
		if !e.used {
			fmt.Fprintf(out, "tools/gosec/excluded.json: %s in %q leaves nothing out any more\n", e.Rule, e.Path)
			n++
		}
	}
	return n, nil
}

func exclusions() ([]*exclusion, error) {
	var list []*exclusion
	d := json.NewDecoder(bytes.NewReader(excluded))
	d.DisallowUnknownFields()
	if err := d.Decode(&list); err != nil {
		return nil, fmt.Errorf("excluded.json: %w", err)
	}
	for _, e := range list {
		if e.Rule == "" || !strings.Contains(e.Reason, " ") {
			return nil, fmt.Errorf("excluded.json: %+v needs a rule and a reason", *e)
		}
	}
	return list, nil
}

// excludes reports whether a comment or the list excludes a finding.
func excludes(list []*exclusion, path string, i *issue.Issue) bool {
	code := lines(i)
	if strings.Contains(code, "//nolint:gosec // ") {
		return true
	}
	for _, e := range list {
		if e.Rule == i.RuleID && strings.HasPrefix(path, e.Path) && strings.Contains(code, e.Code) {
			e.used = true
			return true
		}
	}
	return false
}

// lines returns the lines of a finding. Its code has the lines around them too, each after its number and a colon.
func lines(i *issue.Issue) string {
	first, last, isRange := strings.Cut(i.Line, "-")
	if !isRange {
		last = first
	}
	from, err := strconv.Atoi(first)
	to, err2 := strconv.Atoi(last)
	if err != nil || err2 != nil {
		return ""
	}
	var out []string
	for line := range strings.Lines(i.Code) {
		number, text, _ := strings.Cut(line, ":")
		if n, err := strconv.Atoi(number); err == nil && n >= from && n <= to {
			out = append(out, text)
		}
	}
	return strings.Join(out, "")
}
