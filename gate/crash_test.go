package gate_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/postgres"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
)

const (
	gateDSN   = "GATE_PROCESS_DSN"
	gateCrash = "GATE_PROCESS_CRASH" // where it kills itself; empty for nowhere
)

func reach(point string) {
	if os.Getenv(gateCrash) == point {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

func sameKit(t *testing.T) (k *gatetest.Kit) {
	t.Helper()
	t.Run("keys", func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, 1)
		k = gatetest.New(t)
	})
	return k
}

// TestGateProcess is the API of [TestGateCrashes]. It ends with its standard input.
func TestGateProcess(t *testing.T) {
	dsn := os.Getenv(gateDSN)
	if dsn == "" {
		return
	}
	used, err := postgres.Open(t.Context(), dsn, postgres.Options{Now: func() time.Time {
		return gatetest.Start
	}, Instance: "api"})
	check.Must(t, err)
	defer used.Close()
	db, err := sql.Open("pgx", dsn)
	check.Must(t, err)
	defer db.Close()
	s, err := gate.NewServer(sameKit(t).Gate, func(ctx context.Context, keys ...ledger.Key) error {
		reach("verified")
		err := used.Consume(ctx, keys...)
		reach("consumed")
		return err
	})
	check.Must(t, err)
	mux := http.NewServeMux()
	mux.Handle("POST /verify", s.Verify())
	mux.Handle("POST /posts",
		s.Middleware(posting(func(ctx context.Context, query string, args ...any) (sql.Result, error) {
			return db.ExecContext(ctx, query, args...)
		}), gate.Protect{Bind: bind}))
	mux.Handle("POST /shop",
		s.Middleware(posting(func(ctx context.Context, query string, args ...any) (sql.Result, error) {
			return gate.TransactionFrom(ctx).(crashingTransaction).Transaction.(gate.Queries).ExecContext(ctx, query,
				args...)
		}), gate.Protect{Bind: bind, InTransaction: crashingTransactions(db)}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		server.Close()
	}()
	fmt.Printf("listening %s\n", l.Addr())
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		t.Fatal(err)
	}
}

func posting(exec func(ctx context.Context, query string, args ...any) (sql.Result, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := exec(r.Context(), "INSERT INTO posts (content) VALUES ('made')"); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		reach("made")
		w.WriteHeader(http.StatusCreated)
	})
}

func crashingTransactions(db *sql.DB) func(context.Context) (gate.Transaction, error) {
	begin := gate.SQL(db, func(ctx context.Context, tx *sql.Tx, keys ...ledger.Key) error {
		reach("begun")
		err := postgres.Consume(ctx, tx, keys...)
		reach("consumed in it")
		return err
	})
	return func(ctx context.Context) (gate.Transaction, error) {
		tx, err := begin(ctx)
		return crashingTransaction{tx}, err
	}
}

type crashingTransaction struct{ gate.Transaction }

func (t crashingTransaction) Commit() error {
	reach("committing")
	err := t.Transaction.Commit()
	reach("committed")
	return err
}

type gateProcess struct {
	cmd     *exec.Cmd
	address string
}

func startGate(t *testing.T, dsn, crash string) *gateProcess {
	t.Helper()
	p := &gateProcess{cmd: exec.Command(os.Args[0], "-test.run=^TestGateProcess$")}
	p.cmd.Env = append(os.Environ(), gateDSN+"="+dsn, gateCrash+"="+crash)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	_, err := p.cmd.StdinPipe()
	check.Must(t, err)
	out, err := p.cmd.StdoutPipe()
	check.Must(t, errors.Join(err, p.cmd.Start()))
	lines := bufio.NewScanner(out)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "listening ") {
		rest, _ := io.ReadAll(out)
		t.Fatalf("the API does not start: %s %s %v", lines.Text(), rest, p.cmd.Wait())
	}
	p.address = strings.TrimPrefix(lines.Text(), "listening ")
	return p
}

// TestGateCrashes kills an API at every step, restarts it, and sends the request again.
func TestGateCrashes(t *testing.T) {
	k := sameKit(t)
	for _, tt := range []struct {
		target, crash string
		made          int    // rows after the crash
		again         string // what the same request gets afterwards
	}{
		{"/verify", "verified", 0, "200"},
		{"/verify", "consumed", 0, "409 replayed"},
		{"/posts", "verified", 0, "201"},
		{"/posts", "consumed", 0, "409 replayed"}, // the capability is lost, and the post not made
		{"/posts", "made", 1, "409 replayed"},
		{"/shop", "begun", 0, "201"},
		{"/shop", "consumed in it", 0, "201"},
		{"/shop", "made", 0, "201"},
		{"/shop", "committing", 0, "201"},
		{"/shop", "committed", 1, "409 replayed"},
	} {
		t.Run(tt.target[1:]+" "+tt.crash, func(t *testing.T) {
			dsn := pgtest.Database(t)
			db, err := sql.Open("pgx", dsn)
			check.Must(t, err)
			defer db.Close()
			if _, err := db.Exec("CREATE TABLE posts (content text NOT NULL)"); err != nil {
				t.Fatal(err)
			}
			body, header := requestTo(t, k, tt.target)
			crashing := startGate(t, dsn, tt.crash)
			if got := crashing.send(t, tt.target, body, header); got != "" {
				t.Errorf("the API answered %s instead of crashing", got)
			}
			if err := crashing.cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
				t.Errorf("the API ended with %v", err)
			}
			wantRows(t, db, tt.made)
			whole := startGate(t, dsn, "")
			if got := whole.send(t, tt.target, body, header); got != tt.again {
				t.Errorf("sent again: %s, want %s", got, tt.again)
			}
			if tt.again == "201" {
				tt.made++
			}
			wantRows(t, db, tt.made)
			if got := whole.send(t, tt.target, body, header); got != "409 replayed" {
				t.Errorf("sent a third time: %s", got)
			}
			wantRows(t, db, tt.made)
			if err := whole.cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
			_ = whole.cmd.Wait()
		})
	}
}

func requestTo(t *testing.T, k *gatetest.Kit, target string) (body string, header http.Header) {
	t.Helper()
	if target == "/verify" {
		return verifyRequest(t, k), http.Header{}
	}
	chain := k.Build(t, gatetest.Plan{Binding: bound("POST "+target, gatetest.Content)})
	a, err := gatetest.Admit(t.Context(), k.Gate, chain, func(context.Context, ...ledger.Key) error { return nil })
	check.Must(t, err)
	header = http.Header{"Authorization": {gatetest.Token}}
	header.Set(gate.CapabilityHeader, a.Capability)
	header.Set(gate.RequestProofHeader, k.Proof(t, a.Capability, gatetest.Token))
	return gatetest.Content, header
}

func (p *gateProcess) send(t *testing.T, target, body string, header http.Header) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.address+target,
		strings.NewReader(body))
	check.Must(t, err)
	r.Header = header.Clone()
	r.Header.Set("Content-Type", "application/json")
	r.Close = true
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	var d problem.Details
	if resp.StatusCode >= 400 {
		if err := json.NewDecoder(resp.Body).Decode(&d); err != nil {
			t.Error(err)
		}
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", resp.StatusCode, d.Code))
}

func wantRows(t *testing.T, db *sql.DB, want int) {
	t.Helper()
	var n int
	if err := db.QueryRow("SELECT count(*) FROM posts").Scan(&n); err != nil || n != want {
		t.Errorf("%d posts, %v; want %d", n, err, want)
	}
}
