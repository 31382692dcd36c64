"""Makes valid and broken evidence, for an API's own tests. Its keys are new each time, and no gate of yours knows them.

    kit = Kit()
    gate = kit.gate()                                        # in place of Gate.from_folder
    headers = kit.headers(gate, "POST", "/posts", body)      # of a post that its gate lets through once
    headers = kit.headers(gate, "POST", "/posts", body, tamper={"attestation": {"humanInteractive": True}})
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from . import http
from .claims import (ACTION_GRANT, ATTESTATION, DAY, DEPLOYMENT_CERTIFICATE, ORIGIN_PROOF, POLICY_DECISION,
                     REQUEST_PROOF, SESSION_RECEIPT, SIGNER_CERTIFICATE, TRIGGER_RECEIPT, Binding, Claims, Kind, sha256)
from .gate import Gate
from .manifest import FALSE, TRUE, Manifest
from .strictjson import canonical
from .task import answer, routes
from .token import b64, token_hash

_NAMES = {ORIGIN_PROOF: "originProof", TRIGGER_RECEIPT: "triggerReceipt", POLICY_DECISION: "policyDecision",
          ACTION_GRANT: "grant", ATTESTATION: "attestation", SESSION_RECEIPT: "sessionReceipt",
          REQUEST_PROOF: "requestProof"}
_KINDS = ["source_event", "scheduled", "autonomous_policy"]


class Kit:
    """One deployment: its keys, certificates and manifest."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._keys = {name: Ed25519PrivateKey.generate() for name in (*_NAMES.values(), "registry", "auditor")}
        self.manifest = _manifest()
        certificates = [self._certificate(kind, name) for kind, name in _NAMES.items()]
        raw = canonical(self.manifest).encode()
        strict = Manifest(raw)
        self.deployment_certificate = self.sign(DEPLOYMENT_CERTIFICATE, "auditor", {
            "controlsHash": strict.controls_hash, "deploymentId": "kit", "manifestHash": strict.hash,
            "version": self.manifest["version"]}, DAY)
        bundle = {"certificates": certificates, "deploymentCertificate": self.deployment_certificate}
        self.files = {
            "registry.jwk": self._jwk("registry"), "auditor.jwk": self._jwk("auditor"), "manifest.json": raw,
            "bundle.json": json.dumps(bundle).encode(), "secret": b64(secrets.token_bytes(48)).encode(),
        }

    def gate(self, name: str = "kit-api") -> Gate:
        """A gate that believes this deployment."""
        return Gate(name, self.files, clock=self._clock)

    def sign(self, kind: Kind, name: str, claims: Claims, seconds: int = 60) -> str:
        """An artifact by one of the keys. Claims that are given replace the usual ones."""
        now = int(self._clock())
        custody = {"keyCustody": "external_mediator", "keyExportable": False} if "keyCustody" in kind.claims else {}
        whole = {"iss": f"{name}-issuer", "aud": "kit", "iat": now, "exp": now + seconds,
                 "jti": b64(secrets.token_bytes(16)), **custody, **claims}
        head = canonical({"alg": "EdDSA", "kid": f"{name}:v1", "typ": kind.typ}).encode()
        signed = b64(head) + "." + b64(canonical(whole).encode())
        return signed + "." + b64(self._keys[name].sign(signed.encode()))

    def envelope(self, challenge: Claims, tamper: Mapping[str, Claims] | None = None) -> Claims:
        """The chain for a challenge. tamper replaces claims of artifacts, named as in the envelope."""
        b, other = Binding.of(challenge["binding"]), tamper or {}
        event = {"id": "evt_1", "kind": "source_event", "source": "kit"}
        bound, evidence, payload = b.hash(), sha256("delivery"), sha256("payload")
        runtime = self.manifest["runtimePolicy"]
        pins = {"policyHash": runtime["requiredPolicyHash"], "environmentHash": runtime["requiredEnvironmentHash"]}
        work = {"bindingHash": bound, "challengeId": challenge["id"]}
        of_event = {"eventId": event["id"], "kind": event["kind"], "source": event["source"], "payloadHash": payload}

        def sign(kind: Kind, claims: Claims) -> str:
            return self.sign(kind, _NAMES[kind], {**claims, **other.get(_NAMES[kind], {})})

        proof = sign(ORIGIN_PROOF, {**of_event, "bindingHash": bound, "evidenceHash": evidence, "evidenceId": "d_1",
                                    "verificationMethod": "webhook_signature"})
        receipt = sign(TRIGGER_RECEIPT, {**of_event, "bindingHash": bound, "humanInitiated": False,
                                         "originProofHash": token_hash(proof)})
        decision_id = b64(secrets.token_bytes(16))
        decision = sign(POLICY_DECISION, {
            **pins, **work, "jti": decision_id, "action": b.action, "contentHash": b.content_hash, "decision": "allow",
            "humanInitiated": False, "originEvidenceHash": evidence, "originEvidenceId": "d_1",
            "originVerificationMethod": "webhook_signature", "resource": b.resource, "rule": "kit",
            "runtimeId": "worker-1", "subject": b.subject, "triggerEventId": event["id"],
            "triggerKind": event["kind"], "triggerSource": event["source"]})
        grant = sign(ACTION_GRANT, {
            **pins, "actions": [b.action], "bindingHashes": [bound], "contentHashes": [b.content_hash],
            "originEvidenceHashes": [evidence], "originEvidenceIds": ["d_1"],
            "originVerificationMethods": ["webhook_signature"], "policyDecisionHashes": [token_hash(decision)],
            "policyDecisionIds": [decision_id], "resources": [b.resource], "runtimeIds": ["worker-1"],
            "subject": b.subject, "triggerEventIds": [event["id"]], "triggerSources": [event["source"]]})
        attestation = sign(ATTESTATION, {
            **pins, **work, "contentHash": b.content_hash, "humanInteractive": False, "mode": "autonomous",
            "runtimeId": "worker-1", "trigger": event, "triggerReceiptHash": token_hash(receipt)})
        session = sign(SESSION_RECEIPT, {
            **pins, **work, "agentEnvironmentUserAccessible": False, "eventId": event["id"],
            "humanOperatorPresent": False, "humanPromptPresent": False, "inputKind": event["kind"],
            "inputSource": event["source"], "runtimeId": "worker-1", "sessionId": "ses_1",
            "transcriptHash": sha256(""), "userShellAccess": False})
        return {
            "challengeToken": challenge["token"], "response": solve(challenge), "originProof": proof,
            "triggerReceipt": receipt, "policyDecision": decision, "grant": grant, "attestation": attestation,
            "sessionReceipt": session, "deploymentCertificate": self.deployment_certificate,
        }

    def headers(self, gate: Gate, method: str, url: str, body: bytes, *, subject: str = "agent:worker-1",
                action: str = "create_post", authorization: str = "", raw: bool = False,
                tamper: Mapping[str, Claims] | None = None) -> dict[str, str]:
        """The headers of a post with evidence. Raises the gate's Refusal of a chain that tamper has broken; of the
        requestProof it breaks, the gate hears with the post."""
        binding = Binding(subject, action, http.resource(method, url), http.content_hash(body, raw))
        challenge = gate.challenge(binding)
        earned, _ = gate.admit(self.envelope(challenge, tamper), binding)
        proof = self.sign(REQUEST_PROOF, "requestProof", {
            "accessTokenHash": sha256(authorization), "action": action, "bindingHash": earned["bindingHash"],
            "capabilityId": earned["capabilityId"], "contentHash": binding.content_hash,
            "resource": binding.resource, "subject": subject, **(tamper or {}).get("requestProof", {})})
        headers = {"actionproof-capability": earned["capability"], "actionproof-request-proof": proof,
                   "content-type": "application/json"}
        return headers | {"authorization": authorization} if authorization else headers

    def _certificate(self, kind: Kind, name: str) -> str:
        public = self._public(name)
        return self.sign(SIGNER_CERTIFICATE, "registry", {
            "accessibleToAgent": False, "accessibleToUsers": False, "purposes": [kind.purpose],
            "subjectIssuer": f"{name}-issuer", "subjectKeyId": f"{name}:v1", "subjectPublicKey": b64(public),
            "subjectPublicKeyHash": sha256(public)}, 30 * DAY)

    def _public(self, name: str) -> bytes:
        return self._keys[name].public_key().public_bytes(
            serialization.Encoding.Raw, serialization.PublicFormat.Raw)

    def _jwk(self, name: str) -> bytes:
        return json.dumps({"kty": "OKP", "crv": "Ed25519", "kid": f"{name}:v1", "x": b64(self._public(name))}).encode()


def solve(challenge: Claims) -> Claims:
    """The response to a challenge of this package."""
    answers = {}
    for task in challenge["tasks"]:
        of = task["input"]
        cost, path, _ = routes(of["edges"], of["from"])[of["to"]]
        answers[task["id"]] = sha256(answer(path, cost))
    return {"challengeId": challenge["id"], "answers": answers}


def _manifest() -> Claims:
    def allowed(name: str, **more: Any) -> Claims:
        return {"allowedIssuers": [f"{name}-issuer"], "allowedAudiences": ["kit"], "allowedKeyIds": [name], **more}

    def keyed(name: str, age: str, **more: Any) -> Claims:
        return allowed(name, allowedKeyCustody=["external_mediator"], requireNonExportableKey=True,
                       **{age: 15_000}, **more)

    yes, policy, environment = dict.fromkeys, sha256("policy"), sha256("environment")
    pins = {"requiredPolicyHash": policy, "requiredEnvironmentHash": environment}
    origin = allowed("originProof", allowedKinds=_KINDS, allowedSources=["kit"], maxProofAgeMs=15_000,
                     allowedVerificationMethods=["webhook_signature"], requireEventId=True, requireEvidenceId=True)
    receipt = allowed("triggerReceipt", allowedKinds=_KINDS, allowedSources=["kit"], maxReceiptAgeMs=15_000,
                      requireEventId=True, requireOriginProof=True, requireVerifiedOriginProof=True,
                      originProofPolicy=origin)
    session = yes(("requireChallengeId", "requireBindingHash", "requireNoHumanPrompt", "requireNoHumanOperator",
                   "denyUserShellAccess", "denyUserAccessibleAgentEnvironment"), True)
    signers = yes(("denyAgentAccessible", "denyUserAccessible", "requireSubjectPublicKeyHash"), True)
    return {
        "version": "1.0", "deploymentId": "kit", **yes(("maxChallengeAgeMs", "maxCapabilityAgeMs"), 15_000),
        "capabilityTtlMs": 15_000, "controls": {**yes(TRUE, True), **yes(FALSE, False)},
        "runtimePolicy": allowed("attestation", maxAttestationAgeMs=15_000, triggerReceiptPolicy=receipt, **pins),
        "signerCertificatePolicy": {**keyed("registry", "maxCertificateAgeMs"), **signers,
                                    "maxCertificateAgeMs": 90 * DAY * 1000},
        "deploymentCertificatePolicy": allowed("auditor", allowedDeploymentIds=["kit"], maxCertificateAgeMs=DAY * 1000),
        "agentSessionReceiptPolicy": keyed(
            "sessionReceipt", "maxReceiptAgeMs", allowedRuntimeIds=["worker-1"], allowedInputKinds=_KINDS,
            deniedInputKinds=["human_prompt", "manual_shell", "unknown"], **session, **pins),
        "policyDecisionPolicy": keyed("policyDecision", "maxProofAgeMs"),
        "grantPolicy": keyed("grant", "maxProofAgeMs"),
        "requestProofPolicy": keyed("requestProof", "maxProofAgeMs", requireBindingHash=True, requireCapabilityId=True),
    }
