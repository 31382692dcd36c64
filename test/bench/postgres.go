package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actionproof/mediator/test/ledgertest/pgtest"
)

// connectionsInAll are shared by the sidecars.
const connectionsInAll = 16

// shared is what postgres.json holds.
type shared struct {
	conditions
	Server   string         `json:"server"`
	Replicas []sharedResult `json:"replicas"`
}

// sharedResult is one number of sidecars: medians over the rounds. CPU is in ms a post.
type sharedResult struct {
	Sidecars     int     `json:"sidecars"` // 0: one, with its ledger in a file
	RPS          float64 `json:"rps"`
	Ratio        float64 `json:"ratio"` // of posts a second, to one sidecar on the database, each round's own
	P50          float64 `json:"p50_us"`
	P99          float64 `json:"p99_us"`
	Database     float64 `json:"cpu_ms_postgres"`
	Sidecar      float64 `json:"cpu_ms_sidecars"`
	Trigger      float64 `json:"cpu_ms_trigger"`
	Control      float64 `json:"cpu_ms_control"`
	Transactions float64 `json:"transactions_a_post,omitempty"`
	Posts        int     `json:"posts"`
	Errors       int     `json:"errors"`
}

// sharing is one number of sidecars while it is measured.
type sharing struct {
	*cell
	sidecars         int
	dsn              string
	trigger, control []int
	split            [][4]float64 // of each round: CPU seconds of database, sidecars, trigger, control
	transactions     float64      // before the first round that counts
	made             float64      // posts since then, with those that open the connections
}

func runPostgres(ctx context.Context, args []string) error {
	var rounds int
	var duration time.Duration
	var sidecars, out string
	f := flag.NewFlagSet("bench postgres", flag.ContinueOnError)
	f.IntVar(&rounds, "rounds", 5, "rounds, of which the medians count")
	f.DurationVar(&duration, "duration", 5*time.Second, "of one measurement in one round")
	f.StringVar(&sidecars, "sidecars", "1,2,4", "numbers of sidecars, the first one to compare with")
	f.StringVar(&out, "out", "test/bench", "folder for postgres.json and POSTGRES.md")
	if err := f.Parse(args); err != nil {
		return err
	}
	counts, err := parseCounts("sidecars", sidecars)
	if err != nil {
		return err
	}
	b, err := newStand()
	if err != nil {
		return err
	}
	defer b.stop()
	if err := b.startUpstream(); err != nil {
		return err
	}
	server, err := pgtest.Launch()
	if err != nil {
		return err
	}
	defer server.Close()
	defer b.stop() // before the server
	all, err := b.shareAll(ctx, server, counts)
	if err != nil {
		return err
	}
	r := shared{conditions: conditionsNow(rounds, duration)}
	if r.Server, err = query[string](ctx, all[0].dsn, "SHOW server_version"); err != nil {
		return err
	}
	for round := range rounds + 1 { // the first one fills caches and does not count
		for i := range all {
			if err := all[(i+round)%len(all)].round(ctx, server.PID(), duration, round); err != nil {
				return err
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round, rounds)
	}
	for _, s := range all {
		result, err := s.summarize(ctx, all[0])
		if err != nil {
			return err
		}
		r.Replicas = append(r.Replicas, result)
	}
	return errors.Join(writeJSON(filepath.Join(out, "postgres.json"), r), os.WriteFile(filepath.Join(out, "POSTGRES.md"), r.page(), 0o644))
}

// shareAll starts each number of sidecars on a database of its own, and last the one whose ledger is a file.
func (b *stand) shareAll(ctx context.Context, server *pgtest.Server, counts []int) ([]*sharing, error) {
	var all []*sharing
	for _, n := range counts {
		one, err := b.share(ctx, server, n)
		if err != nil {
			return nil, fmt.Errorf("%d sidecars: %w", n, err)
		}
		all = append(all, one)
	}
	file, err := b.unshared(ctx)
	if err != nil {
		return nil, err
	}
	return append(all, file), nil
}

// share starts n sidecars on a database of their own.
func (b *stand) share(ctx context.Context, server *pgtest.Server, n int) (*sharing, error) {
	dsn, err := server.Create()
	if err != nil {
		return nil, err
	}
	r, err := b.startReplicas(ctx, fmt.Sprintf("replicas-%d", n), dsn, n)
	if err != nil {
		return nil, err
	}
	c := &cell{Name: fmt.Sprintf("%d sidecars", n), Connections: connectionsInAll, target: r.target, call: postOnce}
	return &sharing{cell: c, sidecars: n, dsn: dsn, trigger: r.trigger, control: r.control}, nil
}

// unshared starts one sidecar whose ledger is a file, to compare with.
func (b *stand) unshared(ctx context.Context) (*sharing, error) {
	t, err := b.deploy(ctx, deployment{name: "file"})
	if err != nil {
		return nil, err
	}
	s := &sharing{cell: &cell{Name: "a file", Connections: connectionsInAll, target: t, call: postOnce}}
	for _, pid := range t.pids {
		if is(pid, "trigger") {
			s.trigger = append(s.trigger, pid)
		}
		if is(pid, "control") {
			s.control = append(s.control, pid)
		}
	}
	return s, t.await(ctx)
}

// round measures one round; the first one, 0, does not count.
func (s *sharing) round(ctx context.Context, server int, d time.Duration, round int) error {
	if round == 1 && s.dsn != "" {
		if err := s.count(ctx, &s.transactions); err != nil {
			return err
		}
	}
	used := func() [4]float64 {
		var database float64
		if s.dsn != "" {
			database = cpu(children(server)) + ended(server)
		}
		return [4]float64{database, cpu(s.target.sidecar), cpu(s.trigger), cpu(s.control)}
	}
	before := used()
	sample, err := s.load(ctx, d)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	if round == 0 {
		return nil
	}
	made := float64(sample.calls + s.Connections) // each connection makes one post before the clock starts
	after := used()
	for i := range after {
		after[i] = (after[i] - before[i]) * 1000 / made
	}
	s.samples, s.split, s.made = append(s.samples, sample), append(s.split, after), s.made+made
	return nil
}

// count reads how many transactions the database has committed, once its processes have told: they do so about once a second.
func (s *sharing) count(ctx context.Context, to *float64) error {
	time.Sleep(2 * time.Second)
	n, err := query[int64](ctx, s.dsn, "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")
	*to = float64(n)
	return err
}

func (s *sharing) summarize(ctx context.Context, first *sharing) (sharedResult, error) {
	r := sharedResult{
		Sidecars: s.sidecars, RPS: middle(s.samples, func(s sample) float64 { return s.rps }), P50: middle(s.samples, func(s sample) float64 { return s.p50 }),
		P99: middle(s.samples, func(s sample) float64 { return s.p99 }), Ratio: paired(s.cell, first.cell),
	}
	for i, to := range []*float64{&r.Database, &r.Sidecar, &r.Trigger, &r.Control} {
		var values []float64
		for _, split := range s.split {
			values = append(values, split[i])
		}
		*to = mid(values)
	}
	for _, sample := range s.samples {
		r.Posts, r.Errors = r.Posts+sample.calls, r.Errors+sample.errors
	}
	if s.dsn == "" {
		return r, nil
	}
	var now float64
	err := s.count(ctx, &now)
	r.Transactions = (now - s.transactions) / s.made
	return r, err
}

// ended returns the processor time of a process's children that have ended, in seconds.
func ended(pid int) float64 {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(raw), ") ")
	fields := strings.Fields(rest)
	ticks := 0
	for _, i := range []int{13, 14} { // cutime, cstime
		if i < len(fields) {
			n, _ := strconv.Atoi(fields[i])
			ticks += n
		}
	}
	return float64(ticks) / 100 // USER_HZ
}

// query returns the one value of a query.
func query[T any](ctx context.Context, dsn, sql string) (v T, err error) {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return v, err
	}
	defer c.Close(ctx)
	err = c.QueryRow(ctx, sql).Scan(&v)
	return v, err
}

func (r shared) page() []byte {
	var w bytes.Buffer
	fmt.Fprintf(&w, "# Sidecars that share a database\n\nWritten by `make bench-postgres`, %s: %s, %d cores, load average at the start %s, PostgreSQL %s, %d rounds of %.1f s a measurement, in alternation.\n", r.When, r.Machine, r.Cores, r.Load, r.Server, r.Rounds, r.Seconds)
	fmt.Fprintf(&w, `
Strict posts of 1 KiB over %d connections in all, spread evenly over the sidecars, which share one PostgreSQL database on a unix socket, one trigger
service and one control plane. fsync and synchronous_commit are on. Load, upstream, database and mediator share the cores, so more sidecars can
show here that they do not get in each other's way, not what more machines bring; CPU a post by part says what each part would need of a machine
of its own. The ratio is the median of the rounds' own. Transactions are those that the database counts as committed, for all that it did meanwhile.
`, connectionsInAll)
	w.WriteString(r.busy())
	w.WriteString(`
| sidecars | posts/s | ratio | p50 µs | p99 µs | CPU a post, ms: PostgreSQL | sidecars | trigger | control | transactions a post | posts | errors |
|---|---|---|---|---|---|---|---|---|---|---|---|
`)
	for _, s := range r.Replicas {
		name, transactions := fmt.Sprint(s.Sidecars), fmt.Sprintf("%.2f", s.Transactions)
		if s.Sidecars == 0 {
			name, transactions = "1, its ledger in a file", ""
		}
		fmt.Fprintf(&w, "| %s | %.0f | %.2f | %.0f | %.0f | %.2f | %.2f | %.2f | %.2f | %s | %d | %d |\n",
			name, s.RPS, s.Ratio, s.P50, s.P99, s.Database, s.Sidecar, s.Trigger, s.Control, transactions, s.Posts, s.Errors)
	}
	return w.Bytes()
}
