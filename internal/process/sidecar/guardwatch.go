package sidecar

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/guard"
	"github.com/actionproof/mediator/internal/refusal"
)

// guardWatch checks whether the kernel has the rules of mediator guard, which it may not read. It sends packets to
// guard.ProbeAddress, which the rules treat like the agent's: TCP comes back to the transparent listener, UDP is
// refused.
type guardWatch struct {
	port uint16 // a redirected port, or 0
	log  *zap.Logger
	seen atomic.Pointer[error] // result of the last check; nil before the first

	mu      sync.Mutex // held while a connection is made, until its address is known
	local   string     // address of the connection that has to come back
	arrived chan struct{}
}

// guardPeriod is how often the rules are checked, and guardTimeout bounds one check.
const guardPeriod, guardTimeout = 2 * time.Second, 3 * time.Second

func newGuardWatch(c *config.Sidecar, log *zap.Logger) *guardWatch {
	if c.Guard == nil {
		return nil
	}
	w := &guardWatch{log: log, arrived: make(chan struct{}, 1)}
	if redirected := c.GuardOptions().Redirect; len(redirected) > 0 {
		w.port = redirected[0]
	}
	return w
}

// check fails unless the last check found the rules. A nil guardWatch needs none.
func (w *guardWatch) check() error {
	if w == nil {
		return nil
	}
	if err := w.seen.Load(); err != nil {
		return *err
	}
	return refusal.New("deployment_contradicted", "the kernel rules of guard have not been checked yet")
}

func (w *guardWatch) watch(ctx context.Context) {
	w.look(ctx)
	for range every.Tick(ctx, guardPeriod) {
		w.look(ctx)
	}
}

func (w *guardWatch) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	err := w.refused(ctx)
	if err == nil && w.port != 0 {
		err = w.redirected(ctx)
	}
	before := w.seen.Swap(&err)
	switch {
	case err != nil && (before == nil || *before == nil):
		w.log.Error("posts are refused until mediator guard has run", zap.Error(err))
	case err == nil && (before == nil || *before != nil):
		w.log.Info("the rules of guard are complete")
	}
}

func (w *guardWatch) refused(ctx context.Context) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "udp4", net.JoinHostPort(guard.ProbeAddress.String(), "9"))
	if err == nil {
		defer c.Close()
		_, err = c.Write([]byte{0})
	}
	if errors.Is(err, syscall.EPERM) {
		return nil
	}
	return refusal.New("deployment_contradicted", "the kernel rules of mediator guard do not refuse a datagram to %s",
		guard.ProbeAddress)
}

func (w *guardWatch) redirected(ctx context.Context) error {
	w.mu.Lock()
	w.local = ""
	select {
	case <-w.arrived: // a late connection of the check before
	default:
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp4", net.JoinHostPort(guard.ProbeAddress.String(), strconv.Itoa(int(w.port))))
	if err == nil {
		w.local = c.LocalAddr().String()
	}
	w.mu.Unlock()
	if err == nil {
		defer c.Close()
		select {
		case <-w.arrived:
			return nil
		case <-ctx.Done():
		}
	}
	return refusal.New("deployment_contradicted",
		"the kernel rules of mediator guard do not redirect a connection to %s, port %d, to the transparent listener",
		guard.ProbeAddress, w.port)
}

// takeProbe is called for each redirected connection. It takes the connection if redirected has made it.
func (w *guardWatch) takeProbe(original netip.AddrPort, from net.Addr) bool {
	if original != netip.AddrPortFrom(guard.ProbeAddress, w.port) {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if from.String() != w.local {
		return false
	}
	w.local = ""
	w.arrived <- struct{}{} // never blocks: one send for each local, received before the next is set
	return true
}
