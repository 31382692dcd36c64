package preset

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Merge returns the configuration file with the preset's rules in it. It inserts lines, and leaves every other byte of
// the file as it is. A rule that the file has by the same match gets only the keys that it lacks; a scalar of the file
// stays. has reports whether a secret's file, named relative to the configuration, is there: the credentials of others
// become comments.
func (p Preset) Merge(file []byte, has func(path string) bool) ([]byte, error) {
	to, err := parse(string(file))
	if err != nil {
		return nil, err
	}
	text := strings.ReplaceAll(p.Text, Subject, to.subject())
	from, err := parse(credential.ReplaceAllStringFunc(text, func(line string) string {
		m := credential.FindStringSubmatch(line)
		if has(m[3]) {
			return line
		}
		return m[1] + "# " + m[2] + "  # once this file holds it"
	}))
	if err != nil {
		return nil, fmt.Errorf("preset %s: %w", p.Name, err)
	}
	for i := 0; i < len(from.root.Content); i += 2 {
		key, value := from.root.Content[i], from.root.Content[i+1]
		if err := to.add(from, key, value); err != nil {
			return nil, err
		}
	}
	return []byte(to.edited()), nil
}

// credential finds the lines of a preset that name a secret's file.
var credential = regexp.MustCompile(`(?m)^( +)(credential: \{.*\bfile: ([^ ,}]+)\})$`)

type document struct {
	lines []string
	root  *yaml.Node       // a mapping
	after map[int][]string // lines to insert, by the number of the line before
	empty map[int]bool     // numbers of lines that become a key alone
	keys  []string         // lines of new keys, for the end
}

func parse(text string) (*document, error) {
	var doc yaml.Node
	if err := yaml.Load([]byte(text), &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("the file is no mapping of keys")
	}
	return &document{lines: strings.Split(strings.TrimRight(text, "\n"), "\n"), root: doc.Content[0],
		after: make(map[int][]string), empty: make(map[int]bool)}, nil
}

func get(mapping *yaml.Node, key string) *yaml.Node {
	if mapping != nil && mapping.Kind == yaml.MappingNode {
		for i := 0; i < len(mapping.Content); i += 2 {
			if mapping.Content[i].Value == key {
				return mapping.Content[i+1]
			}
		}
	}
	return nil
}

// subject returns the agent that posts by the file's own words.
func (d *document) subject() string {
	if s := get(get(d.root, "receipts"), "subject"); s != nil {
		return s.Value
	}
	if actions := get(d.root, "actions"); actions != nil && len(actions.Content) > 0 {
		if s := get(actions.Content[0], "subject"); s != nil {
			return s.Value
		}
	}
	name := "worker-1"
	if s := get(d.root, "runtime"); s != nil {
		name = s.Value
	}
	return "agent:" + name
}

// add inserts the value of a top-level key.
func (d *document) add(from *document, key, value *yaml.Node) error {
	own := get(d.root, key.Value)
	switch {
	case own == nil:
		d.keys = append(append(d.keys, ""), from.lines[from.begin(key)-1:from.end(key.Line)]...)
		return nil
	case value.Kind != yaml.SequenceNode:
		return nil
	case own.Kind != yaml.SequenceNode || own.Style&yaml.FlowStyle != 0 && len(own.Content) > 0:
		return fmt.Errorf("line %d: write %s as a list with a line for each item, so that items can be added", own.Line,
			key.Value)
	}
	indent, last := 2, own.Line
	if len(own.Content) > 0 {
		indent = own.Content[0].Column - 3
		last = d.end(own.Content[len(own.Content)-1].Line)
	} else {
		d.empty[own.Line] = true
	}
	for i, item := range value.Content {
		next := from.end(item.Line)
		if i+1 < len(value.Content) {
			next = from.begin(value.Content[i+1]) - 1
		}
		same, err := find(own, item)
		switch {
		case err != nil:
			return err
		case same == nil:
			d.insert(last, shifted(from.lines[from.begin(item)-1:next], indent-2))
		case same.Kind == yaml.MappingNode && same.Style&yaml.FlowStyle == 0:
			d.complete(same, from, item)
		}
	}
	return nil
}

// find returns the item of a list that a preset's item equals, or has the same match as.
func find(list, item *yaml.Node) (*yaml.Node, error) {
	for _, own := range list.Content {
		if item.Kind == yaml.ScalarNode {
			if own.Value == item.Value {
				return own, nil
			}
			continue
		}
		if equal(get(own, "match"), get(item, "match")) {
			return own, nil
		}
		if a, b := get(own, "name"), get(item, "name"); a != nil && b != nil && a.Value == b.Value {
			return nil, fmt.Errorf("line %d: the rule %s has another match than the preset's rule of that name: rename it",
				own.Line, a.Value)
		}
	}
	return nil, nil
}

func equal(a, b *yaml.Node) bool {
	var left, right any
	return a != nil && b != nil && a.Decode(&left) == nil && b.Decode(&right) == nil && reflect.DeepEqual(left, right)
}

// complete adds the keys that a rule lacks, after its match.
func (d *document) complete(own *yaml.Node, from *document, item *yaml.Node) {
	at := bottom(get(own, "match"))
	for i := 0; i < len(item.Content); i += 2 {
		key, value := item.Content[i], item.Content[i+1]
		if get(own, key.Value) == nil {
			d.insert(at, shifted(from.lines[key.Line-1:bottom(value)], own.Column-key.Column))
		}
	}
}

// begin returns the number of the first line of a node: that of the comments directly above.
func (d *document) begin(n *yaml.Node) int {
	line, own := n.Line, d.lines[n.Line-1]
	comment := own[:len(own)-len(strings.TrimLeft(own, " "))] + "#"
	for line > 2 && strings.HasPrefix(d.lines[line-2], comment) { // the first line is about the file
		line--
	}
	return line
}

// end returns the number of the last line of the top-level key that a line belongs to, without the comments and empty
// lines that precede the next key.
func (d *document) end(line int) int {
	end := len(d.lines)
	for i := 0; i < len(d.root.Content); i += 2 {
		if next := d.root.Content[i].Line; next > line {
			end = min(end, next-1)
		}
	}
	for end > line && (strings.TrimSpace(d.lines[end-1]) == "" || d.lines[end-1][0] == '#') {
		end--
	}
	return end
}

func bottom(n *yaml.Node) int {
	last := n.Line
	for _, c := range n.Content {
		last = max(last, bottom(c))
	}
	return last
}

// shifted returns lines with more or less space before them.
func shifted(lines []string, by int) (out []string) {
	for _, line := range lines {
		space := len(line) - len(strings.TrimLeft(line, " "))
		out = append(out, strings.Repeat(" ", max(0, space+by))+line[space:])
	}
	return out
}

func (d *document) insert(after int, lines []string) {
	d.after[after] = append(d.after[after], lines...)
}

func (d *document) edited() string {
	var out []string
	for i, line := range d.lines {
		if d.empty[i+1] {
			line, _, _ = strings.Cut(line, "[")
			line = strings.TrimRight(line, " ")
		}
		out = append(append(out, line), d.after[i+1]...)
	}
	return strings.Join(append(out, d.keys...), "\n") + "\n"
}
