package gate_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/postgres"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

type shop struct {
	*api
	db      *sql.DB
	after   func(w http.ResponseWriter, r *http.Request)
	consume func(ctx context.Context, tx *sql.Tx, keys ...ledger.Key) error
}

func newShop(t *testing.T) *shop {
	t.Helper()
	dsn := pgtest.Database(t)
	used, err := postgres.Open(t.Context(), dsn, postgres.Options{Now: func() time.Time {
		return gatetest.Start
	}, Instance: "shop"})
	check.Must(t, err)
	t.Cleanup(func() { used.Close() })
	return openShop(t, "pgx", dsn, postgres.Consume)
}

func openShop(t *testing.T, driver, dsn string,
	consume func(ctx context.Context, tx *sql.Tx, keys ...ledger.Key) error) *shop {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	check.Must(t, err)
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(16)
	if _, err := db.Exec("CREATE TABLE posts (content text NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	s := &shop{db: db, consume: consume}
	s.api = newAPI(t, func(a *api, server *gate.Server, mux *http.ServeMux) {
		mux.Handle("POST /shop", server.Middleware(http.HandlerFunc(s.post), gate.Protect{
			Bind: bind, InTransaction: gate.SQL(db, func(ctx context.Context, tx *sql.Tx, keys ...ledger.Key) error {
				return s.consume(ctx, tx, keys...)
			}),
		}))
	})
	return s
}

func (s *shop) post(w http.ResponseWriter, r *http.Request) {
	content, err := io.ReadAll(r.Body)
	if err == nil {
		_, err = gate.Tx(r.Context()).ExecContext(r.Context(), "INSERT INTO posts (content) VALUES ($1)",
			string(content))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if s.after != nil {
		s.after(w, r)
	}
	w.WriteHeader(http.StatusCreated)
}

func (s *shop) rows(t *testing.T) (n int) {
	t.Helper()
	check.Must(t, s.db.QueryRow("SELECT count(*) FROM posts").Scan(&n))
	return n
}

func TestRaceInTransaction(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	made, replayed := s.race(t, "/shop")
	if made != 1 || replayed != 63 || s.rows(t) != 1 {
		t.Errorf("%d made, %d replayed, %d rows", made, replayed, s.rows(t))
	}
}

// TestOwnTable: the page's sample, in both databases that the page names.
func TestOwnTable(t *testing.T) {
	t.Parallel()
	for driver, dsn := range map[string]string{
		"pgx":    pgtest.Database(t),
		"sqlite": "file:" + filepath.Join(t.TempDir(), "posts.db") + "?_pragma=busy_timeout(60000)",
	} {
		t.Run(driver, func(t *testing.T) {
			s := openShop(t, driver, dsn, consumeIn)
			if _, err := s.db.Exec(
				"CREATE TABLE consumed (kind text, id text, expires bigint NOT NULL, PRIMARY KEY (kind, id))"); err != nil {
				t.Fatal(err)
			}
			if made, replayed := s.race(t, "/shop"); made != 1 || replayed != 63 || s.rows(t) != 1 {
				t.Errorf("%d made, %d replayed, %d rows", made, replayed, s.rows(t))
			}
			token := s.earn(t, bound("POST /shop", gatetest.Content))
			post := func(want, rows int) {
				t.Helper()
				if status, code := s.do(t, s.request(t, token, "/shop", gatetest.Content)); status != want ||
					s.rows(t) != rows {
					t.Errorf("got %d %s and %d rows, want %d and %d", status, code, s.rows(t), want, rows)
				}
			}
			s.after = func(w http.ResponseWriter, _ *http.Request) {
				problem.Write(w, refusal.New("content_malformed", "not like this"))
			}
			post(http.StatusUnprocessableEntity, 1)
			s.after = nil
			post(http.StatusCreated, 2)
			post(http.StatusConflict, 2)
		})
	}
}

func TestNoRowNoConsumption(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for name, tt := range map[string]struct {
		after  func(w http.ResponseWriter, r *http.Request)
		status int
	}{
		"refuses": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}, http.StatusUnprocessableEntity},
		"fails": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no", http.StatusServiceUnavailable)
		}, http.StatusServiceUnavailable},
		"panics": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0},
		"spoils its transaction": {func(_ http.ResponseWriter, r *http.Request) {
			_, _ = gate.Tx(r.Context()).ExecContext(r.Context(), "nonsense")
		}, http.StatusBadGateway},
		"ends the transaction": {func(_ http.ResponseWriter, r *http.Request) {
			_ = gate.TransactionFrom(r.Context()).Rollback()
		}, http.StatusBadGateway},
		"answers without measure": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.Copy(w, strings.NewReader(strings.Repeat("x", 5<<20)))
		}, http.StatusInternalServerError},
	} {
		t.Run(name, func(t *testing.T) {
			before := s.rows(t)
			token := s.earn(t, bound("POST /shop", gatetest.Content))
			s.after = tt.after
			resp, err := s.server.Client().Do(s.request(t, token, "/shop", gatetest.Content))
			if err == nil {
				resp.Body.Close()
			}
			if (err != nil) != (tt.status == 0) || err == nil && resp.StatusCode != tt.status {
				t.Errorf("got %v, %v, want status %d", resp, err, tt.status)
			}
			if n := s.rows(t) - before; n != 0 {
				t.Errorf("%d rows", n)
			}
			s.after = nil
			if status, code := s.do(t, s.request(t, token, "/shop", gatetest.Content)); status != http.StatusCreated ||
				s.rows(t) != before+1 {
				t.Errorf("the post is refused afterwards: %d %s", status, code)
			}
			if status, code := s.do(t, s.request(t, token, "/shop", gatetest.Content)); status != http.StatusConflict ||
				code != "replayed" || s.rows(t) != before+1 {
				t.Errorf("and it can be made again: %d %s", status, code)
			}
		})
	}
}

func TestNothingIsMadeUnconsumed(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.after = func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") }
	token := s.earn(t, bound("POST /shop", gatetest.Content))
	for _, tt := range []struct {
		name   string
		before func()
		status int
		code   string
	}{
		{"a fault", func() {
			s.consume = func(context.Context, *sql.Tx, ...ledger.Key) error { return errors.New("a secret detail") }
		}, 500, "internal"},
		{"a commit that could be lost", func() {
			s.consume = func(ctx context.Context, tx *sql.Tx, keys ...ledger.Key) error {
				_, err := tx.ExecContext(ctx, "SET LOCAL synchronous_commit = off")
				return errors.Join(err, postgres.Consume(ctx, tx, keys...))
			}
		}, 503, "ledger_unavailable"},
		{"no transaction", func() { s.db.Close() }, 500, "internal"},
	} {
		tt.before()
		if status, code := s.do(t, s.request(t, token, "/shop", gatetest.Content)); status != tt.status ||
			code != tt.code {
			t.Errorf("%s: got %d %s", tt.name, status, code)
		}
	}
}

func TestHeldAnswer(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, tt := range []struct {
		after  func(w http.ResponseWriter, r *http.Request)
		status int
		body   string
	}{
		{func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "made") }, http.StatusOK, "made"},
		{func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusAccepted)
			w.WriteHeader(500)
		}, http.StatusAccepted, ""},
		{func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/posts/1", http.StatusSeeOther)
		}, http.StatusSeeOther, ""},
	} {
		s.after = func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Made", "yes")
			tt.after(w, r)
		}
		before := s.rows(t)
		resp, err := s.server.Client().Transport.RoundTrip(
			s.request(t, s.earn(t, bound("POST /shop", gatetest.Content)), "/shop", gatetest.Content))
		check.Must(t, err)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != tt.status || resp.Header.Get("X-Made") != "yes" ||
			string(body) != tt.body || s.rows(t) != before+1 {
			t.Errorf("got %d %v %q, %d rows, %v", resp.StatusCode, resp.Header, body, s.rows(t)-before, err)
		}
	}
}

func TestAssuranceFrom(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	var got policy.Assurance
	s.after = func(_ http.ResponseWriter, r *http.Request) { got = gate.AssuranceFrom(r.Context()) }
	if status, code := s.do(t,
		s.request(t, s.earn(t, bound("POST /shop", gatetest.Content)), "/shop",
			gatetest.Content)); status != http.StatusCreated {
		t.Fatal(status, code)
	}
	if !got.OK || got.Claim != policy.ClaimControlledPath || got.NonHumanIdentityProven() {
		t.Errorf("got %+v", got)
	}
	a := newAPI(t, func(a *api, server *gate.Server, mux *http.ServeMux) {
		mux.Handle("POST /plain", server.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = gate.AssuranceFrom(r.Context())
		}), gate.Protect{Bind: bind}))
	})
	got = policy.Assurance{}
	if status, code := a.do(t,
		a.request(t, a.earn(t, bound("POST /plain", gatetest.Content)), "/plain",
			gatetest.Content)); status != http.StatusOK {
		t.Fatal(status, code)
	}
	if !got.OK || got.Claim != policy.ClaimControlledPath {
		t.Errorf("got %+v", got)
	}
	if none := gate.AssuranceFrom(t.Context()); none.OK || none.Claim != policy.ClaimNone ||
		len(none.Issues) != 9 {
		t.Errorf("without a middleware: %+v", none)
	}
}

func TestVerifyTellsAssurance(t *testing.T) {
	t.Parallel()
	k := gatetest.New(t)
	var used gatetest.Used
	s, err := gate.NewServer(k.Gate, used.Consume)
	check.Must(t, err)
	for _, asked := range []bool{true, false} {
		request := verifyRequest(t, k)
		if asked {
			request = `{"assurance":true,` + request[1:]
		}
		w := httptest.NewRecorder()
		s.Verify().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/verify", strings.NewReader(request)))
		var answer struct {
			Capability string
			Assurance  *struct {
				OK                     bool
				Claim                  string
				Issues                 []string
				NonHumanIdentityProven *bool
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer.Capability == "" ||
			(answer.Assurance != nil) != asked {
			t.Fatalf("asked %t: got %s, %v", asked, w.Body, err)
		}
		if r := answer.Assurance; asked &&
			(r.OK || r.Claim != policy.ClaimFreshWork || len(r.Issues) != 1 || r.Issues[0] != "request_proof_missing" ||
				r.NonHumanIdentityProven == nil || *r.NonHumanIdentityProven) {
			t.Errorf("got %+v", r)
		}
	}
}
