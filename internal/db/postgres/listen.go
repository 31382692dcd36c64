package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/actionproof/mediator/ledger"
)

// listenPause is the time between two attempts to connect.
const listenPause = time.Second

// Listen calls heard after each notification on channel and after each new connection, which may have missed one, until
// ctx ends. It calls failed with the error of each attempt. It takes one connection of the pool.
func (p *Pool) Listen(ctx context.Context, channel string, heard func(), failed func(error)) {
	for ctx.Err() == nil {
		err := p.listen(ctx, channel, heard)
		if ctx.Err() != nil {
			return
		}
		failed(Discreet(ledger.Unavailable("listen", err)))
		select {
		case <-ctx.Done():
		case <-time.After(listenPause):
		}
	}
}

func (p *Pool) listen(ctx context.Context, channel string, heard func()) error {
	c, err := p.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Raw(func(driver any) error {
		conn := driver.(*stdlib.Conn).Conn()
		defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it listens, so the pool must not have it back
		if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
			return err
		}
		for heard(); ; heard() {
			if _, err := conn.WaitForNotification(ctx); err != nil {
				return err
			}
		}
	})
}
