package guard

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"reflect"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// Install replaces the rules in this network namespace in one transaction, and reads them back. It needs CAP_NET_ADMIN.
func (s *Ruleset) Install() error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	for _, f := range slices.Sorted(maps.Keys(familyNames)) {
		conn.DelTable(conn.AddTable(&nftables.Table{Family: f, Name: Name}))
	}
	for _, t := range s.tables {
		t.add(conn)
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("guard: the rules could not be installed (they need CAP_NET_ADMIN): %w", err)
	}
	return s.Check()
}

func (t *table) add(conn *nftables.Conn) {
	in := conn.AddTable(&nftables.Table{Family: t.family, Name: Name})
	for _, name := range t.counters {
		conn.AddObj(&nftables.NamedObj{Table: in, Name: name, Type: nftables.ObjTypeCounter, Obj: &expr.Counter{}})
	}
	for _, c := range t.chains { // all chains before the rules, which refer to chains
		conn.AddChain(c.kernel(in))
	}
	for _, c := range t.chains {
		for _, r := range c.rules {
			conn.AddRule(&nftables.Rule{Table: in, Chain: c.kernel(in), Exprs: r.exprs()})
		}
	}
}

func (c *chain) kernel(in *nftables.Table) *nftables.Chain {
	out := &nftables.Chain{Name: c.name, Table: in}
	if c.hook != nil {
		out.Hooknum, out.Priority, out.Type, out.Policy, out.Device = c.hook, &c.prio, c.typ, &c.policy, c.device
	}
	return out
}

// Check returns nil only if the tables in this network namespace hold exactly these rules in this order. It needs
// CAP_NET_ADMIN.
func (s *Ruleset) Check() error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	all, err := conn.ListChains()
	if err != nil {
		return fmt.Errorf("guard: the rules could not be read (this needs CAP_NET_ADMIN): %w", err)
	}
	for _, t := range s.tables {
		stand := slices.DeleteFunc(slices.Clone(all), func(c *nftables.Chain) bool {
			return c.Table.Name != Name || c.Table.Family != t.family
		})
		if len(stand) == 0 {
			return fmt.Errorf("guard: there are no rules: the table %s %s is missing", familyNames[t.family], Name)
		}
		if len(stand) != len(t.chains) {
			return fmt.Errorf("guard: the table %s %s has %d chains, and should have %d", familyNames[t.family], Name,
				len(stand), len(t.chains))
		}
		for _, c := range t.chains {
			i := slices.IndexFunc(stand, func(k *nftables.Chain) bool { return k.Name == c.name })
			if i < 0 {
				return fmt.Errorf("guard: the chain %s is missing", c.name)
			}
			if err := c.check(conn, stand[i]); err != nil {
				return err
			}
		}
	}
	return s.checkDormant(conn)
}

// checkDormant refuses tables that have no effect.
func (s *Ruleset) checkDormant(conn *nftables.Conn) error {
	for _, t := range s.tables {
		k, err := conn.ListTableOfFamily(Name, t.family)
		if err != nil {
			return fmt.Errorf("guard: %w", err)
		}
		if k.Flags != 0 { // the byte order depends on the machine, but none of our tables has a flag
			return fmt.Errorf("guard: the table %s %s is dormant, or another program's", familyNames[t.family], Name)
		}
	}
	return nil
}

func (c *chain) check(conn *nftables.Conn, k *nftables.Chain) error {
	want := c.kernel(k.Table)
	want.Device = "" // the kernel does not report the device
	if !reflect.DeepEqual(k, want) {
		return fmt.Errorf("guard: the chain %s is not hooked in where it should be", c.name)
	}
	rules, err := conn.GetRules(k.Table, k)
	if err != nil {
		return fmt.Errorf("guard: the rules of %s could not be read: %w", c.name, err)
	}
	if len(rules) != len(c.rules) {
		return fmt.Errorf("guard: the chain %s has %d rules, and should have %d", c.name, len(rules), len(c.rules))
	}
	for i, r := range rules {
		want, err := readBack(k.Table.Family, c.rules[i].exprs())
		if err != nil {
			return fmt.Errorf("guard: %w", err)
		}
		if !reflect.DeepEqual(r.Exprs, want) {
			return fmt.Errorf("guard: rule %d of the chain %s is not %q", i+1, c.name, c.rules[i])
		}
	}
	return nil
}

// readBack returns expressions in the form in which the kernel reports them.
func readBack(family nftables.TableFamily, exprs []expr.Any) ([]expr.Any, error) {
	out := make([]expr.Any, len(exprs))
	for i, e := range exprs {
		raw, err := expr.MarshalExprData(byte(family), e)
		if err != nil {
			return nil, err
		}
		out[i] = reflect.New(reflect.TypeOf(e).Elem()).Interface().(expr.Any)
		if err := expr.Unmarshal(byte(family), raw, out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Count returns how many packets each counter has counted since the rules were installed. It needs CAP_NET_ADMIN.
func (s *Ruleset) Count() (map[string]uint64, error) {
	conn, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	counted := make(map[string]uint64)
	for _, t := range s.tables {
		objs, err := conn.GetNamedObjects(&nftables.Table{Family: t.family, Name: Name})
		if err != nil {
			return nil, fmt.Errorf("guard: the counters could not be read: %w", err)
		}
		for _, o := range objs {
			if named, ok := o.(*nftables.NamedObj); ok {
				if c, ok := named.Obj.(*expr.Counter); ok {
					counted[named.Name] = c.Packets
				}
			}
		}
	}
	if len(counted) != len(s.Counters()) {
		return nil, errors.New("guard: counters are missing")
	}
	return counted, nil
}

// Counters returns the names of the counters in the order of display.
func (s *Ruleset) Counters() []string {
	var out []string
	for _, t := range s.tables {
		out = append(out, t.counters...)
	}
	return out
}

// Devices returns the network devices other than loopback.
func Devices() ([]string, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	var out []string
	for _, i := range all {
		if i.Flags&net.FlagLoopback == 0 {
			out = append(out, i.Name)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("guard: no network device leads out of the pod; name future ones in guard.devices")
	}
	return out, nil
}
