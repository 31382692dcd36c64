package autonomy

import (
	"math"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/test/check"
)

const shorter = 30

var made = sync.OnceValues(func() ([]Session, error) { return makeAll(6, 7, shorter) })

func sessions(t *testing.T) []Session {
	t.Helper()
	all, err := made()
	check.Must(t, err)
	return all
}

func TestMakeIsDeterministic(t *testing.T) {
	again, err := makeAll(2, 7, shorter)
	check.Must(t, err)
	for _, s := range again {
		i := slices.IndexFunc(sessions(t), func(of Session) bool { return of.ID == s.ID })
		if i < 0 || !reflect.DeepEqual(s, sessions(t)[i]) {
			t.Errorf("%s (%s) is another session when it is made again", s.ID, s.Kind)
		}
	}
	others, err := makeAll(1, 8, shorter)
	check.Must(t, err)
	for i, s := range others {
		if of := again[2*i]; s.Kind != of.Kind || reflect.DeepEqual(s.Receipts, of.Receipts) {
			t.Errorf("%s (%s) of another seed is the same as %s (%s)", s.ID, s.Kind, of.ID, of.Kind)
		}
	}
}

func TestChains(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range sessions(t) {
		seen[s.Group+s.Kind] = true
		signed := make(map[string]evidence.Opened[interaction.Receipt])
		chain := interaction.NewChain(
			func(token string, _ interaction.Receipt) (evidence.Opened[interaction.Receipt], error) {
				return signed[token], nil
			},
			interaction.Expected{Owner: owner, Session: s.ID, Agent: "agent:worker-1"})
		for i, c := range s.Receipts {
			draft, err := evidence.Prepare(key, interaction.Kind, c)
			if err != nil {
				t.Fatalf("%s (%s), receipt %d: %v", s.ID, s.Kind, i+1, err)
			}
			r, err := draft.Sign(t.Context())
			check.Must(t, err)
			signed[r.Token()] = r
			if _, err := chain.Add(r.Token()); err != nil {
				t.Fatalf("%s (%s), receipt %d: %v", s.ID, s.Kind, i+1, err)
			}
		}
		if !chain.Closed() {
			t.Errorf("%s (%s) is not closed", s.ID, s.Kind)
		}
	}
	for _, k := range kinds {
		if !seen[k.group+k.name] {
			t.Errorf("there is no session of the kind %s", k.name)
		}
	}
}

func TestLengths(t *testing.T) {
	for _, s := range sessions(t) {
		k := kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.group == s.Group && k.name == s.Kind })]
		if n := len(calls(s.Receipts)); n < k.least || n > min(k.most, shorter)+16 {
			t.Errorf("%s (%s) has %d calls, want %d to %d", s.ID, s.Kind, n, k.least, min(k.most, shorter))
		}
	}
}

func calls(all []interaction.Receipt) (out []interaction.Receipt) {
	for _, r := range all {
		if r.Model != nil {
			out = append(out, r)
		}
	}
	return out
}

func mean(all []Session, kind string, of func(*interaction.ModelCall) int64) float64 {
	sum, n := 0.0, 0.0
	for _, s := range all {
		for _, r := range calls(s.Receipts) {
			if s.Kind == kind {
				sum, n = sum+float64(of(r.Model)), n+1
			}
		}
	}
	return sum / n
}

func returned(m *interaction.ModelCall) int64   { return int64(len(m.ReturnedCalls)) }
func unmatched(m *interaction.ModelCall) int64  { return m.Figures.UnmatchedResults.Value }
func toolCalls(m *interaction.ModelCall) int64  { return m.Figures.ToolCallsMade.Value }
func references(m *interaction.ModelCall) int64 { return m.Figures.SelfReferences.Value }
func relayed(m *interaction.ModelCall) int64    { return m.Figures.DepthRelayed.Value }

func TestKinds(t *testing.T) {
	for _, row := range []struct {
		kind, what string
		of         func(*interaction.ModelCall) int64
		some       bool
	}{
		{"coding agent", "returned calls", returned, true},
		{"coding agent", "unmatched results", unmatched, false},
		{"support worker", "self references", references, true},
		{"incident responder", "depth that was relayed", relayed, true},
		{"batch classifier", "calls of tools", toolCalls, false},
		{"clicks continue", "calls of tools", toolCalls, false},
		{"clicks continue", "self references", references, true},
		{"programs with an agent", "returned calls", returned, true},
		{"recorded agent", "unmatched results", unmatched, true},
		{"recorded agent", "returned calls", returned, false},
		{"recorded agent", "self references", references, false},
		{"one request in a loop", "self references", references, false},
		{"list of prompts", "self references", references, false},
		{"invented calls of tools", "unmatched results", unmatched, true},
		{"invented calls of tools", "returned calls", returned, false},
		{"outputs echoed as work", "returned calls", returned, true},
		{"canned text, plausible noise", "returned calls", returned, true},
		{"no tools at all", "calls of tools", toolCalls, false},
		{"polls one thing", "returned calls", returned, true},
		{"is an agent's tool", "returned calls", returned, true},
		{"supervises a loop", "returned calls", returned, true},
	} {
		// two can ask for the same by chance
		if n := mean(sessions(t), row.kind, row.of); row.some && n < 0.1 || !row.some && n > 0.05 {
			t.Errorf("%s: %.2f %s a call, want some: %t", row.kind, n, row.what, row.some)
		}
	}
}

func TestHosts(t *testing.T) {
	for _, s := range sessions(t) {
		for _, r := range calls(s.Receipts) {
			want := BelievedHosts
			switch {
			case s.Group == Fake:
				want = FakeHosts
			case s.Kind == "slow local model":
				want = []string{localGPU.host, localSlow.host, localCPU.host}
			}
			if !slices.Contains(want, r.Model.Host) {
				t.Errorf("%s (%s) calls %s", s.ID, s.Kind, r.Model.Host)
			}
		}
	}
}

func TestLinear(t *testing.T) {
	for _, s := range sessions(t) {
		var x, y []float64
		for _, r := range calls(s.Receipts) {
			if f := r.Model.Figures; r.Outcome == interaction.OutcomeCompleted {
				x, y = append(x, float64(f.OutputTokens.Value)), append(y, float64(f.Duration.Value))
			}
		}
		switch worst := worstResidual(x, y); {
		case len(x) < 5:
		case s.Kind == "canned text, linear times" && worst > 40:
			t.Errorf("%s (%s) is %.0f ms off a line", s.ID, s.Kind, worst)
		case s.Kind == "canned text, plausible noise" && worst < 200:
			t.Errorf("%s (%s) is only %.0f ms off a line", s.ID, s.Kind, worst)
		}
	}
}

func worstResidual(x, y []float64) (worst float64) {
	n, sx, sy, sxx, sxy := float64(len(x)), 0.0, 0.0, 0.0, 0.0
	for i := range x {
		sx, sy, sxx, sxy = sx+x[i], sy+y[i], sxx+x[i]*x[i], sxy+x[i]*y[i]
	}
	slope := (n*sxy - sx*sy) / (n*sxx - sx*sx)
	for i := range x {
		worst = max(worst, math.Abs(y[i]-sy/n-slope*(x[i]-sx/n)))
	}
	return worst
}

func TestVariety(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range sessions(t) {
		for _, r := range s.Receipts {
			seen[r.Outcome] = true
			seen["post"] = seen["post"] || r.Post != nil
			if m := r.Model; m != nil {
				seen["stream"] = seen["stream"] || m.Streamed
				seen["whole"] = seen["whole"] || !m.Streamed && r.Outcome == interaction.OutcomeCompleted
				seen["tokens "+m.Figures.OutputTokens.State] = true
				seen["sample"] = seen["sample"] || m.Figures.Compression.State == interaction.StateObserved
				seen["overlap"] = seen["overlap"] || s.Kind == "batch classifier" && r.Chain.SequenceNumber > 1 &&
					m.Figures.Turnaround.State == interaction.StateNotMeasured
			}
		}
	}
	for _, want := range []string{
		interaction.OutcomeCompleted, interaction.OutcomeFailed, interaction.OutcomeCut, "post", "stream", "whole",
		"tokens declared", "sample", "overlap",
	} {
		if !seen[want] {
			t.Errorf("no session has: %s", want)
		}
	}
}

func TestChallenges(t *testing.T) {
	issued, told := 0, 0
	for _, s := range sessions(t) {
		for _, c := range s.Challenges {
			issued++
			switch {
			case c.Nonce == "" || c.Issued <= 0, (c.Committed != 0) != evidence.IsHash(c.Commitment),
				c.Committed != 0 && c.Committed < c.Issued,
				c.Revealed != 0 && (c.Committed == 0 || c.Revealed < c.Committed), c.Kept && c.Revealed == 0:
				t.Errorf("%s (%s) has the challenge %+v", s.ID, s.Kind, c)
			}
		}
		revealed := make(map[string]bool)
		for _, r := range s.Receipts {
			if (r.Challenge != nil) != (r.ActionType == interaction.ActionChallengeResponse) {
				t.Errorf("%s, receipt %d is a %s", s.ID, r.Chain.SequenceNumber, r.ActionType)
			}
			if r.Challenge == nil {
				continue
			}
			told++
			if nonce := r.Challenge.ChallengeNonce; revealed[nonce] {
				t.Errorf("%s, receipt %d names a challenge that was over", s.ID, r.Chain.SequenceNumber)
			} else {
				revealed[nonce] = r.Challenge.CommitmentRevealed
			}
			i := slices.IndexFunc(s.Challenges, func(c Challenge) bool { return c.Nonce == r.Challenge.ChallengeNonce })
			if i < 0 {
				t.Fatalf("%s, receipt %d names a challenge that there is not", s.ID, r.Chain.SequenceNumber)
			}
			c, at := s.Challenges[i], r.Timing.RequestReceived
			if at < c.Issued || r.Challenge.CommitmentRevealed && (c.Revealed == 0 || at < c.Revealed) {
				t.Errorf("%s, receipt %d says %+v of %+v", s.ID, r.Chain.SequenceNumber, *r.Challenge, c)
			}
		}
	}
	if issued == 0 || told == 0 {
		t.Errorf("%d challenges, %d receipts that name one", issued, told)
	}
}
