package records

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/cli/node"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/reputation/accrual"
)

type leafLine struct {
	text     string
	children []*leafLine
}

// DrawChain draws a post's artifacts as a tree, each above those that it rests on. It verifies nothing.
func DrawChain(w io.Writer, artifacts []ledger.Artifact) { chainTree(artifacts).draw(w) }

func chainTree(artifacts []ledger.Artifact) *leafLine {
	tokens := make(map[string]string, len(artifacts))
	for _, a := range artifacts {
		tokens[a.Name] = a.Token
	}
	origin := artifactLine(evidence.TriggerOriginProofKind(), "origin proof", tokens["originProof"],
		func(c evidence.TriggerOriginProof) string {
			return fmt.Sprintf("%s from %s, verified by %s, evidence %s", c.Kind, c.Source, c.VerificationMethod,
				cli.Short(c.EvidenceID))
		})
	receipt := artifactLine(evidence.TriggerReceiptKind(), "trigger receipt", tokens["triggerReceipt"],
		func(c evidence.TriggerReceipt) string {
			return fmt.Sprintf("event %s, human initiated: %t", cli.Short(c.EventID), c.HumanInitiated)
		}, origin)
	attestation := artifactLine(evidence.RuntimeAttestationKind(), "runtime attestation", tokens["runtimeAttestation"],
		func(c evidence.RuntimeAttestation) string {
			return fmt.Sprintf("runtime %s, %s, observed: %s", c.RuntimeID, c.Mode, strings.Join(c.Observed, " "))
		}, receipt)
	session := artifactLine(evidence.SessionReceiptKind(), "session receipt", tokens["sessionReceipt"],
		func(c evidence.SessionReceipt) string {
			return fmt.Sprintf("session %s, prompt %t, operator %t, shell %t, users in its environment %t, observed: %s",
				cli.Short(c.SessionID),
				c.HumanPromptPresent, c.HumanOperatorPresent, c.UserShellAccess, c.AgentEnvironmentUserAccessible,
				strings.Join(c.Observed, " "))
		})
	reputation := artifactLine(accrual.Kind, "reputation", tokens["reputation"], node.ReputationFacts)
	decision := artifactLine(evidence.PolicyDecisionKind(), "policy decision", tokens["policyDecision"],
		func(c evidence.PolicyDecision) string {
			return fmt.Sprintf("%s by rule %s, policy %s", c.Decision, c.Rule, cli.Short(c.PolicyHash))
		}, reputation)
	grant := artifactLine(evidence.ActionGrantKind(), "action grant", tokens["grant"],
		func(c evidence.ActionGrant) string {
			return fmt.Sprintf("%s may %s %s", c.Subject, strings.Join(c.Actions, ","), strings.Join(c.Resources, ","))
		}, decision)
	deployment := artifactLine(evidence.DeploymentCertificateKind(), "deployment certificate",
		tokens["deploymentCertificate"], func(c evidence.DeploymentCertificate) string {
			return fmt.Sprintf("deployment %s, manifest %s", c.DeploymentID, cli.Short(c.ManifestHash))
		})
	work := artifactLine(evidence.ChallengeTokenKind(), "fresh work", tokens["challenge"],
		func(c evidence.ChallengeToken) string {
			return fmt.Sprintf("%d tasks, %s", len(c.Answers), c.Difficulty)
		})
	capability := artifactLine(evidence.CapabilityKind(), "capability", tokens["capability"],
		func(c evidence.Capability) string {
			return fmt.Sprintf("single use, content %s", cli.Short(c.Binding.ContentHash))
		}, deployment, work, attestation, session, grant)
	if tokens["capability"] != "" && capability.text == "" {
		capability.text = "capability      of the API itself; only the API can read it"
	}
	proof := artifactLine(evidence.RequestProofKind(), "request proof", tokens["requestProof"],
		func(c evidence.RequestProof) string {
			return fmt.Sprintf("%s, access token %s", c.Resource, cli.Short(c.AccessTokenHash))
		}, capability)
	return artifactLine(interaction.StatementKind, "agent statement", tokens["agentStatement"],
		func(c interaction.Statement) string {
			return fmt.Sprintf("%s %s, of %s", c.Kind, cli.Short(c.StatementHash), c.Agent)
		}, proof)
}

func artifactLine[C any](k evidence.Kind[C], name, token string, says func(C) string, children ...*leafLine) *leafLine {
	l := &leafLine{children: children}
	if token == "" {
		return l
	}
	c, err := evidence.UnverifiedClaims(k, token)
	if err != nil {
		if name != "capability" {
			l.text = fmt.Sprintf("%-22s cannot be read: %s", name, cli.Unbroken(err.Error()))
		}
		return l
	}
	r := k.Registered(c)
	l.text = fmt.Sprintf("%-22s %s\n%-22s id %s, by %s, key %s, valid %s", name, cli.Unbroken(says(c)), "",
		cli.Unbroken(r.ID), cli.Unbroken(r.Issuer), cli.Unbroken(evidence.KeyIDOf(token)),
		time.Duration(r.Expires-r.IssuedAt)*time.Second)
	return l
}

func (l *leafLine) draw(w io.Writer) {
	for _, root := range l.present() {
		root.drawAt(w, "", "")
	}
}

// present returns l, or if its artifact is missing the present children.
func (l *leafLine) present() []*leafLine {
	if l.text != "" {
		return []*leafLine{l}
	}
	var out []*leafLine
	for _, c := range l.children {
		out = append(out, c.present()...)
	}
	return out
}

func (l *leafLine) drawAt(w io.Writer, first, rest string) {
	var children []*leafLine
	for _, c := range l.children {
		children = append(children, c.present()...)
	}
	bar := rest
	if len(children) > 0 {
		bar += "│  "
	} else {
		bar += "   "
	}
	lines := strings.Split(l.text, "\n")
	fmt.Fprintln(w, first+lines[0])
	for _, line := range lines[1:] {
		fmt.Fprintln(w, strings.TrimRight(bar+strings.TrimPrefix(line, "   "), " "))
	}
	for i, c := range children {
		if i == len(children)-1 {
			c.drawAt(w, rest+"└─ ", rest+"   ")
		} else {
			c.drawAt(w, rest+"├─ ", rest+"│  ")
		}
	}
}
