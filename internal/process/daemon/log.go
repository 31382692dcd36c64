package daemon

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/terminal"
)

const (
	// logLinger bounds the wait of a line that can wait.
	logLinger = 5 * time.Millisecond
	// logTogether bounds one write. The kernel writes this much to a shared pipe as a whole (pipe(7)).
	logTogether = 4096
)

// NewLogger makes a logger that writes JSON lines with the name of the process to w. It samples nothing, because the
// record of calls must have no gaps; lines that strangers cause go through [flood.Logger].
func NewLogger(c config.Log, process string, w io.Writer) (*zap.Logger, error) {
	log, _, err := NewLoggers(c, process, w)
	return log, err
}

// NewLoggers also makes a logger for lines that can wait, at most logLinger, so that one write holds several. A crash
// loses waiting lines. The order of lines is kept.
func NewLoggers(c config.Log, process string, w io.Writer) (log, later *zap.Logger, err error) {
	level := zapcore.InfoLevel
	if c.Level != "" {
		if err := level.Set(c.Level); err != nil {
			return nil, nil, fmt.Errorf("log.level: %q is none of debug, info, warn, error", c.Level)
		}
	}
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	enc.TimeKey = "time"
	to := newLineWriter(w)
	logger := func(to zapcore.WriteSyncer) *zap.Logger {
		return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(enc), to, level)).Named(process)
	}
	return logger(to), logger(deferredWriter{to}), nil
}

// lineWriter writes whole lines in their order. Unlike [zapcore.BufferedWriteSyncer] it goes on after an error.
type lineWriter struct {
	mu    sync.Mutex
	w     io.Writer
	kept  []byte      // lines that wait
	timer *time.Timer // writes the lines that wait
}

func newLineWriter(w io.Writer) *lineWriter {
	l := &lineWriter{w: w, kept: make([]byte, 0, logTogether)}
	l.timer = time.AfterFunc(logLinger, func() { _ = l.Sync() })
	return l
}

// Write writes the lines that wait and then this line, at once. An operator may read the log on a terminal.
func (l *lineWriter) Write(line []byte) (int, error) {
	plain := terminal.JSON(line)
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(line), errors.Join(l.keep(plain), l.flush())
}

// Sync writes the lines that wait.
func (l *lineWriter) Sync() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flush()
}

// keep lets a line wait. If there is no room for it, keep first writes the waiting lines.
func (l *lineWriter) keep(line []byte) (err error) {
	if len(l.kept)+len(line) > logTogether {
		err = l.flush()
	}
	l.kept = append(l.kept, line...)
	return err
}

func (l *lineWriter) flush() error {
	if len(l.kept) == 0 {
		return nil
	}
	_, err := l.w.Write(l.kept)
	l.kept = l.kept[:0]
	return err
}

type deferredWriter struct{ *lineWriter }

// Write takes a line, which is written within logLinger.
func (l deferredWriter) Write(line []byte) (int, error) {
	plain := terminal.JSON(line)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.kept) == 0 {
		l.timer.Reset(logLinger)
	}
	return len(line), l.keep(plain)
}
