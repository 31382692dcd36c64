package gate_test

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/httpsig"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

type transaction struct {
	did             []string
	consume, commit error
}

func (x *transaction) Consume(_ context.Context, keys ...ledger.Key) error {
	var kinds []string
	for _, k := range keys {
		kinds = append(kinds, k.Kind)
	}
	x.did = append(x.did, "consume "+strings.Join(kinds, " "))
	return x.consume
}

func (x *transaction) Commit() error   { x.did = append(x.did, "commit"); return x.commit }
func (x *transaction) Rollback() error { x.did = append(x.did, "rollback"); return nil }

func TestWhatIsCommitted(t *testing.T) {
	t.Parallel()
	const keys = "consume capability request_proof"
	made, not := []string{keys, "commit", "rollback"}, []string{keys, "rollback", "rollback"} // the last does nothing
	answers := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
	}
	writes := func(size int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for range 2 { // more than one part
				_, _ = io.WriteString(w, strings.Repeat("x", size/2))
			}
		}
	}
	fault := errors.New("a secret detail")
	for _, row := range []struct {
		name    string
		tx      *transaction
		begin   error
		handler http.HandlerFunc
		status  int
		code    string
		size    int
		did     []string
	}{
		{"says nothing", &transaction{}, nil, func(http.ResponseWriter, *http.Request) {}, 200, "", 0, made},
		{"says 200, and then something else", &transaction{}, nil, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(200)
			w.WriteHeader(202)
		}, 200, "", 0, made},
		{"says 399", &transaction{}, nil, answers(399), 399, "", 0, made},
		{"says 400", &transaction{}, nil, answers(400), 400, "", 0, not},
		{"says 500", &transaction{}, nil, answers(500), 500, "", 0, not},
		{"says as much as is held back", &transaction{}, nil, writes(4 << 20), 200, "", 4 << 20, made},
		{"says more", &transaction{}, nil, writes(4<<20 + 2), 500, "internal", -1, []string{keys, "rollback"}},
		{"has used keys", &transaction{consume: &ledger.ConsumedError{}}, nil, nil, 409, "replayed", -1,
			[]string{keys, "rollback"}},
		{"cannot consume", &transaction{consume: fault}, nil, nil, 500, "internal", -1, []string{keys, "rollback"}},
		{"cannot begin", &transaction{}, fault, nil, 500, "internal", -1, nil},
		{"cannot commit", &transaction{commit: fault}, nil, answers(201), 502, "indeterminate", -1, made},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var refused error
			a := newAPI(t, func(a *api, server *gate.Server, mux *http.ServeMux) {
				mux.Handle("POST /held", server.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if row.handler == nil || gate.TransactionFrom(r.Context()) != row.tx || gate.Tx(r.Context()) != nil {
						t.Error("the handler was called, or without its transaction")
						return
					}
					row.handler(w, r)
				}), gate.Protect{
					Bind: bind, InTransaction: func(context.Context) (gate.Transaction, error) { return row.tx, row.begin },
					Refused: func(_ *http.Request, err error) { refused = err },
				}))
			})
			r := a.request(t, a.earn(t, bound("POST /held", gatetest.Content)), "/held", gatetest.Content)
			if row.size >= 0 {
				resp, err := a.server.Client().Do(r)
				check.Must(t, err)
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode != row.status || len(body) != row.size {
					t.Errorf("got %d with %d bytes, %v", resp.StatusCode, len(body), err)
				}
			} else if status, code := a.do(t, r); status != row.status || code != row.code {
				t.Errorf("got %d %s, want %d %s", status, code, row.status, row.code)
			}
			if cause := cmp.Or(row.begin, row.tx.consume, row.tx.commit); cause != nil && !errors.Is(refused, cause) {
				t.Errorf("Refused learns %v, not %v", refused, cause)
			}
			if !slices.Equal(row.tx.did, row.did) {
				t.Errorf("the transaction did %q, not %q", row.tx.did, row.did)
			}
		})
	}
}

func TestAssuranceOfAnAdmission(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		admission gate.Admission
		consumed  bool
		want      bool
	}{
		"consumed":     {gate.Admission{Capability: "c"}, true, true},
		"not consumed": {gate.Admission{Capability: "c"}, false, false}, "no capability": {gate.Admission{}, true, false},
	} {
		if single := !slices.Contains(tt.admission.Assurance(tt.consumed).Issues, "consumption_missing"); single != tt.want {
			t.Errorf("%s: single use holds: %t, %v", name, single, tt.admission.Assurance(tt.consumed).Issues)
		}
	}
}

func TestAssuranceOfARefusedPost(t *testing.T) {
	t.Parallel()
	capability, proof := ledger.Check{Name: "capability"}, ledger.Check{Name: "request proof", OK: true}
	for name, checks := range map[string][]ledger.Check{"no check": nil, "refused": {capability},
		"refused, and more": {capability, proof}} {
		if a := (gate.Authorization{Checks: checks}).Assurance(true); a.OK || a.Claim != policy.ClaimNone ||
			len(a.Issues) != 9 {
			t.Errorf("%s: %+v", name, a)
		}
	}
	capability.OK = true
	if a := (gate.Authorization{Checks: []ledger.Check{capability}}).Assurance(true); a.OK ||
		!slices.Equal(a.Issues, []string{"request_proof_missing"}) {
		t.Errorf("without a proof: %+v", a)
	}
}

// TestUnsigned: what is flushed or too large to hold goes out as it comes, without a signature.
func TestUnsigned(t *testing.T) {
	t.Parallel()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	check.Must(t, err)
	for name, row := range map[string]struct {
		answer func(http.ResponseWriter)
		size   int
		signed bool
	}{
		"nothing": {func(http.ResponseWriter) {}, 0, true},
		"some":    {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "some") }, 4, true},
		"flushed": {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "some"); w.(http.Flusher).Flush() }, 4, false},
		"large":   {func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, 4<<20+1)) }, 4<<20 + 1, false},
	} {
		a := newAPI(t, func(_ *api, s *gate.Server, mux *http.ServeMux) {
			mux.Handle("/signed", s.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				row.answer(w)
			}), gate.Protect{Bind: bind, Sign: key}))
		})
		token := a.earn(t, bound("POST /signed", gatetest.Content))
		r := a.request(t, token, "/signed", gatetest.Content)
		r.Header.Set("Content-Digest", httpsig.ContentDigest(sha256.Sum256([]byte(gatetest.Content))))
		r.Header.Set("Idempotency-Key", capabilityID(t, token))
		resp, err := a.server.Client().Do(r)
		check.Must(t, err)
		body, err := io.ReadAll(resp.Body)
		check.Must(t, err, resp.Body.Close())
		if got := resp.Header.Get("Signature") != ""; got != row.signed || len(body) != row.size ||
			resp.StatusCode != 200 {
			t.Errorf("%s: %d, %d bytes, signed: %t", name, resp.StatusCode, len(body), got)
		}
	}
}
