package archive

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/ledger"
)

// artifactNames are the names of all artifacts; true if one is signed for the post alone.
var artifactNames = map[string]bool{
	"challenge": false, "originProof": true, "triggerReceipt": true, "reputation": false, "policyDecision": true,
	"grant": true, "runtimeAttestation": true, "sessionReceipt": true, "deploymentCertificate": false,
	"capability": false, "requestProof": true, "agentStatement": true,
}

// Shown is a record as mediator posts show --json prints it.
type Shown struct {
	ledger.Record
	Assurance json.RawMessage `json:"assurance"` // not read: a verifier makes its own
	Purpose   json.RawMessage `json:"purpose"`   // not read: a record does not fix it
	Receipts  []string        `json:"receipts"`  // of the session, from number 1 on
	Proofs    Proofs          `json:"proofs"`
}

// ParseRecord reads a record with its session's interaction receipts and its proofs. It refuses a record without
// artifacts. Errors call the record name.
func ParseRecord(raw []byte, name string) (p Shown, err error) {
	if err := strictjson.Parse(raw, &p); err != nil {
		return p, fmt.Errorf("%s is not a record, as mediator posts show --json prints it: %w", name, err)
	}
	if len(p.Artifacts) == 0 {
		return p, fmt.Errorf("%s: the record has no artifacts", name)
	}
	return p, checkArtifacts(p.Record, name)
}

func checkArtifacts(r ledger.Record, name string) error {
	for i, a := range r.Artifacts {
		_, known := artifactNames[a.Name]
		switch {
		case !known:
			return refusal.New("evidence_malformed",
				"%s: artifacts[%d].name is %.40q, which is not the name of an artifact", name, i, a.Name)
		case slices.ContainsFunc(r.Artifacts[:i], func(b ledger.Artifact) bool { return b.Name == a.Name }):
			return refusal.New("evidence_malformed", "%s: artifacts[%d].name is %q, which occurs twice", name, i,
				a.Name)
		}
	}
	return nil
}

const recordCheck = "record"

// maxBefore bounds the time from a post's start to its first signature: many times the default limit for reading a
// body.
const maxBefore = time.Hour

// checkRecord refuses a record that its verified artifacts contradict.
func checkRecord(r ledger.Record, manifest string, now time.Time) error {
	switch {
	case r.Flow != "post": // no other call has evidence
		return refusal.New("record_mismatch", "the record has evidence, but its flow is %.40q, not post", r.Flow)
	case r.Learning:
		return refusal.New("record_mismatch", "the record has evidence, but names a session that only learns")
	case len(r.Keys) > 0: // of a list without artifacts
		return refusal.New("record_mismatch", "the record itself lists signing keys; only its artifacts may name them")
	case r.Manifest != manifest && artifact(r, "deploymentCertificate") != "":
		return refusal.New("record_mismatch", "the record and its deployment certificate name different manifests")
	}
	first, last := signedTimes(r)
	switch {
	case first.IsZero():
	case r.Started.After(first.Add(time.Second + evidence.MaxSkew)):
		return refusal.New("record_mismatch", "the record starts too late, %s after its first artifact was signed",
			r.Started.Sub(first).Round(time.Second))
	case first.Sub(r.Started) > maxBefore:
		return refusal.New("record_mismatch", "the record starts too early, %s before its first artifact was signed",
			first.Sub(r.Started).Round(time.Second))
	case !r.Finished.IsZero() && last.Sub(r.Finished) > evidence.MaxSkew:
		return refusal.New("record_mismatch", "the record ends too early, %s before its last artifact was signed",
			last.Sub(r.Finished).Round(time.Second))
	}
	if !r.Finished.IsZero() && (r.Finished.Before(r.Started) || r.Finished.After(now.Add(evidence.MaxSkew))) {
		return refusal.New("record_mismatch", "the record ends before it starts, or in the future")
	}
	if artifact(r, "sessionReceipt") == "" {
		return nil
	}
	var want *ledger.Standing
	if head := named(r); head != nil {
		want = &ledger.Standing{Number: head.Number, Head: head.HeadHash, Open: head.OpenCalls}
	}
	if !reflect.DeepEqual(r.Interactions, want) {
		return refusal.New("record_mismatch", "the record and its session receipt name different interaction receipts")
	}
	return nil
}

// signedTimes returns the unverified times of the first and the last signature for a post, or zero.
func signedTimes(r ledger.Record) (first, last time.Time) {
	for _, a := range r.Artifacts {
		if !artifactNames[a.Name] {
			continue
		}
		var claims struct {
			IssuedAt int64 `json:"iat"`
		}
		if readPart(a.Token, 1, &claims) != nil || claims.IssuedAt == 0 {
			continue
		}
		at := time.Unix(claims.IssuedAt, 0)
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	return first, last
}

type madePost struct {
	outcome   string
	status    int64
	started   int64 // Unix milliseconds
	binding   string
	artifacts string // hash of the hashes of all artifacts
}

func newMadePost(c *interaction.Receipt) madePost {
	return madePost{c.Outcome, c.Post.Status, c.Timing.RequestReceived, c.Post.BindingHash,
		hashArtifacts(c.Post.Artifacts)}
}

func hashArtifacts(artifacts []interaction.NamedArtifact) string {
	text := ""
	for _, a := range artifacts {
		text += "\n" + a.Name + " " + a.Hash
	}
	return evidence.HashBytes([]byte(text))
}

// states are the states of a record that a receipt's outcome allows. After a crash that is always indeterminate.
var states = map[string][]ledger.State{
	interaction.OutcomeCompleted: {ledger.StateForwarded},
	interaction.OutcomeFailed:    {ledger.StateFailed, ledger.StateRefused},
	interaction.OutcomeIndeterminate: {ledger.StateForwarded, ledger.StateFailed, ledger.StateIndeterminate,
		ledger.StateForwarding},
}

func (p madePost) check(r ledger.Record) error {
	var artifacts []interaction.NamedArtifact
	for _, a := range r.Artifacts {
		artifacts = append(artifacts, interaction.NamedArtifact{Name: a.Name, Hash: evidence.HashToken(a.Token)})
	}
	switch {
	case r.BindingHash != p.binding || hashArtifacts(artifacts) != p.artifacts:
		return refusal.New("record_mismatch", "the receipt of the post and the record differ in binding or artifacts")
	case r.Started.UnixMilli() != p.started:
		return refusal.New("record_mismatch", "the receipt of the post and the record differ in start time")
	case !slices.Contains(states[p.outcome], r.State):
		return refusal.New("record_mismatch", "the receipt of the post says %s, but the record says %.40s", p.outcome,
			r.State)
	case p.outcome != interaction.OutcomeIndeterminate && int64(r.Status) != p.status:
		return refusal.New("record_mismatch", "the receipt of the post names the status %d, but the record names %d",
			p.status, r.Status)
	}
	return nil
}

// unproven returns the JSON names of those members of a record whose values no signature holds. post is nil without a
// receipt.
func unproven(checks []ledger.Check, post *madePost, state ledger.State) (names []string) {
	held := func(name string) bool {
		return slices.ContainsFunc(checks, func(k ledger.Check) bool { return k.Name == name && k.OK })
	}
	trigger, session, api := held(gate.CheckTrigger), held(gate.CheckSession), held(answerCheck)
	outcome := post != nil && post.outcome != interaction.OutcomeIndeterminate
	for _, f := range []struct {
		name string
		held bool
	}{
		{"id", post != nil},
		{"flow", true}, // checkRecord
		{"state", api && state == ledger.StateForwarded || outcome && post.outcome == interaction.OutcomeCompleted},
		{"session", session},
		{"event", trigger},
		{"rule", false},
		{"subject", trigger}, {"action", trigger}, {"resource", trigger}, {"method", trigger},
		{"host", api},
		{"path", trigger},
		{"scheme", api}, {"via", false}, {"queryNames", false}, {"carries", false}, {"mcp", false}, {"graphql", false},
		{"learning", true}, // checkRecord
		{"unfit", false},
		{"message", trigger},
		{"result", false}, {"tools", false},
		{"model", false},
		{"interactions", session},
		{"contentHash", trigger}, {"bindingHash", trigger},
		{"capabilityId", held(gate.CheckProof)},
		{"started", post != nil}, // else only bounded, as finished is
		{"finished", false},
		{"manifest", held(gate.CheckDeployment)},
		{"code", false}, {"step", false}, {"reason", false},
		{"status", api || outcome}, {"answer", api},
		{"bytesOut", false}, {"bytesIn", false},
		{"artifacts", post != nil}, // that none is missing, and the two that only the gate can verify
		{"checks", false}, {"steps", false},
		{"keys", true}, // checkRecord
	} {
		if !f.held {
			names = append(names, f.name)
		}
	}
	return names
}
