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
			err = NotOtherwise(beside, s.Token, c)
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
	both := make(map[string][2]any) // the leaves of both, by path
	for i, claims := range []autonomy.Claims{c, want} {
		raw, err := json.Marshal(claims)
		if err != nil {
			return err
		}
		var tree any
		if err := json.Unmarshal(raw, &tree); err != nil {
			return err
		}
		leaves("", tree, func(path string, leaf any) {
			pair := both[path]
			pair[i] = leaf
			both[path] = pair
		})
	}
	for _, path := range slices.Sorted(maps.Keys(both)) {
		if !alike(both[path][0], both[path][1]) {
			return refusal.New("score_mismatch",
				"the score's %s differs from the one computed again from the receipts", path)
		}
	}
	return nil
}

// leaves calls each with all texts, numbers and the like in a JSON value.
func leaves(path string, v any, each func(path string, leaf any)) {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			leaves(strings.TrimPrefix(path+"."+name, "."), member, each)
		}
	case []any:
		for i, item := range v {
			leaves(fmt.Sprintf("%s[%d]", path, i), item, each)
		}
	default:
		each(path, v)
	}
}

// tolerance bounds the difference of numbers that two machines have computed.
const tolerance = 1e-9

func alike(a, b any) bool {
	x, isNumber := a.(float64)
	y, isToo := b.(float64)
	return a == b || isNumber && isToo && math.Abs(x-y) <= tolerance*max(1, math.Abs(x), math.Abs(y))
}
