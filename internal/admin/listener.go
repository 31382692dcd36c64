package admin

import (
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/refusal"
)

type listeners struct {
	mu   sync.Mutex      // guards open
	open map[uint64]bool // by the kernel's lasting number of the socket (SO_COOKIE)
}

// listener is the listener of one session. It can be closed repeatedly; nil too.
type listener struct {
	*net.TCPListener
	all    *listeners
	cookie uint64
	inode  uint64
	once   sync.Once
}

// take makes a listener of a request's descriptor, unless that is nil, and closes the descriptor. It refuses one that
// is no listener, that is in the sidecar's network, where anybody could reach it, or that belongs to another session.
func (a *listeners) take(file *os.File, ready bool) (*listener, error) {
	if file == nil {
		return nil, nil
	}
	defer file.Close()
	if !ready {
		return nil, refusal.New("not_ready", "the sidecar does not serve agents yet")
	}
	inherited, err := net.FileListener(file)
	if err != nil {
		return nil, refusal.New("isolation_unavailable", "the descriptor that came with the request is not a listener")
	}
	tcp, ok := inherited.(*net.TCPListener)
	if !ok {
		_ = inherited.Close()
		return nil, refusal.New("isolation_unavailable",
			"the listener that came with the request is not a TCP listener")
	}
	l := &listener{TCPListener: tcp, all: a}
	if err := l.check(file); err != nil {
		_ = tcp.Close()
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open[l.cookie] {
		_ = tcp.Close()
		return nil, refusal.New("isolation_unavailable",
			"the listener that came with the request belongs to another session")
	}
	if a.open == nil {
		a.open = make(map[uint64]bool)
	}
	a.open[l.cookie] = true
	return l, nil
}

func (l *listener) check(file *os.File) error {
	fd := int(file.Fd())
	own, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(own)
	accepts, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err != nil || accepts == 0 {
		return refusal.New("isolation_unavailable", "the socket that came with the request does not listen")
	}
	network, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	ownNetwork, err2 := unix.GetsockoptUint64(own, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil || err2 != nil || network == ownNetwork {
		return refusal.New("isolation_unavailable",
			"the listener that came with the request may share the sidecar's network namespace")
	}
	if l.cookie, err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE); err != nil {
		return err
	}
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return err
	}
	l.inode = s.Ino
	return nil
}

func (l *listener) socket() uint64 {
	if l == nil {
		return 0
	}
	return l.inode
}

// Close closes the listener, also in processes that have a copy of it.
func (l *listener) Close() (err error) {
	if l == nil {
		return nil
	}
	l.once.Do(func() {
		if raw, failed := l.SyscallConn(); failed == nil {
			_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
		}
		err = l.TCPListener.Close()
		l.all.mu.Lock()
		defer l.all.mu.Unlock()
		delete(l.all.open, l.cookie)
	})
	return err
}
