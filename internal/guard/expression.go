package guard

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// statement is a part of a rule in two forms: text for the nft command, and the expressions that nft makes of it for
// the kernel.
type statement struct {
	text  string
	exprs []expr.Any
}

// rule is a list of statements. Each statement applies only if all before it matched.
type rule []statement

func (r rule) String() string {
	texts := make([]string, len(r))
	for i, s := range r {
		texts[i] = s.text
	}
	return strings.Join(texts, " ")
}

func (r rule) exprs() []expr.Any {
	var all []expr.Any
	for _, s := range r {
		all = append(all, s.exprs...)
	}
	return all
}

// chain holds rules. A chain with a hook sees packets there; a goto leads to the other chains.
type chain struct {
	name   string
	typ    nftables.ChainType
	hook   *nftables.ChainHook
	prio   nftables.ChainPriority
	policy nftables.ChainPolicy
	device string
	rules  []rule
}

func (c *chain) add(rules ...rule) { c.rules = append(c.rules, rules...) }

type table struct {
	family   nftables.TableFamily
	counters []string
	chains   []chain
}

func compare(op expr.CmpOp, data []byte) expr.Any {
	return &expr.Cmp{Op: op, Register: unix.NFT_REG_1, Data: data}
}

func host32(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

func port16(p uint16) []byte { return binary.BigEndian.AppendUint16(nil, p) }

// meta compares a property of a packet.
func meta(text string, key expr.MetaKey, op expr.CmpOp, data []byte) statement {
	return statement{text, []expr.Any{&expr.Meta{Key: key, Register: unix.NFT_REG_1}, compare(op, data)}}
}

// field matches bytes of a header, in packets that of matches.
func field(text string, of statement, header expr.PayloadBase, offset uint32, want []byte) statement {
	return statement{text, append(of.exprs, load(header, offset, len(want)), compare(expr.CmpOpEq, want))}
}

func load(header expr.PayloadBase, offset uint32, size int) expr.Any {
	return &expr.Payload{OperationType: expr.PayloadLoad, DestRegister: unix.NFT_REG_1, Base: header, Offset: offset,
		Len: uint32(size)} //nolint:gosec // of an address at most
}

const (
	network   = expr.PayloadBaseNetworkHeader
	transport = expr.PayloadBaseTransportHeader
)

// uid matches packets of the user's sockets, and notUID those of other users' sockets. Packets without a socket match
// neither.
func uid(id uint32) statement {
	return meta(fmt.Sprintf("meta skuid %d", id), expr.MetaKeySKUID, expr.CmpOpEq, host32(id))
}

func notUID(id uint32) statement {
	return meta(fmt.Sprintf("meta skuid != %d", id), expr.MetaKeySKUID, expr.CmpOpNeq, host32(id))
}

func ipv4() statement {
	return meta("meta nfproto ipv4", expr.MetaKeyNFPROTO, expr.CmpOpEq, []byte{unix.NFPROTO_IPV4})
}

func ipv6() statement {
	return meta("meta nfproto ipv6", expr.MetaKeyNFPROTO, expr.CmpOpEq, []byte{unix.NFPROTO_IPV6})
}

// to4 matches an IPv4 destination, and deviceTo4 does so in a chain at a device.
func to4(a netip.Addr) statement {
	return field("ip daddr "+a.String(), ipv4(), network, 16, a.AsSlice())
}

func deviceTo4(a netip.Addr) statement {
	frame := meta("", expr.MetaKeyPROTOCOL, expr.CmpOpEq, port16(unix.ETH_P_IP))
	return field("ip daddr "+a.String(), frame, network, 16, a.AsSlice())
}

func toLoopback4() statement { return field("ip daddr 127.0.0.0/8", ipv4(), network, 16, []byte{127}) }

func toLoopback6() statement {
	return field("ip6 daddr ::1", ipv6(), network, 24, netip.IPv6Loopback().AsSlice())
}

func over(name string, protocol byte) statement {
	return meta("meta l4proto "+name, expr.MetaKeyL4PROTO, expr.CmpOpEq, []byte{protocol})
}

func tcp() statement  { return over("tcp", unix.IPPROTO_TCP) }
func udp() statement  { return over("udp", unix.IPPROTO_UDP) }
func icmp() statement { return over("icmp", unix.IPPROTO_ICMP) }

func tcpPort(p uint16) statement {
	return field(fmt.Sprintf("tcp dport %d", p), tcp(), transport, 2, port16(p))
}
func udpPort(p uint16) statement {
	return field(fmt.Sprintf("udp dport %d", p), udp(), transport, 2, port16(p))
}

func ports(protocol string, number byte, r PortRange) statement {
	of := over(protocol, number)
	if r.First == r.Last {
		return field(fmt.Sprintf("%s dport %d", protocol, r.First), of, transport, 2, port16(r.First))
	}
	return statement{fmt.Sprintf("%s dport %d-%d", protocol, r.First, r.Last), append(of.exprs, load(transport, 2, 2),
		compare(expr.CmpOpGte, port16(r.First)), compare(expr.CmpOpLte, port16(r.Last)))}
}

// neighbour matches one type of the messages of IPv6 neighbour discovery (RFC 4861).
func neighbour(kind byte) statement {
	messages := statement{exprs: append(ipv6().exprs, over("", unix.IPPROTO_ICMPV6).exprs...)}
	return field(fmt.Sprintf("icmpv6 type %d", kind), messages, transport, 0, []byte{kind})
}

// leavesByLoopback and comesByLoopback match packets at the loopback device, whose index is 1 in each network
// namespace.
func leavesByLoopback() statement { return meta("oif lo", expr.MetaKeyOIF, expr.CmpOpEq, host32(1)) }
func comesByLoopback() statement  { return meta("iif lo", expr.MetaKeyIIF, expr.CmpOpEq, host32(1)) }

// foreignSource matches a source address of another machine.
func foreignSource() statement {
	return statement{"fib saddr type != local", []expr.Any{
		&expr.Fib{Register: unix.NFT_REG_1, ResultADDRTYPE: true, FlagSADDR: true},
		compare(expr.CmpOpNeq, host32(unix.RTN_LOCAL)),
	}}
}

// withOptions matches IPv4 packets with options, whose header is longer.
func withOptions() statement {
	return statement{"ip hdrlength != 5", append(ipv4().exprs, load(network, 0, 1),
		&expr.Bitwise{SourceRegister: unix.NFT_REG_1, DestRegister: unix.NFT_REG_1, Len: 1, Mask: []byte{0x0f},
			Xor: []byte{0}}, compare(expr.CmpOpNeq, []byte{5}))}
}

// reply matches answers in a connection that the other side opened.
func reply() statement {
	return statement{"ct direction reply",
		[]expr.Any{&expr.Ct{Register: unix.NFT_REG_1, Key: expr.CtKeyDIRECTION}, compare(expr.CmpOpEq, []byte{1})}}
}

func setMark() statement {
	return statement{fmt.Sprintf("ct mark set 0x%08x", mark), []expr.Any{
		&expr.Immediate{Register: unix.NFT_REG_1, Data: host32(mark)},
		&expr.Ct{Register: unix.NFT_REG_1, SourceRegister: true, Key: expr.CtKeyMARK},
	}}
}

func marked() statement {
	return statement{fmt.Sprintf("ct mark 0x%08x", mark),
		[]expr.Any{&expr.Ct{Register: unix.NFT_REG_1, Key: expr.CtKeyMARK}, compare(expr.CmpOpEq, host32(mark))}}
}

func verdict(text string, kind expr.VerdictKind, chain string) statement {
	return statement{text, []expr.Any{&expr.Verdict{Kind: kind, Chain: chain}}}
}

func accept() statement           { return verdict("accept", expr.VerdictAccept, "") }
func drop() statement             { return verdict("drop", expr.VerdictDrop, "") }
func goTo(chain string) statement { return verdict("goto "+chain, expr.VerdictGoto, chain) }

func count(name string) statement {
	return statement{"counter name " + name, []expr.Any{&expr.Objref{Type: unix.NFT_OBJECT_COUNTER, Name: name}}}
}

// reset refuses a TCP connection at once. prohibit refuses all other packets.
func reset() statement {
	return statement{"reject with tcp reset", []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}}}
}

func prohibit() statement {
	return statement{"reject with icmpx type admin-prohibited",
		[]expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED}}}
}

func redirectTo(p uint16) statement {
	return statement{fmt.Sprintf("redirect to :%d", p), []expr.Any{
		&expr.Immediate{Register: unix.NFT_REG_1, Data: port16(p)},
		&expr.Redir{RegisterProtoMin: unix.NFT_REG_1, RegisterProtoMax: unix.NFT_REG_1,
			Flags: unix.NF_NAT_RANGE_PROTO_SPECIFIED},
	}}
}
