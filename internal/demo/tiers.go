package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/autonomy"
)

// WithAutonomy returns a manifest of version 1.0 as one of version 1.1 that believes the reputations that the stack's own node signs.
func WithAutonomy(manifest []byte) []byte {
	return append(bytes.Replace(manifest, []byte(`version: "1.0"`), []byte(`version: "1.1"`), 1), `
# The reputation of the agent: what the node has signed of it, which the policy may ask for.
autonomyPolicy:
  allowedIssuers: [mediator-appraiser]
  allowedAudiences: [posting-api]
  allowedKeyIds: [appraiser-key]
  allowedKeyCustody: [external_mediator, hardware_backed]
  requireNonExportableKey: true
  maxReputationAgeMs: 600000
  scoringHash: "`+autonomy.ScoringHash+`"
`...)
}

// fewWords is how much an agent may post by the rule post-by-tier before it has shown what it does, in bytes.
const fewWords = 1024

// askForTiers has the policy and the manifest of a deployment ask for the tier of the agent, for posts by the rule post-by-tier alone.
func askForTiers(content map[string][]byte) {
	content[devstack.PolicyFile] = fmt.Appendf(slices.Clone(content[devstack.PolicyFile]), `
  # Agents of the tier new post a few words. Those of a higher tier post as much as all other rules let them.
  - name: few-words-at-first
    effect: deny
    when: request.rule == "post-by-tier" && !(autonomy.tierRank > 0 || request.size <= %d)
`, fewWords)
	content[devstack.ManifestFile] = WithAutonomy(content[devstack.ManifestFile])
}

// byReputation is byWebhook where the policy asks for the reputation of the agent. It posts again while the sidecar has none: the node may not have
// answered yet.
func (d *Deployment) byReputation(ctx context.Context, agent ...string) (Answer, error) {
	made, err := d.byWebhook(ctx, agent...)
	for until := time.Now().Add(patience); err == nil && made.Code == "reputation_missing" && time.Now().Before(until); {
		made, err = d.byWebhook(ctx, agent...)
	}
	return made, err
}

// byTier plays an agent whose post its tier decides. If the post went out, byTier also says which tier the record names.
func (d *Deployment) byTier(ctx context.Context, size int) (string, error) {
	made, err := d.byReputation(ctx, "POST", "https://"+d.Plain()+"/tiers", "--body", `{"body":"`+strings.Repeat("x", size)+`"}`)
	if err != nil || made.Code != "" {
		return made.Outcome(), err
	}
	var record ledger.Record
	if err := admin.Get(ctx, d.Stack.Admin(), "/v1/posts/"+made.Post, &record); err != nil {
		return "", err
	}
	at := slices.IndexFunc(record.Artifacts, func(a ledger.Artifact) bool { return a.Name == "reputation" })
	if at < 0 {
		return "", errors.New("the record has no reputation")
	}
	claims, err := evidence.UnverifiedClaims(accrual.Kind, record.Artifacts[at].Token)
	return fmt.Sprintf("%s, tier %s", made.Outcome(), claims.Tier), err
}
