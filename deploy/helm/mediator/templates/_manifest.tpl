{{- /* The strict deployment manifest; the registrar's signed document pins its hashes. */ -}}
{{- define "mediator.manifest" -}}
{{- $runtimes := list -}}{{- range .Values.rules.agents }}{{ $runtimes = append $runtimes (printf "pod/%s/*" .namespace) }}{{ end -}}
{{- if eq .Values.sidecar.enforcement "pod" }}{{ $runtimes = list (printf "pod/%s/*" .Release.Namespace) }}{{ end -}}
{{- $sources := list -}}{{- range .Values.trigger.config.sources }}{{ $sources = append $sources .name }}{{ end -}}
{{- $own := ternary "/*" "" (eq .Values.custody.type "memory") -}}
version: {{ ternary "1.1" "1.0" .Values.node.enabled | quote }}
deploymentId: {{ .Values.deployment }}

runtimePolicy:
  allowedIssuers: [mediator-runtime]
  allowedAudiences: [{{ .Values.audience }}]
  allowedKeyIds: [runtime-key{{ $own }}]
  allowedRuntimeIds: {{ $runtimes | toJson }}
  maxAttestationAgeMs: 15000
  requiredPolicyHash: "0000000000000000000000000000000000000000000000000000000000000000"
  requiredEnvironmentHash: "0000000000000000000000000000000000000000000000000000000000000000"
  triggerReceiptPolicy:
    allowedIssuers: [mediator-trigger]
    allowedAudiences: [mediator-runtime]
    allowedKeyIds: [trigger-receipt-key{{ $own }}]
    allowedKinds: [source_event, scheduled, autonomous_policy]
    allowedSources: {{ $sources | toJson }}
    requireEventId: true
    maxReceiptAgeMs: 15000
    requireOriginProof: true
    requireVerifiedOriginProof: true
    originProofPolicy:
      allowedIssuers: [mediator-source-verifier]
      allowedAudiences: [mediator-trigger]
      allowedKeyIds: [origin-proof-key{{ $own }}]
      allowedKinds: [source_event, scheduled, autonomous_policy]
      allowedSources: {{ $sources | toJson }}
      allowedVerificationMethods: [webhook_signature, scheduler_lock, policy_engine_decision, queue_claim]
      requireEventId: true
      requireEvidenceId: true
      maxProofAgeMs: 15000

signerCertificatePolicy:
  allowedIssuers: [key-registry]
  allowedAudiences: [{{ .Values.audience }}]
  allowedKeyIds: [registry]
  allowedKeyCustody: [external_mediator, hardware_backed]
  requireNonExportableKey: true
  denyAgentAccessible: true
  denyUserAccessible: true
  requireSubjectPublicKeyHash: true
  maxCertificateAgeMs: 7776000000

deploymentCertificatePolicy:
  allowedIssuers: [deployment-auditor]
  allowedAudiences: [{{ .Values.audience }}]
  allowedKeyIds: [auditor]
  allowedDeploymentIds: [{{ .Values.deployment }}]
  maxCertificateAgeMs: 604800000   # a week, in which the auditor signs again

agentSessionReceiptPolicy:
  allowedIssuers: [mediator-session-controller]
  allowedAudiences: [{{ .Values.audience }}]
  allowedKeyIds: [session-key{{ $own }}]
  allowedKeyCustody: [external_mediator, hardware_backed]
  requireNonExportableKey: true
  allowedRuntimeIds: {{ $runtimes | toJson }}
  allowedInputKinds: [source_event, scheduled, autonomous_policy]
  deniedInputKinds: [human_prompt, manual_shell, unknown]
  requireChallengeId: true
  requireBindingHash: true
  requireNoHumanPrompt: true
  requireNoHumanOperator: true
  denyUserShellAccess: true
  denyUserAccessibleAgentEnvironment: true
  requiredPolicyHash: "0000000000000000000000000000000000000000000000000000000000000000"
  requiredEnvironmentHash: "0000000000000000000000000000000000000000000000000000000000000000"
  maxReceiptAgeMs: 15000

policyDecisionPolicy:
  allowedIssuers: [mediator-policy]
  allowedAudiences: [{{ .Values.audience }}]
  allowedKeyIds: [policy-decision-key{{ $own }}]
  allowedKeyCustody: [external_mediator, hardware_backed]
  requireNonExportableKey: true
  maxProofAgeMs: 15000

grantPolicy:
  allowedIssuers: [mediator-authorization]
  allowedAudiences: [{{ .Values.audience }}]
  allowedKeyIds: [action-grant-key{{ $own }}]
  allowedKeyCustody: [external_mediator, hardware_backed]
  requireNonExportableKey: true
  maxProofAgeMs: 15000

requestProofPolicy:
  allowedIssuers: [mediator-request-mediator]
  allowedAudiences: [{{ .Values.audience }}]
  allowedKeyIds: [request-proof-key{{ $own }}]
  allowedKeyCustody: [external_mediator, hardware_backed]
  requireNonExportableKey: true
  maxProofAgeMs: 15000
  requireBindingHash: true
  requireCapabilityId: true

interactionReceiptPolicy:
  allowedIssuers: [mediator-observer]
  allowedAudiences: [{{ .Values.audience }}]
  allowedKeyIds: [interaction-receipt-key{{ $own }}]
  allowedKeyCustody: [external_mediator, hardware_backed]
  requireNonExportableKey: true
  maxReceiptAgeMs: 15000

{{- if .Values.node.enabled }}

# Reputations that the node signs. The policy may ask for them.
autonomyPolicy:
  allowedIssuers: [mediator-appraiser]
  allowedAudiences: [{{ .Values.audience }}]
  allowedKeyIds: [appraiser-key]
  allowedKeyCustody: [external_mediator, hardware_backed]
  requireNonExportableKey: true
  maxReputationAgeMs: 600000
  scoringHash: 19b78dd403989301afbfb20cbf43e062c5529ce4425e6335ef49dbe7fe0b49e7   # of this version's formulas
{{- end }}

maxChallengeAgeMs: 15000
capabilityTtlMs: 15000
maxCapabilityAgeMs: 15000

controls:
  proofRequiredForPost: true
  bearerTokenAloneCanPost: false
  directUserPostingAllowed: false
  deploymentCertificateRequired: true
  agentSessionReceiptRequiredForPost: true
  agentSessionSignerAccessibleToAgent: false
  agentSessionSignerAccessibleToUsers: false
  agentSessionAcceptsHumanPrompts: false
  agentSessionAllowsHumanOperators: false
  agentSessionAllowsUserShellAccess: false
  agentEnvironmentAccessibleToUsers: false
  agentSessionCanBeMintedByRuntimeSigner: false
  requestProofRequiredForPost: true
  accessTokenSenderConstrained: true
  requestProofSignerAccessibleToAgent: false
  requestProofSignerAccessibleToUsers: false
  requestProofCanBeMintedByRuntimeSigner: false
  requestProofCanBeMintedByGrantSigner: false
  requestProofCanBeMintedByPolicyDecisionSigner: false
  runtimeSignerAccessibleToAgent: false
  runtimeSignerAccessibleToUsers: false
  runtimeAcceptsInteractiveRequests: false
  runtimeCanBeInvokedByUsersForPosting: false
  triggerSignerAccessibleToAgent: false
  triggerSignerAccessibleToUsers: false
  triggerAcceptsHumanInitiatedEvents: false
  triggerCanBeMintedByRuntimeSigner: false
  originProofSignerAccessibleToAgent: false
  originProofSignerAccessibleToUsers: false
  originProofAcceptsManualEvents: false
  originProofCanBeMintedByTriggerSigner: false
  originProofCanBeMintedByRuntimeSigner: false
  signerCustodyCertificatesRequired: true
  policyDecisionRequiredForPost: true
  grantRequiresPolicyDecision: true
  policyDecisionSignerAccessibleToAgent: false
  policyDecisionSignerAccessibleToUsers: false
  policyDecisionAcceptsHumanInitiatedRequests: false
  policyDecisionCanBeMintedByRuntimeSigner: false
  policyDecisionCanBeMintedByTriggerSigner: false
  policyDecisionCanBeMintedByGrantSigner: false
  consumeVerification: true
  consumeCapability: true
  atomicConsumptionWithPost: true
{{- end -}}
