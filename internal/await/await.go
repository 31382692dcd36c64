// Package await waits for something that another process or a person provides, such as a file, a certificate, or a
// custody that answers again.
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

// period is the pause between two tries of For.
const period = 50 * time.Millisecond

// For calls try until it succeeds, until ctx ends, or until try fails with an error that will not disappear with time.
// For retries if a file does not exist, if a custody does not answer, and on [ErrPending]. It logs once what it waits
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
		if because == nil || ctx.Err() == nil { // after that, try fails because ctx has ended
			because = err
		}
		select {
		case <-ctx.Done():
			return v, fmt.Errorf("stopped while waiting for %s: %w", what, because)
		case <-tick.C:
		}
	}
}

// Pending reports whether For would try again after err.
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
