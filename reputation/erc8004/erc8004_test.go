package erc8004

import (
	"strings"
	"testing"
)

const registry = "eip155:8453:0x8004A169FB4a3325136EB29fA0ceB6D2e539a432"

func FuzzParseAgent(f *testing.F) {
	for _, text := range []string{"", "eip155:0", registry, registry + ":0", registry + ":22", registry + ":022"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseAgent(text)
		if err != nil {
			return
		}
		if !strings.HasPrefix(text, a.Registry) || (a.ID == nil) != (a.Registry == text) {
			t.Errorf("%q is read as %v", text, a)
		}
		client := "0x" + strings.Repeat("3", 40)
		named := a.Registry[:len(a.Registry)-len(client)] + client
		c, err := a.Feedback(client, Statement{})
		if (err == nil) != (a.ID != nil) || (err == nil && !strings.Contains(string(c.File), named)) {
			t.Errorf("%q: %s %v", text, c.File, err)
		}
	})
}

func TestRefused(t *testing.T) {
	registered, err := ParseAgent(registry + ":22")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := registered.Feedback("0x12", Statement{}); err == nil {
		t.Error("a short address is accepted")
	}
	if _, err := registered.Revoke(0); err == nil {
		t.Error("an index before the first is accepted")
	}
	c, err := registered.Revoke(1)
	if want := "0x4ab3ca99" + strings.Repeat("0", 62) + "16" + strings.Repeat("0", 63) + "1"; c.Calldata != want {
		t.Errorf("got %v %v", c, err)
	}
}
