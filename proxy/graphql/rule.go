package graphql

import (
	"fmt"
	"slices"
	"strings"

	"github.com/actionproof/mediator/internal/pattern"
	"github.com/actionproof/mediator/internal/refusal"
)

// Subscriptions never pass.
const (
	Query    = "query"
	Mutation = "mutation"
)

// Every type has it.
const typename = "__typename"

// Rule names operations that may pass.
type Rule struct {
	Type string
	// top-level fields; nil allows all
	Fields []string
}

const maxNamed = 60

var fieldName = pattern.New(`^[_A-Za-z][_0-9A-Za-z]{0,127}$`)

// posts means that the rule's operations post.
func (r *Rule) Check(posts bool) error {
	switch {
	case r.Type != Query && r.Type != Mutation:
		return fmt.Errorf("the type %q is neither %s nor %s", r.Type, Query, Mutation)
	case posts != (r.Type == Mutation):
		return fmt.Errorf("an action is for mutations, and an egress rule for queries")
	case posts && len(r.Fields) == 0:
		return fmt.Errorf("an action must name its fields")
	case r.Fields != nil && len(r.Fields) == 0 || len(r.Fields) > maxNamed:
		return fmt.Errorf("it names %d fields; up to %d can be named, and no list at all names every field",
			len(r.Fields), maxNamed)
	}
	for i, f := range r.Fields {
		if !fieldName.MatchString(f) {
			return fmt.Errorf("%q is not the name of a field", f)
		}
		if slices.Contains(r.Fields[:i], f) {
			return fmt.Errorf("it names the field %s twice", f)
		}
	}
	return nil
}

// CheckRules refuses rules of one endpoint that name the same operation, and returns the second one's index.
func CheckRules(rules []*Rule) (int, error) {
	for i, r := range rules {
		for _, other := range rules[:i] {
			if r.Type != other.Type {
				continue
			}
			if r.Fields == nil || other.Fields == nil {
				return i, fmt.Errorf("two rules of one GraphQL endpoint name a %s, and one of them names every field",
					r.Type)
			}
			for _, f := range r.Fields {
				if slices.Contains(other.Fields, f) {
					return i, fmt.Errorf("two rules of one GraphQL endpoint name the %s %s", r.Type, f)
				}
			}
		}
	}
	return 0, nil
}

// Choose returns the index of the rule that names all operations.
func Choose(operations []Operation, rules []*Rule) (int, error) {
	if len(operations) == 0 {
		return 0, malformed("there is no operation")
	}
	for i, r := range rules {
		if !slices.ContainsFunc(operations, func(o Operation) bool { return !r.names(o) }) {
			return i, nil
		}
	}
	return 0, unmatched(operations, rules)
}

func (r *Rule) names(o Operation) bool {
	return r.Type == o.Type && !slices.ContainsFunc(o.Fields, func(f string) bool { return !r.hasField(f) })
}

func (r *Rule) hasField(name string) bool {
	return r.Fields == nil || name == typename || slices.Contains(r.Fields, name)
}

// If each operation is allowed by some rule, no single rule allows them all.
func unmatched(operations []Operation, rules []*Rule) error {
	for _, o := range operations {
		for _, f := range o.Fields {
			if !slices.ContainsFunc(rules, func(r *Rule) bool { return r.Type == o.Type && r.hasField(f) }) {
				return refusal.New("action_unmatched", "no rule names the %s %.128s", o.Type, f)
			}
		}
	}
	return refusal.New("action_unmatched", "no single rule names all operations of the document: %.200s",
		Does(operations))
}

// Fields returns the top-level fields of all operations, sorted and unique.
func Fields(operations []Operation) []string {
	var all []string
	for _, o := range operations {
		all = append(all, o.Fields...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Does describes the operations in one line.
func Does(operations []Operation) string {
	parts := make([]string, len(operations))
	for i, o := range operations {
		parts[i] = o.Type + " " + strings.Join(o.Fields, ",")
	}
	return strings.Join(parts, "; ")
}
