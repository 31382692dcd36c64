package verification_test

import (
	"slices"
	"testing"
	"time"

	"github.com/actionproof/mediator/reputation/verification"
)

func TestModelCalls(t *testing.T) {
	r := newRig(t, verification.Options{})
	for name, tt := range map[string]struct {
		session string
		opened  int64
		counts  []int64 // with the turns
		want    []int64 // nil: not measured
	}{
		"of a sidecar":                       {"ses_1", 2, []int64{3, 3, 7, 8}, []int64{1, 0, 4, 1}},
		"of a sidecar that has seen none":    {"ses_2", 0, []int64{0, 0, 0, 0}, []int64{0, 0, 0, 0}},
		"where a turn has overtaken another": {"ses_3", 2, []int64{3, 5, 4, 8}, nil},
		"before which the count was higher":  {"ses_4", 4, []int64{3, 5, 6, 8}, nil},
		"without a sidecar":                  {"", 2, []int64{3, 3, 7, 8}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAgent(t)
			a.s, a.clock = r.service, r.clock
			a.by.Session, a.by.ModelCalls = tt.session, tt.opened
			a.start()
			for i, n := range tt.counts[:3] {
				turn := a.call(tool(i), "x")
				a.by.ModelCalls = n
				a.mustSubmit(turn)
				a.clock.pass(2 * time.Second)
			}
			turn := a.answer()
			a.by.ModelCalls = tt.counts[3]
			a.mustSubmit(turn)
			a.by.ModelCalls = 100 // what comes after the last turn counts for none
			got, err := a.register()
			if err != nil || got.Token == "" {
				t.Fatalf("%v, %+v", err, got)
			}
			basis := verification.BasisObserved
			if tt.want == nil {
				basis = verification.BasisNotMeasured
			}
			if c := claimsOf(t, got.Token); c.ModelCalls.Basis != basis || !slices.Equal(c.ModelCalls.BeforeTurn, tt.want) {
				t.Errorf("%+v, want %s %v", c.ModelCalls, basis, tt.want)
			}
		})
	}
}
