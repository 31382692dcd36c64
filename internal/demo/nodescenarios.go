package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/autonomy"
)

const wholeVerification = "200, 105 of 105, a post"

// verified plays an agent that passes a verification, and adds the score and whether the registration was a post.
func (d *Demo) verified(ctx context.Context) (string, error) {
	r, err := d.run(ctx, "POST", "http://"+proxy.InternalHost+"/mcp", "--verify")
	return outcome(ctx, r, err, func(ctx context.Context, r trial.Answer) (string, error) {
		post, err := wasPost(ctx, r)
		return ", " + r.Detail + post, err
	})
}

// rated is agent for a post that needs a reputation. It repeats the post until the sidecar has the reputation.
func (d *Demo) rated(also see, args ...string) play {
	return func(ctx context.Context) (happened string, err error) {
		eventually(ctx, func(ctx context.Context) bool {
			happened, err = d.agent(also, args...)(ctx)
			return err != nil || happened != "reputation_missing"
		})
		return happened, err
	}
}

func (d *Demo) tier(ctx context.Context, r trial.Answer) (string, error) {
	var record admin.Record
	if err := d.record(ctx, r.Post, &record); err != nil {
		return "", err
	}
	at := slices.IndexFunc(record.Artifacts, func(a ledger.Artifact) bool { return a.Name == "reputation" })
	if at < 0 {
		return "", errors.New("the record has no reputation")
	}
	claims, err := evidence.UnverifiedClaims(accrual.Kind, record.Artifacts[at].Token)
	return ", tier " + claims.Tier, err
}

const prompt = `{"prompt":"What is a mediator?"}`

func (d *Demo) sameReceipt(ctx context.Context, r trial.Answer) (string, error) {
	recorded := func(ctx context.Context) bool {
		var record admin.Record
		err := d.record(ctx, r.Record, &record)
		return err == nil && slices.Contains(record.Receipts, r.Receipt)
	}
	if !eventually(ctx, recorded) {
		return ", with a receipt that is not the record's", nil
	}
	return ", with its receipt", nil
}

// commits plays an agent that commits to one call to the model but makes this many. It adds the node's score.
func (d *Demo) commits(calls int) play {
	return d.agent(d.score, "POST", "http://"+proxy.InternalHost+"/v1/generate", "--body", prompt,
		"--commit", d.own.Plain(), "--calls", strconv.Itoa(calls))
}

func (d *Demo) score(ctx context.Context, r trial.Answer) (string, error) {
	var said struct {
		Score autonomy.Claims `json:"score"`
	}
	closed := func(ctx context.Context) bool {
		err := admin.Get(ctx, d.node(), "/v1/score/"+evidence.HashToken(r.Receipt), &said)
		return err == nil && said.Score.Closed
	}
	if !eventually(ctx, closed) {
		return ", no score", nil
	}
	challenge := said.Score.Signals.Challenge
	return fmt.Sprintf(", calls scored: %d, challenges passed: %d of %d",
		said.Score.N, challenge.Passed, challenge.Issued), nil
}

func (d *Demo) node() string { return "unix:" + d.own.Stack.Socket("reputation") }
