package dispute

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/actionproof/mediator/reputation/accrual"
)

func (b *Book) admits(e Entry) error {
	switch {
	case e.Signal != nil:
		return b.admitsSignal(e.Signal, e.At)
	case e.Final != nil && e.Final.DisputeID != "":
		if id := e.Final.DisputeID; !b.appealable[id] || e.At < b.disputes[id].Resolved.AppealUntil {
			return fmt.Errorf("the dispute %s cannot become final: it is unknown, final, or can be appealed", id)
		}
	case e.Final != nil:
		s := b.signals[e.Final.SignalID]
		if s == nil || s.Final || e.At < s.Closes {
			return fmt.Errorf("the signal %s cannot become final: it is unknown, final, or still open", e.Final.SignalID)
		}
	case e.Voted != nil:
		d := b.disputes[e.Voted.DisputeID]
		if d == nil || d.Type != TypeGeneral || d.Status == StatusResolved || e.At >= d.Deadline ||
			slices.ContainsFunc(d.Votes, func(v Voted) bool { return v.Arbiter == e.Voted.Arbiter }) {
			return fmt.Errorf("%s cannot decide the dispute %s, or has", e.Voted.Arbiter, e.Voted.DisputeID)
		}
	case e.Appealed != nil:
		if d := b.disputes[e.Appealed.DisputeID]; !b.appealable[e.Appealed.DisputeID] || d.Appealed ||
			e.At >= d.Resolved.AppealUntil || e.Appealed.Deadline <= e.At {
			return fmt.Errorf("the dispute %s cannot be appealed", e.Appealed.DisputeID)
		}
	case e.Opened != nil:
		return b.admitsOpened(e.Opened, e.At)
	case e.Reviewing != nil:
		if d := b.disputes[e.Reviewing.DisputeID]; d == nil || d.Status != StatusPending {
			return fmt.Errorf("the dispute %s is not pending", e.Reviewing.DisputeID)
		}
	case e.Resolved != nil:
		return b.admitsResolved(e.Resolved, e.At)
	case e.SetBack != nil:
		if e.At >= b.last {
			return errors.New("the log's time is not ahead")
		}
	case e.Violation != nil:
		if b.noted(e.Violation.Agent, e.Violation.Document) {
			return errors.New("the violation is already in the log")
		}
	}
	return nil
}

func (b *Book) admitsSignal(p *Published, at int64) error {
	switch {
	case b.signals[p.SignalID] != nil:
		return fmt.Errorf("the signal %s is already in the log", p.SignalID)
	case p.Closes <= at:
		return fmt.Errorf("the window of the signal %s closes before it opens", p.SignalID)
	}
	return nil
}

func (b *Book) admitsOpened(o *Opened, at int64) error {
	switch {
	case b.disputes[o.DisputeID] != nil:
		return fmt.Errorf("the dispute %s is already in the log", o.DisputeID)
	case o.Challenger == o.Target:
		return errors.New("an agent disputes itself")
	case o.Deadline <= at:
		return fmt.Errorf("the deadline of the dispute %s is before its opening", o.DisputeID)
	case b.repeats(o.Substance):
		return fmt.Errorf("the dispute %s repeats an earlier one", o.DisputeID)
	case o.SignalID == "":
		return nil
	}
	s := b.signals[o.SignalID]
	switch {
	case s == nil || s.Final || at >= s.Closes:
		return fmt.Errorf("the signal %s cannot be disputed: it is unknown or closed", o.SignalID)
	case s.Agent != o.Target:
		return fmt.Errorf("the signal %s belongs to another agent", o.SignalID)
	case b.contracts[contractOf(o)]:
		return fmt.Errorf("the contract %s is already in the log", o.ContractID)
	}
	return nil
}

// repeats reports whether the same was disputed before. An inconclusive dispute can be repeated: a party must not
// escape by holding back what would have decided it.
func (b *Book) repeats(substance string) bool {
	before := b.disputes[b.substances[substance]]
	return before != nil && (before.Status != StatusResolved || before.Resolved.Outcome != accrual.Inconclusive)
}

// admitsResolved checks who may end a dispute: rules for receipts, arbiters who agree for general disputes, and the
// deadline only as "inconclusive", or as first decided after an appeal.
func (b *Book) admitsResolved(r *Resolved, at int64) error {
	d := b.disputes[r.DisputeID]
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
		ok = at >= d.Deadline && (d.Appealed && reflect.DeepEqual(r.Finding, d.Resolved.Finding) ||
			!d.Appealed && r.Outcome == accrual.Inconclusive)
	}
	if !ok {
		return fmt.Errorf("%s cannot end the dispute %s of type %s as %s", r.Resolver, r.DisputeID, d.Type, r.Outcome)
	}
	return nil
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
	end := func(d *State, f Finding) {
		if f.Outcome == accrual.ChallengerWins && b.counted(d, f, all) {
			f = Finding{Outcome: accrual.Inconclusive}
		}
		pair := pairOf(d)
		met := b.pairs[pair] || slices.ContainsFunc(all, func(before ended) bool {
			return before.bonus && pairOf(before.dispute) == pair
		})
		all = append(all, ended{d, f, f.Outcome != accrual.Inconclusive && !sameOwner(d.Challenger, d.Target) && !met})
	}
	switch {
	case e.Resolved != nil && e.Resolved.AppealUntil == 0:
		if d := b.disputes[e.Resolved.DisputeID]; b.closed(d.SignalID) {
			end(d, e.Resolved.Finding)
		}
	case e.Final != nil && e.Final.DisputeID != "":
		if d := b.disputes[e.Final.DisputeID]; b.closed(d.SignalID) {
			end(d, d.Resolved.Finding)
		}
	case e.Final != nil:
		for _, id := range b.signals[e.Final.SignalID].resolved {
			end(b.disputes[id], b.disputes[id].Resolved.Finding)
		}
	}
	return all
}

// closed reports whether nothing about a signal is open. Forgotten signals are final.
func (b *Book) closed(signal string) bool {
	s := b.signals[signal]
	return s == nil || s.Final
}

// counted reports whether the target has lost over the same fault, earlier or by the same entry. It loses once, however
// many dispute it.
func (b *Book) counted(d *State, f Finding, before []ended) bool {
	is := d.faults(f)
	same := func(faults []string) bool {
		return slices.ContainsFunc(faults, func(fault string) bool { return slices.Contains(is, fault) })
	}
	return slices.ContainsFunc(b.falls(d.Target), func(lost fall) bool { return same(lost.faults) }) ||
		// all are about one signal
		slices.ContainsFunc(before, func(e ended) bool { return e.dispute.Resolved.Outcome == accrual.ChallengerWins })
}

func (b *Book) falls(id string) []fall {
	if a := b.agents[id]; a != nil {
		return a.falls
	}
	return nil
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
		s := b.signals[e.Final.SignalID]
		add(s.Agent, accrual.Entry{Signal: s.checked()})
		for _, of := range s.Cites {
			if !sameOwner(s.Agent, of) && !b.cites[citation(s.Agent, of)] {
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
	switch e := s.Entry; {
	case e.Signal != nil:
		b.signals[e.Signal.SignalID] = &SignalState{Published: *e.Signal, At: e.At}
		b.running[e.Signal.SignalID] = true
		b.open.add(e.Signal.Agent, 1)
		if e.Signal.Registered > 0 {
			b.of(e.Signal.Agent).registered = e.Signal.Registered
		}
	case e.Final != nil && e.Final.DisputeID != "":
		delete(b.appealable, e.Final.DisputeID)
		b.keep(s, e.Final.DisputeID)
	case e.Final != nil:
		signal := b.signals[e.Final.SignalID]
		signal.Final, signal.resolved = true, nil
		delete(b.running, e.Final.SignalID)
		b.open.add(signal.Agent, -1)
		b.over = append(b.over, past{at: e.At, signal: signal.SignalID})
		for _, of := range signal.Cites {
			if !sameOwner(signal.Agent, of) { // citations within an owner never count, and could be unlimited
				b.cites[citation(signal.Agent, of)] = true
			}
		}
		signal.Receipts, signal.Cites = nil, nil // no longer needed, and an owner can have many signals
	case e.Opened != nil:
		o := e.Opened
		b.disputes[o.DisputeID] = &State{Opened: *o, At: e.At, Since: e.At, Status: StatusPending}
		b.unresolved[o.DisputeID], b.substances[o.Substance] = true, o.DisputeID
		if o.ContractID != "" {
			b.contracts[contractOf(o)] = true
		}
		b.accusing.add(o.Challenger, 1)
		b.spend(o.Challenger, o.Registered, e.At, 1)
		b.of(o.Challenger).registered = o.Registered
	case e.Reviewing != nil:
		b.disputes[e.Reviewing.DisputeID].Status = StatusReviewing
	case e.Resolved != nil:
		d := b.disputes[e.Resolved.DisputeID]
		d.Status, d.Resolved, d.ResolvedAt, d.Log, d.Votes = StatusResolved, *e.Resolved, e.At, s.Log, nil
		delete(b.unresolved, d.DisputeID)
		b.accusing.add(d.Challenger, -1)
		if e.Resolved.AppealUntil > 0 {
			b.appealable[d.DisputeID] = true
		} else {
			b.keep(s, d.DisputeID)
		}
	case e.Voted != nil:
		d := b.disputes[e.Voted.DisputeID]
		d.Votes = append(d.Votes, *e.Voted)
	case e.Appealed != nil:
		d := b.disputes[e.Appealed.DisputeID]
		d.Status, d.Appealed, d.Appeal = StatusReviewing, true, e.Appealed.Document
		d.Since, d.Deadline = e.At, e.Appealed.Deadline
		delete(b.appealable, d.DisputeID)
		b.unresolved[d.DisputeID] = true
		b.accusing.add(d.Challenger, 1)
	case e.Violation != nil:
		b.of(e.Violation.Agent).violate(violated{e.At, e.Violation.Rule, e.Violation.Document})
	case e.SetBack != nil:
		b.setBack(e.At)
	}
	for _, one := range s.ended {
		b.end(one, s.Entry.At)
	}
}

// keep keeps a dispute that has ended for when its signal's window closes, unless the step lets it take effect.
func (b *Book) keep(s Step, id string) {
	if len(s.ended) == 0 {
		signal := b.signals[b.disputes[id].SignalID]
		signal.resolved = append(signal.resolved, id)
	}
}

func (b *Book) end(one ended, at int64) {
	d := one.dispute
	d.Effective = true
	b.over = append(b.over, past{at: at, dispute: d.DisputeID})
	if one.bonus {
		b.pairs[pairOf(d)] = true
	}
	challenger, outcome := b.of(d.Challenger), one.finding.Outcome
	target := b.of(d.Target)
	others := OwnerOf(d.Challenger) != OwnerOf(d.Target)
	switch outcome {
	case accrual.TargetWins:
		b.spend(d.Challenger, d.Registered, at, Stake)
		if others {
			target.from -= day
		}
	case accrual.ChallengerWins:
		if others {
			challenger.from -= 2 * day
		}
		target.fell = at
	}
	if d.Resolved.Outcome == accrual.ChallengerWins { // even if it does not count
		target.falls = append(target.falls, fall{at, d.faults(d.Resolved.Finding), d.Resolved.Inputs})
		target.falls = target.falls[max(0, len(target.falls)-maxFalls):]
	}
	if one.finding.Malicious {
		challenger.violate(violated{at, RuleMalicious, d.Document})
	}
}

// forget drops what ended long ago. A signal stays while a dispute about it is open.
func (b *Book) forget() {
	for len(b.over) > 0 && b.over[0].at <= b.last-kept {
		p := b.over[0]
		b.over = b.over[1:]
		if p.signal != "" {
			delete(b.signals, p.signal)
			continue
		}
		d := b.disputes[p.dispute]
		delete(b.disputes, p.dispute)
		delete(b.contracts, contractOf(&d.Opened))
		if b.substances[d.Substance] == p.dispute {
			delete(b.substances, d.Substance)
		}
	}
}

const (
	maxFalls      = 64
	maxViolations = 64
)

func (a *agent) violate(v violated) {
	a.violations = append(a.violations, v)
	a.violations = a.violations[max(0, len(a.violations)-maxViolations):]
}

func (b *Book) noted(id, document string) bool {
	a := b.agents[id]
	return a != nil && slices.ContainsFunc(a.violations, func(v violated) bool {
		return v.document == document && v.rule != RuleMalicious
	})
}

func sameOwner(one, other string) bool {
	a, err := accrual.ParseAgent(one)
	b, err2 := accrual.ParseAgent(other)
	return err != nil || err2 != nil || a.SameOwner(b)
}

// contractOf names a contract. Ids are per challenger, so no one else can take an id first.
func contractOf(o *Opened) [2]string { return [2]string{o.Challenger, o.ContractID} }

func pairOf(d *State) [2]string {
	return [2]string{min(d.Challenger, d.Target), max(d.Challenger, d.Target)}
}
