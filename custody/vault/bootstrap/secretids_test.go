package bootstrap_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/test/check"
)

func TestSecretIDs(t *testing.T) {
	server.Reset(t)
	dir := t.TempDir()
	o := appRoles(dir)
	count := func() map[string]int {
		t.Helper()
		ids, err := bootstrap.SecretIDs(t.Context(), server.Client(t), o)
		check.Must(t, err)
		n := make(map[string]int)
		for i, id := range ids {
			n[id.Purpose]++
			if id.Accessor == "" || time.Since(id.Created).Abs() > time.Hour || i > 0 && ids[i-1].Purpose == id.Purpose &&
				ids[i-1].Created.Before(id.Created) {
				t.Errorf("%+v", id)
			}
		}
		return n
	}
	want := func(want map[string]int) {
		t.Helper()
		got := count()
		for _, r := range slices.Concat(bootstrap.Roles, bootstrap.Roots) {
			n := 1
			if w, ok := want[r.Purpose]; ok {
				n = w
			}
			if got[r.Purpose] != n {
				t.Errorf("%s has %d secret ids, want %d", r.Purpose, got[r.Purpose], n)
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
	for _, r := range bootstrap.Roles {
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

	prune := func(before time.Time) (n int) {
		t.Helper()
		ids, err := bootstrap.SecretIDs(t.Context(), server.Client(t), o)
		if err == nil {
			err = bootstrap.Prune(t.Context(), server.Client(t), o, ids, before)
		}
		check.Must(t, err)
		for _, id := range ids {
			if id.Pruned {
				n++
			}
		}
		return n
	}
	if n := prune(time.Now().Add(-time.Hour)); n != 0 {
		t.Errorf("%d secret ids of this moment were destroyed", n)
	}
	want(serve)
	if n := prune(time.Now().Add(time.Hour)); n != 2*len(serve) {
		t.Errorf("%d secret ids were destroyed", n)
	}
	want(nil)
	for _, r := range bootstrap.Roles {
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
