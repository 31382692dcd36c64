package kit

import (
	"os"
	"strings"
	"testing"

	"github.com/actionproof/mediator/test/check"
)

// section is one heading of a page with its commands and its YAML, as they are written.
type section struct {
	Title          string
	Commands, Yaml []string
}

// ReadPage reads the sections of a page: lines that begin with four spaces outside of fenced blocks are commands.
func ReadPage(t *testing.T, path string) []section {
	t.Helper()
	raw, err := os.ReadFile(path)
	check.Must(t, err)
	sections := []section{{}}
	fenced, going := false, false
	for line := range strings.Lines(string(raw)) {
		s := &sections[len(sections)-1]
		command, indented := strings.CutPrefix(line, "    ")
		switch {
		case strings.HasPrefix(line, "```"):
			if fenced = !fenced; fenced {
				s.Yaml = append(s.Yaml, "")
			}
		case fenced:
			s.Yaml[len(s.Yaml)-1] += line
		case strings.HasPrefix(line, "#"):
			sections = append(sections, section{Title: strings.TrimSpace(strings.TrimLeft(line, "#"))})
		case indented && going:
			s.Commands[len(s.Commands)-1] += command
		case indented:
			s.Commands = append(s.Commands, command)
		}
		going = indented && strings.HasSuffix(line, "\\\n")
	}
	return sections
}
