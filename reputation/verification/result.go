package verification

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/reputation/accrual"
)

// Lifetime is the validity of a result. To stay verified, an agent is verified again.
const Lifetime = 24 * time.Hour

var Kind = evidence.NewKind("verification-result+jwt", evidence.PurposeAppraiser, Lifetime, checkResult)

// Result says what the holder of one key did in one session. It does not prove that no human was involved.
type Result struct {
	evidence.Registered
	evidence.KeyClaims

	Session string `json:"session" form:"name:64"`
	Nonce   string `json:"nonce" form:"hash"` // 32 random bytes
	// Subject is the caller: observed if a sidecar named it (SubjectBasis), else an address.
	Subject      string `json:"subject" form:"name:300"`
	SubjectBasis string `json:"subjectBasis" form:"observed|declared"`
	// PublicKey is the Ed25519 key (base64url) whose possession was proven. DID and DIDKey are its names.
	PublicKey string `json:"publicKey"`
	DID       string `json:"did" form:"name:128"`
	DIDKey    string `json:"didKey" form:"name:128"`

	Task string `json:"task" form:"name:64"`
	Mode string `json:"mode" form:"observed|seed"`
	// Checks are the seven checks in order. ObservedAll says that all are observed.
	Checks      []Check `json:"checks"`
	Score       int64   `json:"score"`
	MaxScore    int64   `json:"maxScore"`
	ObservedAll bool    `json:"observedAll"`
	Turns       int64   `json:"turns"`
	FirstTurn   int64   `json:"firstTurnMs" form:"time"` // Unix milliseconds of arrival
	LastTurn    int64   `json:"lastTurnMs"`
	// ModelCalls is what the agent's sidecar saw between the turns. No check rests on it.
	ModelCalls ModelCalls `json:"modelCalls"`

	// Reasoning is the judgement of the agent's own words.
	Reasoning  Reasoning `json:"reasoning"`
	Privileged bool      `json:"privileged"`
	// Gates are the servers of the xray bridge. Degraded says that a configured one did not answer.
	Gates    []Gate `json:"gates"`
	Degraded bool   `json:"degraded"`

	// MerkleRoot and Attestation are the original's.
	MerkleRoot  string `json:"merkleRoot" form:"hash"`
	Attestation string `json:"attestation" form:"hash"`
	RFC6962Root string `json:"rfc6962Root" form:"hash"`

	// Probabilistic is always true and NonHumanIdentityProven always false: a script passes too.
	Probabilistic          bool `json:"probabilistic" form:"true"`
	NonHumanIdentityProven bool `json:"nonHumanIdentityProven" form:"false"`
}

// Reasoning is the judgement of an agent's reasoning.
type Reasoning struct {
	Basis    string `json:"basis" form:"declared"`
	By       string `json:"by" form:"xray|keywords"` // xray, or keywords without an evaluating server
	Coverage int64  `json:"coverage"`                // of the prompt's terms, in thousandths
	Band     string `json:"band"`
}

// Judges of reasoning.
const (
	ByServer   = "xray"
	ByKeywords = "keywords"
)

func checkResult(r *Result) error {
	switch {
	case len(r.PublicKey) != 43:
		return errors.New("publicKey is not 32 bytes in base64url")
	case r.Turns < 3 || r.Turns > MaxTurns || r.LastTurn < r.FirstTurn:
		return errors.New("its turns and their times contradict each other")
	case r.Reasoning.Coverage < 0 || r.Reasoning.Coverage > 1000 ||
		r.Reasoning.Band != band(r.Reasoning.Coverage, r.Privileged):
		return errors.New("reasoning contradicts itself")
	}
	return cmp.Or(accrual.CheckForm(r), r.checkChecks(), r.checkModelCalls(), r.checkGates())
}

func (r *Result) checkChecks() error {
	score, observed := int64(0), true
	if len(r.Checks) != len(pointsOf) {
		return fmt.Errorf("it has %d checks, not %d", len(r.Checks), len(pointsOf))
	}
	for i, c := range r.Checks {
		if c.Name != pointsOf[i].name || c.Most != pointsOf[i].points || c.Points != c.Most {
			return fmt.Errorf("check %d is not %s with all of its %d points", i+1, pointsOf[i].name, pointsOf[i].points)
		}
		switch {
		case c.Basis == BasisDeclared && r.Mode == string(ModeSeed):
			observed = false
		case c.Basis != BasisObserved:
			return fmt.Errorf("the basis of %s is %.40q in the mode %s", c.Name, c.Basis, r.Mode)
		}
		score += c.Points
	}
	if r.Score != score || r.MaxScore != MaxScore || r.ObservedAll != observed {
		return errors.New("score, maxScore or observedAll does not follow from the checks")
	}
	return nil
}

func (r *Result) checkGates() error {
	degraded := false
	if len(r.Gates) != len(gateNames) {
		return fmt.Errorf("it has %d gates, not %d", len(r.Gates), len(gateNames))
	}
	for i, g := range r.Gates {
		if g.Name != gateNames[i] {
			return fmt.Errorf("gate %d is not %s", i+1, gateNames[i])
		}
		degraded = degraded || g.Status == GateUnavailable
	}
	if r.Degraded != degraded {
		return errors.New("degraded does not follow from the gates")
	}
	return nil
}

// ModelCalls counts the model calls with a whole answer that the agent's sidecar saw between the turns. It does not
// show that a turn came of one: an agent can make calls for nothing.
type ModelCalls struct {
	// Basis is observed, or not_measured without a sidecar or if turns overtook each other.
	Basis string `json:"basis"`
	// BeforeTurn counts, for each turn, the calls since the turn before, or since the start.
	BeforeTurn []int64 `json:"beforeTurn,omitempty"`
}

// BasisNotMeasured says that nothing is known.
const BasisNotMeasured = "not_measured"

func (s *Session) modelCalls() ModelCalls {
	out, before := ModelCalls{Basis: BasisObserved}, s.Caller.ModelCalls
	for _, t := range s.Turns {
		if s.Caller.Session == "" || t.ModelCalls < before {
			return ModelCalls{Basis: BasisNotMeasured}
		}
		out.BeforeTurn = append(out.BeforeTurn, t.ModelCalls-before)
		before = t.ModelCalls
	}
	return out
}

func (r *Result) checkModelCalls() error {
	m := r.ModelCalls
	if m.Basis == BasisNotMeasured && m.BeforeTurn == nil {
		return nil
	}
	if m.Basis != BasisObserved || r.SubjectBasis != BasisObserved || int64(len(m.BeforeTurn)) != r.Turns {
		return errors.New("modelCalls are neither not_measured nor one count for each turn of a caller named by a sidecar")
	}
	if slices.Min(m.BeforeTurn) < 0 { // there are turns: see checkResult
		return errors.New("modelCalls has a negative count")
	}
	return nil
}
