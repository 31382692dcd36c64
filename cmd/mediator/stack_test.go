package main

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/demo"
	"github.com/actionproof/mediator/internal/devstack"
)

// TestPortInUse starts a deployment while somebody else has one of its ports: what it says is which, whichever process wanted it.
func TestPortInUse(t *testing.T) {
	for _, of := range []func(*rig) string{func(r *rig) string { return r.Hooks }, func(r *rig) string { return r.Listen }} {
		r := prepareRig(t, []string{demo.PlainHost}, func(r *rig) (http.Handler, string) { return r.github(t), clientRules })
		taken, err := net.Listen("tcp", of(r))
		must(t, err)
		defer taken.Close()
		s, err := devstack.Start(t.Context(), r.Dir)
		if err == nil {
			s.Stop()
		}
		if err == nil || !strings.Contains(err.Error(), "listen tcp "+of(r)+": bind: address already in use") {
			t.Errorf("%s is in use: %v", of(r), err)
		}
	}
}
