package await_test

import (
	"context"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/internal/await"
)

func TestWaitForSaysTheCause(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tries := 0
	err := await.For(ctx, zap.NewNop(), "Vault", nil, func() error {
		if tries++; tries == 1 {
			return custody.Unavailable(nil, "Vault is sealed")
		}
		cancel()
		return custody.Unavailable(ctx.Err(), "Vault does not answer in time")
	})
	if err == nil || !strings.Contains(err.Error(), "stopped while waiting for Vault: Vault is sealed") {
		t.Errorf("got %v", err)
	}
}
