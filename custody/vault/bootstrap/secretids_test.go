package bootstrap_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/test/check"
)

func TestSecretIDs(t *testing.T) {
	server.Reset(t)
	dir := t.TempDir()
	o := appRoles(dir)
	roles := append(slices.Clone(bootstrap.Roles), bootstrap.Log, bootstrap.BotAuth)
	count := func(r bootstrap.Role) int {
		t.Helper()
		list, err := server.Client(t).Logical().List("auth/approle/role/mediator-" + r.Purpose + "/secret-id")
		check.Must(t, err)
		return len(list.Data["keys"].([]any))
	}
	want := func(want map[string]int) {
		t.Helper()
		for _, r := range slices.Concat(roles, bootstrap.Roots) {
			n := 1
			if w, ok := want[r.Purpose]; ok {
				n = w
			}
			if got := count(r); got != n {
				t.Errorf("%s has %d secret ids, want %d", r.Purpose, got, n)
			}
		}
	}
	apply(t, o)
	want(nil)
	apply(t, o)
	check.Must(t, os.Remove(filepath.Join(dir, "request_proof.secret-id"))) // moved to its process
	apply(t, o)
	apply(t, appRoles(t.TempDir()))
	want(nil)

	serve := make(map[string]int)
	for _, r := range roles {
		if r.Process == "serve" {
			serve[r.Purpose] = 3
		}
	}
	for range 2 {
		if said := deliver(t, dir, "serve"); strings.Count(said, "\n") != len(serve) {
			t.Fatal(said)
		}
	}
	want(serve)

	for _, r := range roles {
		if r.Process == "serve" { // with the newest, delivered last
			signs(t, dir, r)
		}
	}
}

func TestDeliverRefuses(t *testing.T) {
	kubernetes := bootstrap.Options{Transit: "transit", Kubernetes: &bootstrap.Kubernetes{}}
	for name, tt := range map[string]struct {
		o       bootstrap.Options
		process string
	}{
		"no such process": {appRoles("secrets"), "agent"}, "no process": {appRoles("secrets"), ""},
		"kubernetes": {kubernetes, "serve"},
		"no folder":  {appRoles(""), "serve"},
	} {
		if plan, err := bootstrap.Deliver(tt.o, tt.process); err == nil || plan != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
