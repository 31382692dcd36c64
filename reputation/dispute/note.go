package dispute

import (
	"cmp"
	"slices"

	"github.com/actionproof/mediator/reputation/accrual"
)

func (s *SignalState) checked() *accrual.Signal {
	of, err := accrual.ParseAgent(s.Agent)
	return &accrual.Signal{
		ID: s.SignalID, Trace: s.Basis == BasisObserved, Sources: s.Sources, Context: err == nil && of.Owner != "",
		Verification: s.Registered > 0,
		Timestamp:    off(s.At, s.Written) <= seconds(MaxAge), Schema: true,
	}
}

func off(one, other int64) int64 { return max(one-other, other-one) }

// about returns the disputed signal, else the lowest disputed receipt, else the filing.
func (d *State) about() string {
	first := ""
	if len(d.Receipts) > 0 {
		first = slices.Min(d.Receipts)
	}
	return cmp.Or(d.SignalID, first, d.Document)
}

// citeRow names the owner of an agent, and an agent that it cites.
func citeRow(by, of string) string {
	if a, err := accrual.ParseAgent(by); err == nil {
		by = a.Owner
	}
	return rowCite + by + " " + of
}
