package auditexport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/actionproof/mediator/internal/otlp"
	"github.com/actionproof/mediator/ledger"
)

// Logs is a collector that gets each record as an OTLP log record. Its body is the record in the format, and its
// attribute log.record.uid the record's id, by which a receiver drops what comes twice after a failure.
type Logs struct {
	client *otlp.Client
	format Format
}

// NewLogs makes the destination.
func NewLogs(c otlp.Collector, format Format) *Logs { return &Logs{otlp.NewClient(c), format} }

// Close closes the connections.
func (d *Logs) Close() error {
	d.client.Close()
	return nil
}

// Write sends the records, in several requests if the collector refuses them together. If it refuses all, the fault may
// be in its address or settings, and the records wait. If it takes some, it refuses the others for good: see
// [RefusedError].
func (d *Logs) Write(ctx context.Context, records []ledger.Export) error {
	o, err := d.deliver(ctx, records)
	switch {
	case err != nil:
		return err
	case !o.taken:
		return o.why
	case o.refused > 0:
		return &RefusedError{o.refused, o.why}
	}
	return nil
}

// outcome is what became of records.
type outcome struct {
	taken   bool // the collector took some, or judged each
	refused int
	why     error // of the last one refused
}

// deliver fails if the collector neither takes nor refuses the records.
func (d *Logs) deliver(ctx context.Context, records []ledger.Export) (outcome, error) {
	err := d.send(ctx, records)
	var part *otlp.RejectedError
	var whole *otlp.StatusError
	switch {
	case err == nil:
		return outcome{taken: true}, nil
	case errors.As(err, &part):
		return outcome{true, int(min(part.Items, uint64(len(records)))), err}, nil //nolint:gosec // at most a batch
	case !errors.As(err, &whole) || (whole.Status != http.StatusBadRequest &&
		whole.Status != http.StatusRequestEntityTooLarge):
		return outcome{}, err
	case len(records) == 1:
		return outcome{false, 1, fmt.Errorf("record %s: %w", records[0].ID, err)}, nil
	}
	half := len(records) / 2
	first, err := d.deliver(ctx, records[:half])
	if err != nil {
		return outcome{}, err
	}
	second, err := d.deliver(ctx, records[half:])
	if err != nil {
		return outcome{}, err
	}
	return outcome{first.taken || second.taken, first.refused + second.refused, cmp.Or(second.why, first.why)}, nil
}

func (d *Logs) send(ctx context.Context, records []ledger.Export) error {
	scope := &logs.ScopeLogs{Scope: &common.InstrumentationScope{Name: "github.com/actionproof/mediator"}}
	for _, e := range records {
		r, err := e.Bare()
		if err != nil {
			return err
		}
		line, err := d.format(nil, e)
		if err != nil {
			return err
		}
		scope.LogRecords = append(scope.LogRecords, logRecord(r, string(line)))
	}
	// LogsData and an ExportLogsServiceRequest have the same form on the wire.
	return d.client.Send(ctx, "/v1/logs", &logs.LogsData{ResourceLogs: []*logs.ResourceLogs{{
		Resource:  &resource.Resource{Attributes: []*common.KeyValue{text("service.name", "mediator-serve")}},
		ScopeLogs: []*logs.ScopeLogs{scope},
	}}})
}

func logRecord(r ledger.Record, body string) *logs.LogRecord {
	l := &logs.LogRecord{
		TimeUnixNano:         uint64(r.Started.UnixNano()),  //nolint:gosec // after 1970
		ObservedTimeUnixNano: uint64(r.Finished.UnixNano()), //nolint:gosec // after 1970
		SeverityNumber:       logs.SeverityNumber_SEVERITY_NUMBER_INFO, EventName: "mediator.call",
		Body:       &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: body}},
		Attributes: []*common.KeyValue{text("log.record.uid", r.ID), text("mediator.state", string(r.State))},
	}
	if r.State != ledger.StateForwarded {
		l.SeverityNumber = logs.SeverityNumber_SEVERITY_NUMBER_WARN
	}
	host, _ := endpointOf(r)
	tool := ""
	if r.MCP != nil {
		tool = r.MCP.Tool
	}
	for _, a := range [...]struct{ key, value string }{{"mediator.rule", r.Rule}, {"error.type", r.Code},
		{"mediator.reason", r.Reason}, {"session.id", r.Session}, {"http.request.method", r.Method},
		{"server.address", host}, {"gen_ai.tool.name", tool}} {
		if a.value != "" {
			l.Attributes = append(l.Attributes, text(a.key, a.value))
		}
	}
	return l
}

func text(key, value string) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}}}
}
