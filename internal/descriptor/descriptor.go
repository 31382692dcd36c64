// Package descriptor passes an open file over a unix socket, with the bytes of a request.
package descriptor

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Listener returns a listener for a unix socket. Its connections keep the last passed descriptor until [Of] takes it or
// the connection ends.
func Listener(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if u, ok := c.(*net.UnixConn); ok && err == nil {
		return &conn{UnixConn: u}, nil
	}
	return c, err
}

type conn struct {
	*net.UnixConn
	passed atomic.Pointer[os.File]
}

// Read reads, and keeps a descriptor that comes along. The kernel closes what does not fit into the buffer.
func (c *conn) Read(b []byte) (int, error) {
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

func (c *conn) keep(rights []byte) {
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
			_ = c.passed.Swap(os.NewFile(uintptr(fd), "passed")).Close() // of none, it only fails
		}
	}
}

// Close also closes a descriptor that was not taken. The garbage collector closes one that comes at this moment.
func (c *conn) Close() error {
	err := c.UnixConn.Close()
	_ = c.passed.Swap(nil).Close()
	return err
}

// Of takes the descriptor that came over a connection of a [Listener], or returns nil. The caller closes it.
func Of(c any) *os.File {
	if over, ok := c.(*conn); ok {
		return over.passed.Swap(nil)
	}
	return nil
}

// Send returns the connection c over a unix socket, which sends file, unless it is nil, with the first bytes written.
func Send(c net.Conn, file *os.File) net.Conn { return &sending{c, file} }

type sending struct {
	net.Conn
	file *os.File
}

func (c *sending) Write(b []byte) (int, error) {
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
