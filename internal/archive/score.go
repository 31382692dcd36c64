package archive

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/reputation/autonomy"
)

// Score is a session's score with all its inputs except the receipts, as mediator reputation show score prints
// it.
type Score struct {
	Score json.RawMessage `json:"score"` // what the token claims
	Token string          `json:"token"`
	// Revealed has a closed session's challenges with the agent's strategies, from the node's internal endpoint.
	Revealed []autonomy.Challenge `json:"revealed,omitempty"`
	Baseline *autonomy.Baseline   `json:"baseline,omitempty"` // that the score names
}

// IsScore reports whether a token that begins with start claims to be a score.
func IsScore(start string) bool { return TypeOf(start) == autonomy.Kind.Typ }

// ParseScore reads a score, or its token alone, and verifies nothing. ok is false if there is none.
func ParseScore(raw []byte) (s Score, ok bool) {
	if strictjson.ParseMembers(raw, &s) != nil || s.Token == "" {
		s = Score{Token: strings.TrimSpace(string(raw))}
	}
	return s, IsScore(s.Token)
}

// JudgeScore verifies the token of a score, as [JudgeAppraised] does, and refuses other claims beside it.
func (a Archive) JudgeScore(s Score, now time.Time) (autonomy.Claims, error) {
	c, err := JudgeAppraised(a, autonomy.Kind, s.Token, now)
	if err == nil && s.Score != nil {
		var beside map[string]json.RawMessage
		if err = json.Unmarshal(s.Score, &beside); err == nil {
			err = NotOtherwise(beside, s.Token)
		}
	}
	return c, err
}

// NotComputed returns why a score cannot be computed again, or an empty text if it can.
func (s Score) NotComputed(c autonomy.Claims) string {
	switch {
	case c.ScoringHash != autonomy.ScoringHash:
		return fmt.Sprintf("it was computed by the formulas %s, version %s, but this program has those of version %s",
			c.ScoringHash, c.Version, autonomy.Version())
	case c.Signals.Challenge.Issued != int64(len(s.Revealed)):
		return "the strategies that the agent revealed are not here: mediator reputation show score " +
			"fetches them from the node's internal endpoint, once the session is closed"
	case c.BaselineHash != "" && s.Baseline == nil:
		return "its baseline is not here: mediator reputation show score fetches it"
	}
	return ""
}

// ScoreOf refuses a score of other receipts than those of session. Receipts and token are verified.
func ScoreOf(c autonomy.Claims, session *autonomy.Session) error {
	if session.Len() != c.HeadNumber || session.Head() != c.HeadHash {
		return refusal.New("score_mismatch",
			"the score rests on receipts up to %d (hash %s), but the receipts here end with %d (hash %s)",
			c.HeadNumber, c.HeadHash, session.Len(), session.Head())
	}
	return nil
}

// Agrees computes a score again, and refuses a different one. Call [ScoreOf] first.
func (s Score) Agrees(c autonomy.Claims, session *autonomy.Session) error {
	if s.Baseline != nil {
		if hash, err := s.Baseline.Hash(); err != nil || hash != c.BaselineHash || s.Baseline.Owner != c.Owner {
			return refusal.New("score_mismatch",
				"the score names the baseline with the hash %s, but the baseline here is another", c.BaselineHash)
		}
	}
	want := autonomy.NewClaims(session, c.BaselineHash, autonomy.Appraise(session, s.Revealed, s.Baseline))
	want.Registered, want.KeyClaims = c.Registered, c.KeyClaims
	got, err := tree(c)
	if err != nil {
		return err
	}
	computed, err := tree(want)
	if err != nil {
		return err
	}
	if where := differs("", got, computed); where != "" {
		return refusal.New("score_mismatch", "the score's %s differs from the one computed again from the receipts",
			where)
	}
	return nil
}

func tree(claims any) (v any, err error) {
	raw, err := json.Marshal(claims)
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal(raw, &v)
	return v, err
}

// tolerance bounds the difference of numbers that two machines have computed.
const tolerance = 1e-9

// differs returns where two trees differ first, or nothing.
func differs(name string, a, b any) string {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return name
		}
		for _, key := range slices.Sorted(maps.Keys(a)) {
			if where := differs(strings.TrimPrefix(name+"."+key, "."), a[key], b[key]); where != "" {
				return where
			}
		}
		return ""
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return name
		}
		for i := range a {
			if where := differs(fmt.Sprintf("%s[%d]", name, i), a[i], b[i]); where != "" {
				return where
			}
		}
		return ""
	case float64:
		if b, ok := b.(float64); ok && math.Abs(a-b) <= tolerance*max(1, math.Abs(a), math.Abs(b)) {
			return ""
		}
		return name
	}
	if a != b {
		return name
	}
	return ""
}
