package graphql

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/actionproof/mediator/internal/refusal"
)

// Types of operations that a rule can name. Subscriptions are never let pass.
const (
	Query    = "query"
	Mutation = "mutation"
)

// typename is a field that every type has, and that does nothing.
const typename = "__typename"

// Rule names operations that may pass.
type Rule struct {
	// Type is [Query] or [Mutation].
	Type string
	// Fields are the fields that may stand at the top of an operation. Nil names all of them.
	Fields []string
}

// maxNamed bounds how many fields a rule names.
const maxNamed = 60

var fieldName = regexp.MustCompile(`^[_A-Za-z][_0-9A-Za-z]{0,127}$`)

// Check refuses a rule that names what cannot be, or no more than its type where its operations post.
func (r *Rule) Check(posts bool) error {
	switch {
	case r.Type != Query && r.Type != Mutation:
		return fmt.Errorf("the type %q is neither %s nor %s", r.Type, Query, Mutation)
	case posts != (r.Type == Mutation):
		return fmt.Errorf("an action is for mutations, and an egress rule for queries")
	case posts && len(r.Fields) == 0:
		return fmt.Errorf("an action names its fields")
	case r.Fields != nil && len(r.Fields) == 0 || len(r.Fields) > maxNamed:
		return fmt.Errorf("it names %d fields; up to %d can be named, and no list at all names every field", len(r.Fields), maxNamed)
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

// CheckRules refuses rules of one endpoint of which two name the same operation, and returns the second of the two.
func CheckRules(rules []*Rule) (int, error) {
	for i, r := range rules {
		for _, other := range rules[:i] {
			if r.Type != other.Type {
				continue
			}
			if r.Fields == nil || other.Fields == nil {
				return i, fmt.Errorf("two rules of one GraphQL endpoint name a %s, and one of them every field", r.Type)
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

// Choose returns which of the rules every operation fits. A rule may be nil: nothing fits it.
func Choose(operations []Operation, rules []*Rule) (int, error) {
	if len(operations) == 0 {
		return 0, malformed("there is no operation")
	}
	for i, r := range rules {
		if r != nil && !slices.ContainsFunc(operations, func(o Operation) bool { return !r.names(o) }) {
			return i, nil
		}
	}
	return 0, unmatched(operations, rules)
}

// names reports whether the rule names an operation, with each of its fields.
func (r *Rule) names(o Operation) bool {
	return r.Type == o.Type && !slices.ContainsFunc(o.Fields, func(f string) bool { return !r.hasField(f) })
}

func (r *Rule) hasField(name string) bool {
	return r.Fields == nil || name == typename || slices.Contains(r.Fields, name)
}

// unmatched says which operation no rule names, and if there is none, that they fit no rule together.
func unmatched(operations []Operation, rules []*Rule) error {
	for _, o := range operations {
		for _, f := range o.Fields {
			if !slices.ContainsFunc(rules, func(r *Rule) bool { return r != nil && r.Type == o.Type && r.hasField(f) }) {
				return refusal.New("action_unmatched", "no rule names the %s %.128s", o.Type, f)
			}
		}
	}
	return refusal.New("action_unmatched", "no one rule names all of what the document does: %.200s", Does(operations))
}

// Fields returns the fields at the top of all operations, each once, sorted.
func Fields(operations []Operation) []string {
	var all []string
	for _, o := range operations {
		all = append(all, o.Fields...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Does returns what the operations do, in one line.
func Does(operations []Operation) string {
	parts := make([]string, len(operations))
	for i, o := range operations {
		parts[i] = o.Type + " " + strings.Join(o.Fields, ",")
	}
	return strings.Join(parts, "; ")
}
