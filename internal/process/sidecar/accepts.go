package sidecar

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/trigger"
)

// accepted knows the key versions that this sidecar and its control plane both accept under one manifest. The trigger
// service and the node sign only with these. It asks the control plane when this sidecar accepts other versions, and
// while the control plane lacks one.
type accepted struct {
	verifier *evidence.Verifier
	strict   *policy.Strict
	control  *policy.Client
	both     atomic.Pointer[policy.Accepted] // the last versions that the control plane accepted all of; nil for none
}

func (a *accepted) get(ctx context.Context) (policy.Accepted, error) {
	own := a.strict.AcceptedBy(a.verifier) // anew each time: certificates begin and end by time alone
	if both := a.both.Load(); both != nil && slices.Equal(both.Trigger, own.Trigger) &&
		slices.Equal(both.Node, own.Node) {
		return own, nil
	}
	theirs, err := a.control.Accepts(ctx, a.strict.ManifestHash)
	if err != nil {
		return policy.Accepted{}, err
	}
	both := policy.Accepted{Trigger: common(own.Trigger, theirs.Trigger), Node: common(own.Node, theirs.Node)}
	if len(both.Trigger) == len(own.Trigger) && len(both.Node) == len(own.Node) {
		a.both.Store(&both)
	}
	return both, nil
}

func common(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(kid string) bool { return !slices.Contains(b, kid) })
}

// triggers asks the trigger service for evidence that this sidecar and the control plane can verify.
type triggers struct {
	*trigger.Client
	accepted *accepted
}

func (t triggers) Evidence(ctx context.Context, eventID string, b evidence.Binding) (trigger.Evidence, error) {
	both, err := t.accepted.get(ctx)
	if err != nil {
		return trigger.Evidence{}, err
	}
	return t.Client.Evidence(evidence.WithAccepted(ctx, both.Trigger), eventID, b)
}

// control asks the control plane for decisions that this sidecar can verify.
type control struct {
	*policy.Client
	verifier *evidence.Verifier
	strict   *policy.Strict
}

func (c control) Decide(ctx context.Context, r policy.Request) (policy.Decision, error) {
	decision := c.verifier.Accepts(evidence.PurposePolicyDecision, c.strict.Decision)
	grant := c.verifier.Accepts(evidence.PurposeActionGrant, c.strict.Grant)
	return c.Client.Decide(evidence.WithAccepted(ctx, append(decision, grant...)), r)
}
