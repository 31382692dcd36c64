package preset

import (
	"bytes"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/rulesfile"
)

// Merge returns the configuration file with the preset's rules in it; see [rulesfile.Merge]. A rule that the file has
// by the same match gets only the keys that it lacks, and other keys than lists stay if the file has them. has reports
// whether a secret's file, named relative to the configuration, is there: the credentials of others become comments.
// Errors have the code config_malformed.
func (p Preset) Merge(file []byte, has func(path string) bool) ([]byte, error) {
	own, err := rulesfile.Mapping(file, "the configuration")
	if err != nil {
		return nil, err
	}
	text := strings.ReplaceAll(p.Text, Subject, subject(own))
	text = credential.ReplaceAllStringFunc(text, func(line string) string {
		if m := credential.FindStringSubmatch(line); !has(m[3]) {
			return m[1] + "# " + m[2] + " # once this file holds it"
		}
		return line
	})
	rules, err := rulesfile.Mapping([]byte(text), "preset "+p.Name)
	if err != nil {
		return nil, err
	}
	added := &yaml.Node{Kind: yaml.MappingNode}
	edit := edit{lines: strings.SplitAfter(string(file), "\n"), after: make(map[int]string)}
	for i := 0; i < len(rules.Content); i += 2 {
		key, value := rules.Content[i], rules.Content[i+1]
		switch list := get(own, key.Value); {
		case value.Kind == yaml.SequenceNode:
			if value.Content, err = edit.complete(list, value.Content); err != nil {
				return nil, err
			}
			if len(value.Content) > 0 {
				added.Content = append(added.Content, key, value)
			}
		case list == nil:
			edit.end += fmt.Sprintf("\n%s: %s\n", key.Value, value.Value)
		}
	}
	if len(added.Content) == 0 {
		return edit.text(), nil
	}
	raw, err := yaml.Dump(added, yaml.WithIndent(2), yaml.WithLineWidth(-1))
	if err != nil {
		return nil, err
	}
	return rulesfile.Merge(edit.text(), raw)
}

// credential finds the lines of a preset that name a secret's file.
var credential = regexp.MustCompile(`(?m)^( +)(credential: \{.*\bfile: ([^ ,}]+)\})$`)

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

// subject returns the agent that posts, as a file names it.
func subject(file *yaml.Node) string {
	if s := get(get(file, "receipts"), "subject"); s != nil {
		return s.Value
	}
	if actions := get(file, "actions"); actions != nil && len(actions.Content) > 0 {
		if s := get(actions.Content[0], "subject"); s != nil {
			return s.Value
		}
	}
	if s := get(file, "runtime"); s != nil {
		return "agent:" + s.Value
	}
	return "agent:worker-1"
}

// edit is lines to insert into a file.
type edit struct {
	lines []string
	after map[int]string // by the number of the line before
	end   string
}

// complete gives a file's rules the keys that they lack, and returns the items that the file has no rule for.
func (e *edit) complete(list *yaml.Node, items []*yaml.Node) (fresh []*yaml.Node, err error) {
	for _, item := range items {
		own, err := find(list, item)
		switch {
		case err != nil:
			return nil, err
		case own == nil:
			fresh = append(fresh, item)
			continue
		case own.Kind != yaml.MappingNode || own.Style&yaml.FlowStyle != 0:
			continue
		}
		lacking := &yaml.Node{Kind: yaml.MappingNode}
		for i := 0; i < len(item.Content); i += 2 {
			if key := item.Content[i]; get(own, key.Value) == nil {
				lacking.Content = append(lacking.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key.Value},
					item.Content[i+1])
			}
		}
		if len(lacking.Content) == 0 {
			continue
		}
		raw, err := yaml.Dump(lacking, yaml.WithIndent(2), yaml.WithLineWidth(-1))
		if err != nil {
			return nil, err
		}
		at := bottom(get(own, "match"))
		for line := range bytes.Lines(raw) {
			e.after[at] += strings.Repeat(" ", own.Column-1) + string(line)
		}
	}
	return fresh, nil
}

// find returns the rule of a list that has the same match as a preset's rule.
func find(list, item *yaml.Node) (*yaml.Node, error) {
	if list == nil || item.Kind != yaml.MappingNode {
		return nil, nil
	}
	for _, own := range list.Content {
		if equal(get(own, "match"), get(item, "match")) {
			return own, nil
		}
		if a, b := get(own, "name"), get(item, "name"); a != nil && b != nil && a.Value == b.Value {
			return nil, refusal.New("config_malformed",
				"line %d: the rule %s has the same name as a rule of the preset, but another match: rename it",
				own.Line, a.Value)
		}
	}
	return nil, nil
}

func equal(a, b *yaml.Node) bool {
	var left, right any
	return a != nil && b != nil && a.Decode(&left) == nil && b.Decode(&right) == nil && reflect.DeepEqual(left, right)
}

// bottom returns the number of a node's last line.
func bottom(n *yaml.Node) int {
	last := n.Line
	for _, c := range n.Content {
		last = max(last, bottom(c))
	}
	return last
}

func (e *edit) text() []byte {
	var out []string
	for i, line := range e.lines {
		if more := e.after[i+1]; more != "" || e.end != "" && i == len(e.lines)-1 && line != "" {
			line = strings.TrimSuffix(line, "\n") + "\n" + more
		}
		out = append(out, line)
	}
	return []byte(strings.Join(slices.Concat(out, []string{e.end}), ""))
}
