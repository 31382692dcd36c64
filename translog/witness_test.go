package translog_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"filippo.io/torchwood"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/logtest"
	"github.com/actionproof/mediator/translog"
)

func witnessKey(t testing.TB, seed string) *torchwood.CosignatureVerifier {
	t.Helper()
	s, err := torchwood.NewCosignatureSigner("witness.example/w", private(seed))
	check.Must(t, err)
	return s.Verifier()
}

// TestWitnesses: a quorum that cosigns is enough, whatever the other witness does.
func TestWitnesses(t *testing.T) {
	forged := func(w http.ResponseWriter, _ *http.Request) bool {
		sig := make([]byte, 4+8+64)
		_, _ = rand.Read(sig)
		fmt.Fprintf(w, "\u2014 witness.example/w %s\n", base64.StdEncoding.EncodeToString(sig))
		return true
	}
	cosigned := func(seconds uint64) logtest.Answer {
		return func(w http.ResponseWriter, r *http.Request) bool {
			raw, _ := io.ReadAll(r.Body)
			_, signed, _ := strings.Cut(string(raw), "\n\n")
			text, _, _ := strings.Cut(signed, "\n\n")
			v := witnessKey(t, "X")
			sig := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, v.KeyHash()), seconds)
			sig = append(sig, ed25519.Sign(private("X"),
				fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s\n", seconds, text))...)
			fmt.Fprintf(w, "\u2014 %s %s\n", v.Name(), base64.StdEncoding.EncodeToString(sig))
			return true
		}
	}
	for name, tt := range map[string]struct {
		answer logtest.Answer
		want   string // in the failure of the witness
	}{
		"well": {nil, ""},
		"slow": {func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		}, ""},
		"unknown here":          {logtest.Says(404, ""), "404"},
		"overloaded":            {logtest.Says(503, ""), "503"},
		"a forged signature":    {forged, "no cosignature"},
		"an endless answer":     {logtest.Says(200, strings.Repeat("x", 100<<10)), "more than"},
		"another fork":          {logtest.Says(422, ""), "not the one"},
		"a size that cannot be": {logtest.Says(409, "99999999\n"), "put back"},
		"no size":               {logtest.Says(409, "-1\n"), "without a size"},
		"the same size again":   {logtest.Says(409, "0\n"), "the request had"},
		"a time long ago":       {cosigned(0), "differs from"},
		"a time far ahead":      {cosigned(1 << 40), "differs from"},
		"no time":               {cosigned(math.MaxUint64), "its cosignature"},
	} {
		t.Run(name, func(t *testing.T) {
			good, bad := logtest.NewWitness(t, "W"), logtest.NewWitness(t, "X")
			bad.Answer(tt.answer)
			p := policy(t, "witness good "+good.Key+" "+good.Serve(t), "witness bad "+bad.Key+" "+bad.Serve(t),
				"group any any good bad", "quorum any")
			store := open(t, filepath.Join(t.TempDir(), "ledger.db"))
			o, failures := options(t, p), make(chan error, 100)
			o.Failed = func(err error) { failures <- err }
			log, err := translog.New(t.Context(), store, o)
			check.Must(t, err)
			run(t, log)
			for i := range 3 {
				add(t, store, i, 1)
				check.Must(t, log.Wait(t.Context(), intent(i)))
			}
			text, err := translog.Prove(t.Context(), store, intent(2))
			check.Must(t, err)
			v, err := p.Verify(text)
			check.Must(t, err)
			if len(v.Witnesses) == 0 || tt.answer != nil &&
				(len(v.Witnesses) != 1 || v.Witnesses[0].Witness != "good") {
				t.Errorf("witnessed by %v", v.Witnesses)
			}
			for tt.want != "" && !strings.Contains((<-failures).Error(), tt.want) { //nolint:revive // until it comes
			}
		})
	}
}

// TestAway: without its witness nothing is accepted, and everything once it is back.
func TestAway(t *testing.T) {
	w := logtest.NewWitness(t, "W")
	w.Answer(logtest.Says(http.StatusBadGateway, ""))
	p := policy(t, "witness w "+w.Key+" "+w.Serve(t), "quorum w")
	begin := func(first, n int) (ledger.Log, *translog.Log, chan error) {
		store := open(t, filepath.Join(t.TempDir(), "ledger.db"))
		add(t, store, first, n)
		o, failures := options(t, p), make(chan error, 100)
		o.Failed = func(err error) { failures <- err }
		log, err := translog.New(t.Context(), store, o)
		check.Must(t, err)
		run(t, log)
		return store, log, failures
	}
	store, log, failures := begin(0, 3)
	if err := <-failures; !strings.Contains(err.Error(), "502") {
		t.Error(err)
	}
	_, err := translog.Prove(t.Context(), store, intent(0))
	check.WantCode(t, err, "log_unwitnessed")
	w.Answer(nil)
	check.Must(t, log.Wait(t.Context(), intent(2)))
	// Another log with the same key, from which a post is gone: the witness does not cosign it.
	_, other, failures := begin(1, 5)
	check.WantCode(t, <-failures, "log_contradicted")
	if s, err := other.Status(t.Context()); err != nil || s.Accepted.Note != "" {
		t.Errorf("accepted: %+v, %v", s.Accepted, err)
	}
}

// TestShared: of two processes that share a log, one learns at once that the witness cosigned the other's checkpoint
// before its own, and that this holds its entry too.
func TestShared(t *testing.T) {
	w := logtest.NewWitness(t, "W")
	store := open(t, filepath.Join(t.TempDir(), "ledger.db"))
	url := w.Serve(t) // which only one asks at
	one := start(t, store, policy(t, "witness w "+w.Key+" "+url, "quorum w"))
	other := start(t, store, policy(t, "witness w "+w.Key+" "+w.Serve(t), "quorum w"))
	run(t, one)
	run(t, other)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // far less than until the next heartbeats
	defer cancel()
	for n := range 20 {
		var overtaken atomic.Bool
		w.Answer(func(_ http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(url, r.Host) && !overtaken.Swap(true) {
				add(t, store, 2*n+1, 1)
				if err := other.Wait(ctx, intent(2*n+1)); err != nil {
					t.Errorf("the other: %v", err)
				}
			}
			return false
		})
		add(t, store, 2*n, 1)
		check.Must(t, one.Wait(ctx, intent(2*n)))
	}
}
