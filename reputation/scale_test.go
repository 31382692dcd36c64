package reputation_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
	"github.com/actionproof/mediator/test/nodetest"
	"github.com/actionproof/mediator/translog"
)

// BenchmarkReplicas publishes signals of 100 agents at replicas that share a database, by 64 clients of each, and closes
// their windows at once. Run it with -benchtime 6400x: more signals would be too many for one owner.
func BenchmarkReplicas(b *testing.B) {
	for _, replicas := range []int{1, 4} {
		b.Run(fmt.Sprint(replicas), func(b *testing.B) {
			k, dsn := gatetest.New(b), pgtest.Database(b)
			nodes, metrics := make([]*nodetest.Node, replicas), prometheus.NewRegistry()
			for i := range nodes {
				s, err := store.Open(b.Context(), "", dsn)
				must(b, err)
				b.Cleanup(func() { s.Close() })
				nodes[i] = nodetest.New(b, k, s, func(o *reputation.Options) {
					o.Metrics = prometheus.WrapRegistererWith(prometheus.Labels{"node": fmt.Sprint(i)}, metrics)
				})
			}
			said := make([]reputation.Spoken, b.N)
			for i := range said {
				agent := nodes[0].Agent(b, fmt.Sprint("agent:", i%100)).String()
				said[i] = nodes[0].Says(b, nodes[0].SignalOf(agent, fmt.Sprint("s-", i)))
			}
			clients := 64 * replicas
			b.ResetTimer()
			var all sync.WaitGroup
			for c := range clients {
				all.Go(func() {
					for i := c; i < b.N; i += clients {
						if _, err := nodes[i%replicas].Publish(b.Context(), said[i]); err != nil {
							b.Error(err)
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "signals/s")
			publishing := inTurns(b, metrics)
			b.ReportMetric(publishing/b.Elapsed().Seconds(), "serial/publishing")
			k.Clock.Advance(24 * time.Hour)
			began := b.Elapsed()
			for _, n := range nodes {
				all.Go(func() { must(b, n.Settle(b.Context())) })
			}
			all.Wait()
			b.ReportMetric((b.Elapsed() - began).Seconds(), "s/closing")
			b.ReportMetric((inTurns(b, metrics)-publishing)/(b.Elapsed()-began).Seconds(), "serial/closing")
		})
	}
}

// inTurns returns the seconds in which replicas had the log.
func inTurns(b *testing.B, metrics prometheus.Gatherer) (seconds float64) {
	families, err := metrics.Gather()
	must(b, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "mediator_node_disputes_turns_seconds_total" {
				seconds += m.GetCounter().GetValue()
			}
		}
	}
	return seconds
}

// BenchmarkStart starts a node on a log of equal entries, and asks it for a checkpoint and a tile.
func BenchmarkStart(b *testing.B) {
	for _, size := range []int64{1_000, 1_000_000, 10_000_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) { benchmarkStart(b, size) })
	}
}

func benchmarkStart(b *testing.B, size int64) {
	k, path := gatetest.New(b), filepath.Join(b.TempDir(), "reputation.db")
	s, err := store.Open(b.Context(), path, "")
	must(b, err)
	must(b, s.Close())
	entry := `{"at":1800000000,"final":{"signal_id":"` + strings.Repeat("a", 64) + `"}}`
	h := tlog.RecordHash([]byte(entry))
	completed, places, tree := slices.Clone(h[:]), "CASE", translog.Tree{Size: size}
	for place := range 24 {
		if size>>place&1 == 1 {
			tree.Edge = append([]tlog.Hash{h}, tree.Edge...)
		}
		places += fmt.Sprintf(" WHEN n & %d = %d THEN %d", 2<<place-1, 1<<place, 32*(place+1))
		h = tlog.NodeHash(h, h)
		completed = append(completed, h[:]...)
	}
	state, err := json.Marshal(map[string]any{"tree": tree, "last": 1_800_000_000})
	must(b, err)
	db, err := sql.Open("sqlite", path)
	must(b, err)
	_, err = db.ExecContext(b.Context(), `WITH RECURSIVE all_of(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM all_of WHERE n < $1)
		INSERT INTO steps SELECT n, $2, substr($3, 1, `+places+` END) FROM all_of`, size, entry, completed)
	must(b, err)
	_, err = db.ExecContext(b.Context(), `UPDATE state SET text = $1 WHERE id = 'log'`, string(state))
	must(b, errors.Join(err, db.Close()))
	for b.Loop() {
		s, err := store.Open(b.Context(), path, "")
		must(b, err)
		n := nodetest.New(b, k, s)
		must(b, n.Check(b.Context()))
		log, err := n.DisputeLog()
		must(b, err)
		head, _, err := log.TreeHead(b.Context())
		must(b, err)
		check.WantEqual(b, head, tree.Head())
		must(b, log.Tiles(b.Context(), []ledger.Tile{{Level: 2, N: 0}}))
		must(b, s.Close())
	}
}
