package endpoint

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"syscall"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/descriptor"
)

// peerListener closes connections from processes whose user is not allowed (SO_PEERCRED).
type peerListener struct {
	net.Listener
	allowed []uint32
	log     *zap.Logger
}

func (l *peerListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer, err := peerOfConn(c)
		if err == nil && slices.Contains(l.allowed, peer.Uid) {
			return c, nil
		}
		l.log.Warn("connection refused: the peer's user is not allowed", zap.Uint32("uid", peer.Uid), zap.Error(err))
		c.Close()
	}
}

// peerOfConn returns the process that made a connection (SO_PEERCRED). Its pid is 0 if it is outside this process's pid
// namespace.
func peerOfConn(c net.Conn) (peer unix.Ucred, err error) {
	return peer, control(c, func(fd int) error {
		cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil {
			peer = *cred
		}
		return err
	})
}

// DescriptorOf takes the descriptor that came with a request, or returns nil. The caller closes it.
func DescriptorOf(r *http.Request) *os.File { return descriptor.Of(r.Context().Value(connKey{})) }

// control calls ask with the descriptor of a connection over a unix socket.
func control(c net.Conn, ask func(fd int) error) error {
	u, ok := c.(syscall.Conn)
	if !ok {
		return errors.New("not a unix connection")
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return err
	}
	var asked error
	return cmp.Or(raw.Control(func(fd uintptr) { asked = ask(int(fd)) }), asked)
}

// InOwnNetwork reports whether the sender of a request is in this process's network namespace: no isolated agent is. It
// returns false over TCP.
func InOwnNetwork(r *http.Request) bool {
	c, _ := r.Context().Value(connKey{}).(net.Conn)
	var network uint64
	if control(c, func(fd int) (err error) { // an accepted unix socket belongs to its client's network
		network, err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
		return err
	}) != nil {
		return false
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	own, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	return err == nil && network == own
}

type connKey struct{}

// PeerOf returns the process that sent a request. Over TCP it returns the zero value.
func PeerOf(r *http.Request) unix.Ucred {
	c, _ := r.Context().Value(connKey{}).(net.Conn)
	peer, err := peerOfConn(c)
	if err != nil {
		return unix.Ucred{}
	}
	return peer
}

// checkServer closes a connection to a socket of another user: in a folder that several users may write, each of them
// can take the place of a process that has ended.
func checkServer(c net.Conn, uid *uint32) error {
	if uid == nil {
		return nil
	}
	peer, err := peerOfConn(c)
	if err == nil && peer.Uid != *uid {
		err = fmt.Errorf("user %d answers there, not user %d", peer.Uid, *uid)
	}
	if err != nil {
		c.Close()
	}
	return err
}

// FromOwner reports whether a request comes from root or from the user of this process. Over TCP, every caller of the
// endpoint counts. A client whose user is unknown does not: its uid reads as 0, which is root.
func FromOwner(r *http.Request) bool {
	c, known := r.Context().Value(connKey{}).(net.Conn)
	if !known {
		return false
	}
	if _, tcp := c.LocalAddr().(*net.TCPAddr); tcp {
		return true
	}
	peer, err := peerOfConn(c)
	return err == nil && (peer.Uid == 0 || peer.Uid == uint32(os.Geteuid()))
}
