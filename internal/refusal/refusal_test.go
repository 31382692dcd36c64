package refusal_test

import (
	"errors"
	"io"
	"testing"

	"github.com/actionproof/mediator/internal/refusal"
)

func TestForOperator(t *testing.T) {
	short := refusal.New("gate_unavailable", "the API refused: %w", io.EOF)
	long := short.ForOperator("and said: %q", "runtime-key:v1")
	for r, want := range map[*refusal.Refusal]string{
		short: "the API refused: EOF",
		long:  `the API refused: EOF, and said: "runtime-key:v1"`,
	} {
		if r.Error() != want || r.Public() != "the API refused: EOF" || r.Code() != "gate_unavailable" ||
			!errors.Is(r, short) || !errors.Is(r, io.EOF) {
			t.Errorf("%q, public %q, code %s", r, r.Public(), r.Code())
		}
	}
}
