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

// RunRules makes the rules of a run's own network: they redirect DNS to the port of its resolver, and TCP to that of
// its listener. Loopback stays the agent's.
func RunRules(listener, resolver uint16) *Ruleset {
	c := chain{name: "redirected", typ: nftables.ChainTypeNAT, hook: nftables.ChainHookOutput,
		prio: *nftables.ChainPriorityNATDest, policy: nftables.ChainPolicyAccept}
	c.add(rule{udpPort(53), redirectTo(resolver)}, rule{toLoopback4(), accept()}, rule{toLoopback6(), accept()},
		rule{tcp(), redirectTo(listener)})
	return &Ruleset{tables: []table{{family: nftables.TableFamilyINet, chains: []chain{c}}}}
}

// redirected redirects new connections to the transparent listener, before leaving judges their destination.
func (o *Options) redirected() chain {
	c := chain{name: "redirected", typ: nftables.ChainTypeNAT, hook: nftables.ChainHookOutput,
		prio: *nftables.ChainPriorityNATDest, policy: nftables.ChainPolicyAccept}
	c.add(rule{to4(ProbeAddress), tcpPort(o.Redirect[0]), redirectTo(o.Transparent)})
	for _, id := range o.UIDs {
		c.add(rule{uid(id), accept()})
	}
	c.add(rule{toLoopback4(), accept()})
	for _, p := range o.Redirect {
		c.add(rule{ipv4(), tcpPort(p), redirectTo(o.Transparent)})
	}
	return c
}

// leaving judges all outgoing packets. A socket keeps the user that made it, even if another process holds it later.
// Packets without a socket come from the kernel: the end of a closed connection, a reset, neighbour discovery.
func (o *Options) leaving() chain {
	c := filter("leaving", nftables.ChainHookOutput)
	c.add(rule{to4(ProbeAddress), udp(), count(CountProbe), drop()})
	for _, id := range o.UIDs {
		c.add(rule{uid(id), setMark(), accept()})
	}
	c.add(
		// before the mark: sockets of others must not use the mediator's connections
		rule{notUID(o.UIDs[0]), goTo("others")},
		rule{marked(), accept()},
		rule{leavesByLoopback(), accept()},
		rule{toLoopback4(), accept()},
		rule{toLoopback6(), accept()},
	)
	c.add(append(neighbours(), rule{count(CountKernel)})...)
	return c
}

func filter(name string, hook *nftables.ChainHook) chain {
	return chain{name: name, typ: nftables.ChainTypeFilter, hook: hook, prio: *nftables.ChainPriorityFilter,
		policy: nftables.ChainPolicyDrop}
}

// others judges packets from sockets of users other than the mediator's.
func (o *Options) others() chain {
	c := chain{name: "others"}
	add := c.add
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
			add(rule{to, ports("tcp", unix.IPPROTO_TCP, r), accept()}, rule{to, ports("udp", unix.IPPROTO_UDP, r),
				accept()})
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

func (o *Options) passing() chain {
	c := filter("passing", nftables.ChainHookForward)
	c.add(rule{count(CountForward)})
	return c
}

// coming judges incoming packets: answers, and connections to the mediator's own ports.
func (o *Options) coming() chain {
	c := filter("coming", nftables.ChainHookInput)
	c.add(rule{comesByLoopback(), accept()}, rule{reply(), accept()})
	for _, p := range o.Inbound {
		c.add(rule{tcpPort(p), accept()})
	}
	c.add(append(neighbours(), rule{count(CountInbound)})...)
	return c
}

// packets judges whole frames at the devices, because a packet socket (CAP_NET_RAW) bypasses all other hooks.
func (o *Options) packets() table {
	t := table{family: nftables.TableFamilyNetdev, counters: []string{CountPacket}}
	for i, d := range o.Devices {
		c := filter(fmt.Sprintf("device%d", i), nftables.ChainHookEgress)
		c.policy, c.device = nftables.ChainPolicyAccept, d
		for _, id := range o.UIDs {
			c.add(rule{uid(id), accept()})
		}
		for _, a := range o.Resolvers {
			c.add(rule{deviceTo4(a), udpPort(53), accept()}, rule{deviceTo4(a), tcpPort(53), accept()})
		}
		c.add(rule{notUID(o.UIDs[0]), count(CountPacket), drop()})
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
