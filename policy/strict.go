package policy

import (
	"time"

	"github.com/actionproof/mediator/evidence"
)

// Strict is a deployment manifest that audits clean, turned into what the chain verifier demands of each artifact
// (seed: createStrictAutonomousDeploymentPolicy). Only [Manifest.Strict] makes one.
type Strict struct {
	DeploymentID string
	ManifestHash string // hashStrictAutonomousDeploymentManifest
	ControlsHash string

	Deployment   DeploymentExpected
	Signers      evidence.SignerPolicy
	Runtime      RuntimeExpected
	Receipt      ReceiptExpected
	Origin       OriginExpected
	Session      SessionExpected
	Decision     evidence.Expected
	Grant        evidence.Expected
	RequestProof evidence.Expected

	MaxChallengeAge  time.Duration
	CapabilityTTL    time.Duration
	MaxCapabilityAge time.Duration
}

// DeploymentExpected is what is demanded of the deployment certificate.
type DeploymentExpected struct {
	evidence.Expected
	DeploymentIDs []string
}

// RuntimeExpected is what is demanded of the runtime attestation. Mode autonomous and no human interaction are always demanded.
type RuntimeExpected struct {
	evidence.Expected
	RuntimeIDs      []string // empty accepts any runtime id that the session receipt and decision agree with
	PolicyHash      string
	EnvironmentHash string
}

// ReceiptExpected is what is demanded of the trigger receipt.
type ReceiptExpected struct {
	evidence.Expected
	Kinds   []string
	Sources []string
}

// OriginExpected is what is demanded of the trigger origin proof.
type OriginExpected struct {
	evidence.Expected
	Kinds   []string
	Sources []string
	Methods []string
}

// SessionExpected is what is demanded of the agent session receipt. None of its four human flags may ever be set.
type SessionExpected struct {
	evidence.Expected
	RuntimeIDs       []string
	InputKinds       []string
	DeniedInputKinds []string
	PolicyHash       string
	EnvironmentHash  string
}
