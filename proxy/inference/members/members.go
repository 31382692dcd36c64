// Package members classifies what a request to a model may hold.
//
// published.txt has the members, items and tools that the APIs' published descriptions name. The program tools/members
// regenerates it, keeps the classes that people gave, and lists the names that have no class yet. extra.txt is written
// by hand: what clients and compatible servers use, though no description names it.
package members

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// Class says what a part of a request makes the provider do.
type Class uint8

const (
	Unknown  Class = iota // not classified yet
	Content               // the model reads it; of a tool: the agent runs it
	Tuning                // shapes the answer
	Metadata              // labels the call, or has the provider keep it
	Past                  // reports what happened before; the provider fetches no URL in it
	Acts                  // has the provider search, run, call or fetch
	State                 // names something that the provider keeps
)

var classes = [...]string{"unclassified", "content", "tuning", "metadata", "past", "acts", "state"}

func (c Class) String() string { return classes[c] }

// Passes reports whether a member of this class needs no permission.
func (c Class) Passes() bool { return c >= Content && c <= Past }

// Place is where names stand, such as "openai-chat request". The second word is request, tools, items, parts, or a
// member of the request whose own members are listed.
type Place string

// Table has the class of each known name in a place.
type Table map[Place]Classes

var (
	//go:embed published.txt
	published string
	//go:embed extra.txt
	extra string
)

// Known is the table of all names that the mediator knows. It must not be changed.
var Known = sync.OnceValue(func() Table {
	t, err := Parse(strings.NewReader(published))
	if err == nil {
		err = t.read(strings.NewReader(extra))
	}
	if err != nil {
		panic(err) // the files are part of the program
	}
	return t
})

// Parse reads a table: "[PLACE]", then lines "CLASS: NAME NAME ...". A line that begins with # is a comment.
func Parse(r io.Reader) (Table, error) {
	t := make(Table)
	return t, t.read(r)
}

func (t Table) read(r io.Reader) error {
	lines, place, n := bufio.NewScanner(r), Place(""), 0
	for lines.Scan() {
		n++
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if name, ok := strings.CutPrefix(line, "["); ok {
			place = Place(strings.TrimSuffix(name, "]"))
			if t[place] == nil {
				t[place] = make(Classes)
			}
			continue
		}
		class, names, ok := strings.Cut(line, ": ")
		c := slices.Index(classes[:], class)
		if !ok || c < 0 || place == "" {
			return fmt.Errorf("members: line %d has no class", n)
		}
		for name := range strings.FieldsSeq(names) {
			if _, twice := t[place][name]; twice {
				return fmt.Errorf("members: line %d: %s is listed twice in %s", n, name, place)
			}
			t[place][name] = Class(c)
		}
	}
	return lines.Err()
}
