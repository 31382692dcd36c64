package problem

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Code is one row of the table of refusals. A released code never changes its meaning.
type Code struct {
	Name   string
	Status int
	// Public says that an agent may read the sentence of such a refusal: in every place where one is made, the sentence
	// speaks of the agent's own request, and of rules and limits for it. Of any other refusal an agent reads the title,
	// because the sentence may name keys, files, addresses or another program's words.
	Public bool
	// Step is where on the way of one post the refusal arises: session, match, content, challenge, trigger, decision,
	// attest, gate, proof, forward. Outside of that way it is admin, config, connect, custody, egress, internal,
	// appraisal, disputes, ledger, load, receipts, reputation, verification or any.
	Step   string
	Title  string // a short sentence, the same for every occurrence
	Remedy string // what to do, for an operator or an agent
	// Authenticate is the challenge in a 401 (RFC 9110 section 11.6.1).
	Authenticate string
	// RetryAfter is a number of seconds, for a refusal after which a later try can succeed.
	RetryAfter int
}

// Text says what the code means and what to do, as docs/errors.md says it.
func (c Code) Text() string {
	text := fmt.Sprintf("%d. %s. %s", c.Status, c.Title, c.Remedy)
	if c.RetryAfter > 0 {
		text += fmt.Sprintf(" Retry after %d s.", c.RetryAfter)
	}
	if c.Public {
		text += " Agents get the detail."
	}
	return text
}

// table holds every code by name.
var table = collect(generalCodes, evidenceCodes, callCodes, nodeCodes)

func collect(lists ...[]Code) map[string]Code {
	t := make(map[string]Code)
	for _, list := range lists {
		for _, c := range list {
			if _, ok := t[c.Name]; ok {
				panic("problem: code " + c.Name + " stands in the table twice")
			}
			t[c.Name] = c
		}
	}
	return t
}

// Known reports whether the table has a code.
func Known(code string) bool {
	_, ok := table[code]
	return ok
}

// Remedy returns what the table says to do about a code, or nothing where it does not know the code.
func Remedy(code string) string { return table[code].Remedy }

// Codes returns the whole table, by step and name.
func Codes() []Code {
	return slices.SortedFunc(maps.Values(table), func(a, b Code) int {
		return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Name, b.Name))
	})
}
