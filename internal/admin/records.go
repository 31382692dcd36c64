package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy"
	"github.com/actionproof/mediator/proxy/match"
)

// Record is the record of a call as operators see it, with an assessment of its checks.
type Record struct {
	ledger.Record
	// Assurance is nil if the mediator's own gate verified no chain: for reads, and for posts whose chain the API
	// verified.
	Assurance *policy.Assurance `json:"assurance,omitempty"`
	// Purpose says what the call's rule is for, by the sidecar's present configuration.
	Purpose match.Purpose `json:"purpose,omitzero"`
	// Receipts are the interaction receipts of the call's session, as tokens, from number 1 to the call's own or,
	// before there is one, to the last: only the last 3 MiB.
	Receipts []string `json:"receipts,omitempty"`
	// Proofs show that the transparency log holds the record.
	Proofs archive.Proofs `json:"proofs,omitzero"`
}

// Assess returns what the checks of a record prove. Only those of the mediator's own gate count, and the sidecar's that
// the single-use keys were consumed durably.
func Assess(r ledger.Record) *policy.Assurance {
	if r.Flow != "post" ||
		slices.ContainsFunc(r.Checks, func(k ledger.Check) bool { return k.Name == gate.CheckByAPI }) {
		return nil
	}
	held := gate.Held(r.Checks)
	held.SingleUseConsumed = slices.ContainsFunc(r.Checks, func(k ledger.Check) bool {
		return k.Name == proxy.CheckSingleUse && k.OK
	})
	a := policy.Assess(held)
	return &a
}

func (s *Server) record(r *http.Request) (Record, error) {
	found, err := s.Ledger.Get(r.Context(), r.PathValue("id"))
	if errors.Is(err, ledger.ErrNotFound) {
		err = refusal.New("not_found", "no record has an id that begins with %.80q", r.PathValue("id"))
	}
	shown := Record{Record: found, Assurance: Assess(found)}
	if d := s.deployment.Load(); d != nil {
		shown.Purpose = (*d).Purpose(found.Rule)
	}
	if err == nil {
		shown.Receipts, err = receiptsOf(r.Context(), s.Ledger, found)
	}
	if err == nil {
		var unread error // a log that cannot be read must not hide the record
		if shown.Proofs, unread = archive.ProofsIn(s.Logged)(r.Context(), found.ID); unread != nil {
			s.Log.Warn("a record is shown without its proofs", zap.Error(unread))
		}
	}
	return shown, err
}

func (s *Server) proofs(r *http.Request) (archive.Proofs, error) {
	return archive.ProofsIn(s.Logged)(r.Context(), r.PathValue("id"))
}

// Proofs asks a sidecar for the proofs of its records.
func Proofs(endpoint string) archive.ProofSource {
	return func(ctx context.Context, id string) (p archive.Proofs, err error) {
		err = Get(ctx, endpoint, "/v1/posts/"+url.PathEscape(id)+"/proofs", &p)
		return p, err
	}
}

// maxShownReceipts bounds the receipts in one answer, in bytes: clients read [wire.MaxAnswer].
const maxShownReceipts = 3 << 20

// receiptsOf returns the last receipts of a call's session up to the call's own.
func receiptsOf(ctx context.Context, from ledger.Store, r ledger.Record) ([]string, error) {
	if r.Interactions == nil && r.Model == nil {
		return nil, nil
	}
	first := int64(1)
	if r.Interactions != nil { // earlier ones would not fit
		first = max(first, r.Interactions.Number-ledger.MaxChain)
	}
	var tokens []string
	for whole := false; !whole && first <= interaction.MaxReceipts; first += ledger.MaxChain {
		page, err := from.Chain(ctx, r.Session, first, ledger.MaxChain)
		if err != nil {
			return nil, err
		}
		whole = len(page) < ledger.MaxChain
		for i := 0; i < len(page) && !(i > 0 && page[i-1].Call == r.ID); i++ {
			tokens = append(tokens, page[i].Token)
			whole = whole || page[i].Call == r.ID
		}
		tokens = lastOf(tokens, maxShownReceipts)
	}
	return tokens, nil
}

// lastOf returns the last texts of a list, of at most so many bytes together.
func lastOf(list []string, most int) []string {
	for i := len(list) - 1; i >= 0; i-- {
		if most -= len(list[i]); most < 0 {
			return slices.Clone(list[i+1:])
		}
	}
	return list
}

func (s *Server) listRecords(w http.ResponseWriter, r *http.Request) {
	selection, err := parseSelection(r.URL.Query())
	if err != nil {
		problem.Write(w, err)
		return
	}
	// Refuse a bad cursor before the answer begins.
	for _, err := range Select(r.Context(), s.Ledger, ledger.Query{Cursor: selection.Cursor, Limit: 1}) {
		if err != nil {
			problem.Write(w, err)
			return
		}
	}
	if err := writeList(w, Select(r.Context(), s.Ledger, selection)); err != nil {
		if r.Context().Err() == nil {
			s.Log.Warn("a list of records broke off", zap.Error(err))
		}
		panic(http.ErrAbortHandler) // breaks the connection
	}
}

// Ledger says which ledger the sidecar uses, and which acceptances it holds.
type Ledger struct {
	ledger.Identity
	Acceptances []ledger.Acceptance `json:"acceptances"`
}

func (s *Server) ledger(r *http.Request) (l Ledger, err error) {
	if l.Identity, err = s.Identified.Identity(r.Context()); err == nil {
		l.Acceptances, err = s.Identified.Acceptances(r.Context())
	}
	return l, err
}

func (s *Server) keyUses(r *http.Request) ([]ledger.KeyUse, error) {
	return s.Ledger.KeyUses(r.Context())
}

// KeyUses asks a sidecar for its ledger's counts for the versions of signing keys.
func KeyUses(ctx context.Context, endpoint string) (uses []ledger.KeyUse, err error) {
	err = Get(ctx, endpoint, "/v1/ledger/keys", &uses)
	return uses, err
}
