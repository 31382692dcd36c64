package policy

// Controls are the endpoint's safeguards that no artifact can show (seed: controls). The security team says of each whether it is so;
// a strict deployment has exactly one acceptable answer to each.
type Controls struct {
	ProofRequiredForPost                          bool `json:"proofRequiredForPost"`
	BearerTokenAloneCanPost                       bool `json:"bearerTokenAloneCanPost"`
	DirectUserPostingAllowed                      bool `json:"directUserPostingAllowed"`
	DeploymentCertificateRequired                 bool `json:"deploymentCertificateRequired"`
	AgentSessionReceiptRequiredForPost            bool `json:"agentSessionReceiptRequiredForPost"`
	AgentSessionSignerAccessibleToAgent           bool `json:"agentSessionSignerAccessibleToAgent"`
	AgentSessionSignerAccessibleToUsers           bool `json:"agentSessionSignerAccessibleToUsers"`
	AgentSessionAcceptsHumanPrompts               bool `json:"agentSessionAcceptsHumanPrompts"`
	AgentSessionAllowsHumanOperators              bool `json:"agentSessionAllowsHumanOperators"`
	AgentSessionAllowsUserShellAccess             bool `json:"agentSessionAllowsUserShellAccess"`
	AgentEnvironmentAccessibleToUsers             bool `json:"agentEnvironmentAccessibleToUsers"`
	AgentSessionCanBeMintedByRuntimeSigner        bool `json:"agentSessionCanBeMintedByRuntimeSigner"`
	RequestProofRequiredForPost                   bool `json:"requestProofRequiredForPost"`
	AccessTokenSenderConstrained                  bool `json:"accessTokenSenderConstrained"`
	RequestProofSignerAccessibleToAgent           bool `json:"requestProofSignerAccessibleToAgent"`
	RequestProofSignerAccessibleToUsers           bool `json:"requestProofSignerAccessibleToUsers"`
	RequestProofCanBeMintedByRuntimeSigner        bool `json:"requestProofCanBeMintedByRuntimeSigner"`
	RequestProofCanBeMintedByGrantSigner          bool `json:"requestProofCanBeMintedByGrantSigner"`
	RequestProofCanBeMintedByPolicyDecisionSigner bool `json:"requestProofCanBeMintedByPolicyDecisionSigner"`
	RuntimeSignerAccessibleToAgent                bool `json:"runtimeSignerAccessibleToAgent"`
	RuntimeSignerAccessibleToUsers                bool `json:"runtimeSignerAccessibleToUsers"`
	RuntimeAcceptsInteractiveRequests             bool `json:"runtimeAcceptsInteractiveRequests"`
	RuntimeCanBeInvokedByUsersForPosting          bool `json:"runtimeCanBeInvokedByUsersForPosting"`
	TriggerSignerAccessibleToAgent                bool `json:"triggerSignerAccessibleToAgent"`
	TriggerSignerAccessibleToUsers                bool `json:"triggerSignerAccessibleToUsers"`
	TriggerAcceptsHumanInitiatedEvents            bool `json:"triggerAcceptsHumanInitiatedEvents"`
	TriggerCanBeMintedByRuntimeSigner             bool `json:"triggerCanBeMintedByRuntimeSigner"`
	OriginProofSignerAccessibleToAgent            bool `json:"originProofSignerAccessibleToAgent"`
	OriginProofSignerAccessibleToUsers            bool `json:"originProofSignerAccessibleToUsers"`
	OriginProofAcceptsManualEvents                bool `json:"originProofAcceptsManualEvents"`
	OriginProofCanBeMintedByTriggerSigner         bool `json:"originProofCanBeMintedByTriggerSigner"`
	OriginProofCanBeMintedByRuntimeSigner         bool `json:"originProofCanBeMintedByRuntimeSigner"`
	SignerCustodyCertificatesRequired             bool `json:"signerCustodyCertificatesRequired"`
	PolicyDecisionRequiredForPost                 bool `json:"policyDecisionRequiredForPost"`
	GrantRequiresPolicyDecision                   bool `json:"grantRequiresPolicyDecision"`
	PolicyDecisionSignerAccessibleToAgent         bool `json:"policyDecisionSignerAccessibleToAgent"`
	PolicyDecisionSignerAccessibleToUsers         bool `json:"policyDecisionSignerAccessibleToUsers"`
	PolicyDecisionAcceptsHumanInitiatedRequests   bool `json:"policyDecisionAcceptsHumanInitiatedRequests"`
	PolicyDecisionCanBeMintedByRuntimeSigner      bool `json:"policyDecisionCanBeMintedByRuntimeSigner"`
	PolicyDecisionCanBeMintedByTriggerSigner      bool `json:"policyDecisionCanBeMintedByTriggerSigner"`
	PolicyDecisionCanBeMintedByGrantSigner        bool `json:"policyDecisionCanBeMintedByGrantSigner"`
	ConsumeVerification                           bool `json:"consumeVerification"`
	ConsumeCapability                             bool `json:"consumeCapability"`
	AtomicConsumptionWithPost                     bool `json:"atomicConsumptionWithPost"`
}

// control is one row of the table: what the manifest says, what a strict deployment has to say, and what is wrong where it does not.
type control struct {
	got, want      bool
	name, code     string
	sentence, mend string
}

// table lists the controls in the seed's order. The codes are stable.
func (c *Controls) table() []control {
	return []control{
		{c.ProofRequiredForPost, true, "proofRequiredForPost", "control_proof_required_for_post",
			"A post is accepted without the chain of evidence.", "Let the endpoint post only what the gate has admitted."},
		{c.BearerTokenAloneCanPost, false, "bearerTokenAloneCanPost", "control_bearer_token_alone_can_post",
			"A bearer token is enough to post, so a stolen one is too.", "Demand a request proof beside the token."},
		{c.DirectUserPostingAllowed, false, "directUserPostingAllowed", "control_direct_user_posting_allowed",
			"Users can post directly, past the agent.", "Close every other way to the endpoint, or give users an endpoint of their own."},
		{c.DeploymentCertificateRequired, true, "deploymentCertificateRequired", "control_deployment_certificate_required",
			"A deployment runs without an auditor's certificate.", "Refuse to start without a certificate for this manifest."},
		{c.AgentSessionReceiptRequiredForPost, true, "agentSessionReceiptRequiredForPost", "control_agent_session_receipt_required_for_post",
			"A post is accepted without a receipt of the agent's session.", "Demand the session receipt before a capability is given."},
		{c.AgentSessionSignerAccessibleToAgent, false, "agentSessionSignerAccessibleToAgent", "control_agent_session_signer_accessible_to_agent",
			"The agent can reach the session controller's key and mint receipts for itself.", "Keep that key in a process or custody that the agent cannot reach, and make a new version of it."},
		{c.AgentSessionSignerAccessibleToUsers, false, "agentSessionSignerAccessibleToUsers", "control_agent_session_signer_accessible_to_users",
			"Users can reach the session controller's key and mint receipts for a run of their own.", "Keep that key where users cannot reach it, and make a new version of it."},
		{c.AgentSessionAcceptsHumanPrompts, false, "agentSessionAcceptsHumanPrompts", "control_agent_session_accepts_human_prompts",
			"A human can prompt the agent during its run.", "Take the session's input from its trigger event alone."},
		{c.AgentSessionAllowsHumanOperators, false, "agentSessionAllowsHumanOperators", "control_agent_session_allows_human_operators",
			"A human can operate the agent's run.", "Run the agent unattended: no terminal, no remote control, no approval prompt."},
		{c.AgentSessionAllowsUserShellAccess, false, "agentSessionAllowsUserShellAccess", "control_agent_session_allows_user_shell_access",
			"Users have a shell in the agent's run.", "Take exec and attach rights to the agent's pod away from users."},
		{c.AgentEnvironmentAccessibleToUsers, false, "agentEnvironmentAccessibleToUsers", "control_agent_environment_accessible_to_users",
			"Users can change the agent's files, environment or memory.", "Keep volumes, secrets and debugging of the agent's pod out of the users' reach."},
		{c.AgentSessionCanBeMintedByRuntimeSigner, false, "agentSessionCanBeMintedByRuntimeSigner", "control_agent_session_can_be_minted_by_runtime_signer",
			"The runtime's key can mint session receipts, so one stolen key is two witnesses.", "Give the session controller a key and an issuer of its own."},
		{c.RequestProofRequiredForPost, true, "requestProofRequiredForPost", "control_request_proof_required_for_post",
			"A post is accepted without a request proof, so a stolen capability can be used elsewhere.", "Demand the request proof with the post itself."},
		{c.AccessTokenSenderConstrained, true, "accessTokenSenderConstrained", "control_access_token_sender_constrained",
			"Anyone who holds the access token can use it.", "Bind the token to the request mediator: compare the request proof's accessTokenHash."},
		{c.RequestProofSignerAccessibleToAgent, false, "requestProofSignerAccessibleToAgent", "control_request_proof_signer_accessible_to_agent",
			"The agent can reach the request mediator's key and sign calls that were not mediated.", "Keep that key in a process or custody that the agent cannot reach, and make a new version of it."},
		{c.RequestProofSignerAccessibleToUsers, false, "requestProofSignerAccessibleToUsers", "control_request_proof_signer_accessible_to_users",
			"Users can reach the request mediator's key and sign calls of their own.", "Keep that key where users cannot reach it, and make a new version of it."},
		{c.RequestProofCanBeMintedByRuntimeSigner, false, "requestProofCanBeMintedByRuntimeSigner", "control_request_proof_can_be_minted_by_runtime_signer",
			"The runtime's key can mint request proofs.", "Give the request mediator a key and an issuer of its own."},
		{c.RequestProofCanBeMintedByGrantSigner, false, "requestProofCanBeMintedByGrantSigner", "control_request_proof_can_be_minted_by_grant_signer",
			"The authorization service's key can mint request proofs.", "Give the request mediator a key and an issuer of its own."},
		{c.RequestProofCanBeMintedByPolicyDecisionSigner, false, "requestProofCanBeMintedByPolicyDecisionSigner", "control_request_proof_can_be_minted_by_policy_decision_signer",
			"The policy engine's key can mint request proofs.", "Give the request mediator a key and an issuer of its own."},
		{c.RuntimeSignerAccessibleToAgent, false, "runtimeSignerAccessibleToAgent", "control_runtime_signer_accessible_to_agent",
			"The agent can reach the runtime's key and attest for itself.", "Keep that key in a process or custody that the agent cannot reach, and make a new version of it."},
		{c.RuntimeSignerAccessibleToUsers, false, "runtimeSignerAccessibleToUsers", "control_runtime_signer_accessible_to_users",
			"Users can reach the runtime's key and mint attestations.", "Keep that key where users cannot reach it, and make a new version of it."},
		{c.RuntimeAcceptsInteractiveRequests, false, "runtimeAcceptsInteractiveRequests", "control_runtime_accepts_interactive_requests",
			"The runtime acts on interactive requests.", "Let the runtime take work from verified triggers alone."},
		{c.RuntimeCanBeInvokedByUsersForPosting, false, "runtimeCanBeInvokedByUsersForPosting", "control_runtime_can_be_invoked_by_users_for_posting",
			"Users can have the runtime post for them.", "Refuse users' requests before the runtime signs anything."},
		{c.TriggerSignerAccessibleToAgent, false, "triggerSignerAccessibleToAgent", "control_trigger_signer_accessible_to_agent",
			"The agent can reach the trigger mediator's key and make its own triggers.", "Keep that key in a process or custody that the agent cannot reach, and make a new version of it."},
		{c.TriggerSignerAccessibleToUsers, false, "triggerSignerAccessibleToUsers", "control_trigger_signer_accessible_to_users",
			"Users can reach the trigger mediator's key and make triggers.", "Keep that key where users cannot reach it, and make a new version of it."},
		{c.TriggerAcceptsHumanInitiatedEvents, false, "triggerAcceptsHumanInitiatedEvents", "control_trigger_accepts_human_initiated_events",
			"Events that a human asked for get a trigger receipt.", "List those events as human in the trigger service, so that they never get a receipt."},
		{c.TriggerCanBeMintedByRuntimeSigner, false, "triggerCanBeMintedByRuntimeSigner", "control_trigger_can_be_minted_by_runtime_signer",
			"The runtime's key can mint trigger receipts, so it can invent its own reasons.", "Give the trigger mediator a key and an issuer of its own."},
		{c.OriginProofSignerAccessibleToAgent, false, "originProofSignerAccessibleToAgent", "control_origin_proof_signer_accessible_to_agent",
			"The agent can reach the source verifier's key and vouch for events that never came.", "Keep that key in a process or custody that the agent cannot reach, and make a new version of it."},
		{c.OriginProofSignerAccessibleToUsers, false, "originProofSignerAccessibleToUsers", "control_origin_proof_signer_accessible_to_users",
			"Users can reach the source verifier's key and vouch for events that never came.", "Keep that key where users cannot reach it, and make a new version of it."},
		{c.OriginProofAcceptsManualEvents, false, "originProofAcceptsManualEvents", "control_origin_proof_accepts_manual_events",
			"Events that somebody entered by hand get an origin proof.", "Accept only events whose origin the source verifier checks itself."},
		{c.OriginProofCanBeMintedByTriggerSigner, false, "originProofCanBeMintedByTriggerSigner", "control_origin_proof_can_be_minted_by_trigger_signer",
			"The trigger mediator's key can mint origin proofs, so it vouches for itself.", "Give the source verifier a key and an issuer of its own."},
		{c.OriginProofCanBeMintedByRuntimeSigner, false, "originProofCanBeMintedByRuntimeSigner", "control_origin_proof_can_be_minted_by_runtime_signer",
			"The runtime's key can mint origin proofs.", "Give the source verifier a key and an issuer of its own."},
		{c.SignerCustodyCertificatesRequired, true, "signerCustodyCertificatesRequired", "control_signer_custody_certificates_required",
			"Signing keys are believed without a custody certificate.", "Believe only keys that the pinned key registry certifies."},
		{c.PolicyDecisionRequiredForPost, true, "policyDecisionRequiredForPost", "control_policy_decision_required_for_post",
			"A post is accepted without a policy decision.", "Demand the decision in every envelope."},
		{c.GrantRequiresPolicyDecision, true, "grantRequiresPolicyDecision", "control_grant_requires_policy_decision",
			"A grant needs no policy decision.", "Scope each grant to the id and hash of one decision."},
		{c.PolicyDecisionSignerAccessibleToAgent, false, "policyDecisionSignerAccessibleToAgent", "control_policy_decision_signer_accessible_to_agent",
			"The agent can reach the policy engine's key and allow its own posts.", "Keep that key in a process or custody that the agent cannot reach, and make a new version of it."},
		{c.PolicyDecisionSignerAccessibleToUsers, false, "policyDecisionSignerAccessibleToUsers", "control_policy_decision_signer_accessible_to_users",
			"Users can reach the policy engine's key and allow posts.", "Keep that key where users cannot reach it, and make a new version of it."},
		{c.PolicyDecisionAcceptsHumanInitiatedRequests, false, "policyDecisionAcceptsHumanInitiatedRequests", "control_policy_decision_accepts_human_initiated_requests",
			"The policy engine allows what a human asked for.", "Deny every request whose trigger a human initiated."},
		{c.PolicyDecisionCanBeMintedByRuntimeSigner, false, "policyDecisionCanBeMintedByRuntimeSigner", "control_policy_decision_can_be_minted_by_runtime_signer",
			"The runtime's key can mint policy decisions.", "Give the policy engine a key and an issuer of its own."},
		{c.PolicyDecisionCanBeMintedByTriggerSigner, false, "policyDecisionCanBeMintedByTriggerSigner", "control_policy_decision_can_be_minted_by_trigger_signer",
			"The trigger mediator's key can mint policy decisions.", "Give the policy engine a key and an issuer of its own."},
		{c.PolicyDecisionCanBeMintedByGrantSigner, false, "policyDecisionCanBeMintedByGrantSigner", "control_policy_decision_can_be_minted_by_grant_signer",
			"The authorization service's key can mint policy decisions, so it authorizes itself.", "Give the policy engine a key and an issuer of its own."},
		{c.ConsumeVerification, true, "consumeVerification", "control_consume_verification",
			"A solved challenge and its receipts can be used again.", "Reserve their ids durably before a capability is given."},
		{c.ConsumeCapability, true, "consumeCapability", "control_consume_capability",
			"A capability can be used again.", "Reserve its id durably before the post."},
		{c.AtomicConsumptionWithPost, true, "atomicConsumptionWithPost", "control_atomic_consumption_with_post",
			"A capability is not consumed in the same transaction as the post, so a race posts twice.", "Consume it in the transaction that publishes or records the post."},
	}
}
