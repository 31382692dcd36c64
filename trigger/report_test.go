package trigger_test

import (
	"strings"
	"testing"

	"github.com/actionproof/mediator/evidence"
)

func TestReportsAreBounded(t *testing.T) {
	k := newKit(t)
	_, err := k.Report(t.Context(), evidence.TriggerHumanRequest, evidence.MethodManual, "cli",
		[]byte(`"`+strings.Repeat("x", 512<<10)+`"`))
	wantCode(t, err, "content_too_large")
	id, err := k.Report(t.Context(), evidence.TriggerHumanRequest, evidence.MethodManual, "cli", []byte(`{}`))
	if err != nil || id == "" {
		t.Errorf("a small report is refused: %v", err)
	}
}
