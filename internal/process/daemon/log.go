package daemon

import (
	"fmt"
	"io"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/terminal"
)

// NewLogger makes a logger that writes JSON lines with the name of the process to w. It samples nothing, because the
// record of calls must have no gaps; lines that strangers cause go through [flood.Logger].
func NewLogger(c config.Log, process string, w io.Writer) (*zap.Logger, error) {
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

// lineWriter writes lines that cannot steer the terminal on which an operator may read the log.
type lineWriter struct{ w io.Writer }

func (l lineWriter) Write(line []byte) (int, error) {
	_, err := l.w.Write(terminal.JSON(line))
	return len(line), err
}
