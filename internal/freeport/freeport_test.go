package freeport

import (
	"net"
	"net/netip"
	"testing"

	"github.com/actionproof/mediator/test/check"
)

func TestAddress(t *testing.T) {
	for range 100 {
		address, err := Address()
		check.Must(t, err)
		if port := netip.MustParseAddrPort(address).Port(); port < 1<<14 || port >= 1<<15 {
			t.Errorf("got %s", address)
		}
		l, err := net.Listen("tcp", address)
		check.Must(t, err)
		defer l.Close()
	}
}
