package node

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// The addresses of the cluster. They exist in network namespaces of the test only.
const (
	Address        = "10.200.0.1" // the node's
	PodRange       = "10.244.0.0/16"
	ServiceRange   = "10.96.0.0/16" // the API server gives them out
	APIService     = "10.96.0.1"    // kubernetes.default.svc
	DNSService     = "10.96.0.10"   // kube-dns.kube-system.svc
	podGateway     = "169.254.1.1"  // each pod's way out: the node's end of its link
	firstPodNumber = 2
)

// network is the node's own network namespace. Each pod has one too, joined to the node's by a link of its own, so that
// all traffic between pods is routed by the node, which rewrites the addresses of Services and enforces
// NetworkPolicies.
type network struct {
	namespace netns.NsHandle
	links     *netlink.Handle

	mu   sync.Mutex // guards next
	next int
}

func newNetwork() (*network, error) {
	namespace, err := newNamespace()
	if err != nil {
		return nil, fmt.Errorf("make the node's network namespace: %w", err)
	}
	links, err := netlink.NewHandleAt(namespace)
	if err != nil {
		return nil, err
	}
	n := &network{namespace: namespace, links: links, next: firstPodNumber}
	for _, address := range []string{Address, DNSService} {
		if err := n.addAddress(address); err != nil {
			return nil, err
		}
	}
	if err := n.routeServices(); err != nil {
		return nil, err
	}
	err = inNetwork(namespace, func() error {
		return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
	})
	return n, err
}

// close ends the namespace and with it all links.
func (n *network) close() {
	n.links.Close()
	n.namespace.Close()
}

// addAddress gives the node one more address.
func (n *network) addAddress(address string) error {
	lo, err := n.links.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := n.links.LinkSetUp(lo); err != nil {
		return err
	}
	return n.links.AddrAdd(lo, &netlink.Addr{IPNet: host(address)})
}

// routeServices makes a route for the addresses of Services, without which the node could not even begin to send to
// one. The firewall changes the address before the route is used.
func (n *network) routeServices() error {
	lo, err := n.links.LinkByName("lo")
	if err != nil {
		return err
	}
	_, services, err := net.ParseCIDR(ServiceRange)
	if err != nil {
		return err
	}
	return n.links.RouteAdd(
		&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: services, Src: net.ParseIP(Address), Scope: netlink.SCOPE_LINK})
}

// Listen opens a listener in the node's network, for example on Address.
func (n *network) Listen(network, address string) (l net.Listener, err error) {
	err = inNetwork(n.namespace, func() error {
		l, err = net.Listen(network, address)
		return err
	})
	return l, err
}

// Dial connects from the node, as probes do. address is an IP address with a port.
func (n *network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return dialFrom(ctx, n.namespace, network, address)
}

func dialFrom(ctx context.Context, namespace netns.NsHandle, network, address string) (conn net.Conn, err error) {
	if _, err := netip.ParseAddrPort(address); err != nil {
		return nil, fmt.Errorf("dial inside the cluster: %w", err)
	}
	err = inNetwork(namespace, func() error {
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// podNetwork is a pod's network namespace.
type podNetwork struct {
	namespace netns.NsHandle
	address   string
	link      string // the node's end
}

// addPod makes a network namespace with an address and a way to the node.
func (n *network) addPod() (*podNetwork, error) {
	n.mu.Lock()
	number := n.next
	n.next++
	n.mu.Unlock()

	namespace, err := newNamespace()
	if err != nil {
		return nil, err
	}
	p := &podNetwork{
		namespace: namespace,
		address:   fmt.Sprintf("10.244.%d.%d", number/250, number%250+2),
		link:      fmt.Sprintf("pod%d", number),
	}
	if err := n.connect(p); err != nil {
		n.removePod(p)
		return nil, fmt.Errorf("connect the pod's network: %w", err)
	}
	return p, nil
}

func (n *network) connect(p *podNetwork) error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = p.link
	link := &netlink.Veth{LinkAttrs: attributes, PeerName: "eth0", PeerNamespace: netlink.NsFd(p.namespace)}
	if err := n.links.LinkAdd(link); err != nil {
		return err
	}
	if err := n.links.AddrAdd(link, &netlink.Addr{IPNet: host(podGateway)}); err != nil {
		return err
	}
	if err := n.links.LinkSetUp(link); err != nil {
		return err
	}
	index := link.Attrs().Index
	route := &netlink.Route{LinkIndex: index, Dst: host(p.address), Src: net.ParseIP(Address), Scope: netlink.SCOPE_LINK}
	if err := n.links.RouteAdd(route); err != nil {
		return err
	}

	if err := inNetwork(p.namespace, func() error { // containerd lets every user send echo requests
		return os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("0 2147483647"), 0)
	}); err != nil {
		return err
	}
	links, err := netlink.NewHandleAt(p.namespace)
	if err != nil {
		return err
	}
	defer links.Close()
	lo, err := links.LinkByName("lo")
	if err != nil {
		return err
	}
	eth0, err := links.LinkByName("eth0")
	if err != nil {
		return err
	}
	for _, link := range []netlink.Link{lo, eth0} {
		if err := links.LinkSetUp(link); err != nil {
			return err
		}
	}
	if err := links.AddrAdd(eth0, &netlink.Addr{IPNet: host(p.address)}); err != nil {
		return err
	}
	index = eth0.Attrs().Index
	if err := links.RouteAdd(&netlink.Route{LinkIndex: index, Dst: host(podGateway), Scope: netlink.SCOPE_LINK}); err !=
		nil {
		return err
	}
	return links.RouteAdd(&netlink.Route{LinkIndex: index, Gw: net.ParseIP(podGateway)})
}

func (n *network) removePod(p *podNetwork) {
	if link, err := n.links.LinkByName(p.link); err == nil {
		_ = n.links.LinkDel(link) // it ends with the namespace too
	}
	p.namespace.Close()
}

func host(address string) *net.IPNet {
	return &net.IPNet{IP: net.ParseIP(address).To4(), Mask: net.CIDRMask(32, 32)}
}

// newNamespace makes a network namespace without a name: it ends with its last user.
func newNamespace() (namespace netns.NsHandle, err error) {
	err = onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		namespace, err = netns.Get()
		return err
	})
	return namespace, err
}

// inNetwork runs f in a network namespace. Sockets that f opens and processes that it starts stay there.
func inNetwork(namespace netns.NsHandle, f func() error) error {
	return onThread(func() error {
		if err := netns.Set(namespace); err != nil {
			return err
		}
		return f()
	})
}

// onThread runs f on a thread that f may move to other namespaces, and moves the thread back afterwards. It must live
// on, since the processes that it started end with it.
func onThread(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for name, kind := range map[string]int{"net": unix.CLONE_NEWNET, "pid": unix.CLONE_NEWPID} {
		own, err := os.Open("/proc/thread-self/ns/" + name)
		if err != nil {
			return err
		}
		defer func() {
			if err := unix.Setns(int(own.Fd()), kind); err != nil {
				panic(fmt.Sprintf("node: a thread cannot leave a container's namespace: %v", err))
			}
			own.Close()
		}()
	}
	return f()
}
