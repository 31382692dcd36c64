package decide_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/policy/decide"
	"github.com/actionproof/mediator/test/check"
)

func TestEngines(t *testing.T) {
	old := newWorld(t, string(configs.Policy()))
	fresh := newWorld(t, strings.Replace(string(configs.Policy()), "rules:", "rules: # changed", 1))
	fresh.Strict.ManifestHash = strings.Repeat("a", 64)
	engines := [...]*decide.Engine{old.engine(), fresh.engine()}
	var e decide.Engines
	_, err := e.Decide(t.Context(), old.request())
	check.WantCode(t, err, "deployment_mismatch")

	check.Must(t, e.Set(engines[0]))
	check.Must(t, e.Set(engines[1]))
	if got, want := e.Manifests(), []string{fresh.Strict.ManifestHash, old.Strict.ManifestHash}; !slices.Equal(got, want) {
		t.Errorf("honoured: %v, want %v", got, want)
	}
	for _, w := range []*world{old, fresh} { // each has its own keys, so no other engine could verify its requests
		_, err := e.Decide(t.Context(), w.request())
		check.Must(t, err)
	}
	if e.Retire(engines[1]) {
		t.Error("the engine in force was retired")
	}
	if !e.Retire(engines[0]) || e.Retire(engines[0]) {
		t.Error("the engine before is not retired once")
	}
	_, err = e.Decide(t.Context(), old.request())
	check.WantCode(t, err, "deployment_mismatch")
	_, err = e.Decide(t.Context(), fresh.request())
	check.Must(t, err)

	again := fresh.another()
	check.Must(t, e.Set(again)) // it replaces the engine with the same manifest
	if e.Retire(engines[1]) || len(e.Manifests()) != 1 {
		t.Errorf("honoured: %v", e.Manifests())
	}
}

func TestEnginesAreBounded(t *testing.T) {
	var e decide.Engines
	for i := range 9 {
		w := newWorld(t, string(configs.Policy()))
		w.Strict.ManifestHash = strings.Repeat(string(rune('a'+i)), 64)
		if err := e.Set(w.engine()); (err != nil) != (i == 8) {
			t.Fatalf("engine %d: %v", i, err)
		}
	}
	if n := len(e.Manifests()); n != 8 {
		t.Errorf("%d are honoured", n)
	}
}
