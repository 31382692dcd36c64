package cli

import (
	"net"
	"strings"
)

// ShellQuote returns s as one word of a POSIX shell.
func ShellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// LocalAddress returns the address at which a listener of this machine is reached. A listener on all addresses is
// reached on the loopback address.
func LocalAddress(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	switch ip := net.ParseIP(host); {
	case host == "", ip.Equal(net.IPv4zero):
		host = "127.0.0.1"
	case ip.Equal(net.IPv6zero):
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}
