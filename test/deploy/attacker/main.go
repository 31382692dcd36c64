// Command attacker tries every way that a program without rights has to send a byte out of its pod, and prints what it
// saw. Then it waits, so that its pod stays a target of others.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

func main() {
	for _, host := range os.Args[1:] {
		attack(host)
	}
	attack("169.254.169.254")
	attack(os.Getenv("KUBERNETES_SERVICE_HOST"))
	raw()
	sockets()
	fmt.Println("the attack is over")
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	<-ctx.Done()
}

func say(way string, err error) {
	if err == nil {
		fmt.Println("OPEN", way)
	}
}

func attack(host string) {
	var all []func()
	for _, port := range []string{"22", "53", "80", "443", "853", "6443", "8080", "8443", "9090"} {
		at := net.JoinHostPort(host, port)
		all = append(all, func() { say("tcp "+at, send("tcp", at)) }, func() { say("udp "+at, send("udp", at)) })
	}
	all = append(all, func() { say("echo "+host, echo(host)) })
	for _, protocol := range []int{132 /* SCTP */, 136 /* UDP-Lite */, 262 /* MPTCP */} {
		kind := unix.SOCK_STREAM
		if protocol == 136 {
			kind = unix.SOCK_DGRAM
		}
		all = append(all, func() { say(fmt.Sprintf("protocol %d to %s", protocol, host), other(host, kind, protocol)) })
	}
	done := make(chan bool)
	for _, one := range all {
		go func() { one(); done <- true }()
	}
	for range all {
		<-done
	}
}

// send sends a datagram or a line, and waits for an answer: nothing that came back tells that nothing left.
func send(network, at string) error {
	c, err := net.DialTimeout(network, at, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.Write([]byte("secret\r\n\r\n")); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 1))
	return err
}

func echo(host string) error {
	c, err := icmp.ListenPacket("udp4", "")
	if err != nil {
		return err
	}
	defer c.Close()
	text, err := (&icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{Data: []byte("secret")}}).Marshal(nil)
	if err != nil {
		return err
	}
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.WriteTo(text, &net.UDPAddr{IP: net.ParseIP(host)}); err != nil {
		return err
	}
	_, _, err = c.ReadFrom(make([]byte, 512))
	return err
}

func other(host string, kind, protocol int) error {
	fd, err := unix.Socket(unix.AF_INET, kind, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: 1})
	ip := net.ParseIP(host).To4()
	if ip == nil {
		return fmt.Errorf("no IPv4")
	}
	to := &unix.SockaddrInet4{Port: 8080, Addr: [4]byte(ip)}
	if kind == unix.SOCK_DGRAM {
		_ = unix.Sendto(fd, []byte("secret"), 0, to)
		return fmt.Errorf("no answer is expected")
	}
	return unix.Connect(fd, to)
}

// raw tries sockets that need rights, and IPv6 on the pod's own link.
func raw() {
	for name, s := range map[string][3]int{
		"raw IPv4": {unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW},
		"raw ICMP": {unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP},
		"raw IPv6": {unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_RAW}, "packet": {unix.AF_PACKET, unix.SOCK_RAW, 0x0300},
		"packet datagram": {unix.AF_PACKET, unix.SOCK_DGRAM, 0x0300}, "vsock": {unix.AF_VSOCK, unix.SOCK_STREAM, 0},
	} {
		fd, err := unix.Socket(s[0], s[1], s[2])
		say(name, err)
		if err == nil {
			unix.Close(fd)
		}
	}
	links, _ := net.Interfaces()
	for _, l := range links {
		if l.Flags&net.FlagLoopback != 0 {
			continue
		}
		for _, to := range []string{"ff02::1%" + l.Name, "fe80::1%" + l.Name, "2001:db8::66"} {
			at := net.JoinHostPort(to, "8080")
			say("udp "+at, send("udp6", at))
			say("tcp "+at, send("tcp6", at))
		}
	}
}

// sockets tries the unix sockets that it can see, and the mediator's own ones.
func sockets() {
	seen, _ := os.ReadFile("/proc/net/unix")
	paths := []string{"/run/mediator/admin/admin.sock", "/run/containerd/containerd.sock", "/var/run/docker.sock"}
	for line := range strings.Lines(string(seen)) {
		if f := strings.Fields(line); len(f) == 8 {
			paths = append(paths, f[7])
		}
	}
	for _, path := range paths {
		c, err := net.DialTimeout("unix", path, time.Second)
		say("unix "+path, err)
		if err == nil {
			c.Close()
		}
	}
}
