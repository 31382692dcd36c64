package dispute

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/actionproof/mediator/internal/pattern"
	"github.com/actionproof/mediator/reputation/accrual"
)

// Forms of the texts in documents; the schemas have the same.
var (
	idForm    = pattern.New(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`)
	agentForm = pattern.New(`^([A-Za-z0-9_-]{43}:[^\x00]{1,256}|did:key:z6Mk[1-9A-HJ-NP-Za-km-z]{44})$`)
	hashForm  = pattern.New(`^[0-9a-f]{64}$`)
)

type field struct {
	name, value string
	form        pattern.Pattern
}

func checkFields(fields ...field) error {
	for _, f := range fields {
		if !f.form.MatchString(f.value) {
			return malformed("has a %s that does not match %s", f.name, f.form)
		}
	}
	return nil
}

type text struct {
	name, value string
	longest     int
	optional    bool
}

func checkTexts(texts ...text) error {
	for _, t := range texts {
		if n := utf8.RuneCountInString(t.value); n > t.longest || n == 0 && !t.optional {
			return malformed("has a %s that is empty or longer than %d characters", t.name, t.longest)
		}
	}
	return nil
}

func checkAgent(name, id string) error {
	if err := checkFields(field{name, id, agentForm}); err != nil {
		return err
	}
	if _, err := accrual.ParseAgent(id); err != nil {
		return malformed("has an invalid agent id as %s: %v", name, err)
	}
	return nil
}

func checkReceipts(name string, hashes []string) error {
	seen := make(map[string]bool, len(hashes))
	for _, h := range hashes {
		if err := checkFields(field{name, h, hashForm}); err != nil {
			return err
		}
		if seen[h] {
			return malformed("names a receipt twice in %s", name)
		}
		seen[h] = true
	}
	if len(hashes) > MaxReceipts {
		return malformed("names %d receipts in %s; at most %d are allowed", len(hashes), name, MaxReceipts)
	}
	return nil
}

func checkTime(at int64) error {
	if at < 1 || at > maxWhole {
		return malformed("has a timestamp that is not a time in Unix seconds")
	}
	return nil
}

func oneOf(name, value string, of ...string) error {
	if !slices.Contains(of, value) {
		known := slices.DeleteFunc(slices.Clone(of), func(one string) bool { return one == "" })
		return malformed("has the %s %.40q instead of one of %s", name, value, strings.Join(known, ", "))
	}
	return nil
}

func (s Signal) check() error {
	return cmp.Or(
		checkFields(field{"signal_id", s.SignalID, idForm}), checkAgent("agent_id", s.AgentID),
		checkTexts(text{"statement", s.Statement, MaxStatement, false}, text{"signature", s.Signature, maxSignature, true}),
		oneOf("horizon", s.Horizon, HorizonShort, HorizonLong), checkTime(s.Timestamp), s.RestsOn.check(),
	)
}

func (r *RestsOn) check() error {
	switch {
	case r == nil:
		return nil
	case (len(r.Receipts) == 0) == (r.Record == ""):
		return malformed("must rest on either receipts or one record")
	case r.Record != "":
		return checkFields(field{"rests_on.record", r.Record, hashForm})
	}
	return checkReceipts("rests_on.receipts", r.Receipts)
}

func (c Contract) check() error {
	return cmp.Or(
		checkFields(field{"challenge_id", c.ChallengeID, idForm}, field{"original_signal_id", c.OriginalSignalID, idForm}),
		checkAgent("challenger_agent_id", c.ChallengerAgentID),
		checkTexts(
			text{"counter_claim", c.CounterClaim, MaxStatement, false},
			text{"reasoning_trace", c.ReasoningTrace, MaxTrace, false},
			text{"signature", c.Signature, maxSignature, true},
		),
		oneOf("challenge_type", c.ChallengeType, "", TypeTiming, TypeKnowledge, TypeConsistency, TypeGeneral),
		checkTime(c.Timestamp), checkReceipts("target_receipts", c.TargetReceipts),
	)
}

func (c Challenge) check() error {
	switch {
	case len(c.TargetReceipts) == 0:
		return malformed("names no target_receipts")
	case c.ChallengeType == TypeAppeal && len(c.TargetReceipts) > 1:
		return malformed("appeals against more than one dispute")
	}
	if c.Timestamp != 0 {
		if err := checkTime(c.Timestamp); err != nil {
			return err
		}
	}
	return cmp.Or(
		checkAgent("challenger_id", c.ChallengerID), checkAgent("target_id", c.TargetID),
		checkReceipts("target_receipts", c.TargetReceipts),
		oneOf("challenge_type", c.ChallengeType, TypeTiming, TypeKnowledge, TypeConsistency, TypeGeneral, TypeAppeal),
		checkTexts(text{"evidence", c.Evidence, MaxTrace, true}, text{"signature", c.Signature, maxSignature, true}),
	)
}
