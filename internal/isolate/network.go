package isolate

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/internal/guard"
)

// ListenAddress is the address of the listener for clients that use it as their proxy.
const ListenAddress = "127.0.0.1:8181"

const (
	listenPort   = 8181
	resolverPort = 8153
)

// network is what pid 1 makes in the place's network, which has only loopback.
type network struct {
	listener *os.File
	resolver net.PacketConn // nil if the kernel redirects nothing
}

// makeNetwork makes every address one of loopback, and leads all TCP to the listener and all DNS to the resolver. UDP
// to any other port fails at once, so that QUIC falls back.
func makeNetwork() (n network, err error) {
	if err := loopbackUp(); err != nil {
		return network{}, fmt.Errorf("loopback cannot be brought up in the network namespace: %w", err)
	}
	if n.listener, err = listen(); err != nil {
		return network{}, err
	}
	err = errors.Join(routeToLoopback(unix.AF_INET, net.IPv4(127, 0, 0, 1).To4()),
		guard.RunRules(listenPort, resolverPort).Install())
	if err != nil {
		fmt.Fprintf(os.Stderr,
			"mediator: the agent needs clients that follow the proxy variables, because this kernel redirects no "+
				"connections: %v\n", err)
		return n, nil
	}
	_ = routeToLoopback(unix.AF_INET6, net.IPv6loopback) // without IPv6, a client gets an error at once
	n.resolver, err = net.ListenPacket("udp", ":"+strconv.Itoa(resolverPort))
	return n, err
}

func listen() (*os.File, error) {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(context.Background(), "tcp", ":"+strconv.Itoa(listenPort))
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

// routeToLoopback makes every address of a family local (ip route add local default dev lo src SOURCE).
func routeToLoopback(family byte, source net.IP) error {
	const loopback = 1 // the index of lo in each network
	ae := netlink.NewAttributeEncoder()
	ae.Uint32(unix.RTA_OIF, loopback)
	ae.Bytes(unix.RTA_PREFSRC, source)
	attributes, err := ae.Encode()
	if err != nil {
		return err
	}
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	message := []byte{family, 0, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_BOOT, unix.RT_SCOPE_HOST, unix.RTN_LOCAL}
	message = binary.NativeEndian.AppendUint32(message, 0) // flags
	_, err = conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_NEWROUTE, Flags: netlink.Request | netlink.Acknowledge | netlink.Create},
		Data:   append(message, attributes...),
	})
	return err
}
