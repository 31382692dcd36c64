// Package await waits for another process or a person to provide something, such as a file or a certificate.
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

// ErrPending marks an error that can disappear with time, such as a key that the registry has not certified yet.
var ErrPending = errors.New("not certified yet")

const period = 50 * time.Millisecond

// For calls try until it succeeds, fails with an error that is not [Pending], or ctx ends. It logs once what it waits
// for.
func For[T any](ctx context.Context, log *zap.Logger, what string, try func() (T, error)) (T, error) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	var because error
	for {
		v, err := try()
		if err == nil || !Pending(err) {
			return v, err
		}
		if because == nil {
			log.Warn("not ready: waiting for "+what, zap.String("because", err.Error()))
		}
		if because == nil || ctx.Err() == nil { // later errors come from the end of ctx
			because = err
		}
		select {
		case <-ctx.Done():
			return v, fmt.Errorf("stopped while waiting for %s: %w", what, because)
		case <-tick.C:
		}
	}
}

// Pending reports whether err can disappear with time: a missing file, a custody that does not answer, or [ErrPending].
func Pending(err error) bool {
	var unavailable *custody.Error
	switch {
	case custody.IsUnfit(err):
		return false
	case errors.Is(err, os.ErrNotExist), errors.Is(err, ErrPending):
		return true
	}
	return errors.As(err, &unavailable)
}
