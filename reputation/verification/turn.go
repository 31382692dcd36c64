package verification

import (
	"encoding/hex"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/translog"
)

// ChainSeed takes the place of the hash before the first turn. It is the original's constant, for its clients; the
// session's id is what tells sessions apart.
const ChainSeed = "groover-challenge-seed-v1"

// Bounds on what an agent sends, in bytes.
const (
	MaxTurns     = 16
	maxToolName  = 128
	maxInput     = 8 << 10
	maxOutput    = 32 << 10
	maxReasoning = 8 << 10
	maxWhole     = 1<<53 - 1 // the greatest integer that JavaScript keeps exactly
)

// Turn is one step of a trace: the tool called, its input and output, and the reason. The agent writes all of it.
type Turn struct {
	ToolCall  string `json:"toolCall"`
	Input     string `json:"input"`
	Output    string `json:"output"`
	Reasoning string `json:"reasoning"`
	Timestamp int64  `json:"timestamp"` // Unix milliseconds by the agent's clock
	Hash      string `json:"hash"`
}

// Trace is what an agent hands in at the registration.
type Trace struct {
	SessionID   string `json:"sessionId"`
	Turns       []Turn `json:"turns"`
	MerkleRoot  string `json:"merkleRoot"`
	Attestation string `json:"attestation"`
}

// text returns the hashed text, byte for byte as ECMAScript's JSON.stringify writes it.
func (t Turn) text(previous string) []byte {
	b := make([]byte, 0, len(t.Input)+len(t.Output)+len(t.Reasoning)+256)
	for i, member := range []struct{ name, value string }{
		{"prevHash", previous}, {"toolCall", t.ToolCall}, {"input", t.Input}, {"output", t.Output},
		{"reasoning", t.Reasoning},
	} {
		b = append(strictjson.AppendText(append(b, "{,"[min(i, 1)]), member.name), ':')
		b = strictjson.AppendText(b, member.value)
	}
	b = append(b, `,"timestamp":`...)
	return append(strconv.AppendInt(b, t.Timestamp, 10), '}')
}

// HashAfter returns the turn's hash after a turn with the hash previous, or after [ChainSeed].
func (t Turn) HashAfter(previous string) string { return evidence.HashBytes(t.text(previous)) }

func (t Turn) check() error {
	for _, part := range []struct {
		name    string
		size    int
		longest int
	}{
		{"toolCall", len(t.ToolCall), maxToolName}, {"input", len(t.Input), maxInput},
		{"output", len(t.Output), maxOutput}, {"reasoning", len(t.Reasoning), maxReasoning},
	} {
		if part.size > part.longest {
			return refusal.New("content_too_large", "the turn's %s has %d bytes; at most %d are allowed", part.name, part.size,
				part.longest)
		}
	}
	if t.ToolCall == "" {
		return refusal.New("query_malformed", "the turn names no tool (toolCall)")
	}
	if t.Timestamp > maxWhole || t.Timestamp < -maxWhole {
		return refusal.New("query_malformed", "the turn's timestamp is not a number of milliseconds")
	}
	return nil
}

func checkTrace(t Trace) error {
	if len(t.Turns) > MaxTurns {
		return refusal.New("content_too_large", "the trace has %d turns; at most %d are allowed", len(t.Turns), MaxTurns)
	}
	for _, turn := range t.Turns {
		if err := turn.check(); err != nil {
			return err
		}
	}
	return nil
}

// length counts the UTF-16 code units that can be seen, as JavaScript counts them. Spaces in a row are one.
func length(text string) int {
	seen := strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsGraphic(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) ||
			r == '\u2800' { // an empty Braille pattern
			return -1
		}
		return r
	}, text)
	return len(utf16.Encode([]rune(strings.Join(strings.Fields(seen), " "))))
}

// MerkleRoot returns the root as the original computes it: over pairs of hex texts, an odd one paired with itself.
// [Trace.RFC6962Root] avoids its two flaws: leaves and nodes are hashed alike, and a repeated last leaf does not change
// the root.
func MerkleRoot(hashes []string) string {
	if len(hashes) == 0 {
		return evidence.HashBytes([]byte("empty"))
	}
	level := hashes
	for len(level) > 1 {
		next := make([]string, 0, (len(level)+1)/2)
		for i := 0; i < len(level); i += 2 {
			next = append(next, evidence.HashBytes([]byte(level[i]+level[min(i+1, len(level)-1)])))
		}
		level = next
	}
	return level[0]
}

// Attestation binds a root to a session as the original does, without a key: only the signed result proves anything.
func Attestation(merkleRoot, sessionID string) string {
	return evidence.HashBytes([]byte(merkleRoot + sessionID))
}

// RFC6962Root returns the RFC 6962 tree head (SHA-256) over the hashed texts of the turns, in hex.
func (t Trace) RFC6962Root() string {
	var tree translog.Tree
	previous := ChainSeed
	for _, turn := range t.Turns {
		tree, _ = tree.With(turn.text(previous))
		previous = turn.Hash
	}
	root := tree.Head().Root
	return hex.EncodeToString(root[:])
}

func (t Trace) Hashes() []string {
	all := make([]string, len(t.Turns))
	for i, turn := range t.Turns {
		all[i] = turn.Hash
	}
	return all
}
