package sidecar

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/proxy/reputations"
)

func TestWhyMissing(t *testing.T) {
	signed := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, known := range map[string]reputations.State{
		"the node gives none: away":      {Issued: signed, Failed: errors.New("away")},
		"the node has not answered yet":  {},
		"signed at 2026-01-02T03:04:05Z": {Issued: signed},
	} {
		if got := whyMissing(known, time.Minute); !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
