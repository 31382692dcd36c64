package reputation_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/test/full"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
	"github.com/actionproof/mediator/test/nodetest"
)

type victim struct {
	dir, trust, program string
	process             *exec.Cmd
	client              *http.Client
	ended               int
	statement           string // that goes with the next requests
}

func newVictim(t *testing.T, k *gatetest.Kit) *victim {
	t.Helper()
	full.Only(t, "time to build a program")
	dir := t.TempDir()
	v := &victim{dir: dir, trust: filepath.Join(dir, "trust.json"), program: filepath.Join(dir, "victim")}
	out, err := exec.Command("go", "build", "-tags", "failpoint", "-o", v.program,
		"../test/nodetest/victim").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	raw, err := json.Marshal(nodetest.TrustOf(t, k))
	must(t, err)
	must(t, os.WriteFile(v.trust, raw, 0o600))
	return v
}

func (v *victim) replica(t *testing.T, dsn string) *victim {
	t.Helper()
	other := &victim{dir: t.TempDir(), trust: v.trust, program: v.program}
	must(t, os.WriteFile(filepath.Join(other.dir, "dsn"), []byte(dsn), 0o600))
	return other
}

func (v *victim) begin(t *testing.T) {
	t.Helper()
	v.client = &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(v.dir, "socket"))
			}}}
	v.start(t)
	t.Cleanup(func() { v.kill() })
}

func (v *victim) start(t *testing.T) {
	t.Helper()
	_ = os.Remove(filepath.Join(v.dir, "socket"))
	v.process = exec.Command(v.program, v.dir, v.trust)
	v.process.Env = append(os.Environ(), "MEDIATOR_FAILPOINT="+filepath.Join(v.dir, "points"))
	v.process.Stderr = os.Stderr
	v.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := v.process.StdoutPipe()
	must(t, err)
	must(t, v.process.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
}

func (v *victim) kill() {
	_ = v.process.Process.Kill()
	_ = v.process.Wait()
}

func (v *victim) arm(t *testing.T, point string) (disarm func()) {
	t.Helper()
	points := filepath.Join(v.dir, "points")
	must(t, os.WriteFile(points, []byte("victim: "+point), 0o600))
	return func() { _ = os.Remove(points) }
}

func (v *victim) try(t *testing.T, path, token string, body []byte) (status int, answer []byte, answered bool) {
	t.Helper()
	req, err := http.NewRequest("POST", "http://node"+path, bytes.NewReader(body))
	must(t, err)
	if token != "" {
		req.Header.Set(interaction.CallerHeader, token)
	}
	if v.statement != "" {
		req.Header.Set(interaction.StatementHeader, v.statement)
	}
	resp, err := v.client.Do(req)
	if err == nil {
		answer, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	if err != nil { // it has ended
		_ = v.process.Wait()
		v.ended++
		v.start(t)
		return 0, nil, false
	}
	return resp.StatusCode, answer, true
}

func (v *victim) ask(t *testing.T, point, path string, token func() string, body, into any) {
	t.Helper()
	raw, err := json.Marshal(body)
	must(t, err)
	defer v.arm(t, point)()
	for {
		by := ""
		if token != nil {
			by = token()
		}
		status, got, answered := v.try(t, path, by, raw)
		switch {
		case !answered:
			continue
		case status != http.StatusOK:
			t.Fatalf("%s after a crash at %q: %d %s", path, point, status, got)
		case into != nil:
			must(t, json.Unmarshal(got, into))
		}
		return
	}
}

// TestCrash ends the node at each point of each request. The client repeats the request: then nothing is counted
// twice, and nothing is lost.
func TestCrash(t *testing.T) {
	k := gatetest.New(t)
	n := nodetest.New(t, k, nil) // signs for the agents
	points := []string{"ledger begun", "ledger written", "ledger committed", "challenge issued", "committed", "revealed",
		"session scored", "session entered", "baseline made"}
	sessions := make([]*gatetest.Session, len(points))
	for i := range points {
		sessions[i] = n.Calls(t, "ses_"+strconv.Itoa(i), 40)
		sessions[i].Close(t)
	}
	k.Clock.Advance(time.Second)
	v := newVictim(t, k)
	v.begin(t)
	type m = map[string]any
	for i, point := range points {
		s, id := sessions[i], "ses_"+strconv.Itoa(i)
		call := func(path string, body, into any) {
			t.Helper()
			raw, err := json.Marshal(body)
			must(t, err)
			v.ask(t, point, path, func() string { return n.CallerToken(t, id, path, raw, nil) }, body, into)
		}
		deliver := func(from, to int) {
			t.Helper()
			var answer struct {
				Sessions []struct {
					Next    int
					Problem any
				}
			}
			v.ask(t, point, "/v1/receipts", nil, m{"receipts": s.Receipts[from:to]}, &answer)
			if len(answer.Sessions) != 1 || answer.Sessions[0].Next != to+1 || answer.Sessions[0].Problem != nil {
				t.Fatalf("%s: %+v", point, answer)
			}
		}
		deliver(0, 20)
		var issued reputation.Issued
		call("/v1/challenge/issue", m{}, &issued)
		raw, hash := nodetest.Plan(t, issued.Nonce, nil)
		call("/v1/challenge/commit", m{"challenge_nonce": issued.Nonce, "commitment_hash": hash}, nil)
		call("/v1/challenge/commit", m{"challenge_nonce": issued.Nonce, "salt": nodetest.Salt, "strategy": raw}, nil)
		deliver(20, 41)
		v.ask(t, point, "/closed", nil, m{}, nil)
	}
	v.kill()
	// Three points are in every write, of which there are seven a session and its baseline; the others in one request
	// each.
	if v.ended < 3*5+6 {
		t.Errorf("the node has ended only %d times", v.ended)
	}
	kept, err := store.Open(t.Context(), filepath.Join(v.dir, "reputation.db"), "")
	must(t, err)
	defer kept.Close()
	for i := range points {
		id := "ses_" + strconv.Itoa(i)
		receipts, err := kept.Receipts(t.Context(), k.Owner(t), id, 1, store.MaxReceipts)
		must(t, err)
		challenges, err := kept.Challenges(t.Context(), k.Owner(t), id)
		must(t, err)
		if len(receipts) != 41 || len(challenges) != 1 || challenges[0].Revealed == 0 ||
			len(challenges[0].Asked) != 2*reputation.ProbePairs {
			t.Errorf("%s: %d receipts, %+v", points[i], len(receipts), challenges)
		}
	}
	samples, err := kept.Samples(t.Context(), k.Owner(t), 100)
	must(t, err)
	last, err := kept.LastBaseline(t.Context(), k.Owner(t))
	must(t, err)
	if len(samples) != len(points) || last.Samples != int64(len(points)) {
		t.Errorf("%d samples, the last baseline of %d", len(samples), last.Samples)
	}
	entries, err := kept.Entries(t.Context(), k.Agent(t).String(), 1)
	must(t, err)
	entered := make(map[string]bool)
	for _, one := range entries {
		e, err := accrual.ParseEntry([]byte(one.Text))
		must(t, err)
		entered[e.Session.ID] = true
	}
	if len(entries) != len(points) || len(entered) != len(points) {
		t.Errorf("%d entries of %d sessions", len(entries), len(entered))
	}
	// The counts of the owner are right: there is room for exactly the rest.
	owner, all := k.Owner(t), int64(len(points))
	fits := store.Addition{Owner: owner, Session: "more", MaxSessions: all + 1, MaxReceipts: all*41 + 1, At: time.Now(),
		Receipts: []store.Receipt{{Number: 1, Hash: "h", Request: "r"}}}
	must(t, kept.Append(t.Context(), fits))
	fits.Session, fits.Receipts[0].Hash = "too many", "i"
	if kept.Append(t.Context(), fits) == nil {
		t.Error("fewer receipts are counted than there are")
	}
}

// TestCrashOfAReplica ends one of two replicas at each point at which it enters sessions in the log of their agent.
// Then both enter them at once: each session is there once, and both go on from the same log.
func TestCrashOfAReplica(t *testing.T) {
	k, dsn := gatetest.New(t), pgtest.Database(t)
	kept, err := store.Open(t.Context(), "", dsn)
	must(t, err)
	defer kept.Close()
	n := nodetest.New(t, k, kept)
	points := []string{"ledger begun", "ledger written", "ledger committed", "session scored", "session entered"}
	const each = 4
	var sessions []*gatetest.Session
	for i := range each * len(points) {
		s := n.Calls(t, "ses_"+strconv.Itoa(i), 3)
		s.Close(t)
		sessions = append(sessions, s)
	}
	program := newVictim(t, k) // its clock shows when the last session has ended
	one, two := program.replica(t, dsn), program.replica(t, dsn)
	one.begin(t)
	two.begin(t)
	for i, point := range points {
		for _, s := range sessions[i*each : (i+1)*each] {
			n.Delivered(t, 5, s.Receipts...)
		}
		disarm := one.arm(t, point)
		if _, answer, answered := one.try(t, "/closed", "", []byte("{}")); answered {
			t.Errorf("the node does not end at %q: %s", point, answer)
		}
		disarm()
		var both sync.WaitGroup
		for _, v := range []*victim{one, two} {
			both.Go(func() {
				if status, answer, _ := v.try(t, "/closed", "", []byte("{}")); status != http.StatusOK {
					t.Errorf("after a crash at %q: %d %s", point, status, answer)
				}
			})
		}
		both.Wait()
	}
	c := reputed(t, n) // reads the whole log, and computes its hashes again
	if all := int64(len(sessions)); c.Log.Entries != all || c.TotalSessions != all || c.TotalInteractions != all {
		t.Errorf("%+v of %d sessions", c.Reputation, all)
	}
}
