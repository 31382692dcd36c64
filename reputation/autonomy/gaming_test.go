package autonomy_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation/autonomy"
)

func TestWhatPartsCanBeMadeToSay(t *testing.T) {
	paused := func(i int) bool { return i%3 == 2 }
	person := func() []*interaction.Receipt { // who reads and types for five minutes before each third call
		all := working(40, 1)
		for i, r := range all {
			if paused(i) {
				r.Model.Figures.Turnaround = interaction.Observed(300_000 + int64(i)*20_000)
			}
		}
		return all
	}
	for _, row := range []struct {
		name, part    string
		honest, gamed []*interaction.Receipt
		least         float64 // points that the agent gets so; without it, none
	}{
		{"calls that fail take the pauses of a person out of the gaps", "regularity", person(), failing(person(), paused), 6},
		{"and out of the blocks of words", "superhuman", person(), failing(person(), paused), 1},
		{"five names of one's own server are five domains, without a model", "domains", toolless(40), relaying(toolless(40)),
			6},
		{"an agent that takes answers slowly gives them an even speed", "regression", noisy(40), paced(noisy(40)), 7.99},
		{"tools that give back anything make a chain", "chain", toolless(40), working(40, 1), 10},
		{"one request that brings back all answers is enough", "self_references", silent(40), echoing(silent(40)), 8},
	} {
		t.Run(row.name, func(t *testing.T) {
			if p := partOf(t, row.honest, row.part); p.Points > 0.5 {
				t.Errorf("without it %+v", p)
			}
			if p := partOf(t, row.gamed, row.part); p.Points < row.least || row.part != "regression" &&
				p.State != interaction.StateObserved {
				t.Errorf("%+v, want at least %v points", p, row.least)
			}
		})
	}
}

func partOf(t *testing.T, receipts []*interaction.Receipt, name string) autonomy.Part {
	t.Helper()
	s := autonomy.Appraise(measured(receipts), nil, nil).Signals
	all := slices.Concat(s.Timing.Parts, s.Recursion.Parts, s.Knowledge.Parts)
	at := slices.IndexFunc(all, func(p autonomy.Part) bool { return p.Name == name })
	if at < 0 {
		t.Fatalf("there is no part %s", name)
	}
	return all[at]
}

func failing(all []*interaction.Receipt, paused func(int) bool) (out []*interaction.Receipt) {
	for i, r := range all {
		if paused(i) {
			failed := *r
			failed.Outcome, failed.Model = interaction.OutcomeFailed, &interaction.ModelCall{Host: host, Model: "model-1"}
			failed.Model.Figures.Turnaround = r.Model.Figures.Turnaround
			r.Model.Figures.Turnaround = interaction.Observed(200)
			out = append(out, &failed)
		}
		out = append(out, r)
	}
	for i, r := range out {
		r.Chain.SequenceNumber = int64(i + 1)
	}
	return out
}

func toolless(n int) []*interaction.Receipt {
	all := working(n, 1)
	for _, r := range all {
		r.Model.ToolCalls, r.Model.ReturnedCalls, r.Model.Figures.ToolCallsMade = nil, nil, interaction.Observed(0)
	}
	return all
}

func relaying(all []*interaction.Receipt) []*interaction.Receipt {
	for i := range 5 {
		all[i].Relayed, all[i].RelayedCount = []interaction.RelayedCall{
			{Host: fmt.Sprintf("%d.agent.example:443", i), Tool: "nothing"}}, 1
	}
	return all
}

func noisy(n int) []*interaction.Receipt {
	all := working(n, 1)
	for i, r := range all {
		r.Model.Figures.Duration = interaction.Observed(20_000 - int64(i%7)*500 - r.Model.Figures.OutputTokens.Value)
	}
	return all
}

func paced(all []*interaction.Receipt) []*interaction.Receipt {
	for _, r := range all {
		r.Model.Figures.Duration = interaction.Observed(20_000 + 60*r.Model.Figures.OutputTokens.Value)
	}
	return all
}

func silent(n int) []*interaction.Receipt {
	all := working(n, 1)
	for _, r := range all {
		r.Model.Figures.SelfReferences = interaction.Observed(0)
	}
	return all
}

func echoing(all []*interaction.Receipt) []*interaction.Receipt {
	all[len(all)-1].Model.Figures.SelfReferences = interaction.Observed(int64(len(all) - 1))
	return all
}
