package dispute

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/actionproof/mediator/reputation/accrual"
)

func (b *Book) admits(e Entry) error {
	switch {
	case e.Signal != nil && b.has(rowSignal+e.Signal.SignalID):
		return fmt.Errorf("the signal %s is already in the log", e.Signal.SignalID)
	case e.Signal != nil && e.Signal.Closes <= e.At:
		return fmt.Errorf("the window of the signal %s closes before it opens", e.Signal.SignalID)
	case e.Final != nil && e.Final.DisputeID != "":
		if d := b.dispute(e.Final.DisputeID); d == nil || !d.Appealable || e.At < d.Resolved.AppealUntil {
			return fmt.Errorf("the dispute %s cannot become final: it is unknown, final, or can be appealed",
				e.Final.DisputeID)
		}
	case e.Final != nil:
		s := b.signal(e.Final.SignalID)
		if s == nil || s.Final || e.At < s.Closes {
			return fmt.Errorf("the signal %s cannot become final: it is unknown, final, or still open", e.Final.SignalID)
		}
	case e.Voted != nil:
		d := b.dispute(e.Voted.DisputeID)
		if d == nil || d.Type != TypeGeneral || d.Status == StatusResolved || e.At >= d.Deadline ||
			slices.ContainsFunc(d.Votes, func(v Voted) bool { return v.Arbiter == e.Voted.Arbiter }) {
			return fmt.Errorf("%s cannot decide the dispute %s, or has decided it already", e.Voted.Arbiter, e.Voted.DisputeID)
		}
	case e.Appealed != nil:
		if d := b.dispute(e.Appealed.DisputeID); d == nil || !d.Appealable || e.At >= d.Resolved.AppealUntil ||
			e.Appealed.Deadline <= e.At {
			return fmt.Errorf("the dispute %s cannot be appealed", e.Appealed.DisputeID)
		}
	case e.Opened != nil:
		return b.admitsOpened(e.Opened, e.At)
	case e.Reviewing != nil:
		if d := b.dispute(e.Reviewing.DisputeID); d == nil || d.Status != StatusPending {
			return fmt.Errorf("the dispute %s is not pending", e.Reviewing.DisputeID)
		}
	case e.Resolved != nil:
		return b.admitsResolved(e.Resolved, e.At)
	case e.SetBack != nil && e.At >= b.state.Last:
		return errors.New("the log's time is not ahead")
	case e.Violation != nil && b.agent(e.Violation.Agent).noted(e.Violation.Document):
		return errors.New("the violation is already in the log")
	}
	return nil
}

func (b *Book) admitsOpened(o *Opened, at int64) error {
	switch {
	case b.has(rowDispute + o.DisputeID):
		return fmt.Errorf("the dispute %s is already in the log", o.DisputeID)
	case o.Challenger == o.Target:
		return errors.New("an agent disputes itself")
	case o.Deadline <= at:
		return fmt.Errorf("the deadline of the dispute %s is before its opening", o.DisputeID)
	case b.repeated(o.Substance) != "":
		return fmt.Errorf("the dispute %s repeats an earlier one", o.DisputeID)
	case o.SignalID == "":
		return nil
	}
	s := b.signal(o.SignalID)
	switch {
	case s == nil || s.Final || at >= s.Closes:
		return fmt.Errorf("the signal %s cannot be disputed: it is unknown or closed", o.SignalID)
	case s.Agent != o.Target:
		return fmt.Errorf("the signal %s belongs to another agent", o.SignalID)
	case b.has(contractRow(o)):
		return fmt.Errorf("the contract %s is already in the log", o.ContractID)
	}
	return nil
}

// repeated returns the id of an earlier dispute that says the same, or nothing. An inconclusive dispute can be
// repeated: a party must not escape by holding back what would have decided it.
func (b *Book) repeated(substance string) string {
	id := loaded[string](b, rowSubstance+substance)
	if id == nil {
		return ""
	}
	if d := b.dispute(*id); d != nil && d.Status == StatusResolved && d.Resolved.Outcome == accrual.Inconclusive {
		return ""
	}
	return *id
}

// admitsResolved checks who may end a dispute: rules for receipts, arbiters who agree for general disputes, and the
// deadline only as "inconclusive", or as first decided after an appeal.
func (b *Book) admitsResolved(r *Resolved, at int64) error {
	d := b.dispute(r.DisputeID)
	if d == nil || d.Status == StatusResolved {
		return fmt.Errorf("there is no unresolved dispute %s", r.DisputeID)
	}
	ok := false
	switch r.Resolver {
	case ResolverRules:
		ok = d.Type != TypeGeneral
	case ResolverArbiter:
		ok = d.Type == TypeGeneral && d.agree(r) && (r.AppealUntil == 0 || !d.Appealed && r.AppealUntil > at)
	case ResolverDeadline:
		ok = at >= d.Deadline && (d.Appealed && same(r.Finding, d.Resolved.Finding) ||
			!d.Appealed && r.Outcome == accrual.Inconclusive)
	}
	if !ok {
		return fmt.Errorf("%s cannot end the dispute %s of type %s as %s", r.Resolver, r.DisputeID, d.Type, r.Outcome)
	}
	return nil
}

// same compares findings as they are written: one of them was read from a row.
func same(one, other Finding) bool {
	one.Inputs, other.Inputs = append([]string{}, one.Inputs...), append([]string{}, other.Inputs...)
	return reflect.DeepEqual(one, other)
}

// agree reports whether arbiters have decided a dispute as it ends.
func (d *State) agree(r *Resolved) bool {
	return !slices.ContainsFunc(r.Decisions, func(decision string) bool {
		return !slices.ContainsFunc(d.Votes, func(v Voted) bool {
			return v.Decision == decision && v.Outcome == r.Outcome && v.Malicious == r.Malicious
		})
	})
}

// ending returns the disputes that take effect with an entry, in the order of their resolution.
func (b *Book) ending(e Entry) (all []ended) {
	final := *cmp.Or(e.Final, new(Final))
	end := func(id string, f *Finding) {
		d := b.dispute(id)
		if d == nil || !b.closed(d.SignalID) && final.SignalID != d.SignalID {
			return
		}
		found := *cmp.Or(f, &d.Resolved.Finding)
		is := found
		if found.Outcome == accrual.ChallengerWins && b.counted(d, found, all) {
			is = Finding{Outcome: accrual.Inconclusive}
		}
		pair := pairRow(d)
		met := b.has(pair) || slices.ContainsFunc(all, func(before ended) bool {
			return before.bonus && pairRow(before.dispute) == pair
		})
		all = append(all, ended{
			dispute: d, found: found, finding: is, lost: found.Outcome == accrual.ChallengerWins,
			bonus: is.Outcome != accrual.Inconclusive && !sameOwner(d.Challenger, d.Target) && !met,
		})
	}
	switch {
	case e.Resolved != nil && e.Resolved.AppealUntil == 0:
		end(e.Resolved.DisputeID, &e.Resolved.Finding)
	case final.DisputeID != "":
		end(final.DisputeID, nil)
	case final.SignalID != "":
		for _, id := range cmp.Or(b.signal(final.SignalID), new(SignalState)).Resolved {
			end(id, nil)
		}
	}
	return all
}

// closed reports whether nothing about a signal is open.
func (b *Book) closed(signal string) bool {
	s := b.signal(signal)
	return s == nil || s.Final
}

// counted reports whether the target has lost over the same fault before, or by this entry. It loses once.
func (b *Book) counted(d *State, f Finding, before []ended) bool {
	is := d.faults(f)
	return slices.ContainsFunc(b.agent(d.Target).Falls, func(lost fall) bool {
		return slices.ContainsFunc(lost.Faults, func(fault string) bool { return slices.Contains(is, fault) })
	}) || slices.ContainsFunc(before, func(e ended) bool { return e.lost }) // all are about one signal
}

// faults names what the target lost over: its signal and, if receipts decided, the part of the session. An arbiter's
// decision is about the disputed object, since words cannot be compared.
func (d *State) faults(f Finding) (all []string) {
	if f.Fault != "" {
		all = append(all, f.Fault)
	}
	if d.SignalID != "" || d.Type == TypeGeneral {
		all = append(all, d.about())
	}
	return all
}

func (b *Book) accounts(e Entry, ending []ended) (all []Account, err error) {
	add := func(id string, entry accrual.Entry) {
		of, invalid := accrual.ParseAgent(id)
		entry.At, err = e.At, errors.Join(err, invalid)
		all = append(all, Account{of, entry})
	}
	switch {
	case e.Opened != nil:
		add(e.Opened.Target, accrual.Entry{Dispute: &accrual.Dispute{ID: e.Opened.DisputeID}})
	case e.Violation != nil:
		add(e.Violation.Agent, accrual.Entry{Violation: &accrual.Violation{Rule: e.Violation.Rule}})
	case e.Final != nil && e.Final.SignalID != "":
		s := b.signal(e.Final.SignalID)
		if s == nil {
			return nil, b.err
		}
		add(s.Agent, accrual.Entry{Signal: s.checked()})
		for _, of := range s.Cites {
			if !sameOwner(s.Agent, of) && !b.has(citeRow(s.Agent, of)) {
				add(of, accrual.Entry{Cited: &accrual.Cited{By: s.Agent, SignalID: s.SignalID}})
			}
		}
	}
	for _, one := range ending {
		d, outcome := one.dispute, one.finding.Outcome
		add(d.Target, accrual.Entry{Dispute: &accrual.Dispute{
			ID: d.DisputeID, Outcome: outcome, Bonus: one.bonus && outcome == accrual.TargetWins, Other: d.Challenger,
			About: d.about(),
		}})
		add(d.Challenger, accrual.Entry{Raised: &accrual.Raised{
			ID: d.DisputeID, Outcome: outcome, Bonus: one.bonus && outcome == accrual.ChallengerWins, Other: d.Target,
			About: d.about(),
		}})
		if one.finding.Malicious {
			add(d.Challenger, accrual.Entry{Violation: &accrual.Violation{Rule: RuleMalicious}})
		}
	}
	return all, err
}

func (b *Book) apply(s Step) {
	number := s.Log.Entries
	switch e := s.Entry; {
	case e.Signal != nil:
		b.saveSignal(&SignalState{Published: *e.Signal, Number: number, At: e.At})
		if e.Signal.Registered > 0 {
			b.change(rowAgent+e.Signal.Agent, func(p *party) { p.Registered = e.Signal.Registered })
		}
		b.count(e.Signal.Agent, openSignals, 1)
	case e.Final != nil && e.Final.DisputeID != "":
		b.changeDispute(e.Final.DisputeID, func(d *State) { d.Appealable = false })
		b.keep(s, e.Final.DisputeID)
	case e.Final != nil:
		b.changeSignal(e.Final.SignalID, func(signal *SignalState) {
			for _, of := range signal.Cites {
				if !sameOwner(signal.Agent, of) { // citations within an owner never count, and could be unlimited
					b.save(citeRow(signal.Agent, of), true, "", 0)
				}
			}
			b.count(signal.Agent, openSignals, -1)
			signal.Final, signal.Resolved = true, nil
			signal.Receipts, signal.Cites = nil, nil // no longer needed
		})
	case e.Opened != nil:
		o := e.Opened
		b.saveDispute(&State{Opened: *o, Number: number, At: e.At, Since: e.At, Status: StatusPending})
		b.save(rowSubstance+o.Substance, o.DisputeID, "", 0)
		if o.ContractID != "" {
			b.save(contractRow(o), o.DisputeID, "", 0)
		}
		b.spend(o.Challenger, o.Registered, e.At, 1)
		b.change(rowAgent+o.Challenger, func(p *party) { p.Registered = o.Registered })
		b.count(o.Challenger, accusing, 1)
	case e.Reviewing != nil:
		b.changeDispute(e.Reviewing.DisputeID, func(d *State) { d.Status = StatusReviewing })
	case e.Resolved != nil:
		r := e.Resolved
		b.changeDispute(r.DisputeID, func(d *State) {
			d.Status, d.Resolved, d.ResolvedAt, d.Log, d.Votes = StatusResolved, *r, e.At, s.Log, nil
			d.Appealable = r.AppealUntil > 0
			b.count(d.Challenger, accusing, -1)
		})
		if r.AppealUntil == 0 {
			b.keep(s, r.DisputeID)
		}
	case e.Voted != nil:
		b.changeDispute(e.Voted.DisputeID, func(d *State) { d.Votes = append(d.Votes, *e.Voted) })
	case e.Appealed != nil:
		b.changeDispute(e.Appealed.DisputeID, func(d *State) {
			d.Status, d.Appealable, d.Appealed, d.Appeal = StatusReviewing, false, true, e.Appealed.Document
			d.Since, d.Deadline = e.At, e.Appealed.Deadline
			b.count(d.Challenger, accusing, 1)
		})
	case e.Violation != nil:
		v := e.Violation
		b.change(rowAgent+v.Agent, func(p *party) { keepLast(&p.Violations, violated{e.At, v.Rule, v.Document}) })
	case e.SetBack != nil:
		b.setBack(e.At)
	}
	for _, one := range s.ended {
		b.end(one, s.Entry.At)
	}
}

// keep keeps a dispute that has ended for when its signal's window closes, unless the step lets it take effect.
func (b *Book) keep(s Step, id string) {
	if d := b.dispute(id); d != nil && len(s.ended) == 0 {
		b.changeSignal(d.SignalID, func(signal *SignalState) { signal.Resolved = append(signal.Resolved, id) })
	}
}

func (b *Book) end(one ended, at int64) {
	d := one.dispute
	b.changeDispute(d.DisputeID, func(d *State) { d.Effective = true })
	if one.bonus {
		b.save(pairRow(d), true, "", 0)
	}
	others, outcome := OwnerOf(d.Challenger) != OwnerOf(d.Target), one.finding.Outcome
	if outcome == accrual.TargetWins {
		b.spend(d.Challenger, d.Registered, at, Stake)
	}
	b.change(rowAgent+d.Challenger, func(challenger *party) {
		if outcome == accrual.ChallengerWins && others {
			challenger.From -= 2 * day
		}
		if one.finding.Malicious {
			keepLast(&challenger.Violations, violated{at, RuleMalicious, d.Document})
		}
	})
	b.change(rowAgent+d.Target, func(target *party) {
		if outcome == accrual.TargetWins && others {
			target.From -= day
		}
		if outcome == accrual.ChallengerWins {
			target.Fell = at
		}
		if one.lost {
			keepLast(&target.Falls, fall{at, d.DisputeID, d.faults(one.found)})
		}
	})
}

// maxKept bounds the falls, and the violations, that a row of an agent keeps.
const maxKept = 64

func keepLast[T any](list *[]T, one T) {
	*list = append(*list, one)
	*list = (*list)[max(0, len(*list)-maxKept):]
}

func (p party) noted(document string) bool {
	return slices.ContainsFunc(p.Violations, func(v violated) bool {
		return v.Document == document && v.Rule != RuleMalicious
	})
}

func sameOwner(one, other string) bool {
	a, err := accrual.ParseAgent(one)
	b, err2 := accrual.ParseAgent(other)
	return err != nil || err2 != nil || a.SameOwner(b)
}

// contractRow names a contract. Ids are per challenger, so no one else can take an id first.
func contractRow(o *Opened) string { return rowContract + o.Challenger + " " + o.ContractID }

func pairRow(d *State) string {
	return fmt.Sprintf("%s%q %q", rowPair, min(d.Challenger, d.Target), max(d.Challenger, d.Target))
}
