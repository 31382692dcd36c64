package resolver

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/actionproof/mediator/test/check"
)

func query(t testing.TB, name string, of dnsmessage.Type, change func(*dnsmessage.Message)) []byte {
	t.Helper()
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: 7, RecursionDesired: true}, Questions: []dnsmessage.Question{
		{Name: dnsmessage.MustNewName(name), Type: of, Class: dnsmessage.ClassINET}}}
	if change != nil {
		change(&m)
	}
	raw, err := m.Pack()
	check.Must(t, err)
	return raw
}

// TestAnswer wants an address for each name, and for no other question.
func TestAnswer(t *testing.T) {
	long := strings.Repeat(strings.Repeat("a", 62)+".", 4)
	for _, tt := range []struct {
		name   string
		of     dnsmessage.Type
		change func(*dnsmessage.Message)
		code   dnsmessage.RCode
		want   string // empty: no answer
	}{
		{"api.test.", dnsmessage.TypeA, nil, dnsmessage.RCodeSuccess, Address("api.test").String()},
		{"API.Test.", dnsmessage.TypeA, nil, dnsmessage.RCodeSuccess, Address("api.test").String()},
		{"vault.", dnsmessage.TypeA, nil, dnsmessage.RCodeSuccess, Address("vault").String()},
		{long, dnsmessage.TypeA, nil, dnsmessage.RCodeSuccess, Address(long).String()},
		{"localhost.", dnsmessage.TypeA, nil, dnsmessage.RCodeSuccess, "127.0.0.1"},
		{"api.test.", dnsmessage.TypeAAAA, nil, dnsmessage.RCodeSuccess, ""},
		{"api.test.", 65, nil, dnsmessage.RCodeSuccess, ""}, // HTTPS: no other port, no encrypted ClientHello
		{"secrets-in-a-name.evil.test.", dnsmessage.TypeTXT, nil, dnsmessage.RCodeSuccess, ""},
		{"api.test.", dnsmessage.TypeALL, nil, dnsmessage.RCodeSuccess, ""},
		{".", dnsmessage.TypeNS, nil, dnsmessage.RCodeNameError, ""},
		{"1.0.18.198.in-addr.arpa.", dnsmessage.TypePTR, nil, dnsmessage.RCodeNameError, ""},
		{"a b.test.", dnsmessage.TypeA, nil, dnsmessage.RCodeNameError, ""},
		{"api.test.", dnsmessage.TypeA, func(m *dnsmessage.Message) { m.Questions[0].Class = dnsmessage.ClassCHAOS },
			dnsmessage.RCodeRefused, ""},
		{"api.test.", dnsmessage.TypeA, func(m *dnsmessage.Message) { m.OpCode = 5 }, dnsmessage.RCodeNotImplemented,
			""},
		{"api.test.", dnsmessage.TypeA,
			func(m *dnsmessage.Message) { m.Questions = append(m.Questions, m.Questions[0]) },
			dnsmessage.RCodeFormatError, ""},
		{"api.test.", dnsmessage.TypeA, func(m *dnsmessage.Message) { m.Questions = nil }, dnsmessage.RCodeFormatError,
			""},
	} {
		var m dnsmessage.Message
		check.Must(t, m.Unpack(answer(query(t, tt.name, tt.of, tt.change))))
		got := ""
		for _, a := range m.Answers {
			got += netip.AddrFrom4(a.Body.(*dnsmessage.AResource).A).String()
		}
		if m.ID != 7 || !m.Response || m.RCode != tt.code || got != tt.want {
			t.Errorf("%s %v: %v %q, want %v %q", tt.name, tt.of, m.RCode, got, tt.code, tt.want)
		}
	}
	if answer(query(t, "api.test.", dnsmessage.TypeA, func(m *dnsmessage.Message) { m.Response = true })) != nil {
		t.Error("an answer was answered")
	}
}

// Of every type and class, only a host's IPv4 address has an answer, and no answer repeats a name of 300 bytes.
func TestEveryTypeAndClass(t *testing.T) {
	for v := range 1 << 16 {
		for of, class := range map[dnsmessage.Type]dnsmessage.Class{
			dnsmessage.Type(v): dnsmessage.ClassINET, dnsmessage.TypeA: dnsmessage.Class(v)} {
			var m dnsmessage.Message
			check.Must(t, m.Unpack(answer(query(t, "api.test.", of, func(m *dnsmessage.Message) {
				m.Questions[0].Class = class
			}))))
			if want := of == dnsmessage.TypeA && class == dnsmessage.ClassINET; len(m.Answers) > 0 != want {
				t.Errorf("type %d, class %d: %v", of, class, m)
			}
		}
	}
	label := "\x3b" + strings.Repeat("a", 59)
	raw := append(query(t, ".", dnsmessage.TypeA, nil)[:12], strings.Repeat(label, 5)+"\x00\x00\x01\x00\x01"...)
	var m dnsmessage.Message
	if err := m.Unpack(answer(raw)); err != nil || m.RCode != dnsmessage.RCodeFormatError || len(m.Questions) > 0 {
		t.Errorf("a name of 300 bytes: %v, %v", m, err)
	}
}

// TestAddress wants many hosts to have many addresses, all in the block.
func TestAddress(t *testing.T) {
	seen := make(map[netip.Addr]bool)
	for a := range 26 {
		for b := range 26 {
			at := Address(string(rune('a'+a)) + "." + string(rune('a'+b)) + ".test")
			if seen[at] = true; !Gave(at) {
				t.Errorf("%s is not in the block", at)
			}
		}
	}
	if len(seen) < 660 {
		t.Errorf("676 hosts have %d addresses", len(seen))
	}
	if Gave(netip.MustParseAddr("198.20.0.1")) || !Gave(netip.MustParseAddr("::ffff:198.19.255.255")) {
		t.Error("the block has other bounds")
	}
}

// TestServe asks over UDP, after a message that is no query, and after queries that have no answer: it tells of each
// name once, and of no more than a bound.
func TestServe(t *testing.T) {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	check.Must(t, err)
	ended := make(chan error, 1)
	told := make(map[string]int)
	tell := func(q []byte) {
		name, of := Asked(q)
		told[name+" "+of]++
	}
	go func() { ended <- Serve(c, tell) }()
	client, err := net.Dial("udp", c.LocalAddr().String())
	check.Must(t, err)
	defer client.Close()
	_, err = client.Write([]byte("no query"))
	check.Must(t, err)
	ask := func(out []byte) (m dnsmessage.Message) {
		_, err = client.Write(out)
		check.Must(t, err)
		in := make([]byte, 512)
		n, err := client.Read(in)
		check.Must(t, errors.Join(err, m.Unpack(in[:n])))
		return m
	}
	for range 2 {
		ask(query(t, "a-secret.evil.test.", dnsmessage.TypeTXT, nil))
		ask(query(t, "a b.", dnsmessage.TypeA, nil))
		ask(query(t, ".", dnsmessage.TypeA, nil)[:12])
		ask(query(t, "api.test.", dnsmessage.TypeAAAA, nil))
		ask(query(t, "api.test.", dnsmessage.TypeHTTPS, nil))
		if m := ask(query(t, "api.test.", dnsmessage.TypeA, nil)); len(m.Answers) != 1 {
			t.Errorf("%v", m)
		}
	}
	for i := range 2 * maxTold {
		ask(query(t, fmt.Sprintf("%d.evil.test.", i), dnsmessage.TypeTXT, nil))
	}
	c.Close()
	if err := <-ended; err == nil || len(told) != maxTold {
		t.Errorf("told of %d names: %v", len(told), err)
	}
	for _, name := range []string{"a-secret.evil.test. TXT", "a b. A", " none", "0.evil.test. TXT"} {
		if told[name] != 1 {
			t.Errorf("told %d times of %q", told[name], name)
		}
	}
	if told["api.test. A"]+told["api.test. AAAA"]+told["api.test. HTTPS"] > 0 {
		t.Errorf("told of a host: %v", told)
	}
}

// FuzzAnswer wants each answer to be one that a client can read, of the query's id.
func FuzzAnswer(f *testing.F) {
	f.Add(query(f, "api.test.", dnsmessage.TypeA, nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		out := answer(raw)
		if out == nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(out); err != nil || !m.Response || len(out) > 600 || out[0] != raw[0] || out[1] != raw[1] {
			t.Errorf("%x: %v, %v", raw, m, err)
		}
		if name, _ := Asked(raw); isWithout(out) && len(m.Answers) > 0 || len(name) > 255 {
			t.Errorf("%x: asks for %q", raw, name)
		}
	})
}
