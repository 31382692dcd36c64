package config

// LoadControl reads and checks the configuration of a control plane.
func LoadControl(path string) (*Control, error) {
	c := new(Control)
	f, err := load(path, c, &c.File)
	if err != nil {
		return nil, err
	}
	f.required("audience", c.Audience, "manifest", c.Manifest, "policy", c.Policy)
	c.Trust.check(f)
	c.Custody.check(f)
	c.Confine.check(f)
	c.Agent.check(f, "internal", c.Internal.UIDs)
	c.Log.check(f)
	checkKeys(f, namedKey{"keys.decision", c.Keys.Decision}, namedKey{"keys.grant", c.Keys.Grant})
	c.Internal.check("internal", f)
	if c.Policy != "" {
		if c.Rules, err = ReadRules(c.Policy); err != nil {
			f.Add("policy", "%v", err)
		}
	}
	return c, f.err()
}
