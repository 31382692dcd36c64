package sidecar

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

// TestAcceptedOverTime: what this sidecar accepts follows its clock as well as its bundle: a certificate of a registry
// whose clock is ahead counts once it has begun, and one that has ended counts no more.
func TestAcceptedOverTime(t *testing.T) {
	t.Parallel()
	k := gatetest.New(t)
	strict, err := k.Manifest.Strict()
	check.Must(t, err)
	certified := k.Clock.Now()
	now := certified
	verifier, err := evidence.NewVerifier(k.Trust(t), evidence.VerifierOptions{Now: func() time.Time { return now }})
	check.Must(t, err)
	var theirs policy.Accepted
	asked := 0
	plane := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		wire.Write(w, theirs, nil)
	}))
	defer plane.Close()
	a := &accepted{verifier: verifier, strict: strict, control: policy.NewClient(plane.URL, plane.Client())}
	kids := []string{k.Key(t, evidence.PurposeTriggerOriginProof).KeyID(),
		k.Key(t, evidence.PurposeTriggerReceipt).KeyID()}
	for _, step := range []struct {
		name  string
		at    time.Duration
		known bool // the control plane accepts the versions
		both  int
		asked int
	}{
		{"before the certificates begin", -time.Hour, true, 0, 1},
		{"they have begun, and the control plane lags", 0, false, 0, 2},
		{"it lags still", 0, false, 0, 3},
		{"it has the bundle", 0, true, 2, 4},
		{"nothing has changed", time.Second, true, 2, 4},
		{"they have ended", 10_000 * time.Hour, true, 0, 5},
	} {
		now, theirs = certified.Add(step.at), policy.Accepted{Trigger: []string{}, Node: []string{}}
		if step.known {
			theirs.Trigger = kids
		}
		both, err := a.get(t.Context())
		if err != nil || len(both.Trigger) != step.both || asked != step.asked {
			t.Errorf("%s: %v, %v, asked %d times", step.name, both.Trigger, err, asked)
		}
	}
}
