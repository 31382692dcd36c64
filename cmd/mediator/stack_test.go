package main

import (
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestPortInUse starts a deployment while somebody else has one of its ports: what it says is which, whichever process wanted it.
func TestPortInUse(t *testing.T) {
	for _, of := range []func(*rig) string{func(r *rig) string { return r.hooks }, func(r *rig) string { return r.listen }} {
		r := prepareRig(t, []string{plainHost}, func(r *rig) (http.Handler, string) { return r.github(t), clientRules })
		taken, err := net.Listen("tcp", of(r))
		must(t, err)
		defer taken.Close()
		s, err := startStack(t.Context(), r.dir)
		if err == nil {
			s.stop()
		}
		if err == nil || !strings.Contains(err.Error(), "listen tcp "+of(r)+": bind: address already in use") {
			t.Errorf("%s is in use: %v", of(r), err)
		}
	}
}
