package problem

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// CallDenied refuses a call that the configuration's deny names. Such refusals are expected: they are recorded, but not
// logged or printed when a run ends.
const CallDenied = "call_denied"

// Code describes one kind of refusal. A released code never changes its meaning.
type Code struct {
	Name   string
	Status int
	Title  string // a short sentence, the same for every occurrence
	Remedy string // what to do, for an operator or an agent
	// agents may read the sentence of the refusal; otherwise the title
	Public bool
	// the step of a post, or the part of the mediator, that refuses
	Step string
	// WWW-Authenticate in a 401
	Authenticate string
	// seconds, for a refusal after which a later try can succeed
	RetryAfter int
}

type row struct {
	name          string
	status        int
	detailFor     audience
	title, remedy string
}

// audience names the readers of a refusal's sentence. One for agents describes only their own request and rules; one
// for operators may name keys, files, addresses or another program's words.
type audience bool

const (
	operators audience = false
	agents    audience = true
)

// Text returns what docs/errors.md says about the code.
func (c Code) Text() string { return fmt.Sprintf("%d. %s. %s", c.Status, c.Title, c.Remedy) }

func collect(steps map[string][]row) map[string]Code {
	t := make(map[string]Code)
	for step, rows := range steps {
		for _, r := range rows {
			if _, ok := t[r.name]; ok {
				panic("problem: the table has the code " + r.name + " twice")
			}
			t[r.name] = Code{
				Name: r.name, Status: r.status, Title: r.title, Remedy: r.remedy, Public: bool(r.detailFor), Step: step,
				Authenticate: challenges[r.name], RetryAfter: waits[r.name],
			}
		}
	}
	return t
}

// Known reports whether the table has the code.
func Known(code string) bool {
	_, ok := table[code]
	return ok
}

// Remedy returns what to do about the code, or "".
func Remedy(code string) string { return table[code].Remedy }

// Codes returns the whole table, by step and name.
func Codes() []Code {
	return slices.SortedFunc(maps.Values(table), func(a, b Code) int {
		return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Name, b.Name))
	})
}

// values of WWW-Authenticate
var challenges = map[string]string{
	"caller_invalid":      "ActionProof-Caller",
	"proof_missing":       "ActionProof",
	"statement_signature": "Agent-Statement",
	"webhook_signature":   "HMAC-SHA256",
}

// waits are values of Retry-After, in seconds.
var waits = map[string]int{
	"custody_unavailable":     2,
	"deployment_contradicted": 10,
	"dispute_rate":            24 * 60 * 60,
	"event_none":              1,
	"gate_unavailable":        2,
	"interaction_calls_open":  1,
	"ledger_unavailable":      5,
	"log_unwitnessed":         10,
	"node_unavailable":        5,
	"not_ready":               1,
	"overloaded":              1,
	"owner_full":              600,
	"process_unavailable":     2,
	"rate_limited":            1,
	"shutting_down":           5,
	"too_many_open":           600,
	"trust_stale":             10,
}
