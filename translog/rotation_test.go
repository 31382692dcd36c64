package translog_test

import (
	"context"
	"crypto/ed25519"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/logtest"
	"github.com/actionproof/mediator/translog"
)

// TestNewOrigin: a log that has lost entries, as one that was put back from a backup, goes on under a new origin.
func TestNewOrigin(t *testing.T) {
	store := open(t, filepath.Join(t.TempDir(), "ledger.db"))
	add(t, store, 0, 3)
	check.Must(t, start(t, store, policy(t, "quorum none")).Publish(t.Context()))
	next, err := translog.NewKey("log.example/second", private("L").Public().(ed25519.PublicKey),
		func(_ context.Context, m []byte) ([]byte, error) { return ed25519.Sign(private("L"), m), nil })
	check.Must(t, err)
	o := options(t, translog.Unwitnessed(next))
	o.Key = next
	for range 2 {
		log, err := translog.New(t.Context(), store, o)
		check.Must(t, err, log.Publish(t.Context()))
	}
	proof, err := translog.Prove(t.Context(), store, intent(2))
	check.Must(t, err)
	if v, err := o.Policy.Verify(proof); err != nil || v.Index != 2 || v.Tree.N != 3 {
		t.Errorf("got %+v, %v", v, err)
	}
	_, err = policy(t, "quorum none").Verify(proof)
	check.WantCode(t, err, "log_unwitnessed")
}

// TestRotation: one policy with both keys of a log verifies proofs from before and after a rotation, and a checkpoint
// by the old key that somebody kept. Nobody's key but these counts, and none without the witness.
func TestRotation(t *testing.T) {
	w := logtest.NewWitness(t, "W")
	witness := "\nwitness w " + w.Key + " " + w.Serve(t) + "\nquorum w\n"
	vkey := func(seed string) string { return "log " + key(t, seed).String() }
	read := func(text string) *translog.Policy {
		p, err := translog.ParsePolicy([]byte(text))
		check.Must(t, err)
		return p
	}
	both := read(vkey("L") + " # until the rotation\n" + vkey("M") + " https://log.example" + witness)
	before, after := read(vkey("L")+witness), read(vkey("M")+witness)
	store := open(t, filepath.Join(t.TempDir(), "ledger.db"))
	server := httptest.NewServer(translog.Handler(store))
	defer server.Close()
	from := translog.Fetch(server.Client(), server.URL)
	defer server.Client().CloseIdleConnections()
	made := func(n int, o translog.Options) (proof, checkpoint []byte) {
		log, err := translog.New(t.Context(), store, o)
		check.Must(t, err)
		stop := run(t, log)
		defer stop()
		add(t, store, n, 1)
		log.Wake()
		check.Must(t, log.Wait(t.Context(), intent(n)))
		proof, err = translog.Prove(t.Context(), store, intent(n))
		check.Must(t, err)
		checkpoint, err = from.ReadEndpoint(t.Context(), "checkpoint")
		check.Must(t, err)
		return proof, checkpoint
	}
	old, kept := made(0, options(t, before))
	rotated := options(t, both)
	rotated.Key, rotated.Former = key(t, "M"), []translog.Key{key(t, "L")}
	fresh, last := made(1, rotated)
	for name, tt := range map[string]struct {
		p          *translog.Policy
		old, fresh string // the code of the refusal
	}{
		"both keys":    {both, "", ""},
		"the old key":  {before, "", "log_unwitnessed"},
		"the new key":  {after, "log_unwitnessed", ""},
		"a stranger's": {read(vkey("N") + witness), "log_unwitnessed", "log_unwitnessed"},
		"another witness": {read(vkey("L") + "\n" + vkey("M") + "\nwitness x " + logtest.NewWitness(t, "X").Key +
			"\nquorum x\n"), "log_unwitnessed", "log_unwitnessed"},
	} {
		for proof, want := range map[string]string{string(old): tt.old, string(fresh): tt.fresh} {
			v, err := tt.p.Verify([]byte(proof))
			if want != "" {
				check.WantCode(t, err, want)
			} else if err != nil || len(v.Witnesses) != 1 {
				t.Errorf("%s: %+v, %v", name, v, err)
			}
		}
	}
	var k translog.Known
	check.Must(t, k.AddCheckpoint("kept", kept, both), k.AddCheckpoint("the last one", last, both))
	check.WantCode(t, k.AddCheckpoint("kept", kept, after), "log_unwitnessed")
	r, err := translog.Audit(t.Context(), from, both, &k, nil)
	check.Must(t, err)
	if r.Found[translog.Forked]+r.Found[translog.Missing] > 0 || r.Size < 3 {
		t.Errorf("got %+v", r.Findings)
	}
}
