//go:build failpoint

// Command victim makes posts in a ledger with a transparency log, until a test ends it at a chosen point. Its arguments
// are the ledger (a file, or a DSN with a colon), the name of its instance, the file with the point (package
// failpoint), and how many posts it makes at most. It prints the id of each post that has begun.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/postgres"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/test/ledgertest"
	"github.com/actionproof/mediator/translog"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(place, instance, point, most string) error {
	ctx := context.Background()
	posts, err := strconv.Atoi(most)
	if err != nil {
		return err
	}
	store, err := open(ctx, place, instance)
	if err != nil {
		return err
	}
	o, err := ledgertest.LogOptions()
	if err != nil {
		return err
	}
	log, err := translog.New(ctx, store, o)
	if err != nil {
		return err
	}
	failpoint.Arm("victim", point)
	for n := range posts {
		r := ledger.Record{ID: fmt.Sprintf("post_%s_%d_%d", instance, os.Getpid(), n), Flow: "post", Started: time.Now()}
		if err := store.Begin(ctx, r); err != nil {
			return err
		}
		fmt.Println(r.ID)
		r.State = ledger.StateForwarded
		if err := store.Finish(ctx, r); err != nil {
			return err
		}
		if err := log.Publish(ctx); err != nil {
			return err
		}
	}
	return store.Close()
}

func open(ctx context.Context, place, instance string) (ledgertest.Logging, error) {
	if strings.Contains(place, ":") {
		return postgres.Open(ctx, place, postgres.Options{Now: time.Now, Instance: instance, Logged: func() {}})
	}
	return sqlite.Open(ctx, place, sqlite.Options{Now: time.Now, Logged: func() {}})
}
