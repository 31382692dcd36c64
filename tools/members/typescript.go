package main

import (
	"bufio"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// declaration is an interface with members, or a name for other types.
type declaration struct {
	members [][2]string // name and type
	extends []string
	alias   string
}

// declarations are the types of one file, by their names within its namespaces.
type declarations map[string]*declaration

var (
	namespaceLine = regexp.MustCompile(`^(\s*)(?:export )?(?:declare )?namespace ([\w.]+) \{$`)
	interfaceLine = regexp.MustCompile(`^(\s*)(?:export )?interface ([\w$]+)(?:<.*>)?(?: extends ([^{]+))? \{$`)
	aliasLine     = regexp.MustCompile(`^\s*(?:export )?(?:declare )?type (\w+) = (.*);$`)
	memberLine    = regexp.MustCompile(`^(\s*)['"]?([\w$]+)['"]?\??: (.*?);?$`)
	// the SDK sends such a member as a header
	headerLine = regexp.MustCompile(`^\s*\* Header param: `)
	literal    = regexp.MustCompile(`'([^']+)'|"([^"]+)"`)
)

// parse reads a file of declarations as the TypeScript compiler and Prettier write them: a line has one thing.
func parse(path string) (declarations, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	all := make(declarations)
	var spaces, indents []string // the open namespaces
	var in *declaration
	var indent string
	var header bool
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		line := lines.Text()
		full := func(name string) string { return strings.Join(append(spaces[:len(spaces):len(spaces)], name), ".") }
		if in != nil {
			if m := memberLine.FindStringSubmatch(line); m != nil && len(m[1]) == len(indent)+4 {
				if !header {
					in.members = append(in.members, [2]string{m[2], m[3]})
				}
				header = false
			} else if headerLine.MatchString(line) {
				header = true
			} else if line == indent+"}" {
				in = nil
			}
			continue
		}
		if m := namespaceLine.FindStringSubmatch(line); m != nil {
			spaces, indents = append(spaces, m[2]), append(indents, m[1])
		} else if m := interfaceLine.FindStringSubmatch(line); m != nil {
			in, indent = &declaration{}, m[1]
			for name := range strings.SplitSeq(m[3], ",") {
				if name = strings.TrimSpace(name); name != "" {
					in.extends = append(in.extends, name)
				}
			}
			all[full(m[2])] = in
		} else if m := aliasLine.FindStringSubmatch(line); m != nil {
			all[full(m[1])] = &declaration{alias: m[2]}
		} else if n := len(indents); n > 0 && line == indents[n-1]+"}" {
			spaces, indents = spaces[:n-1], indents[:n-1]
		}
	}
	return all, lines.Err()
}

func (all declarations) find(name string) (*declaration, error) {
	if d := all[name]; d != nil {
		return d, nil
	}
	return nil, fmt.Errorf("there is no %s", name)
}

// members returns the names of an interface's members.
func (all declarations) members(name string) (names []string, err error) {
	d, err := all.find(name)
	if err != nil {
		return nil, err
	}
	for _, m := range d.members {
		names = append(names, m[0])
	}
	for _, base := range d.extends {
		more, err := all.members(base)
		if err != nil {
			return nil, err
		}
		names = append(names, more...)
	}
	return names, nil
}

// each calls do for each interface of a union.
func (all declarations) each(name string, do func(string, *declaration)) error {
	d, err := all.find(name)
	if err != nil {
		return err
	}
	if d.alias == "" {
		do(name, d)
		return nil
	}
	for part := range strings.SplitSeq(d.alias, " | ") {
		part = strings.TrimSuffix(strings.TrimPrefix(part, "Array<"), ">")
		if err := all.each(part, do); err != nil {
			return err
		}
	}
	return nil
}

// types returns the values of the member type in all interfaces of a union.
func (all declarations) types(name string) (names []string, err error) {
	err = all.each(name, func(_ string, d *declaration) {
		for _, m := range d.members {
			if m[0] == "type" {
				for _, value := range literal.FindAllStringSubmatch(m[1], -1) {
					names = append(names, value[1]+value[2])
				}
			}
		}
	})
	return names, err
}

// keys returns the members of which a union's interfaces have one each: the others are of type never.
func (all declarations) keys(name string) (names []string, err error) {
	err = all.each(name, func(_ string, d *declaration) {
		for _, m := range d.members {
			if m[1] != "never" && m[1] != "never | undefined" && m[0] != "$unknown" {
				names = append(names, m[0])
			}
		}
	})
	return names, err
}
