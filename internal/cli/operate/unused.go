package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/ledger"
)

// An unused rule has matched no recorded call for unusedFor. The record is read for at most readsFor.
const (
	unusedFor = 30 * 24 * time.Hour
	readsFor  = time.Minute
)

// unused returns warnings about rules that no recorded call has matched lately. It asks the sidecar that has the
// configuration, and returns none if that does not answer, or if its record does not go back far enough.
func unused(ctx context.Context, c *config.Sidecar, now time.Time) (all []config.Warning) {
	ctx, cancel := context.WithTimeout(ctx, readsFor)
	defer cancel()
	if c.Admin.Unix == "" { // over TCP the operator's certificate is not known here
		return nil
	}
	at, since := c.Admin.String(), now.Add(-unusedFor)
	old := false
	for _, err := range admin.Records(ctx, at, ledger.Query{Until: since, Limit: 1}) {
		old = err == nil
	}
	if !old {
		return nil
	}
	keys := make(map[string]string) // of rules without a call, by name
	for key, r := range c.AllRules() {
		keys[r.Name] = key
	}
	for r, err := range admin.Records(ctx, at, ledger.Query{Since: since}) {
		if err != nil {
			return nil
		}
		if delete(keys, r.Rule); len(keys) == 0 {
			return nil
		}
	}
	for _, name := range namesOf(c) {
		if key, found := keys[name]; found {
			all = append(all, config.Warning{Code: "rule_unused", Key: key,
				Sentence: fmt.Sprintf("no call of the last 30 days on record is by the rule %s", name)})
		}
	}
	return all
}
