"""The chain of evidence of one post: seven artifacts that must name one operation, event and run."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .claims import (ACTION_GRANT, ATTESTATION, CHALLENGE, DEPLOYMENT_CERTIFICATE, ORIGIN_PROOF, POLICY_DECISION,
                     SESSION_RECEIPT, TRIGGER_RECEIPT, Binding, Claims, Kind, is_hash, sha256)
from .manifest import KINDS, METHODS, Manifest
from .problem import Refusal, refuse_if
from .token import Expected, Moment, Secret, match_name, open_mac
from .trust import Opened, Trust, Uncertified

FLAGS = ("humanPromptPresent", "humanOperatorPresent", "userShellAccess", "agentEnvironmentUserAccessible")


@dataclass
class Chain:
    """One chain, whose verify methods go in order. Each opens an artifact and compares it with the earlier ones."""

    manifest: Manifest
    trust: Trust
    at: Moment
    envelope: Mapping[str, str]
    work: Claims = field(default_factory=dict)  # of the challenge token
    opened: dict[str, Opened] = field(default_factory=dict)  # by the envelope's names

    @property
    def binding(self) -> Binding:
        """The operation, with the challenge's nonce."""
        refuse_if("binding" not in self.work, "artifacts_mismatch", "there is no challenge before this artifact")
        return Binding.of(self.work["binding"])

    def open(self, kind: Kind, name: str) -> Claims:
        """The claims of an artifact of the envelope."""
        try:
            o = self.trust.open(kind, self.envelope[name], self.manifest.expected(kind), self.at)
        except Uncertified as error:
            raise Refusal("trust_stale" if error.newer else error.code, error.detail) from None
        self.opened[name] = o
        return o.claims

    def claims(self, name: str) -> Claims:
        """The claims of an artifact that was opened before."""
        refuse_if(name not in self.opened, "artifacts_mismatch", f"the {name} before this artifact is missing")
        return self.opened[name].claims

    def deployment(self) -> None:
        """The auditor has certified the manifest."""
        c, m = self.open(DEPLOYMENT_CERTIFICATE, "deploymentCertificate"), self.manifest
        allowed = m.policy("deploymentCertificatePolicy")["allowedDeploymentIds"]
        good = c["deploymentId"] == m.deployment_id in allowed and c["manifestHash"] == m.hash
        refuse_if(not good or c["controlsHash"] != m.controls_hash, "deployment_mismatch",
                  "the deployment certificate is for another deployment, manifest or controls")

    def fresh_work(self, asked: Binding, response: Claims, gate: Expected, secret: Secret) -> None:
        """The answers are right, and the challenge is for the operation."""
        asked.check()
        c = open_mac(secret, CHALLENGE, self.envelope["challengeToken"], gate, Moment(self.at.now))
        bound = "binding" in c and Binding.of(c["binding"]).same_action(asked)
        refuse_if(not bound, "challenge_refused", "the challenge is bound to another operation")
        answers, tasks = response["answers"], c["answers"]
        refuse_if(response["challengeId"] != c["jti"], "challenge_refused", "the response is for another challenge")
        refuse_if(len(answers) != len(tasks) or any(not is_hash(answers.get(task["id"])) for task in tasks),
                  "challenge_refused", "the response has too few or too many answers, or one that is no SHA-256")
        right = True
        for task in tasks:  # all of them, so that neither time nor refusal tells which is wrong
            got = sha256("\0".join([task["salt"], c["jti"], task["id"], answers[task["id"]]]))
            right &= hmac.compare_digest(got, task["hash"])
        refuse_if(not right, "challenge_refused", "at least one answer is wrong")
        self.work = c

    def trigger(self) -> None:
        """Proof and receipt are of one event that no human asked for."""
        o = self.open(ORIGIN_PROOF, "originProof")
        r = self.open(TRIGGER_RECEIPT, "triggerReceipt")
        m, bound = self.manifest, self.binding.hash()
        same("artifacts_mismatch", "trigger receipt or origin proof", o["bindingHash"], bound, r["bindingHash"], bound,
             r["originProofHash"], self.opened["originProof"].hash, r["eventId"], o["eventId"],
             r["payloadHash"], o["payloadHash"], r["kind"], o["kind"], r["source"], o["source"])
        refuse_if(r["humanInitiated"], "human_involved", "the trigger receipt says that a human requested the event")
        for value, lists in ((o["kind"], (KINDS, m.origin["allowedKinds"], m.receipt["allowedKinds"])),
                             (o["source"], (m.origin["allowedSources"], m.receipt["allowedSources"])),
                             (o["verificationMethod"], (METHODS, m.origin["allowedVerificationMethods"]))):
            refuse_if(any(value not in allowed for allowed in lists), "not_allowed", f"{value} is not allowed")
        for policy, claims in ((m.receipt, r), (m.origin, o)):
            for pin in ("Payload", "Binding", "Evidence"):
                want = policy.get(f"required{pin}Hash")
                wrong = want is not None and want != claims[f"{pin.lower()}Hash"]
                refuse_if(wrong, "not_allowed", f"the manifest requires another {pin} hash")

    def decision(self) -> None:
        """The policy engine has allowed exactly this operation for this event."""
        d, b, o = self.open(POLICY_DECISION, "policyDecision"), self.binding, self.claims("originProof")
        refuse_if(d["humanInitiated"], "human_involved", "the policy decision says that a human asked for the post")
        refuse_if(d["decision"] != "allow", "policy_denied", "the policy decision does not allow the post")
        same("artifacts_mismatch", "policy decision", d["bindingHash"], b.hash(), d["contentHash"], b.content_hash,
             d["subject"], b.subject, d["action"], b.action, d["resource"], b.resource,
             d["challengeId"], self.work["jti"], d["triggerEventId"], o["eventId"], d["triggerKind"], o["kind"],
             d["triggerSource"], o["source"], d["originVerificationMethod"], o["verificationMethod"],
             d["originEvidenceId"], o["evidenceId"], d["originEvidenceHash"], o["evidenceHash"])
        self._pinned("policy decision", d)

    def grant(self) -> None:
        """The authorization service has granted what was decided."""
        g, d, b = self.open(ACTION_GRANT, "grant"), self.claims("policyDecision"), self.binding
        for scope, want in (
            ("policyDecisionIds", d["jti"]), ("policyDecisionHashes", self.opened["policyDecision"].hash),
            ("actions", b.action), ("resources", b.resource), ("contentHashes", b.content_hash),
            ("bindingHashes", b.hash()), ("runtimeIds", d["runtimeId"]), ("triggerEventIds", d["triggerEventId"]),
            ("triggerSources", d["triggerSource"]), ("originVerificationMethods", d["originVerificationMethod"]),
            ("originEvidenceIds", d["originEvidenceId"]), ("originEvidenceHashes", d["originEvidenceHash"]),
        ):
            refuse_if(want not in g[scope], "artifacts_mismatch", f"the {scope} of the grant do not cover this post")
        same("artifacts_mismatch", "action grant", g["subject"], b.subject)
        same("pin_mismatch", "action grant", g["policyHash"], d["policyHash"],
             g["environmentHash"], d["environmentHash"])

    def attestation(self) -> None:
        """The runtime was autonomous. It may stand without a decision: see runtime."""
        a, r, m = self.open(ATTESTATION, "attestation"), self.claims("triggerReceipt"), self.manifest
        refuse_if(a["humanInteractive"], "human_involved", "the attestation says that a human could interact")
        refuse_if(a["mode"] != "autonomous", "human_involved", "the attestation says that the run was not autonomous")
        ids = m.runtime.get("allowedRuntimeIds")
        refuse_if(ids and not match_name(ids, a["runtimeId"]) or a["trigger"]["kind"] not in m.trigger_kinds,
                  "not_allowed", "the manifest does not allow the runtime, or its kind of trigger")
        same("artifacts_mismatch", "attestation", a["challengeId"], self.work["jti"],
             a["bindingHash"], self.binding.hash(), a["contentHash"], self.binding.content_hash,
             a["triggerReceiptHash"], self.opened["triggerReceipt"].hash, a["trigger"]["id"], r["eventId"],
             a["trigger"]["kind"], r["kind"], a["trigger"]["source"], r["source"])
        self._pinned("attestation", a)

    def runtime(self) -> None:
        """The runtime was autonomous, and is the one that the decision is about."""
        self.attestation()
        a, d = self.claims("attestation"), self.claims("policyDecision")
        same("artifacts_mismatch", "attestation", a["runtimeId"], d["runtimeId"])
        same("pin_mismatch", "attestation", a["environmentHash"], d["environmentHash"])

    def session(self) -> None:
        """No human could reach the agent's run."""
        s, a = self.open(SESSION_RECEIPT, "sessionReceipt"), self.claims("attestation")
        p, r = self.manifest.session, self.claims("triggerReceipt")
        free(s)
        kind = s["inputKind"]
        allowed = kind not in p["deniedInputKinds"] and kind in p["allowedInputKinds"]
        refuse_if(not allowed or not match_name(p["allowedRuntimeIds"], s["runtimeId"]), "not_allowed",
                  "the manifest does not allow the session's runtime or input")
        same("artifacts_mismatch", "session receipt", s["runtimeId"], a["runtimeId"],
             s["challengeId"], self.work["jti"], s["bindingHash"], self.binding.hash(), s["eventId"], r["eventId"],
             s["inputKind"], r["kind"], s["inputSource"], r["source"])
        same("pin_mismatch", "session receipt", s["policyHash"], p["requiredPolicyHash"],
             s["environmentHash"], a["environmentHash"])

    def _pinned(self, artifact: str, claims: Claims) -> None:
        known = claims["environmentHash"] in self.manifest.environments
        refuse_if(not known, "pin_mismatch", f"the environment hash of the {artifact} is not the manifest's")
        same("pin_mismatch", artifact, claims["policyHash"], self.manifest.runtime["requiredPolicyHash"])


def same(code: str, artifact: str, *pairs: Any) -> None:
    """Refuses if one value of a pair differs from the next."""
    for got, want in zip(pairs[::2], pairs[1::2], strict=True):
        refuse_if(got != want, code, f"the {artifact} does not match the rest of the chain")


def free(flags: Claims) -> None:
    """Refuses a session that a human could reach."""
    for name in FLAGS:
        refuse_if(flags[name], "human_involved", f"the session receipt says {name}")


def proves(proof: Claims, capability_id: str, b: Binding) -> None:
    """Refuses a request proof for another capability or operation."""
    same("artifacts_mismatch", "request proof", proof["capabilityId"], capability_id, proof["bindingHash"], b.hash(),
         proof["contentHash"], b.content_hash, proof["subject"], b.subject, proof["action"], b.action,
         proof["resource"], b.resource)


def first_failure(steps: Iterable[tuple[str, Callable[[], None]]]) -> tuple[str, Refusal] | None:
    """The name of the first step that refuses, and why."""
    for name, step in steps:
        try:
            step()
        except Refusal as refusal:
            return name, refusal.kept()
    return None
