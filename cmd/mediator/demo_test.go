package main

import (
	"bytes"
	"encoding/json"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/demo"
	"github.com/actionproof/mediator/internal/freeport"
)

// TestDemo plays the Deployment: each scenario has to go as expected.
func TestDemo(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if status := run(t.Context(), []string{"demo", "--json"}, strings.NewReader(""), &stdout, &stderr); status != exitDone {
		t.Errorf("status %d: %s", status, stderr.String())
	}
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	if len(lines) < 30 {
		t.Errorf("only %d scenarios were played", len(lines))
	}
	for _, line := range lines {
		var p demo.Result
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatal(err)
		}
		if !p.OK || p.Expected != p.Happened {
			t.Errorf("%s: %s happened, not %s", p.Scenario, p.Happened, p.Expected)
		}
	}
}

// TestFreeAddress gives an address for a listener that no connection can have taken meanwhile.
func TestFreeAddress(t *testing.T) {
	for range 100 {
		address, err := freeport.Address()
		must(t, err)
		if port := netip.MustParseAddrPort(address).Port(); port < 1<<14 || port >= 1<<15 {
			t.Errorf("got %s", address)
		}
		l, err := net.Listen("tcp", address)
		must(t, err)
		defer l.Close()
	}
}
