package guard

import (
	"fmt"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// Name is the name of the tables.
const Name = "mediator"

// Ruleset is the rules made from Options.
type Ruleset struct{ tables []table }

// Rules makes the rules.
func Rules(o Options) (*Ruleset, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &Ruleset{tables: []table{{family: nftables.TableFamilyINet, counters: counters}}}
	add := func(c ...chain) { s.tables[0].chains = append(s.tables[0].chains, c...) }
	if o.Transparent != 0 {
		add(o.redirected())
	}
	add(o.others(), o.leaving(), o.passing(), o.coming())
	if len(o.Devices) > 0 {
		s.tables = append(s.tables, o.packets())
	}
	return s, nil
}

// redirected redirects new connections to the transparent listener, before leaving judges their destination.
func (o *Options) redirected() chain {
	c := chain{name: "redirected", typ: nftables.ChainTypeNAT, hook: nftables.ChainHookOutput,
		prio: *nftables.ChainPriorityNATDest, policy: nftables.ChainPolicyAccept}
	c.rules = append(c.rules, rule{to4(ProbeAddress), tcpPort(o.Redirect[0]), redirectTo(o.Transparent)})
	for _, id := range o.UIDs {
		c.rules = append(c.rules, rule{uid(id), accept()})
	}
	c.rules = append(c.rules, rule{toLoopback4(), accept()})
	for _, p := range o.Redirect {
		c.rules = append(c.rules, rule{ipv4(), tcpPort(p), redirectTo(o.Transparent)})
	}
	return c
}

// leaving judges all outgoing packets. A socket keeps the user that made it, even if another process holds it later.
// Packets without a socket come from the kernel: the end of a closed connection, a reset, neighbour discovery.
func (o *Options) leaving() chain {
	c := chain{name: "leaving", typ: nftables.ChainTypeFilter, hook: nftables.ChainHookOutput,
		prio: *nftables.ChainPriorityFilter, policy: nftables.ChainPolicyDrop}
	c.rules = append(c.rules, rule{to4(ProbeAddress), udp(), count(CountProbe), drop()})
	for _, id := range o.UIDs {
		c.rules = append(c.rules, rule{uid(id), setMark(), accept()})
	}
	c.rules = append(c.rules,
		rule{notUID(o.UIDs[0]), goTo("others")}, // before the mark: sockets of others must not use the mediator's connections
		rule{marked(), accept()},
		rule{leavesByLoopback(), accept()},
		rule{toLoopback4(), accept()},
		rule{toLoopback6(), accept()},
	)
	return chainWith(c, append(neighbours(), rule{count(CountKernel)})...)
}

// others judges packets from sockets of users other than the mediator's.
func (o *Options) others() chain {
	c := chain{name: "others"}
	add := func(r ...rule) { c.rules = append(c.rules, r...) }
	// An answer to a forged source would leave as a packet of the mediator or of the kernel.
	add(rule{foreignSource(), count(CountSpoofed), drop()})
	// A source route would lead a packet for a resolver on to another machine (RFC 7126).
	add(rule{withOptions(), count(CountOptions), drop()})
	for _, p := range o.Admin {
		add(rule{toLoopback4(), tcpPort(p), count(CountAdmin), reset()},
			rule{toLoopback6(), tcpPort(p), count(CountAdmin), reset()})
	}
	add(rule{toLoopback4(), reply(), accept()}, rule{toLoopback6(), reply(), accept()})
	add(rule{toLoopback4(), tcpPort(o.Proxy), accept()})
	if o.Transparent != 0 {
		add(rule{toLoopback4(), tcpPort(o.Transparent), accept()})
	}
	for _, a := range o.Resolvers {
		add(rule{to4(a), udpPort(53), accept()}, rule{to4(a), tcpPort(53), accept()})
	}
	for _, r := range o.Loopback {
		for _, to := range []statement{toLoopback4(), toLoopback6()} {
			add(rule{to, ports("tcp", unix.IPPROTO_TCP, r), accept()}, rule{to, ports("udp", unix.IPPROTO_UDP, r), accept()})
		}
	}
	refused := func(counter string, match ...statement) {
		add(append(append(rule{}, match...), tcp(), count(counter), reset()),
			append(append(rule{}, match...), count(counter), prohibit()))
	}
	refused(CountLoopback, toLoopback4())
	refused(CountLoopback, toLoopback6())
	refused(CountIPv6, ipv6())
	for _, p := range []uint16{53, 853} { // RFC 1035, RFC 7858, RFC 9250
		add(rule{tcpPort(p), count(CountDNS), reset()}, rule{udpPort(p), count(CountDNS), prohibit()})
	}
	for _, p := range []uint16{443, 80} {
		add(rule{udpPort(p), count(CountQUIC), prohibit()})
	}
	add(rule{udp(), count(CountUDP), prohibit()}, rule{tcp(), count(CountTCP), reset()},
		rule{icmp(), count(CountICMP), drop()})
	add(rule{count(CountProtocol), drop()})
	return c
}

// passing refuses to forward packets.
func (o *Options) passing() chain {
	return chain{
		name: "passing", typ: nftables.ChainTypeFilter, hook: nftables.ChainHookForward, prio: *nftables.ChainPriorityFilter,
		policy: nftables.ChainPolicyDrop,
		rules:  []rule{{count(CountForward)}},
	}
}

// coming judges incoming packets: answers, and connections to the mediator's own ports.
func (o *Options) coming() chain {
	c := chain{name: "coming", typ: nftables.ChainTypeFilter, hook: nftables.ChainHookInput,
		prio: *nftables.ChainPriorityFilter, policy: nftables.ChainPolicyDrop}
	c.rules = append(c.rules, rule{comesByLoopback(), accept()}, rule{reply(), accept()})
	for _, p := range o.Inbound {
		c.rules = append(c.rules, rule{tcpPort(p), accept()})
	}
	return chainWith(c, append(neighbours(), rule{count(CountInbound)})...)
}

// packets judges whole frames at a device: a packet socket (CAP_NET_RAW) bypasses all other hooks.
func (o *Options) packets() table {
	t := table{family: nftables.TableFamilyNetdev, counters: []string{CountPacket}}
	for i, d := range o.Devices {
		c := chain{name: fmt.Sprintf("device%d", i), typ: nftables.ChainTypeFilter, hook: nftables.ChainHookEgress,
			prio: *nftables.ChainPriorityFilter, policy: nftables.ChainPolicyAccept, device: d}
		for _, id := range o.UIDs {
			c.rules = append(c.rules, rule{uid(id), accept()})
		}
		for _, a := range o.Resolvers {
			c.rules = append(c.rules, rule{deviceTo4(a), udpPort(53), accept()}, rule{deviceTo4(a), tcpPort(53), accept()})
		}
		c.rules = append(c.rules, rule{notUID(o.UIDs[0]), count(CountPacket), drop()})
		t.chains = append(t.chains, c)
	}
	return t
}

func neighbours() []rule {
	var out []rule
	for kind := byte(133); kind <= 136; kind++ {
		out = append(out, rule{neighbour(kind), accept()})
	}
	return out
}

func chainWith(c chain, rules ...rule) chain {
	c.rules = append(c.rules, rules...)
	return c
}
