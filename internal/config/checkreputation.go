package config

import (
	"fmt"
	"slices"

	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/reputation/autonomy"
)

// LoadReputation reads and checks the configuration of a node.
func LoadReputation(path string) (*Reputation, error) {
	c := new(Reputation)
	f, err := load(path, c, &c.File)
	if err != nil {
		return nil, err
	}
	f.required("state", c.State, "audience", c.Audience, "keys.appraiser.audience", c.Keys.Appraiser.Audience)
	c.Trust.check(f)
	c.Custody.check(f)
	c.Confine.check(f)
	c.Agent.check(f, "internal", c.Internal.UIDs)
	c.Log.check(f)
	checkKeys(f, namedKey{"keys.appraiser", c.Keys.Appraiser.SigningKey})
	c.Internal.check("internal", f)
	if c.Public != nil {
		c.Public.check(f)
	}
	c.StoreDSN = c.Store.Postgres.dsn("store.postgres.dsnFile", f)
	c.Limits.check(f)
	c.checkOwners(f)
	if c.Verification != nil {
		c.Verification.check(f)
	}
	if c.Disputes != nil {
		c.Disputes.check(f)
		if c.Verification == nil {
			f.Add("disputes", "needs verification: only registered agents can dispute")
		}
	}
	for i, host := range c.BelievedHosts {
		target, err := upstream.ParseOrigin("https", host)
		if err != nil {
			f.Add(fmt.Sprintf("believedHosts[%d]", i), "%q is neither a host, such as api.example.com, nor a host and a port", host)
			continue
		}
		c.ModelHosts = append(c.ModelHosts, target.Address())
	}
	if err := autonomy.CheckHosts(c.ModelHosts); err != nil {
		f.Add("believedHosts", "%v", err)
	}
	return c, f.err()
}

// check adds the mistakes in a public address to f. Whether the certificate is good, its listener says.
func (p *Public) check(f *findings) {
	f.required("public.listen", p.Listen, "public.tlsCertificate", p.TLSCertificate, "public.tlsKey", p.TLSKey)
	if p.Listen != "" {
		checkAddress("public.listen", p.Listen, f)
	}
}

// maxPerSecond bounds the rates of a node.
const maxPerSecond = 1_000_000

// check adds the mistakes in limits to f.
func (l NodeLimits) check(f *findings) {
	for _, rate := range [...]struct {
		key string
		is  int
	}{{"receiptsPerSecond", l.ReceiptsPerSecond}, {"callsPerSecond", l.CallsPerSecond}, {"publicPerSecond", l.PublicPerSecond}} {
		if rate.is > maxPerSecond {
			f.Add("limits."+rate.key, "is at most %d, not %d", maxPerSecond, rate.is)
		}
	}
}

// checkOwners adds the mistakes in the owners to f. Their files are read where they are used, since they change while the node runs.
func (c *Reputation) checkOwners(f *findings) {
	if len(c.Owners) == 0 {
		f.Add("owners", "is required: a node takes the receipts of those owners alone that it knows")
	}
	if len(c.Owners) > maxOwners {
		f.Add("owners", "there are %d; at most %d are taken", len(c.Owners), maxOwners)
	}
	for i, o := range c.Owners {
		key := fmt.Sprintf("owners[%d]", i)
		f.required(key+".name", o.Name, key+".registry", o.Registry, key+".bundle", o.Bundle)
		type list struct {
			name string
			is   []string
		}
		lists := []list{
			{"certificates.issuers", o.Certificates.Issuers}, {"certificates.audiences", o.Certificates.Audiences},
			{"receipts.issuers", o.Receipts.Issuers}, {"receipts.audiences", o.Receipts.Audiences}, {"receipts.keys", o.Receipts.Keys},
		}
		if s := o.Statements; s != nil {
			lists = append(lists, list{"statements.issuers", s.Issuers}, list{"statements.audiences", s.Audiences}, list{"statements.keys", s.Keys})
		}
		for _, list := range lists {
			if len(list.is) == 0 || slices.Contains(list.is, "") {
				f.Add(key+"."+list.name, "is required: what is left open is not believed")
			}
		}
		for _, other := range c.Owners[:i] {
			if o.Name != "" && o.Name == other.Name {
				f.Add(key+".name", "%q is the name of another owner", o.Name)
			}
			if o.Registry != "" && o.Registry == other.Registry {
				f.Add(key+".registry", "is the registry of %s too", other.Name)
			}
		}
	}
}

// maxOwners bounds the owners of a node.
const maxOwners = 256
