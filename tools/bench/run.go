package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/resolver"
)

// startRun starts a transparent run in a network of its own beside the mediator, and returns the target for calls from
// there.
func (b *stand) startRun(ctx context.Context, m target) (target, error) {
	event, err := m.deployment.DeliverRelease(ctx)
	if err != nil {
		return target{}, err
	}
	cmd, err := b.run("bin/mediator", "run", "--admin", m.deployment.Stack.Admin(), "--event", event, "--", "sleep", "1d")
	t := m
	t.name, t.proxy = "run", nil
	if err != nil {
		return t, err
	}
	err = wait(ctx, func() error {
		inside := children(cmd.Process.Pid)[1:]
		if len(inside) == 0 {
			return errors.New("the run has no processes yet")
		}
		t.network = fmt.Sprintf("/proc/%d/ns/net", inside[0])
		return nil
	})
	return t, err
}

// dialIn dials the upstream in another network.
func dialIn(ctx context.Context, network, port string) (net.Conn, error) {
	runtime.LockOSThread() // and never unlocked after an error: the thread then ends with its goroutine
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	defer own.Close()
	other, err := os.Open(network)
	if err != nil {
		return nil, err
	}
	defer other.Close()
	if err := unix.Setns(int(other.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	c, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(resolver.Address(host).String(), port))
	if back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); back != nil {
		return nil, errors.Join(err, back)
	}
	runtime.UnlockOSThread()
	return c, err
}
