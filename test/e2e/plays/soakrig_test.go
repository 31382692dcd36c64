package plays

import (
	"context"
	"crypto/tls"
	"database/sql"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/test/e2e/kit"
)

const soakRules = `
actions:
  - name: post
    match: {url: "https://PLAIN/posts/{n}", methods: [POST]}
    subject: agent:worker-1
    action: create_post
egress:
  - name: read
    match: {url: "https://PLAIN/reads/{n}", methods: [GET]}
  - name: upload
    match: {url: "https://PLAIN/uploads/{n}", methods: [PUT]}
` + kit.Upstream + `timeouts: {forward: 5s, responseHeader: 5s}
limits: {breaker: {pause: 1s}}
`

// soak is a deployment in front of an upstream that keeps a log, with everything that TestSoak counts.
type soak struct {
	*kit.Rig
	pace   *rate.Limiter
	atRest string

	processes sync.Mutex // held while a process is killed and started
	webhooks  sync.Mutex // one delivery at a time

	mu       sync.Mutex          // guards all below
	sent     map[string][]string // the idempotency keys with which each path arrived
	answers  []answer
	counts   map[string]int // of outcomes, as agents see them
	broken   []string       // what was broken, in this order
	mode     string         // what the upstream does instead of answering
	draw     *rand.Rand     // for the upstream
	server   *http.Server
	busyTill time.Time         // until when the ledger may have refused a record
	lines    map[net.Conn]bool // the agents' connections
}

type answer struct {
	path, post, code string
	status           int
	again            bool // the agent's HTTP client makes such a call again where its connection was lost
	unledgered       bool // the ledger was being kept from its work meanwhile
}

func newAccounted(t *testing.T, rules string) *soak {
	t.Helper()
	s := &soak{
		pace: rate.NewLimiter(rate.Limit(*soakRate), 1),
		sent: make(map[string][]string), counts: make(map[string]int), draw: rand.New(rand.NewPCG(*soakSeed, 0)),
		lines: make(map[net.Conn]bool),
	}
	s.Rig = kit.NewRig(t, kit.Plain, kit.Serve(s, rules), kit.ManyPosts, func(file string) string {
		return strings.Replace(file, "@every 1s", "@every 1h", 1)
	})
	return s
}

func (s *soak) signal(t *testing.T, name string, signal syscall.Signal) {
	t.Helper()
	s.processes.Lock()
	defer s.processes.Unlock()
	if err := s.Process(name).Cmd.Process.Signal(signal); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

func (s *soak) kill(t *testing.T, name string) {
	t.Helper()
	s.signal(t, name, syscall.SIGKILL)
	s.processes.Lock()
	defer s.processes.Unlock()
	<-s.Process(name).Done
}

func (s *soak) restart(t *testing.T, name string) {
	t.Helper()
	s.processes.Lock()
	defer s.processes.Unlock()
	s.quiet(t, name) // its log begins anew
	s.Stack.Processes = slices.DeleteFunc(s.Stack.Processes, func(p *devstack.Process) bool { return p.Name == name })
	err := s.Stack.StartProcess(name, name+".yaml")
	if err == nil {
		err = s.Stack.WaitFor(t.Context(), s.Process(name), "/readyz")
	}
	if err != nil { // no Fatal: this is not the test's goroutine
		t.Errorf("%s: %v", name, err)
	}
}

func (s *soak) end(t *testing.T) {
	t.Helper()
	s.Stack.Stop()
	if p := s.Process("serve"); p.Err != nil {
		t.Error(s.Stack.ExitError(p))
	}
	for _, name := range kit.Processes {
		s.quiet(t, name)
	}
}

func (s *soak) stopUpstream() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server.SetKeepAlivesEnabled(false)
}

func (s *soak) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines[conn] = true
	return line{conn, s}, nil
}

type line struct {
	net.Conn
	s *soak
}

func (l line) Close() error {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	delete(l.s.lines, l.Conn)
	return l.Conn.Close()
}

func (s *soak) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.lines {
		_ = conn.Close()
	}
}

func (s *soak) set(mode string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode = mode
}

func (s *soak) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.server = r.Context().Value(http.ServerContextKey).(*http.Server)
	if r.Method == http.MethodPost {
		s.sent[r.URL.Path] = append(s.sent[r.URL.Path], r.Header.Get("Idempotency-Key"))
	}
	mode := s.mode
	if mode != "answers 503" && s.draw.IntN(3) > 0 {
		mode = ""
	}
	s.mu.Unlock()
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	switch mode {
	case "resets":
		reset(w)
	case "hangs":
		<-r.Context().Done()
	case "answers slowly":
		drip(w, r)
	case "answers 500":
		w.WriteHeader(http.StatusInternalServerError)
	case "answers 503":
		w.WriteHeader(http.StatusServiceUnavailable)
	case "breaks off":
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, "not so much")
	default:
		s.answer(w, r)
	}
}

func (s *soak) answer(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		w.WriteHeader(http.StatusCreated)
	}
	if r.URL.Path[len(r.URL.Path)-1] == '7' { // some answers are long
		for range 64 {
			if _, err := w.Write(make([]byte, 8<<10)); err != nil {
				return
			}
		}
	}
}

func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_ = conn.(*tls.Conn).NetConn().(*net.TCPConn).SetLinger(0)
	_ = conn.(*tls.Conn).NetConn().Close()
}

func drip(w http.ResponseWriter, r *http.Request) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for range 10 {
		fmt.Fprintln(w, "more")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

func (s *soak) outcomes(total tally) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := 0
	for _, n := range s.counts {
		calls += n
	}
	broken := make(map[string]int)
	for _, b := range s.broken {
		broken[b]++
	}
	return fmt.Sprintf(
		"%d calls ended as: %s.\n%d records, of them %d posts: %s; %d posts arrived at the upstream.\n%s\nBroken: %s.",
		calls, counted(s.counts), total.records, total.posts, counted(total.states), total.sent, s.atRest, counted(broken))
}

func counted[K ~string](counts map[K]int) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(out, ", ")
}

type breakage struct {
	name string
	// kills breakages end a process. The long form plays them in its first half, so that the second shows growth.
	kills bool
	// play breaks it, and mends it after at least this time.
	play func(ctx context.Context, t *testing.T, s *soak, last time.Duration)
}

func breakages() []breakage {
	var all []breakage
	for _, name := range []string{"control", "trigger", "reputation"} {
		all = append(all,
			breakage{name + " killed", true, func(ctx context.Context, t *testing.T, s *soak, last time.Duration) {
				s.kill(t, name)
				pause(ctx, last)
				s.restart(t, name)
			}},
			breakage{name + " frozen", false, func(ctx context.Context, t *testing.T, s *soak, last time.Duration) {
				s.signal(t, name, syscall.SIGSTOP)
				pause(ctx, last)
				s.signal(t, name, syscall.SIGCONT)
			}})
	}
	for _, mode := range []string{"resets", "hangs", "answers slowly", "answers 500", "answers 503", "breaks off"} {
		all = append(all,
			breakage{"upstream " + mode, false, func(ctx context.Context, _ *testing.T, s *soak, last time.Duration) {
				s.set(mode)
				pause(ctx, last)
				s.set("")
			}})
	}
	return append(all,
		breakage{"ledger busy", false, busyLedger},
		breakage{"ledger locked", false, func(ctx context.Context, t *testing.T, s *soak, last time.Duration) {
			busyLedger(ctx, t, s, last+6*time.Second) // longer than the sidecar waits
		}},
		breakage{"bundle rewritten", false, rewriteBundle},
		breakage{"all connections closed", false, func(_ context.Context, _ *testing.T, s *soak, _ time.Duration) {
			s.hangUp()
		}},
	)
}

// breakThings plays all breakages, each once or in the long form until ctx ends.
func (s *soak) breakThings(ctx context.Context, t *testing.T) {
	draw := rand.New(rand.NewPCG(*soakSeed, 1<<32))
	half := time.Now().Add(*soakFor / 2)
	for ctx.Err() == nil {
		all := breakages()
		draw.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, b := range all {
			unit := time.Duration(kit.Size(1, 5)) * time.Millisecond
			last, gap := time.Duration(100+draw.IntN(400))*unit, time.Duration(40+draw.IntN(200))*unit
			if !b.kills || !kit.Long() || time.Now().Before(half) {
				b.play(ctx, t, s, last)
				s.mu.Lock()
				s.broken = append(s.broken, b.name)
				s.mu.Unlock()
			}
			if !pause(ctx, gap) {
				return
			}
		}
		if !kit.Long() {
			return
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func busyLedger(ctx context.Context, t *testing.T, s *soak, last time.Duration) {
	busy := func(till time.Time) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.busyTill = till
	}
	busy(time.Now().Add(time.Hour))
	defer func() { busy(time.Now()) }()
	db, err := sql.Open("sqlite",
		"file:"+s.In("state/ledger.db")+"?_pragma=busy_timeout(30000)&_txlock=immediate")
	if err != nil {
		t.Error(err)
		return
	}
	defer db.Close()
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		t.Error(err)
		return
	}
	pause(ctx, last)
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
}

func rewriteBundle(_ context.Context, t *testing.T, s *soak, _ time.Duration) {
	err := keyring.UpdateBundle(s.In(devstack.BundleFile), func(b *evidence.Bundle) error {
		slices.Reverse(b.Certificates)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
