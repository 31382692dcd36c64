// Package agentpod has what runs in an agent's pod besides the sidecar: the forwarder to a mediator in another pod, and
// the check that the agent has no other way out.
package agentpod

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/flood"
	"github.com/actionproof/mediator/internal/identity"
)

// Forwarder leads the connections of an agent to the mediator in another pod, over mutual TLS. It reads nothing of what
// it forwards. All fields are required.
type Forwarder struct {
	Listen   net.Listener       // for the agent, on loopback
	Proxy    string             // host:port of the mediator
	Name     string             // in the mediator's certificate
	Identity *identity.Identity // of this pod
	CAFile   string             // receives the certificate of the mediator's interception CA
	Log      *zap.Logger
}

const (
	maxConnections = 1024 // further ones wait
	askTimeout     = 10 * time.Second
	pause          = time.Second // between attempts to reach the mediator
	maxCA          = 1 << 20     // bytes
)

// Run forwards until ctx ends.
func (f *Forwarder) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { f.Identity.Follow(ctx, f.Log); return nil })
	group.Go(func() error { f.followCA(ctx); return nil })
	defer context.AfterFunc(ctx, func() { f.Listen.Close() })()
	open, log := make(chan struct{}, maxConnections), flood.Logger(f.Log)
	group.Go(func() error {
		for {
			select {
			case open <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
			c, err := f.Listen.Accept()
			switch {
			case ctx.Err() != nil:
				return nil
			case err != nil:
				return fmt.Errorf("the forwarder: %w", err)
			}
			go func() {
				defer func() { <-open }()
				f.forward(ctx, c, log)
			}()
		}
	})
	return group.Wait()
}

func (f *Forwarder) forward(ctx context.Context, from net.Conn, log *zap.Logger) {
	defer from.Close()
	to, _, err := f.Identity.Dial(ctx, f.Proxy, f.Name)
	if err != nil {
		log.Warn("a connection cannot be forwarded", zap.String("proxy", f.Proxy), zap.Error(err))
		_, _ = io.WriteString(from, "HTTP/1.1 502 The mediator's pod cannot be reached\r\nContent-Length: 0\r\n"+
			"Connection: close\r\n\r\n")
		return
	}
	defer to.Close()
	defer context.AfterFunc(ctx, func() { from.Close(); to.Close() })()
	back := make(chan struct{})
	go func() {
		defer close(back)
		pass(from.(*net.TCPConn), to)
	}()
	pass(to, from)
	<-back
}

// pass copies until the source ends, and then ends its side. Once the other end can be written no more, nothing that
// comes is of use.
func pass(to interface {
	net.Conn
	CloseWrite() error
}, from net.Conn) {
	_, err := io.Copy(to, from)
	if err == nil {
		err = to.CloseWrite()
	}
	if err != nil {
		to.Close()
		from.Close()
	}
}

// followCA keeps CAFile like the mediator's CA. A mediator that starts again may have another CA, and its end breaks
// the connection that asked last.
func (f *Forwarder) followCA(ctx context.Context) {
	failing := false
	for ctx.Err() == nil {
		err := f.askCA(ctx)
		if err != nil && ctx.Err() == nil && !failing {
			f.Log.Error("the mediator's pod does not answer; it is asked again", zap.String("proxy", f.Proxy),
				zap.Error(err))
		}
		failing = err != nil
		_ = every.Sleep(ctx, pause)
	}
}

// askCA stores the CA, and returns when the connection has ended.
func (f *Forwarder) askCA(ctx context.Context) error {
	c, id, err := f.Identity.Dial(ctx, f.Proxy, f.Name)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	read := bufio.NewReader(c)
	pem, err := ask(ctx, c, read)
	if err != nil {
		return err
	}
	if before, err := files.ReadUpTo(f.CAFile, maxCA); err != nil || !bytes.Equal(before, pem) {
		if err := files.Replace(f.CAFile, pem, 0o644); err != nil {
			return err
		}
		f.Log.Info("the mediator's CA is stored", zap.String("path", f.CAFile), zap.String("mediator", string(id)))
	}
	_, _ = read.ReadByte() // the mediator says no more, and closes an idle connection after minutes
	return nil
}

func ask(ctx context.Context, c *tls.Conn, read *bufio.Reader) ([]byte, error) {
	_ = c.SetDeadline(time.Now().Add(askTimeout))
	defer c.SetDeadline(time.Time{})
	r, err := caRequest(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.WriteProxy(c); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(read, r)
	if err != nil {
		return nil, err
	}
	return caIn(resp)
}

func caRequest(ctx context.Context) (*http.Request, error) {
	return http.NewRequestWithContext(ctx, http.MethodGet, "http://mediator.internal"+caPath, nil)
}

func caIn(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the mediator answers %s", resp.Status)
	}
	return files.ReadAll(resp.Body, "the mediator's CA", maxCA)
}
