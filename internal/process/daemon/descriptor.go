package daemon

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// takeDescriptors returns a listener for a unix socket. Its connections keep the last passed descriptor until
// [DescriptorOf] takes it or the connection ends.
func takeDescriptors(l net.Listener) net.Listener { return descriptorListener{l} }

type descriptorListener struct{ net.Listener }

func (l descriptorListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if u, ok := c.(*net.UnixConn); ok && err == nil {
		return &descriptorConn{UnixConn: u}, nil
	}
	return c, err
}

type descriptorConn struct {
	*net.UnixConn

	mu     sync.Mutex // guards file and closed
	file   *os.File
	closed bool
}

// Read reads, and keeps a descriptor that comes along. The kernel closes what does not fit into the buffer.
func (c *descriptorConn) Read(b []byte) (int, error) {
	rights := make([]byte, unix.CmsgSpace(4))
	n, rightsN, _, _, err := c.ReadMsgUnix(b, rights)
	if rightsN > 0 {
		c.keep(rights[:rightsN])
	}
	if errors.Is(err, io.EOF) {
		err = io.EOF // which readers compare, and package net wraps here
	}
	return n, err
}

func (c *descriptorConn) keep(rights []byte) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue
		}
		for _, fd := range fds {
			c.set(os.NewFile(uintptr(fd), "passed"))
		}
	}
}

// set keeps a file and closes the one before. A connection that has ended keeps none.
func (c *descriptorConn) set(f *os.File) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed && f != nil {
		_ = f.Close()
		return
	}
	if c.file != nil {
		_ = c.file.Close()
	}
	c.file = f
}

func (c *descriptorConn) take() *os.File {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.file
	c.file = nil
	return f
}

func (c *descriptorConn) Close() error {
	c.set(nil)
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	return c.UnixConn.Close()
}

// DescriptorOf returns the descriptor that came with a request, or nil. The caller closes it.
func DescriptorOf(r *http.Request) *os.File {
	c, _ := r.Context().Value(connKey{}).(*descriptorConn)
	if c == nil {
		return nil
	}
	return c.take()
}

// sendingConn sends a descriptor, if it has one, with the first bytes that it writes.
type sendingConn struct {
	net.Conn
	file *os.File
}

func (c *sendingConn) Write(b []byte) (int, error) {
	u, ok := c.Conn.(*net.UnixConn)
	if c.file == nil || !ok {
		return c.Conn.Write(b)
	}
	n, _, err := u.WriteMsgUnix(b, unix.UnixRights(int(c.file.Fd())), nil)
	if c.file = nil; err != nil || n == len(b) {
		return n, err
	}
	rest, err := c.Conn.Write(b[n:])
	return n + rest, err
}
