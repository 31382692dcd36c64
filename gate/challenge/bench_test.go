package challenge_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/test/check"
)

func BenchmarkChallenge(b *testing.B) {
	for _, o := range []challenge.Options{{}, {Difficulty: challenge.Gauntlet, Tasks: 8}} {
		i := newIssuer(b, o)
		ch := create(b, i, binding)
		r := solve(b, ch)
		ctx := context.Background()
		for _, work := range []struct {
			name string
			do   func() error
		}{
			{"create", func() error { _, err := i.Create(ctx, binding); return err }},
			{"solve", func() error { _, err := challenge.Solve(ctx, ch.Tasks); return err }},
			{"verify", func() error { _, err := i.Verify(ctx, ch, r, want); return err }},
			{"verify-token", func() error { _, err := i.VerifyToken(ctx, ch.Token, r, want); return err }},
		} {
			b.Run(fmt.Sprintf("%s/tasks=%d/%s", ch.Difficulty, len(ch.Tasks), work.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					check.Must(b, work.do())
				}
			})
		}
	}
}
