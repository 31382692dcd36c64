package proxy

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/actionproof/mediator/challenge"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/failpoint"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/observe"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/signer"
)

// posting is one post on its way, from its content to its outcome.
type posting struct {
	*call
	r       *http.Request
	session *Session
	target  Target
	action  *Action
	content *content
	binding evidence.Binding

	envelope evidence.Envelope
	origin   evidence.TriggerOriginProof
	receipt  evidence.TriggerReceipt
	attested func() (signer.Attested, error) // waits for what was begun in step 6
	stop     context.CancelFunc              // ends it

	admission  Admission
	credential secretHeader // as it is bound and sent
	proof      string
	keys       []ledger.Key // to be consumed before the first byte goes out
}

// maxSteps bounds the steps of a post, each of which has Timeouts.Step.
const maxSteps = 10

// post takes a posting call through steps 3 to 10 (docs/architecture.md). Each step fails closed: nothing has been sent, and
// what was consumed stays consumed.
func (p *Pipeline) post(c *call, w http.ResponseWriter, r *http.Request, s *Session, target Target, a *Action) error {
	c.post.Flow, c.post.Rule = flowPost, a.Name
	t := &posting{call: c, r: r, session: s, target: target, action: a, stop: func() {}}
	defer t.close()
	ctx := r.Context()
	for _, step := range []struct {
		name string
		take func(context.Context, *posting) error
	}{
		{"deployment", p.deployment},
		{"content", func(ctx context.Context, t *posting) error { return p.readPost(ctx, w, t) }}, // 3
		{"challenge", p.freshWork},     // 4
		{"trigger", p.triggerEvidence}, // 5
		{"decision", p.decide},         // 6, and 7 is begun
		{"attest", p.attest},           // 7
		{"gate", p.admit},              // 8
		{"proof", p.requestProof},      // 9
		{"consume", p.consume},         // 9, the durable part
	} {
		if err := p.bounded(ctx, t, step.take); err != nil {
			c.step(step.name)
			return err
		}
		c.step(step.name)
		failpoint.Reach(step.name)
	}
	return p.forward(ctx, t, w) // 10
}

// bounded gives a step its time.
func (p *Pipeline) bounded(ctx context.Context, t *posting, take func(context.Context, *posting) error) error {
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeouts.Step)
	defer cancel()
	return take(ctx, t)
}

func (t *posting) close() {
	t.stop()
	if t.content != nil {
		t.content.Close()
	}
}

// deployment refuses while something contradicts the manifest. What was found in this session's own run is no reason here: the session
// goes on to the receipt that says so, and is refused with it.
func (p *Pipeline) deployment(_ context.Context, t *posting) error {
	if len(t.session.Run.Report().Found) > 0 {
		return nil
	}
	return p.o.Deployment()
}

// readPost is step 3: the body, once, bounded, normalised and hashed; and the binding.
func (p *Pipeline) readPost(ctx context.Context, w http.ResponseWriter, t *posting) error {
	if err := t.action.checkHeader(t.r.Header); err != nil {
		return err
	}
	resource := t.r.Method + " " + t.r.URL.EscapedPath()
	if t.r.URL.RawQuery != "" || t.r.URL.ForceQuery {
		if !t.action.AllowQuery {
			return evidence.Refuse("query_refused", "the action %s takes no query", t.action.Name)
		}
		resource += "?" + t.r.URL.RawQuery
	}
	// A context does not end a read; a deadline does. Where a connection has none, the server's own limits hold.
	reading := http.NewResponseController(w)
	_ = reading.SetReadDeadline(p.o.Now().Add(p.o.Timeouts.Step))
	body, err := p.bodies.readContent(ctx, w, t.r, t.action)
	_ = reading.SetReadDeadline(time.Time{})
	if err != nil {
		if t.r.ProtoMajor == 1 {
			w.Header().Set("Connection", "close") // nobody knows how much of the body is still to come
		}
		return err
	}
	t.content = body
	t.binding = evidence.Binding{Subject: t.action.Subject, Action: t.action.Action, Resource: resource, ContentHash: body.hash}
	t.post.Subject, t.post.Action, t.post.Resource, t.post.ContentHash = t.binding.Subject, t.binding.Action, resource, body.hash
	t.post.BytesOut = body.size
	t.session.Note("post " + t.target.Authority() + " " + resource + " " + body.hash)
	return t.binding.Check()
}

// freshWork is step 4: a challenge bound to this operation, and its answers, from the agent or from the runtime.
func (p *Pipeline) freshWork(ctx context.Context, t *posting) error {
	token, response := takeHeader(t.r.Header, "Actionproof-Challenge"), takeHeader(t.r.Header, "Actionproof-Response")
	if t.action.AgentSolves && (len(token) > 0 || len(response) > 0) {
		return t.agentAnswer(token, response)
	}
	ch, err := t.action.Gate.Challenge(ctx, t.binding)
	if err != nil {
		return err
	}
	if ch.Binding == nil || !ch.Binding.SameAction(t.binding) {
		return evidence.Refuse("challenge_binding_mismatch", "the challenge is bound to another operation than the one that was asked for")
	}
	if t.action.AgentSolves {
		document, err := json.Marshal(ch)
		if err != nil {
			return err
		}
		return &challengeRequired{
			Refusal:  evidence.Refuse("challenge_required", "the agent has to solve the challenge %s and make the same call again with its answers", ch.ID),
			document: document,
		}
	}
	answers, err := challenge.Solve(ctx, ch.Tasks)
	if err != nil {
		return err
	}
	return t.bind(*ch.Binding, ch.Token, evidence.Response{ChallengeID: ch.ID, Answers: answers})
}

// agentAnswer takes the agent's own answer from the headers of its second call. The token says which nonce it was bound to;
// that it says so truthfully the gate verifies, which wrote it.
func (t *posting) agentAnswer(token, response []string) error {
	if len(token) != 1 || len(response) != 1 {
		return evidence.Refuse("response_malformed", "the call needs the headers ActionProof-Challenge and ActionProof-Response, each exactly once")
	}
	raw, err := base64.RawURLEncoding.DecodeString(response[0])
	if err != nil {
		return evidence.Refuse("response_malformed", "the header ActionProof-Response is not base64url without padding")
	}
	answer, err := challenge.ParseResponse(raw)
	if err != nil {
		return err
	}
	claims, err := evidence.UnverifiedClaims(evidence.ChallengeTokenKind, token[0])
	if err != nil {
		return err
	}
	if claims.Binding == nil || !claims.Binding.SameAction(t.binding) {
		return evidence.Refuse("challenge_binding_mismatch", "the challenge was given for another operation or other content")
	}
	return t.bind(*claims.Binding, token[0], answer)
}

// bind notes the outcome of step 4: from here on the binding has its nonce.
func (t *posting) bind(b evidence.Binding, token string, response evidence.Response) error {
	t.binding = b
	t.post.BindingHash = b.Hash()
	t.post.Artifacts, t.post.Checks = make([]ledger.Artifact, 0, 10), make([]ledger.Check, 0, 16) // as many as a post has that goes out
	t.post.Steps = slices.Grow(t.post.Steps, maxSteps)
	t.envelope.ChallengeToken, t.envelope.Response = token, response
	t.artifact("challenge", token)
	return b.CheckNonce()
}

// triggerEvidence is step 5: origin proof and trigger receipt for this event and this binding, both verified.
func (p *Pipeline) triggerEvidence(ctx context.Context, t *posting) error {
	e, err := p.o.Triggers.Evidence(ctx, t.session.Event.ID, t.binding)
	if err != nil {
		return err
	}
	t.envelope.OriginProof, t.envelope.TriggerReceipt = e.OriginProof, e.TriggerReceipt
	t.artifact("originProof", e.OriginProof)
	t.artifact("triggerReceipt", e.TriggerReceipt)
	t.origin, err = evidence.Open(p.o.Verifier, evidence.TriggerOriginProofKind, e.OriginProof, p.o.Strict.Origin.Expected)
	if t.check("received origin proof", err) != nil {
		return err
	}
	t.receipt, err = evidence.Open(p.o.Verifier, evidence.TriggerReceiptKind, e.TriggerReceipt, p.o.Strict.Receipt.Expected)
	if err == nil && (t.receipt.EventID != t.session.Event.ID || t.receipt.BindingHash != t.post.BindingHash || t.receipt.OriginProofHash != evidence.HashToken(e.OriginProof)) {
		err = evidence.Refuse("receipt_mismatch", "the trigger receipt is for another event, binding or origin proof")
	}
	return t.check("received trigger receipt", err)
}

// decide is step 6: the control plane's decision and grant for exactly this, both verified. What the sidecar attests does not depend on
// them, so it is signed meanwhile.
func (p *Pipeline) decide(ctx context.Context, t *posting) error {
	p.beginAttest(t)
	d, err := p.o.Control.Decide(ctx, policy.Request{
		Binding: t.binding, ChallengeID: t.envelope.Response.ChallengeID, RuntimeID: p.o.RuntimeID, SessionID: t.session.ID,
		EnvironmentHash: p.o.EnvironmentHash, ManifestHash: p.o.Strict.ManifestHash, OriginProof: t.envelope.OriginProof, TriggerReceipt: t.envelope.TriggerReceipt,
		Call: policy.Call{
			Method: t.r.Method, Scheme: t.target.Scheme, Host: t.target.Authority(), Path: t.r.URL.EscapedPath(),
			Rule: t.action.Name, ContentKind: t.action.Content, Size: t.content.size,
		},
	})
	if err != nil {
		return err
	}
	t.envelope.PolicyDecision, t.envelope.Grant = d.PolicyDecision, d.Grant
	t.artifact("policyDecision", d.PolicyDecision)
	t.artifact("grant", d.Grant)
	_, err = evidence.Open(p.o.Verifier, evidence.PolicyDecisionKind, d.PolicyDecision, p.o.Strict.Decision)
	if t.check("received decision", err) != nil {
		return err
	}
	grant, err := evidence.Open(p.o.Verifier, evidence.ActionGrantKind, d.Grant, p.o.Strict.Grant)
	if err == nil && (len(grant.PolicyDecisionHashes) != 1 || grant.PolicyDecisionHashes[0] != evidence.HashToken(d.PolicyDecision)) {
		err = evidence.Refuse("grant_other_decision", "the grant is for another decision")
	}
	return t.check("received grant", err)
}

// CheckUnattended names the check that nothing was found in the session's run that an unattended run does not have. A record has it
// only where the run was looked at.
const CheckUnattended = "unattended run"

// beginAttest begins step 7: what the sidecar itself saw of the run, by a look at it now, signed by two roles. The policy is the one that the
// manifest pins; the gate demands that the decision was made by it.
func (p *Pipeline) beginAttest(t *posting) {
	run := signer.Run{
		Binding: t.binding, ChallengeID: t.envelope.Response.ChallengeID,
		RuntimeID: p.o.RuntimeID, SessionID: t.session.ID, TranscriptHash: t.session.Transcript(),
		EventID: t.receipt.EventID, TriggerKind: t.receipt.Kind, TriggerSource: t.receipt.Source,
		TriggerReceiptHash: evidence.HashToken(t.envelope.TriggerReceipt),
		PolicyHash:         p.o.Strict.Runtime.PolicyHash, EnvironmentHash: p.o.EnvironmentHash,
	}
	var ctx context.Context
	ctx, t.stop = context.WithTimeout(t.r.Context(), p.o.Timeouts.Step)
	var a signer.Attested
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		if run.Seen, err = t.session.Run.Look(ctx); err == nil {
			a, err = p.o.Attest.Attest(ctx, run)
		}
	}()
	t.attested = func() (signer.Attested, error) {
		<-done // soon after ctx has ended, at the latest
		return a, err
	}
}

// attest is step 7: it waits for what beginAttest has begun. A run in which something was found has its receipt then, for the record, and
// goes no further.
func (p *Pipeline) attest(_ context.Context, t *posting) error {
	a, err := t.attested()
	if err != nil {
		return err
	}
	t.envelope.Attestation, t.envelope.SessionReceipt = a.Attestation, a.SessionReceipt
	t.artifact("runtimeAttestation", a.Attestation)
	t.artifact("sessionReceipt", a.SessionReceipt)
	seen := t.session.Run.Report() // with what was found since the look
	if !seen.Any() {
		return nil
	}
	return t.check(CheckUnattended, tainted(seen))
}

// tainted refuses a run in which something was found, also when it has ended since.
func tainted(seen observe.Report) error {
	if len(seen.Found) == 0 {
		return nil
	}
	found := make([]string, len(seen.Found))
	for i, f := range seen.Found {
		found[i] = f.String()
	}
	return evidence.Refuse("session_tainted", "this session's run is not unattended: %s", strings.Join(found, "; "))
}

// admit is step 8: the gate verifies the whole chain and gives the capability.
func (p *Pipeline) admit(ctx context.Context, t *posting) error {
	t.envelope.DeploymentCertificate = p.o.DeploymentCertificate()
	t.artifact("deploymentCertificate", t.envelope.DeploymentCertificate)
	var err error
	t.admission, err = t.action.Gate.Admit(ctx, t.envelope, t.binding)
	t.post.Checks = append(t.post.Checks, t.admission.Checks...)
	if err != nil {
		return err
	}
	t.post.CapabilityID = t.admission.CapabilityID
	t.artifact("capability", t.admission.Capability)
	t.keys = t.admission.Keys
	return nil
}

// requestProof is step 9: the final call bound to the capability and to the credential that will go with it.
func (p *Pipeline) requestProof(ctx context.Context, t *posting) error {
	var err error
	if t.credential, err = t.action.Credential.now(ctx); err != nil {
		return err
	}
	tokenHash := t.credential.hash()
	proof, _, err := p.o.Prove.Sign(ctx, evidence.RequestProof{
		Subject: t.binding.Subject, Action: t.binding.Action, Resource: t.binding.Resource, ContentHash: t.binding.ContentHash,
		BindingHash: t.post.BindingHash, CapabilityID: t.admission.CapabilityID, AccessTokenHash: tokenHash,
	})
	if err != nil {
		return err
	}
	t.proof = proof
	t.artifact("requestProof", proof)
	auth, err := t.action.Gate.Authorize(ctx, Posting{
		Capability: t.admission.Capability, CapabilityID: t.admission.CapabilityID, RequestProof: proof,
		Binding: t.binding, AccessTokenHash: tokenHash,
	})
	t.post.Checks = append(t.post.Checks, auth.Checks...)
	if err != nil {
		return err
	}
	t.keys = append(t.keys, auth.Keys...)
	return nil
}

// CheckSingleUse names the check that every single-use key was consumed, durably, with the intent.
const CheckSingleUse = "single use"

// consume makes the intent and every single-use key durable, in one transaction. After it the post counts as made unless the
// outcome says otherwise. A session that has ended since step 1 makes none.
func (p *Pipeline) consume(ctx context.Context, t *posting) error {
	if _, open := p.o.Sessions.Get(t.session.ID); !open {
		return evidence.Refuse("session_required", "the session of the call has ended while the call was verified")
	}
	intent := t.post
	intent.State = ledger.StateForwarding
	t.unsure = true // until Begin has said something
	if err := p.o.Record.Begin(ctx, intent, t.keys...); err != nil {
		t.unsure = !errors.Is(err, ledger.ErrConsumed)
		return t.check(CheckSingleUse, err)
	}
	t.unsure, t.begun, t.post.State = false, true, ledger.StateForwarding
	return t.check(CheckSingleUse, nil)
}

// forward is step 10: once, with the credential, and never again by itself. It does not depend on the agent's patience: the
// outcome has to be known.
func (p *Pipeline) forward(ctx context.Context, t *posting, w http.ResponseWriter) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.o.Timeouts.Forward)
	defer cancel()
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		connected.Store(true)
		failpoint.Reach("connected")
	}})

	stripProtocolHeaders(t.r.Header)
	out := forwardRequest(traced, t.r, t.target, t.content.reader())
	out.ContentLength = t.content.size
	t.credential.inject(out.Header)
	out.Header.Set("Idempotency-Key", t.admission.CapabilityID)
	if t.action.Gate.Presents() {
		out.Header.Set("ActionProof-Capability", t.admission.Capability)
		out.Header.Set("ActionProof-Request-Proof", t.proof)
	}
	resp, err := p.o.Transport.RoundTrip(out)
	t.step("upstream")
	if err != nil {
		// Without a connection nothing can have been sent. With one, nobody on this side knows.
		t.post.State = ledger.StateFailed
		if connected.Load() {
			t.post.State = ledger.StateIndeterminate
		}
		err = classifyError(err)
		t.permit.settle(0, err)
		return err
	}
	failpoint.Reach("answered")
	defer resp.Body.Close()
	t.permit.settle(resp.StatusCode, nil)
	t.post.State, t.post.Status, t.answered = ledger.StateForwarded, resp.StatusCode, true
	t.credential.answered(resp)
	w.Header().Set("ActionProof-Post", t.post.ID)
	n, err := relayResponse(w, resp)
	t.post.BytesIn = n
	t.step("relay")
	failpoint.Reach("relayed")
	return err
}
