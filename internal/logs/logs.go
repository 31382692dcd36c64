// Package logs makes the processes' loggers.
package logs

import (
	"fmt"
	"io"
	"log"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/internal/terminal"
)

// New makes a logger that writes JSON lines with the name of the process to w. It samples nothing, because the
// record of calls must have no gaps; lines that strangers cause go through [flood.Logger].
func New(c config.Log, process string, w io.Writer) (*zap.Logger, error) {
	level := zapcore.InfoLevel
	if c.Level != "" {
		if err := level.Set(c.Level); err != nil {
			return nil, fmt.Errorf("log.level: %q is none of debug, info, warn, error", c.Level)
		}
	}
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	enc.TimeKey = "time"
	to := zapcore.Lock(zapcore.AddSync(lineWriter{w}))
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(enc), to, level)).Named(process), nil
}

// TakeLibraries logs what libraries write to Go's standard logger. net/http writes there at an upstream's will, and the
// upstream's text.
func TakeLibraries(to *zap.Logger) {
	log.SetFlags(0)
	log.SetOutput(libraries{flood.Logger(to)})
}

type libraries struct{ to *zap.Logger }

func (l libraries) Write(line []byte) (int, error) {
	const most = 300 // bytes
	l.to.Info("a library says", zap.ByteString("line", line[:min(len(line), most)]))
	return len(line), nil
}

// lineWriter writes lines that cannot steer the terminal on which an operator may read the log.
type lineWriter struct{ w io.Writer }

func (l lineWriter) Write(line []byte) (int, error) {
	_, err := l.w.Write(terminal.JSON(line))
	return len(line), err
}

// Handshakes writes which TLS handshakes of strangers failed, and why. It drops the other lines of an [http.Server].
type Handshakes struct{ To *zap.Logger }

// Write implements [io.Writer].
func (l Handshakes) Write(line []byte) (int, error) {
	if about, ok := strings.CutPrefix(string(line), "http: TLS handshake error from "); ok {
		from, why, _ := strings.Cut(about, ": ")
		l.To.Warn("TLS handshake failed", zap.String("from", from), zap.String("because", fmt.Sprintf("%.300s",
			strings.TrimSpace(why))))
	}
	return len(line), nil
}
