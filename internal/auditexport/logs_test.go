package auditexport_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/actionproof/mediator/internal/auditexport"
	"github.com/actionproof/mediator/internal/freeport"
	"github.com/actionproof/mediator/internal/otlp"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/ledgertest"
)

func TestLogs(t *testing.T) {
	status, got := http.StatusServiceUnavailable, new(logs.LogsData)
	answer := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		check.Must(t, err, proto.Unmarshal(raw, got))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer s.Close()
	d := auditexport.NewLogs(otlp.Collector{Endpoint: s.URL}, auditexport.Formats["json"])
	r := refused("post_1")
	r.MCP = &ledger.MCPMessage{Method: "tools/call", Tool: "send_mail"}
	r.Reason, r.Host = "no rule allows it", "api.example.com:443"
	if err := d.Write(t.Context(), []ledger.Export{ledgertest.ExportOf(t, r)}); err == nil {
		t.Error("an absent collector takes records")
	}
	status, answer = http.StatusOK, "\x0a\x02\x08\x01" // one is rejected, which must not be sent again
	var refused *auditexport.RefusedError
	if err := d.Write(t.Context(), []ledger.Export{ledgertest.ExportOf(t, r)}); !errors.As(err, &refused) {
		t.Errorf("got %v", err)
	}
	check.Must(t, d.Close())
	record := got.ResourceLogs[0].ScopeLogs[0].LogRecords[0]
	var body ledger.Record
	check.Must(t, json.Unmarshal([]byte(record.Body.GetStringValue()), &body))
	check.WantEqual(t, body.ID, "post_1")
	var said strings.Builder
	for _, a := range record.Attributes {
		said.WriteString(a.Key + "=" + a.Value.GetStringValue() + "; ")
	}
	check.WantEqual(t, said.String(), "log.record.uid=post_1; mediator.state=refused; mediator.rule=create; "+
		"error.type=policy_denied; mediator.reason=no rule allows it; server.address=api.example.com; "+
		"gen_ai.tool.name=send_mail; ")
}

// TestKilledExportToCollector kills the process again and again. Its collector is away in one round, and otherwise at
// times busy, or takes records without an answer. In the end it has each call that the ledger took.
func TestKilledExportToCollector(t *testing.T) {
	var mu sync.Mutex
	dir, seen, sent := t.TempDir(), make(map[string]bool), 0
	start := func(address string) *httptest.Server {
		l, err := net.Listen("tcp", address)
		check.Must(t, err)
		s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) {
				raw, err := io.ReadAll(r.Body)
				var all logs.LogsData
				if err != nil || proto.Unmarshal(raw, &all) != nil {
					return // of a killed process
				}
				if rand.N(4) == 0 {
					w.Header().Set("Retry-After", "0")
					w.WriteHeader(http.StatusTooManyRequests)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				for _, l := range all.ResourceLogs[0].ScopeLogs[0].LogRecords {
					seen[l.Attributes[0].Value.GetStringValue()] = true
					sent++
				}
				if rand.N(4) == 0 {
					panic(http.ErrAbortHandler)
				}
			})}}
		s.Start()
		return s
	}
	address, err := freeport.Address() // which nobody else takes while the collector is away
	check.Must(t, err)
	s := start(address)
	var taken []string
	for range 3 {
		taken = append(taken, kill(t, dir, s.URL)...)
	}
	s.Close()
	taken = append(taken, kill(t, dir, s.URL)...)
	s = start(address)
	defer s.Close()
	drain(t, dir, s.URL)
	for _, id := range taken {
		if !seen[id] {
			t.Errorf("%s is lost", id)
		}
	}
	t.Logf("%d calls in %d log records", len(seen), sent)
}

// TestSlowCollector ends the process while the collector does not answer: the record waits for the next start.
func TestSlowCollector(t *testing.T) {
	asked, end := make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(asked); <-end }))
	defer s.Close()
	defer close(end)
	e, l := exporting(t.TempDir(), s.URL)
	defer l.Close()
	check.Must(t, l.Add(t.Context(), refused("post_1")))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	e.Run(ctx, l)
	if all, err := l.Unexported(t.Context(), 1); err != nil || len(all) != 1 {
		t.Errorf("got %v, %v", all, err)
	}
}

// TestBusyCollector waits as long as the collector asks.
func TestBusyCollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := auditexport.New(zap.NewNop(), prometheus.NewRegistry())
		ctx, cancel := context.WithCancel(t.Context())
		b := &busy{cancel: cancel}
		e.Use(b)
		began := time.Now()
		e.Run(ctx, exports{ledgertest.ExportOf(t, refused("post_1"))})
		check.WantEqual(t, time.Since(began), 5*time.Minute)
	})
}

// busy asks for five minutes, and then takes what comes.
type busy struct {
	asked  bool
	cancel func()
}

// Write fails at first.
func (b *busy) Write(context.Context, []ledger.Export) error {
	if !b.asked {
		b.asked = true
		return &otlp.StatusError{Status: http.StatusTooManyRequests, Wait: 5 * time.Minute}
	}
	b.cancel()
	return nil
}

// Close does nothing.
func (*busy) Close() error { return nil }

// exports always lists the same records.
type exports []ledger.Export

// Unexported returns them.
func (e exports) Unexported(context.Context, int) ([]ledger.Export, error) { return e, nil }

// Exported does nothing.
func (exports) Exported(context.Context, ...ledger.Export) error { return nil }

// TestRefusedLogs has a collector that takes at most two records at once, and never post_3.
func TestRefusedLogs(t *testing.T) {
	taken, broken := make(map[string]bool), false
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		var all logs.LogsData
		check.Must(t, err, proto.Unmarshal(raw, &all))
		records := all.ResourceLogs[0].ScopeLogs[0].LogRecords
		switch text := all.String(); {
		case broken || strings.Contains(text, "post_3"):
			w.WriteHeader(http.StatusBadRequest)
		case len(records) > 2:
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		default:
			for _, l := range records {
				taken[l.Attributes[0].Value.GetStringValue()] = true
			}
		}
	}))
	defer s.Close()
	d := auditexport.NewLogs(otlp.Collector{Endpoint: s.URL}, auditexport.Formats["ocsf"])
	defer d.Close()
	var all []ledger.Export
	for i := range 5 {
		all = append(all, ledgertest.ExportOf(t, refused(fmt.Sprint("post_", i))))
	}
	var refused *auditexport.RefusedError
	if err := d.Write(t.Context(), all); !errors.As(err, &refused) || refused.Records != 1 || len(taken) != 4 {
		t.Errorf("got %v, taken %v", err, taken)
	}
	broken = true // all records wait: it may be the collector's fault
	if err := d.Write(t.Context(), all); err == nil || errors.As(err, &refused) {
		t.Errorf("got %v", err)
	}
}
