package translog_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/translog"
)

func witnessKey(t testing.TB, seed string) *torchwood.CosignatureVerifier {
	t.Helper()
	s, err := torchwood.NewCosignatureSigner("witness.example/w", private(seed))
	check.Must(t, err)
	return s.Verifier()
}

// witness is a small one by c2sp.org/tlog-witness. test/witness has the one that others run.
type witness struct {
	signer *torchwood.CosignatureSigner
	vkey   string

	mu     sync.Mutex
	seen   tlog.Tree
	answer func(w http.ResponseWriter, r *http.Request) bool // instead of it, if it returns true
}

func newWitness(t testing.TB, seed string) *witness {
	t.Helper()
	s, err := torchwood.NewCosignatureSigner("witness.example/w", private(seed))
	check.Must(t, err)
	return &witness{signer: s, vkey: s.Verifier().String()}
}

func (w *witness) serve(t testing.TB) (url string) {
	t.Helper()
	s := httptest.NewServer(w)
	t.Cleanup(s.Close)
	return s.URL + "/prefix/"
}

func (w *witness) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	raw, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(raw))
	if w.answer != nil && w.answer(rw, r) {
		return
	}
	head, signed, _ := strings.Cut(string(raw), "\n\n")
	lines := strings.Split(head, "\n")
	text, _, _ := strings.Cut(signed, "\n\n")
	c, bad := torchwood.ParseCheckpoint(text + "\n")
	old, unread := strconv.ParseInt(strings.TrimPrefix(lines[0], "old "), 10, 64)
	if err != nil || bad != nil || unread != nil || r.URL.Path != "/prefix/add-checkpoint" {
		http.Error(rw, "", http.StatusBadRequest)
		return
	}
	if old != w.seen.N {
		rw.Header().Set("Content-Type", "text/x.tlog.size")
		rw.WriteHeader(http.StatusConflict)
		fmt.Fprintf(rw, "%d\n", w.seen.N)
		return
	}
	var proof tlog.TreeProof
	for _, line := range lines[1:] {
		h, _ := tlog.ParseHash(line)
		proof = append(proof, h)
	}
	if old > 0 && tlog.CheckTree(proof, c.N, c.Hash, old, w.seen.Hash) != nil {
		http.Error(rw, "", http.StatusUnprocessableEntity)
		return
	}
	w.seen = c.Tree
	_, _ = io.WriteString(rw, w.line(text+"\n"))
}

// line returns the cosignature of a checkpoint.
func (w *witness) line(text string) string {
	signed, err := note.Sign(&note.Note{Text: text}, w.signer)
	if err != nil {
		return err.Error()
	}
	return strings.TrimPrefix(string(signed), text+"\n")
}

// TestWitnesses: a quorum that cosigns is enough, whatever the other witness does.
func TestWitnesses(t *testing.T) {
	forged := func(w http.ResponseWriter, _ *http.Request) bool {
		sig := make([]byte, 4+8+64)
		_, _ = rand.Read(sig)
		fmt.Fprintf(w, "\u2014 witness.example/w %s\n", base64.StdEncoding.EncodeToString(sig))
		return true
	}
	says := func(status int, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
			return true
		}
	}
	cosigned := func(seconds uint64) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			raw, _ := io.ReadAll(r.Body)
			_, signed, _ := strings.Cut(string(raw), "\n\n")
			text, _, _ := strings.Cut(signed, "\n\n")
			v := witnessKey(t, "X")
			sig := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, v.KeyHash()), seconds)
			sig = append(sig, ed25519.Sign(private("X"), fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s\n", seconds, text))...)
			fmt.Fprintf(w, "\u2014 %s %s\n", v.Name(), base64.StdEncoding.EncodeToString(sig))
			return true
		}
	}
	for name, tt := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request) bool
		want   string // in the failure of the witness
	}{
		"well": {nil, ""},
		"slow": {func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		}, ""},
		"unknown here":          {says(404, ""), "404"},
		"overloaded":            {says(503, ""), "503"},
		"a forged signature":    {forged, "no cosignature"},
		"an endless answer":     {says(200, strings.Repeat("x", 100<<10)), "more than"},
		"another fork":          {says(422, ""), "not the one"},
		"a size that cannot be": {says(409, "99999999\n"), "put back"},
		"no size":               {says(409, "-1\n"), "without a size"},
		"the same size again":   {says(409, "0\n"), "the request had"},
		"a time long ago":       {cosigned(0), "differs from"},
		"a time far ahead":      {cosigned(1 << 40), "differs from"},
		"no time":               {cosigned(math.MaxUint64), "its cosignature"},
	} {
		t.Run(name, func(t *testing.T) {
			good, bad := newWitness(t, "W"), newWitness(t, "X")
			bad.answer = tt.answer
			p := policy(t, "witness good "+good.vkey+" "+good.serve(t), "witness bad "+bad.vkey+" "+bad.serve(t),
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
			if len(v.Witnesses) == 0 || tt.answer != nil && (len(v.Witnesses) != 1 || v.Witnesses[0].Witness != "good") {
				t.Errorf("witnessed by %v", v.Witnesses)
			}
			for tt.want != "" && !strings.Contains((<-failures).Error(), tt.want) { //nolint:revive // until it comes
			}
		})
	}
}

// TestAway: without its witness nothing is accepted, and everything once it is back.
func TestAway(t *testing.T) {
	w := newWitness(t, "W")
	away := true // guarded by w.mu
	w.answer = func(rw http.ResponseWriter, _ *http.Request) bool {
		if away {
			rw.WriteHeader(http.StatusBadGateway)
		}
		return away
	}
	p := policy(t, "witness w "+w.vkey+" "+w.serve(t), "quorum w")
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
	w.mu.Lock()
	away = false
	w.mu.Unlock()
	check.Must(t, log.Wait(t.Context(), intent(2)))
	// Another log with the same key, from which a post is gone: the witness does not cosign it.
	_, other, failures := begin(1, 5)
	check.WantCode(t, <-failures, "log_contradicted")
	if s, err := other.Status(t.Context()); err != nil || s.Accepted.Note != "" {
		t.Errorf("accepted: %+v, %v", s.Accepted, err)
	}
}
