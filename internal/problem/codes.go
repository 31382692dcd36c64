package problem

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
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
var table = collect(generalCodes, evidenceCodes, challengeCodes, triggerCodes, policyCodes, gateCodes, proxyCodes, receiptCodes, autonomyCodes, reputationCodes, nodeCodes, verificationCodes, disputeCodes)

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

var generalCodes = []Code{
	{Name: "reload_refused", Status: http.StatusUnprocessableEntity, Step: "config", Title: "A changed configuration was refused; the one before stays in force", Remedy: "Mend what the sentence names (mediator config check reads the files as the process would) and reload again."},
	{Name: "restart_required", Status: http.StatusConflict, Step: "config", Title: "What was changed is bound to the process; the configuration before stays in force", Remedy: "Restart the process, or take the change back and reload again."},
	{Name: "roles_changed", Status: http.StatusForbidden, Step: "config", Title: "A process publishes other roles, issuers or keys than it was certified for", Remedy: "Find out why. If it is meant, start mediator keys certify again; if not, somebody may have taken the process over."},
	{Name: "listen_failed", Status: http.StatusConflict, Step: "config", Title: "A process cannot listen where its configuration says", Remedy: "Do what the sentence says; it names the key and the file."},
	{Name: "folder_in_use", Status: http.StatusConflict, Step: "config", Title: "A mediator dev runs in this folder already", Remedy: "End the process that the sentence names, or give another folder with --dir."},
	{Name: "reload_forbidden", Status: http.StatusForbidden, Step: "config", Title: "Only the process's own user and root may reload it", Remedy: "Run mediator reload as the mediator's user, or send SIGHUP as it."},
	{Name: internal, Public: true, Status: http.StatusInternalServerError, Step: "any", Title: "The mediator failed", Remedy: "Ask the operator to look for this time in the mediator's log; nothing was sent."},
}
