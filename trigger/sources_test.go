package trigger_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/actionproof/mediator/trigger"
)

// TestSetSources replaces sources in a running service: one goes on, one ends, one begins.
func TestSetSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		schedule := func(name, spec string) trigger.Source { return schedule(t, name, spec) }
		stays := schedule("stays", "@hourly")
		k := bubble(t, sourced(stays, schedule("ends", "30 * * * *")))
		defer k.Close()
		stop := k.run(t)
		time.Sleep(time.Hour - time.Nanosecond) // a fire time is due at the moment of the change
		if err := k.SetSources([]trigger.Source{schedule("begins", "15 * * * *"), stays}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Minute)
		if err := k.SetSources([]trigger.Source{schedule("s", "@hourly"), schedule("s", "@daily")}); err == nil {
			t.Error("two sources of one name were taken")
		}
		time.Sleep(30 * time.Minute)
		if err := k.SetSources(nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		stop()
		wantTimes(t, k, "2000-01-01T00:30:00Z", "2000-01-01T01:00:00Z", "2000-01-01T01:15:00Z", "2000-01-01T02:00:00Z",
			"2000-01-01T02:15:00Z")
	})
}

// TestSetSourcesOfDeliveries checks that a delivery is judged by the webhooks of its time.
func TestSetSourcesOfDeliveries(t *testing.T) {
	k := newStandardKit(t, vectorSecret)
	other := must(trigger.NewStandard("hooks", []string{"whsec_" + "b3RoZXIgc2VjcmV0IG9mIGVub3VnaCBieXRlcw=="}))(t)
	for _, c := range []struct {
		sources []trigger.Source
		code    string
	}{
		{[]trigger.Source{other}, "webhook_signature"}, {nil, "not_found"},
		{[]trigger.Source{hooks(t, vectorSecret)}, ""},
	} {
		if err := k.SetSources(c.sources); err != nil {
			t.Fatal(err)
		}
		if got := k.deliver(t, standardVector()); got.Code != c.code {
			t.Errorf("%+v, want %q", got, c.code)
		}
	}
}
