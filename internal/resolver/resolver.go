// Package resolver is the DNS server of an isolated run. It asks no other server: each name gets an
// address of its own, from a block that no machine has. Only the run's listener accepts connections to these addresses.
// So a query carries no data out, and the sidecar knows from a name alone which address its client must have dialled.
package resolver

import (
	"crypto/sha256"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// block is never routed (RFC 6890).
var block = netip.MustParsePrefix("198.18.0.0/15")

// Gave reports whether addr is in the block from which all addresses come.
func Gave(addr netip.Addr) bool { return block.Contains(addr.Unmap()) }

// Address returns the address of a host. Two hosts can share one: only the name in a connection says where it leads.
func Address(host string) netip.Addr {
	sum := sha256.Sum256([]byte(strings.TrimSuffix(strings.ToLower(host), ".")))
	a := block.Addr().As4()
	inBlock := binary.BigEndian.Uint32(sum[:]) >> block.Bits()
	binary.BigEndian.PutUint32(a[:], binary.BigEndian.Uint32(a[:])|inBlock)
	return netip.AddrFrom4(a)
}

// Own is the resolver's address in the block.
var Own = netip.AddrPortFrom(block.Addr().Next(), 53)

// maxTold bounds the reports of names without an answer in a run.
const maxTold = 256

// Serve answers the queries that reach c, until c is closed. It tells of queries that have no answer, one for each
// name, before it answers them.
func Serve(c net.PacketConn, tell func(query []byte)) error {
	query := make([]byte, 4096) // RFC 6891 section 6.2.5
	told := make(map[string]bool)
	for {
		n, from, err := c.ReadFrom(query)
		if err != nil {
			return err
		}
		out := answer(query[:n])
		if out == nil {
			continue
		}
		if name, _ := Asked(query[:n]); isWithout(out) && !told[name] && len(told) < maxTold {
			told[name] = true
			tell(query[:n])
		}
		_, _ = c.WriteTo(out, from) // a client that has gone asks no more
	}
}

// Asked returns the name and the type that a query asks for. The name may contain any byte, and is empty if the query
// has none.
func Asked(query []byte) (name, of string) {
	var p dnsmessage.Parser
	if _, err := p.Start(query); err != nil {
		return "", "none"
	}
	q, err := p.Question()
	if err != nil {
		return "", "none"
	}
	return q.Name.String(), strings.TrimPrefix(q.Type.String(), "Type")
}

// isWithout reports whether an answer tells nothing. Clients ask for the types in ordinary beside a host's IPv4
// address.
func isWithout(out []byte) bool {
	ordinary := []dnsmessage.Type{dnsmessage.TypeAAAA, dnsmessage.TypeSVCB, dnsmessage.TypeHTTPS}
	var m dnsmessage.Message
	return m.Unpack(out) != nil || m.RCode != dnsmessage.RCodeSuccess ||
		len(m.Answers) == 0 && !slices.Contains(ordinary, m.Questions[0].Type)
}

// ttl is short in seconds, because an address is as cheap to get as to keep.
const ttl = 60

// answer returns the answer to a query, or nil for a message that is no query.
func answer(raw []byte) []byte {
	var p dnsmessage.Parser
	asked, err := p.Start(raw)
	if err != nil || asked.Response {
		return nil
	}
	head := dnsmessage.Header{ID: asked.ID, Response: true, OpCode: asked.OpCode,
		RecursionDesired: asked.RecursionDesired, RecursionAvailable: true, Authoritative: true}
	questions, err := p.AllQuestions()
	switch {
	case err != nil || len(questions) != 1:
		head.RCode = dnsmessage.RCodeFormatError
	case asked.OpCode != 0:
		head.RCode = dnsmessage.RCodeNotImplemented
	case questions[0].Class != dnsmessage.ClassINET:
		head.RCode = dnsmessage.RCodeRefused
	}
	if head.RCode != dnsmessage.RCodeSuccess {
		return pack(dnsmessage.Message{Header: head})
	}
	m := dnsmessage.Message{Header: head, Questions: questions}
	switch addr, q := addressOf(questions[0].Name), questions[0]; {
	case !addr.IsValid():
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA: // IPv4 alone: a client that prefers IPv6 takes it too
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: ttl},
			Body:   &dnsmessage.AResource{A: addr.As4()},
		}}
	}
	return pack(m)
}

// addressOf returns no valid address for a name that no host has.
func addressOf(name dnsmessage.Name) netip.Addr {
	host := strings.TrimSuffix(strings.ToLower(name.String()), ".")
	switch {
	case host == "" || strings.HasSuffix(host, ".arpa") ||
		strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "":
		return netip.Addr{}
	case host == "localhost" || strings.HasSuffix(host, ".localhost"): // RFC 6761 section 6.3
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return Address(host)
}

func pack(m dnsmessage.Message) []byte {
	raw, err := m.Pack()
	if err != nil {
		return nil
	}
	return raw
}
