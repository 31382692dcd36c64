package admin

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy"
)

// Record is the record of a call as operators see it, with an assessment of its checks.
type Record struct {
	ledger.Record
	// Assurance is nil if the mediator's own gate verified no chain: for a call that is not a post, and for a post
	// whose chain the API verified.
	Assurance *policy.Assurance `json:"assurance,omitempty"`
}

// Assess derives from the checks of a record what they prove. It counts only checks of the mediator's own gate and one
// check of the sidecar: that the single-use keys were consumed durably.
func Assess(r ledger.Record) *policy.Assurance {
	if r.Flow != "post" || slices.ContainsFunc(r.Checks, func(k ledger.Check) bool { return k.Name == gate.CheckByAPI }) {
		return nil
	}
	held := gate.Held(r.Checks)
	held.SingleUseConsumed = slices.ContainsFunc(r.Checks, func(k ledger.Check) bool { return k.Name == proxy.CheckSingleUse && k.OK })
	a := policy.Assess(held)
	return &a
}

// showRecord answers with one record. The path holds its id or the beginning of its id.
func (s *Server) showRecord(w http.ResponseWriter, r *http.Request) {
	found, err := s.Ledger.Get(r.Context(), r.PathValue("id"))
	if errors.Is(err, ledger.ErrNotFound) {
		err = refusal.New("post_unknown", "no record has an id that begins with %.80q", r.PathValue("id"))
	}
	wire.Write(w, Record{found, Assess(found)}, err)
}

// listRecords answers with the newest records that match the query.
func (s *Server) listRecords(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit := 50
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			problem.Write(w, refusal.New("query_malformed", "limit=%.20q is no number", text))
			return
		}
		limit = n
	}
	if err := CheckQuery(limit, q.Get("state"), q.Get("flow")); err != nil {
		problem.Write(w, err)
		return
	}
	records, err := s.Ledger.List(r.Context(), ledger.Query{Limit: limit, Before: q.Get("before"), State: ledger.State(q.Get("state")), Session: q.Get("session"), Flow: q.Get("flow")})
	wire.Write(w, records, err)
}

// CheckQuery refuses a query that no record can match, such as one with a misspelt state. An empty list would read as
// if there were no such records.
func CheckQuery(limit int, state, flow string) error {
	switch {
	case limit < 1 || limit > ledger.MaxLimit:
		return refusal.New("query_malformed", "the limit %d is not a number from 1 to %d", limit, ledger.MaxLimit)
	case state != "" && !slices.Contains(ledger.States[:], ledger.State(state)):
		return refusal.New("query_malformed", "no record has the state %.40q: it is one of %s", state, JoinWords(ledger.States[:]))
	case flow != "" && !slices.Contains(proxy.Flows[:], flow):
		return refusal.New("query_malformed", "no record has the flow %.40q: it is one of %s", flow, JoinWords(proxy.Flows[:]))
	}
	return nil
}

// JoinWords joins words with commas.
func JoinWords[S ~string](words []S) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	return strings.Join(texts, ", ")
}
