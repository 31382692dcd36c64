package problem

import "net/http"

// policyCodes are the refusals of package policy: a deployment that is not safe, or a post that is not allowed.
var policyCodes = []Code{
	{Name: "deployment_contradicted", Status: http.StatusServiceUnavailable, Step: "config", Title: "What was seen of the deployment contradicts its manifest", Remedy: "Ask the operator to run mediator doctor and to mend what it shows; nothing was sent.", RetryAfter: 10},
	{Name: "not_confined", Status: http.StatusServiceUnavailable, Step: "config", Title: "A process cannot be confined as its configuration asks", Remedy: "Run it on a kernel that can, or change confine in its configuration; the message says what is missing."},
	{Name: "guard_missing", Status: http.StatusServiceUnavailable, Step: "config", Title: "The rules of mediator guard do not stand", Remedy: "Ask the operator to run mediator guard in the network namespace of the pod; nothing was sent.", RetryAfter: 10},
	{Name: "manifest_malformed", Status: http.StatusBadRequest, Step: "config", Title: "The deployment manifest is malformed", Remedy: "Mend the lines that are named; configs/manifest.yaml is an example."},
	{Name: "policy_malformed", Status: http.StatusBadRequest, Step: "config", Title: "The policy file is malformed", Remedy: "Mend the rules that are named; configs/policy.yaml is an example."},
	{Name: "deployment_unsafe", Status: http.StatusForbidden, Step: "config", Title: "The deployment manifest lacks safeguards", Remedy: "Run mediator deployment audit, mend what it lists, and certify the manifest again."},
	{Name: "deployment_id_not_allowed", Status: http.StatusForbidden, Step: "gate", Title: "The deployment certificate is for another deployment", Remedy: "Certify the manifest of this deployment."},
	{Name: "deployment_manifest_mismatch", Status: http.StatusForbidden, Step: "gate", Title: "The deployment certificate is for another manifest", Remedy: "Certify the manifest that is in force."},
	{Name: "deployment_controls_mismatch", Status: http.StatusForbidden, Step: "gate", Title: "The deployment certificate is for other controls", Remedy: "Certify the manifest that is in force."},
	{Name: "policy_hash_mismatch", Status: http.StatusForbidden, Step: "config", Title: "The policy file is not the one that the manifest pins", Remedy: "Review the policy file, set requiredPolicyHash to its hash, and certify the manifest again."},
	{Name: "manifest_mismatch", Status: http.StatusForbidden, Step: "decision", Title: "The sidecar and the control plane have different manifests in force", Remedy: "Reload the control plane and the sidecars, in this order, with the same manifest (docs/operations/reload.md)."},
	{Name: "environment_mismatch", Status: http.StatusForbidden, Step: "decision", Title: "The runtime runs another environment than the manifest pins", Remedy: "Review what runs, set requiredEnvironmentHash (mediator deployment environment), and certify the manifest again."},
	{Name: "runtime_not_allowed", Status: http.StatusForbidden, Step: "decision", Title: "The manifest does not allow this runtime", Remedy: "Add the runtime to allowedRuntimeIds, and certify the manifest again."},
	{Name: "policy_denied", Public: true, Status: http.StatusForbidden, Step: "decision", Title: "The policy does not allow the post", Remedy: "Change the policy file if the post should be allowed."},
	{Name: "policy_error", Status: http.StatusForbidden, Step: "decision", Title: "A policy rule could not be evaluated", Remedy: "Mend the rule; an evaluation that fails denies."},
	{Name: "control_unavailable", Status: http.StatusServiceUnavailable, Step: "decision", Title: "The control plane does not answer", Remedy: "Start mediator control; check the sidecar's control endpoint, and that internal.uids names the sidecar's user there.", RetryAfter: 2},
	{Name: "origin_binding_mismatch", Status: http.StatusForbidden, Step: "gate", Title: "The origin proof is for another binding", Remedy: "Ask the trigger service for evidence for this call."},
	{Name: "receipt_binding_mismatch", Status: http.StatusForbidden, Step: "gate", Title: "The trigger receipt is for another binding", Remedy: "Ask the trigger service for evidence for this call."},
	{Name: "receipt_other_origin", Status: http.StatusForbidden, Step: "gate", Title: "The trigger receipt rests on another origin proof", Remedy: "Send the receipt with the proof that it rests on."},
	{Name: "receipt_event_mismatch", Status: http.StatusForbidden, Step: "gate", Title: "Trigger receipt and origin proof are for different events", Remedy: "Send the receipt with the proof that it rests on."},
	{Name: "receipt_source_mismatch", Status: http.StatusForbidden, Step: "gate", Title: "Trigger receipt and origin proof name different sources", Remedy: "Send the receipt with the proof that it rests on."},
	{Name: "trigger_kind_not_allowed", Status: http.StatusForbidden, Step: "gate", Title: "The policy does not allow triggers of this kind", Remedy: "Add the kind to allowedKinds, and certify the manifest again."},
	{Name: "trigger_source_not_allowed", Status: http.StatusForbidden, Step: "gate", Title: "The policy does not allow this trigger source", Remedy: "Add the source to allowedSources, and certify the manifest again."},
	{Name: "trigger_method_not_allowed", Status: http.StatusForbidden, Step: "gate", Title: "The policy does not allow origins verified this way", Remedy: "Add the method to allowedVerificationMethods, and certify the manifest again."},
	{Name: "decision_request_malformed", Status: http.StatusBadRequest, Step: "decision", Title: "A request for a decision is incomplete or malformed", Remedy: "Use a sidecar of the same version as the control plane."},
	{Name: "call_mismatch", Status: http.StatusForbidden, Step: "decision", Title: "The call is not the one that the binding names", Remedy: "Bind the method and the path that are sent."},
	{Name: "roles_not_separated", Status: http.StatusInternalServerError, Step: "decision", Title: "The policy engine and the authorization service are not separate", Remedy: "Give keys.decision and keys.grant a key and an issuer of their own."},
	{Name: "trigger_pin_mismatch", Status: http.StatusForbidden, Step: "gate", Title: "The trigger evidence is not the one that the manifest pins", Remedy: "Leave the required payload, binding and evidence hashes out of the manifest, unless it is for one event alone."},
}
