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
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/refusal"
)

// ErrPending marks an error that can disappear with time, such as a key that the registry has not certified yet.
var ErrPending = errors.New("not certified yet")

// For calls try until it succeeds, fails with an error that is not [Pending], or ctx ends: again when one of the files
// may have changed, and each second. It logs once what it waits for.
func For(ctx context.Context, log *zap.Logger, what string, paths []string, try func() error) (err error) {
	if err = try(); err == nil || !Pending(err) {
		return err // mostly nothing is missing, and no file has to be watched
	}
	trying, end := context.WithCancel(ctx)
	defer end()
	because, said := err, false
	files.Follow(trying, paths, func() error {
		if err = try(); err == nil || !Pending(err) {
			end()
			return nil
		}
		if ctx.Err() == nil { // otherwise the error comes from its end
			because = err
		}
		return err
	}, func(err error) {
		if !said {
			log.Warn("not ready: waiting for "+what, zap.String("because", err.Error()))
		}
		said = true
	})
	if err == nil || !Pending(err) {
		return err
	}
	return fmt.Errorf("stopped while waiting for %s: %w", what, because)
}

// Success calls try until it succeeds or ctx ends, with a pause after each error. It logs each kind of error once in a
// row, and fails only when ctx ends.
func Success(ctx context.Context, log *zap.Logger, pause time.Duration, what string, try func() error) error {
	for failing := "nothing"; ctx.Err() == nil; _ = every.Sleep(ctx, pause) {
		err := try()
		if err == nil {
			return nil
		}
		if code := refusal.CodeOf(err); ctx.Err() == nil && code != failing {
			log.Error(what, zap.Error(err), zap.String("code", code))
			failing = code
		}
	}
	return ctx.Err()
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
