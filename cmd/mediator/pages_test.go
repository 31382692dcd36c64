package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/policy"
)

// others are names on the pages that are not of the source.
var others = []string{"--ca-certificate", "--content-on-error", "ca_certs", "grpc_proxy", "io_uring", "max_connections", "no_new_privs", "rest_route", "set_tunnel",
	"tools/call"}

// inArtifacts begin names of claims as well as of settings.
var inArtifacts = []string{"runtime", "session", "trigger"}

// TestPages holds what the pages, and the remedies of the codes, name against what there is: links and their anchors, files, commands and
// their flags, settings and pieces of configuration files, Go names, tests, and whatever is written_so, such as codes and metrics, which has to be a word of the source. A
// decision (docs/adr) may name what was there when it was made; its links hold.
func TestPages(t *testing.T) {
	src, words, root := readSource(t), sourceWords(t), rootCommand()
	for _, c := range problem.Codes() {
		checkCommands(t, c.Name, root, strings.NewReplacer("the mediator", "it", ",", "", ".", "").Replace(c.Remedy))
	}
	var pages []string
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		must(t, err)
		pages = append(pages, found...)
	}
	for _, name := range pages {
		raw, err := os.ReadFile(name)
		must(t, err)
		text := string(raw)
		checkLinks(t, name, text)
		if strings.Contains("\n"+text, "\n<<<<<<< ") || strings.Contains(text, "\n>>>>>>> ") {
			t.Errorf("%s: the marks of a merge that was not ended stand in it", name)
		}
		if filepath.Base(name) == "CHANGELOG.md" || strings.Contains(name, "/adr/") || strings.Contains(text, "\nMade from the ") {
			continue
		}
		checkSettings(t, name, text)
		for _, s := range readPage(t, name) {
			for _, command := range s.commands {
				checkCommands(t, name, root, command)
			}
		}
		for _, s := range spans(fenced.ReplaceAllString(text, "")) {
			checkCommands(t, name, root, s)
			if !slices.Contains(others, s) && !src.has(s, words, root) {
				t.Errorf("%s: there is no %s", name, s)
			}
		}
	}
}

// has reports whether there is what a name stands for; what is no name it has.
func (s source) has(name string, words map[string]bool, root *cobra.Command) bool {
	switch {
	case flagName.MatchString(name):
		return hasFlag(root, strings.TrimPrefix(name, "--"))
	case snakeName.MatchString(name):
		return words[name]
	case testName.MatchString(name):
		return s.hasTest(name)
	case goName.MatchString(name) && s.hasPackage(strings.Split(name, ".")[0]):
		return s.names[name]
	case settingName.MatchString(name) && !fileName.MatchString(name):
		return isSetting(name, words)
	case pathName.MatchString(name) && isFolder("../../"+strings.Split(name, "/")[0]):
		_, err := os.Stat("../../" + name)
		return err == nil
	}
	return true
}

var (
	flagName    = regexp.MustCompile(`^--[a-z][a-z-]*$`)
	snakeName   = regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)+$`)
	testName    = regexp.MustCompile(`^([a-z0-9]+\.)?(Test|Fuzz)[A-Z]\w*\*?(/.*)?$`)
	goName      = regexp.MustCompile(`^[a-z0-9]+(\.[A-Z]\w*)+$`)
	settingName = regexp.MustCompile(`^[a-z]\w*(\[\])?(\.[a-z]\w*(\[\])?)+$`)
	fileName    = regexp.MustCompile(`\.(go|md|sum|json|ya?ml|pem|jwk|sock|db|hcl|internal)$`)
	pathName    = regexp.MustCompile(`^[\w.-]+(/[\w.-]+)+/?$`)
	pageLink    = regexp.MustCompile(`\]\(([^)\s#]*)(?:#([^)\s]*))?\)`)
	inYAML      = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	fenced      = regexp.MustCompile("(?s)```.*?```")
	ofMediator  = regexp.MustCompile(`\bmediator ([a-z][^|;>)\n` + "`" + `]*)`)
)

// checkLinks follows the links of a page to files and to headings.
func checkLinks(t *testing.T, page, text string) {
	t.Helper()
	for _, m := range pageLink.FindAllStringSubmatch(text, -1) {
		to := page
		if strings.Contains(m[1], ":") {
			continue
		}
		if m[1] != "" {
			to = filepath.Join(filepath.Dir(page), m[1])
		}
		raw, err := os.ReadFile(to)
		switch {
		case err != nil && !isFolder(to):
			t.Errorf("%s: a link to %s leads nowhere", page, m[1])
		case m[2] != "" && !slices.Contains(headings(string(raw)), m[2]):
			t.Errorf("%s: %s has no heading #%s", page, to, m[2])
		}
	}
}

// checkSettings reads each piece of a configuration file, or of a deployment manifest, on a page as strictly as a process reads the file: as the
// file, or as a part of it.
// What a pod's manifest says is Kubernetes' own.
func checkSettings(t *testing.T, page, text string) {
	t.Helper()
	for _, m := range inYAML.FindAllStringSubmatch(text, -1) {
		if strings.HasPrefix(m[1], "securityContext:") {
			continue
		}
		isManifest := isPartOf(reflect.TypeFor[policy.Manifest](), m[1])
		if !isManifest && !slices.ContainsFunc(config.FileKinds, func(root config.FileKind) bool { return isPartOf(root.Type, m[1]) }) {
			t.Errorf("%s: no configuration file has\n%s", page, m[1])
		}
	}
}

// isPartOf reports whether a text sets keys of a type, or of one below it.
func isPartOf(at reflect.Type, text string) bool {
	for at.Kind() == reflect.Pointer || at.Kind() == reflect.Slice {
		at = at.Elem()
	}
	return at.Kind() == reflect.Struct && (yaml.Load([]byte(text), reflect.New(at).Interface(), yaml.WithKnownFields()) == nil ||
		slices.ContainsFunc(config.KeysOf(at), func(f config.Key) bool { return isPartOf(f.Type, text) }))
}

// headings are the anchors of a page: its headings and its elements <a id="...">.
func headings(text string) (anchors []string) {
	for _, m := range regexp.MustCompile(`<a id="([^"]+)">`).FindAllStringSubmatch(text, -1) {
		anchors = append(anchors, m[1])
	}
	for line := range strings.Lines(text) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			plain := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			anchors = append(anchors, strings.ReplaceAll(plain, " ", "-"))
		}
	}
	return anchors
}

// checkCommands finds each command of the mediator in a text, with the flags that follow it.
func checkCommands(t *testing.T, page string, root *cobra.Command, text string) {
	t.Helper()
	for _, m := range ofMediator.FindAllStringSubmatch(strings.ReplaceAll(text, "\\\n", " "), -1) {
		c, rest, err := root.Find(strings.Fields(m[1]))
		if err != nil || c == root || c.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
			t.Errorf("%s: there is no command mediator %s", page, m[1])
			continue
		}
		for _, word := range rest {
			flag, isFlag := strings.CutPrefix(strings.TrimLeft(word, "["), "--")
			if isFlag && flag == "" { // what follows is another program's
				break
			}
			if isFlag && c.Flags().Lookup(strings.TrimRight(flag, "],.")) == nil {
				t.Errorf("%s: %s has no flag --%s", page, c.CommandPath(), flag)
			}
		}
	}
}

func hasFlag(c *cobra.Command, name string) bool {
	return c.Flags().Lookup(name) != nil || slices.ContainsFunc(c.Commands(), func(sub *cobra.Command) bool { return hasFlag(sub, name) })
}

// isSetting reports whether a path of keys leads through a configuration. One that begins with none of their sections is of a manifest, an
// artifact or the like: its keys have to be words of the source.
func isSetting(s string, words map[string]bool) bool {
	keys := strings.Split(strings.ReplaceAll(s, "[]", ""), ".")
	begins := false
	for _, root := range config.FileKinds {
		depth := 0
		for at := root.Type; depth < len(keys); depth++ {
			i := slices.IndexFunc(config.KeysOf(at), func(f config.Key) bool { return f.Name == keys[depth] })
			if i < 0 {
				break
			}
			for at = config.KeysOf(at)[i].Type; at.Kind() == reflect.Pointer || at.Kind() == reflect.Slice; {
				at = at.Elem()
			}
			if at.Kind() != reflect.Struct {
				at = reflect.TypeFor[struct{}]()
				if depth == 0 {
					break
				}
			}
		}
		if depth == len(keys) {
			return true
		}
		begins = begins || depth > 0 && !slices.Contains(inArtifacts, keys[0])
	}
	return !begins && !slices.ContainsFunc(keys, func(key string) bool { return !words[key] })
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// hasPackage reports whether a package declares names.
func (s source) hasPackage(pkg string) bool {
	for name := range s.names {
		if strings.HasPrefix(name, pkg+".") {
			return true
		}
	}
	return false
}

// hasTest reports whether there is a test of this name, with or without its package; a * at its end stands for any rest.
func (s source) hasTest(name string) bool {
	name, _, _ = strings.Cut(name, "/")
	pkg, function, ok := strings.Cut(name, ".")
	if !ok {
		pkg, function = "", name
	}
	prefix, open := strings.CutSuffix(function, "*")
	for of, files := range s.tests {
		for _, f := range files {
			for declared := range f.Scope.Objects {
				if (pkg == "" || pkg == of) && (declared == function || open && strings.HasPrefix(declared, prefix)) {
					return true
				}
			}
		}
	}
	return false
}

// sourceWords are the words of all that is not a test or a page, and the metrics of every process.
func sourceWords(t *testing.T) map[string]bool {
	t.Helper()
	words, word := make(map[string]bool), regexp.MustCompile(`[A-Za-z0-9_]+`)
	metrics, err := daemon.NewMetrics().Gather()
	must(t, err)
	for _, m := range metrics {
		words[m.GetName()] = true
	}
	must(t, filepath.WalkDir("../..", func(name string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && (d.Name() == ".git" || d.Name() == "bin" || d.Name() == "node_modules" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if err != nil || d.IsDir() || strings.HasSuffix(name, "_test.go") || !slices.Contains([]string{".go", ".js", ".yaml", ".hcl", ".sh"}, filepath.Ext(name)) {
			return err
		}
		raw, err := os.ReadFile(name)
		for _, w := range word.FindAllString(string(raw), -1) {
			words[w] = true
		}
		return err
	}))
	return words
}
