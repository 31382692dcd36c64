package logs_test

import (
	"encoding/json"
	"errors"
	stdlog "log"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/logs"
	"github.com/actionproof/mediator/test/check"
)

// TestLogSteersNoTerminal: what a stranger chose stays in its line, and does nothing to a terminal that shows the log.
func TestLogSteersNoTerminal(t *testing.T) {
	const forged = "\u009b2J\u202e\x7f\x1b[2J\n{\"msg\":\"forged\"}\u2066"
	var out strings.Builder
	log, err := logs.New(config.Log{}, "serve", &out)
	check.Must(t, err)
	log.Info(forged, zap.String("host", forged), zap.Error(errors.New(forged)))
	log.Info(forged, zap.Strings("hosts", []string{forged}))
	log.Debug("below the level")
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 3 || strings.ContainsAny(out.String(), "\u009b\u202e\x7f\x1b\u2066") {
		t.Fatalf("%q", out.String())
	}
	for _, line := range lines[:2] {
		var said struct{ Msg string }
		if err := json.Unmarshal([]byte(line), &said); err != nil || said.Msg != forged {
			t.Errorf("%v: %q", err, line)
		}
	}
}

// TestLibrariesWriteLittle: an upstream makes net/http write any number of lines, with its own text.
func TestLibrariesWriteLittle(t *testing.T) {
	flags, to := stdlog.Flags(), stdlog.Writer()
	defer stdlog.SetFlags(flags)
	defer stdlog.SetOutput(to)
	var out strings.Builder
	log, err := logs.New(config.Log{}, "serve", &out)
	check.Must(t, err)
	logs.TakeLibraries(log)
	for range 1000 {
		stdlog.Printf("Unsolicited response received on idle HTTP channel starting with %q", strings.Repeat("x", 4096))
	}
	if n := out.Len(); n == 0 || n > 10*1024 || !strings.HasPrefix(out.String(), `{"level":"info"`) {
		t.Errorf("%d bytes: %.100s", n, out.String())
	}
}
