package freeport

import (
	"net"
	"net/netip"
	"testing"
)

// TestAddress returns addresses that no outgoing connection can have taken meanwhile.
func TestAddress(t *testing.T) {
	for range 100 {
		address, err := Address()
		if err != nil {
			t.Fatal(err)
		}
		if port := netip.MustParseAddrPort(address).Port(); port < 1<<14 || port >= 1<<15 {
			t.Errorf("got %s", address)
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
}
