package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestExitStatus(t *testing.T) {
	for _, tt := range []struct {
		args   string
		status int
	}{
		{"", exitDone}, {"help", exitDone}, {"version", exitDone}, {"keys", exitDone},
		{"nonsense", exitUsage}, {"keys nonsense", exitUsage}, {"serve", exitUsage}, {"serve --nonsense", exitUsage}, {"serve x", exitUsage},
		{"posts show", exitUsage}, {"posts list --admin nowhere", exitUsage}, {"posts list --limit x", exitUsage}, {"config schema x", exitUsage},
		{"run", exitUsage}, {"run --uid 4294967296 -- true", exitUsage}, {"run --uid 4294967295 -- true", exitUsage}, {"run --uid -2 -- true", exitUsage}, {"keys certify", exitUsage}, {"ca init --dir x", exitUsage}, {"challenge solve", exitUsage},
		{"serve --config absent", exitRefused}, {"deployment audit absent", exitRefused}, {"posts list --admin unix:absent", exitRefused},
	} {
		var stdout, stderr bytes.Buffer
		if got := run(t.Context(), strings.Fields(tt.args), strings.NewReader(""), &stdout, &stderr); got != tt.status {
			t.Errorf("mediator %s: %d, want %d: %s", tt.args, got, tt.status, stderr.String())
		}
		if (stderr.Len() > 0) != (tt.status != exitDone) {
			t.Errorf("mediator %s: it says %q", tt.args, stderr.String())
		}
	}
}
