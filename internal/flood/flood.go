// Package flood bounds what strangers can make a process write. A stranger is an unknown caller: no user admitted by a
// socket, no session, no valid signature. Their events are written a few times a minute, and then only counted.
package flood

import (
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	// Lines bounds the lines of one kind in a window.
	Lines = 10
	// Window is the length of a quota's window.
	Window = time.Minute
	// maxKinds bounds the kinds of lines. Further kinds share one quota.
	maxKinds = 256
)

// Quota passes a bounded number of things in each window and counts the rest. It is safe for concurrent use.
type Quota struct {
	most   int
	report func(leftOut int)

	mu              sync.Mutex // guards all below
	passed, leftOut int        // in this window
}

// NewQuota makes a quota. After a window in which it stopped anything, it calls report with the number.
func NewQuota(most int, report func(leftOut int)) *Quota { return &Quota{most: most, report: report} }

// Pass reports whether one more thing may pass. The first thing begins a window.
func (q *Quota) Pass() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.passed+q.leftOut == 0 {
		time.AfterFunc(Window, q.end)
	}
	if q.passed < q.most {
		q.passed++
		return true
	}
	q.leftOut++
	return false
}

func (q *Quota) end() {
	q.mu.Lock()
	leftOut := q.leftOut
	q.passed, q.leftOut = 0, 0
	q.mu.Unlock()
	if leftOut > 0 {
		q.report(leftOut)
	}
}

// Logger returns a logger for lines that strangers cause. In each window it writes at most [Lines] lines of each kind
// to log, and at the end the number of those left out. A kind is a message with its fields "code", "reason" and
// "source"; no stranger may choose these.
func Logger(log *zap.Logger) *zap.Logger {
	kinds := &kinds{log: log, quotas: make(map[kind]*Quota)}
	return log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return core{c, kinds} }))
}

// core is a [zapcore.Core] with a quota for each kind.
type core struct {
	zapcore.Core
	kinds *kinds
}

func (c core) With(fields []zapcore.Field) zapcore.Core { return core{c.Core.With(fields), c.kinds} }

// Check defers the decision to Write, which sees the fields.
func (c core) Check(line zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(line.Level) {
		return to.AddCore(line, c)
	}
	return to
}

// Write writes a line unless its kind's quota is used up.
func (c core) Write(line zapcore.Entry, fields []zapcore.Field) error {
	if !c.kinds.quota(line, fields).Pass() {
		return nil
	}
	if to := c.Core.Check(line, nil); to != nil {
		to.Write(fields...)
	}
	return nil
}

type kind struct {
	level                         zapcore.Level
	message, code, reason, source string
}

type kinds struct {
	log *zap.Logger // gets the numbers of lines left out

	mu     sync.Mutex // guards quotas
	quotas map[kind]*Quota
}

func (k *kinds) quota(line zapcore.Entry, fields []zapcore.Field) *Quota {
	of := kind{level: line.Level, message: line.Message}
	for _, f := range fields {
		switch f.Key {
		case "code":
			of.code = f.String
		case "reason":
			of.reason = f.String
		case "source":
			of.source = f.String
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if q, ok := k.quotas[of]; ok {
		return q
	}
	if len(k.quotas) >= maxKinds {
		of = kind{level: zapcore.WarnLevel, message: "lines of other kinds"}
	}
	q, ok := k.quotas[of]
	if !ok {
		q = NewQuota(Lines, func(n int) {
			k.log.Log(of.level, "more lines of this kind were left out", zap.Int("lines", n),
				zap.String("line", of.message),
				zap.String("code", of.code), zap.String("reason", of.reason), zap.String("source", of.source))
		})
		k.quotas[of] = q
	}
	return q
}
