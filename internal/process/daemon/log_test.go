package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/test/check"
)

// writes notes what is written at once: the messages of its lines.
type writes struct {
	mu  sync.Mutex // guards all
	all []string
}

func (w *writes) Write(p []byte) (int, error) {
	var messages []string
	for line := range strings.Lines(string(p)) {
		_, rest, _ := strings.Cut(line, `"msg":"`)
		message, _, _ := strings.Cut(rest, `"`)
		messages = append(messages, message)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, strings.Join(messages, " "))
	return len(p), nil
}

func (w *writes) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("%q", w.all)
}

// TestLogSteersNoTerminal: what a stranger chose stays in its line, and does nothing to a terminal that shows the log.
func TestLogSteersNoTerminal(t *testing.T) {
	const forged = "\u009b2J\u202e\x7f\x1b[2J\n{\"msg\":\"forged\"}\u2066"
	var out strings.Builder
	log, later, err := NewLoggers(config.Log{}, "serve", &out)
	check.Must(t, err)
	log.Info(forged, zap.String("host", forged), zap.Error(errors.New(forged)))
	later.Info(forged, zap.Strings("hosts", []string{forged}))
	check.Must(t, log.Sync())
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

func TestLogLater(t *testing.T) {
	long := strings.Repeat("x", 1500)
	for _, tt := range []struct {
		name string
		do   func(log, later *zap.Logger)
		want []string
	}{
		{"one waits", func(_, later *zap.Logger) { later.Info("a"); time.Sleep(4 * time.Millisecond) }, nil},
		{"and is written", func(_, later *zap.Logger) { later.Info("a"); time.Sleep(5 * time.Millisecond) }, []string{"a"}},
		{"several are written together", func(_, later *zap.Logger) {
			later.Info("a")
			time.Sleep(4 * time.Millisecond)
			later.Info("b")
			time.Sleep(time.Millisecond)
		}, []string{"a b"}},
		{"each group waits anew", func(_, later *zap.Logger) {
			for _, m := range []string{"a", "b"} {
				later.Info(m)
				time.Sleep(6 * time.Millisecond)
			}
		}, []string{"a", "b"}},
		{"a line that cannot wait", func(log, later *zap.Logger) {
			log.Info("a")
			later.Info("b")
			log.Error("c")
			log.Warn("d")
		}, []string{"a", "b c", "d"}},
		{"more than goes at once", func(_, later *zap.Logger) {
			for _, m := range []string{"a", "b", "c", "d", "e"} {
				later.Info(m, zap.String("long", long))
			}
			time.Sleep(5 * time.Millisecond)
		}, []string{"a b", "c d", "e"}},
		{"the end", func(log, later *zap.Logger) { later.Info("a"); _ = log.Sync() }, []string{"a"}},
		{"a level that is not asked for", func(_, later *zap.Logger) { later.Debug("a"); time.Sleep(time.Second) }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Second) // of the test's own clock
				var w writes
				log, later, err := NewLoggers(config.Log{}, "serve", &w)
				check.Must(t, err)
				tt.do(log, later)
				synctest.Wait()
				if got := w.String(); got != fmt.Sprintf("%q", tt.want) {
					t.Errorf("written: %s, want %q", got, tt.want)
				}
				time.Sleep(time.Second)
			})
		})
	}
}
