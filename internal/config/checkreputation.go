package config

import (
	"fmt"

	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/reputation/autonomy"
)

func (c *Reputation) checkAll(f *findings) {
	c.Agent.keepFrom(f, "internal", c.Internal)
	if c.Disputes != nil && c.Verification == nil {
		f.Add("disputes", "needs the key verification, because only agents registered there can open disputes")
	}
	for i, host := range c.BelievedHosts {
		target, err := upstream.ParseOrigin("https", host)
		if err != nil {
			f.Add(fmt.Sprintf("believedHosts[%d]", i),
				"%q is neither a host, such as api.example.com, nor a host and a port", host)
			continue
		}
		c.ModelHosts = append(c.ModelHosts, target.Address())
	}
	if err := autonomy.CheckHosts(c.ModelHosts); err != nil {
		f.Add("believedHosts", "%v", err)
	}
}
