package members

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/actionproof/mediator/internal/refusal"
)

const maxNames = 16 // of each kind that a refusal tells

// Names collects names, at most 16.
type Names []string

// Add adds a name once; a text that is no name counts as an empty name.
func (n *Names) Add(name string) {
	if name = NameOf(name); len(*n) < maxNames && !slices.Contains(*n, name) {
		*n = append(*n, name)
	}
}

func (n Names) String() string {
	quoted := make([]string, len(n))
	for i, name := range n {
		if quoted[i] = strconv.Quote(name); name == "" {
			quoted[i] = "a text in place of a name"
		}
	}
	if len(n) > 1 {
		quoted[len(n)-1] += ": each"
	}
	return strings.Join(quoted, ", ")
}

// Judgement has what a request may not hold, so that one refusal names all of it.
type Judgement struct {
	Acts    Names // would make the provider act
	Unseen  Names // point to what no answer in the session made
	Unknown Names
}

// Refusal returns nil if the request may be sent.
func (j Judgement) Refusal() error {
	code := ""
	var sentences []string
	for _, part := range []struct {
		code, says string
		names      Names
	}{
		{"model_hosted_tool", "would make the model's provider do more than answer, unseen by the mediator", j.Acts},
		{"model_state_unseen", "points to content that the provider keeps and that no answer in this session made",
			j.Unseen},
		{"model_member_unknown", "is unknown to the mediator, so the provider could act on it", j.Unknown},
	} {
		if len(part.names) > 0 {
			code = cmp.Or(code, part.code)
			sentences = append(sentences, part.names.String()+" "+part.says)
		}
	}
	if code == "" {
		return nil
	}
	return refusal.New(code, "%s", strings.Join(sentences, "; "))
}

const maxName = 128 // bytes

// NameOf returns a text if it looks like a name, and else "": records must not hold texts.
func NameOf(s string) string {
	other := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("_-.:/@+", c)
	}
	if len(s) > maxName || strings.ContainsFunc(s, other) {
		return ""
	}
	return s
}

// IsName reports whether a text looks like a name: letters, digits and _-.:/@+, at most 128.
func IsName(s string) bool { return s != "" && NameOf(s) == s }
