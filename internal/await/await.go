// Package await waits for what another process or person still has to bring: a file, a certificate, a custody that answers again.
package await

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody"
)

// ErrPending marks an error as one that time can mend, such as a key that the registry has not certified yet.
var ErrPending = errors.New("not certified yet")

// period is how often For tries again.
const period = 50 * time.Millisecond

// For tries until it succeeds or ctx ends, and gives up at an error that time cannot mend. A file that is not there, a custody that does not
// answer and [ErrPending] can be mended. It says once in the log what it waits for.
func For[T any](ctx context.Context, log *zap.Logger, what string, try func() (T, error)) (T, error) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	var because error
	for {
		v, err := try()
		if err == nil || !pending(err) {
			return v, err
		}
		if because == nil {
			log.Warn("not ready: waiting for "+what, zap.String("because", err.Error()))
		}
		if because == nil || ctx.Err() == nil { // else the end of ctx is what went wrong last
			because = err
		}
		select {
		case <-ctx.Done():
			return v, fmt.Errorf("stopped while waiting for %s: %w", what, because)
		case <-tick.C:
		}
	}
}

func pending(err error) bool {
	var unavailable *custody.Error
	switch {
	case custody.IsUnfit(err):
		return false
	case errors.Is(err, os.ErrNotExist), errors.Is(err, ErrPending):
		return true
	}
	return errors.As(err, &unavailable)
}
