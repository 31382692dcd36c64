//go:build failpoint

// Command victim is a node that a test ends at a chosen point. Its arguments are the folder of its store and the file
// of [nodetest.Trust]. If the folder has a file dsn, the store is in the PostgreSQL database that it names.
// MEDIATOR_FAILPOINT names the file with the point.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/api"
	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/test/nodetest"
)

func main() {
	failpoint.Arm("victim", os.Getenv("MEDIATOR_FAILPOINT"))
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(dir, trust string) error {
	raw, err := os.ReadFile(trust)
	if err != nil {
		return err
	}
	var given nodetest.Trust
	if err := json.Unmarshal(raw, &given); err != nil {
		return err
	}
	o, err := given.Options()
	if err != nil {
		return err
	}
	if o.Store, err = open(dir); err != nil {
		return err
	}
	o.Log = zap.NewNop()
	service, err := reputation.New(o)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", api.Handler(service, api.Options{Now: o.Now, Log: o.Log}))
	mux.HandleFunc("POST /closed", func(w http.ResponseWriter, r *http.Request) {
		if err := errors.Join(service.Enter(r.Context()), service.Baselines(r.Context())); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	mux.HandleFunc("POST /settled", func(w http.ResponseWriter, r *http.Request) {
		if err := service.Settle(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		return err
	}
	fmt.Println("ready")
	return http.Serve(l, mux)
}

func open(dir string) (*store.Store, error) {
	dsn, err := os.ReadFile(filepath.Join(dir, "dsn"))
	if errors.Is(err, fs.ErrNotExist) {
		return store.Open(context.Background(), filepath.Join(dir, "reputation.db"), "")
	}
	if err != nil {
		return nil, err
	}
	return store.Open(context.Background(), "", string(dsn))
}
