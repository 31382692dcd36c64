package sidecar

import (
	"time"

	"github.com/actionproof/mediator/botauth"
	"github.com/actionproof/mediator/evidence"
)

// bundleTaken is longer than a process takes to take over a trust bundle.
const bundleTaken = 5 * time.Second

// addBotAuth makes the signers of requests by their forms, if the configuration has their key.
func (p *sidecar) addBotAuth() (err error) {
	c := p.config.Keys.WebBotAuth
	if c == nil {
		return nil
	}
	if p.botKey, err = p.AddRole(evidence.PurposeWebBotAuth, *c); err != nil {
		return err
	}
	p.signers = make(map[string]*botauth.Signer)
	for _, form := range []string{botauth.Current, botauth.Legacy} {
		p.signers[form], err = botauth.New(p.botKey, form, botauth.Options{Directory: c.Issuer,
			Lifetime: c.Lifetime.Or(time.Minute), Now: time.Now})
		if err != nil {
			return err
		}
	}
	return nil
}

// settleBotAuth keeps a new version of the key from signing while verifiers may have a directory without it.
func (p *sidecar) settleBotAuth(s *snapshot) {
	if p.botKey != nil {
		p.botKey.SettleFor(s.Strict.WebBotAuth.MaxAge + bundleTaken)
	}
}
