package auditexport_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/proto"

	"github.com/actionproof/mediator/internal/auditexport"
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
