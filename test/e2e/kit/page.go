package kit

import (
	"strings"
	"testing"
)

// Section is one heading of a page with its commands and its YAML.
type Section struct {
	Title          string
	Commands, YAML []string
}

// ReadPage reads a page. Lines that begin with four spaces, outside of fenced blocks, are commands.
func ReadPage(t *testing.T, path string) []Section {
	t.Helper()
	sections := []Section{{}}
	fenced, going := false, false
	for line := range strings.Lines(string(Read(t, path))) {
		s := &sections[len(sections)-1]
		command, indented := strings.CutPrefix(line, "    ")
		switch {
		case strings.HasPrefix(line, "```"):
			if fenced = !fenced; fenced {
				s.YAML = append(s.YAML, "")
			}
		case fenced:
			s.YAML[len(s.YAML)-1] += line
		case strings.HasPrefix(line, "#"):
			sections = append(sections, Section{Title: strings.TrimSpace(strings.TrimLeft(line, "#"))})
		case indented && going:
			s.Commands[len(s.Commands)-1] += command
		case indented:
			s.Commands = append(s.Commands, command)
		}
		going = indented && strings.HasSuffix(line, "\\\n")
	}
	return sections
}
