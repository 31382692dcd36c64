package body

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/actionproof/mediator/test/check"
)

func TestTurns(t *testing.T) {
	b := NewStore(0)
	var taken []func()
	for i := range runtime.GOMAXPROCS(0) {
		done, err := b.Turn(t.Context(), fmt.Sprint(i), small+1)
		check.Must(t, err)
		taken = append(taken, done)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.Turn(over, "other", small+1)
	check.WantCode(t, err, "overloaded")
	done, err := b.Turn(over, "other", small)
	check.Must(t, err)
	done()
	taken[0]()
	done, err = b.Turn(t.Context(), "other", small+1)
	check.Must(t, err)
	done()
}
