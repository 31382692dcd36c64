package guard

import (
	"fmt"
	"strings"

	"github.com/google/nftables"
)

// String returns the rules as a file for nft -f. The file replaces existing rules in one transaction.
func (s *Ruleset) String() string {
	var b strings.Builder
	for _, f := range []nftables.TableFamily{nftables.TableFamilyINet, nftables.TableFamilyNetdev} {
		fmt.Fprintf(&b, "add table %s %s\ndelete table %[1]s %[2]s\n", familyNames[f], Name)
	}
	for _, t := range s.tables {
		fmt.Fprintf(&b, "\ntable %s %s {\n", familyNames[t.family], Name)
		for _, c := range t.counters {
			fmt.Fprintf(&b, "\tcounter %s { }\n", c)
		}
		for _, c := range t.chains {
			fmt.Fprintf(&b, "\n\tchain %s {\n", c.name)
			if c.hook != nil {
				fmt.Fprintf(&b, "\t\t%s\n", c.base())
			}
			for _, r := range c.rules {
				fmt.Fprintf(&b, "\t\t%s\n", r)
			}
			b.WriteString("\t}\n")
		}
		b.WriteString("}\n")
	}
	return b.String()
}

var familyNames = map[nftables.TableFamily]string{
	nftables.TableFamilyINet: "inet", nftables.TableFamilyNetdev: "netdev",
}

func (c *chain) base() string {
	hook, device, policy := "", "", "drop"
	switch *c.hook {
	case *nftables.ChainHookInput:
		hook = "input"
	case *nftables.ChainHookForward:
		hook = "forward"
	case *nftables.ChainHookOutput:
		hook = "output"
	}
	if c.device != "" { // hooks of the netdev family have other numbers
		hook, device = "egress", fmt.Sprintf(" device %q", c.device)
	}
	if c.policy == nftables.ChainPolicyAccept {
		policy = "accept"
	}
	return fmt.Sprintf("type %s hook %s%s priority %d; policy %s;", c.typ, hook, device, c.prio, policy)
}
