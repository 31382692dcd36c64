package isolate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// ListenAddress is the address of the listener in the place's network, the only one there.
const ListenAddress = "127.0.0.1:8181"

func listen() (*os.File, error) {
	if err := loopbackUp(); err != nil {
		return nil, fmt.Errorf("loopback cannot be brought up in the network namespace: %w", err)
	}
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(context.Background(), "tcp4", ListenAddress)
	if err != nil {
		return nil, fmt.Errorf("the listener cannot be made in the network namespace: %w", err)
	}
	defer l.Close() // its file stays
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		return nil, err
	}
	// The sidecar accepts only a listener whose network the kernel can name.
	if _, err := unix.GetsockoptUint64(int(file.Fd()), unix.SOL_SOCKET, unix.SO_NETNS_COOKIE); err != nil {
		return nil, errors.Join(
			fmt.Errorf("this kernel does not tell the networks of sockets apart, as Linux 5.14 and later do: %w", err),
			file.Close())
	}
	return file, nil
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}
