package records

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/cli/node"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/reputation/accrual"
)

// Artifact is a signed artifact of a post. It has not been verified.
type Artifact struct {
	Name, Token string
	Unread      string // why the token cannot be read; the fields below are empty then
	Says        string // in one line
	evidence.Registered
	Key     string
	RestsOn []*Artifact // that are there
}

// DrawChain draws a post's artifacts as a tree, each above those that it rests on. It verifies nothing.
func DrawChain(w io.Writer, artifacts []ledger.Artifact) {
	for _, root := range Chain(artifacts) {
		root.drawAt(w, "", "")
	}
}

// Chain returns a post's artifacts as trees, each above those that it rests on. It verifies nothing.
func Chain(artifacts []ledger.Artifact) []*Artifact {
	tokens := make(map[string]string, len(artifacts))
	for _, a := range artifacts {
		tokens[a.Name] = a.Token
	}
	origin := artifactOf(evidence.TriggerOriginProofKind(), "origin proof", tokens["originProof"],
		func(c evidence.TriggerOriginProof) string {
			return fmt.Sprintf("%s from %s, verified by %s, evidence %s", c.Kind, c.Source, c.VerificationMethod,
				cli.Short(c.EvidenceID))
		})
	receipt := artifactOf(evidence.TriggerReceiptKind(), "trigger receipt", tokens["triggerReceipt"],
		func(c evidence.TriggerReceipt) string {
			return fmt.Sprintf("event %s, human initiated: %t", cli.Short(c.EventID), c.HumanInitiated)
		}, origin)
	attestation := artifactOf(evidence.RuntimeAttestationKind(), "runtime attestation", tokens["runtimeAttestation"],
		func(c evidence.RuntimeAttestation) string {
			return fmt.Sprintf("runtime %s, %s, observed: %s", c.RuntimeID, c.Mode, strings.Join(c.Observed, " "))
		}, receipt)
	session := artifactOf(evidence.SessionReceiptKind(), "session receipt", tokens["sessionReceipt"],
		func(c evidence.SessionReceipt) string {
			return fmt.Sprintf("session %s, prompt %t, operator %t, shell %t, users in its environment %t, observed: "+
				"%s", cli.Short(c.SessionID),
				c.HumanPromptPresent, c.HumanOperatorPresent, c.UserShellAccess, c.AgentEnvironmentUserAccessible,
				strings.Join(c.Observed, " "))
		})
	reputation := artifactOf(accrual.Kind, "reputation", tokens["reputation"], node.ReputationFacts)
	decision := artifactOf(evidence.PolicyDecisionKind(), "policy decision", tokens["policyDecision"],
		func(c evidence.PolicyDecision) string {
			return fmt.Sprintf("%s by rule %s, policy %s", c.Decision, c.Rule, cli.Short(c.PolicyHash))
		}, reputation)
	grant := artifactOf(evidence.ActionGrantKind(), "action grant", tokens["grant"],
		func(c evidence.ActionGrant) string {
			return fmt.Sprintf("%s may %s %s", c.Subject, strings.Join(c.Actions, ","), strings.Join(c.Resources, ","))
		}, decision)
	deployment := artifactOf(evidence.DeploymentCertificateKind(), "deployment certificate",
		tokens["deploymentCertificate"], func(c evidence.DeploymentCertificate) string {
			return fmt.Sprintf("deployment %s, manifest %s", c.DeploymentID, cli.Short(c.ManifestHash))
		})
	work := artifactOf(evidence.ChallengeTokenKind(), "fresh work", tokens["challenge"],
		func(c evidence.ChallengeToken) string {
			return fmt.Sprintf("%d tasks, %s", len(c.Answers), c.Difficulty)
		})
	capability := artifactOf(evidence.CapabilityKind(), "capability", tokens["capability"],
		func(c evidence.Capability) string {
			return fmt.Sprintf("single use, content %s", cli.Short(c.Binding.ContentHash))
		}, deployment, work, attestation, session, grant)
	proof := artifactOf(evidence.RequestProofKind(), "request proof", tokens["requestProof"],
		func(c evidence.RequestProof) string {
			return fmt.Sprintf("%s, access token %s", c.Resource, cli.Short(c.AccessTokenHash))
		}, capability)
	return artifactOf(interaction.StatementKind, "agent statement", tokens["agentStatement"],
		func(c interaction.Statement) string {
			return fmt.Sprintf("%s %s, of %s", c.Kind, cli.Short(c.StatementHash), c.Agent)
		}, proof)
}

// artifactOf returns the artifact above those that it rests on, or these if the artifact is missing.
func artifactOf[C any](k evidence.Kind[C], name, token string, says func(C) string, restsOn ...[]*Artifact,
) []*Artifact {
	below := slices.Concat(restsOn...)
	if token == "" {
		return below
	}
	a := &Artifact{Name: name, Token: token, RestsOn: below}
	c, err := evidence.UnverifiedClaims(k, token)
	switch {
	case err == nil:
		a.Says, a.Registered, a.Key = says(c), k.Registered(c), evidence.KeyIDOf(token)
	case name == "capability":
		a.Unread = "of the API itself; only the API can read it"
	default:
		a.Unread = "cannot be read: " + err.Error()
	}
	return []*Artifact{a}
}

func (a *Artifact) drawAt(w io.Writer, first, rest string) {
	bar := rest + "   "
	if len(a.RestsOn) > 0 {
		bar = rest + "│  "
	}
	fmt.Fprintf(w, "%s%-22s %s\n", first, a.Name, cli.Unbroken(a.Says+a.Unread))
	if a.Unread == "" {
		fmt.Fprintf(w, "%s%-19s id %s, by %s, key %s, valid %s\n", bar, "", cli.Unbroken(a.ID), cli.Unbroken(a.Issuer),
			cli.Unbroken(a.Key), time.Duration(a.Expires-a.IssuedAt)*time.Second)
	}
	for i, below := range a.RestsOn {
		if i == len(a.RestsOn)-1 {
			below.drawAt(w, rest+"└─ ", rest+"   ")
		} else {
			below.drawAt(w, rest+"├─ ", rest+"│  ")
		}
	}
}
