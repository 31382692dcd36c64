"""The claims of each artifact, and what a payload must be."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .problem import Refusal, refuse_if
from .strictjson import Malformed, canonical, parse

Claims = dict[str, Any]
# t: text, not empty; h: hash; s: any text; b: boolean; f: number; i: whole number, w: of 64 bits; l: list of texts,
# n: or null; m: texts by any name; a mapping: an object; a list of one mapping: a list of objects. A name with ? is
# absent if its value is empty, 0 or false.
Shape = Mapping[str, Any]

_MAX_NAME, _MAX_TEXT = 256, 2048  # bytes
_MAX_WHOLE = (1 << 53) - 1
_HASH = re.compile(r"[0-9a-f]{64}")
DAY = 24 * 3600


def sha256(data: bytes | str) -> str:
    """The SHA-256 in lowercase hexadecimal."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def is_hash(value: object) -> bool:
    """Whether a value is a SHA-256 in lowercase hexadecimal."""
    return isinstance(value, str) and _HASH.fullmatch(value) is not None


def size(text: str) -> int:
    """The bytes of a text."""
    return len(text.encode(errors="surrogatepass"))


def within(text: object, bound: int) -> bool:
    """Whether a value is a text of 1 to bound bytes."""
    return isinstance(text, str) and 0 < size(text) <= bound


@dataclass(frozen=True)
class Binding:
    """One operation; with the challenge's nonce it ties all artifacts of a post together."""

    subject: str
    action: str
    resource: str
    content_hash: str
    nonce: str = ""

    @classmethod
    def of(cls, claims: Claims) -> Binding:
        """The binding in claims."""
        return cls(
            claims["subject"], claims["action"], claims["resource"], claims["contentHash"], claims.get("nonce", "")
        )

    def claims(self) -> Claims:
        """The binding as JSON has it."""
        out = {
            "action": self.action, "contentHash": self.content_hash, "resource": self.resource,
            "subject": self.subject,
        }
        return out | {"nonce": self.nonce} if self.nonce else out

    def hash(self) -> str:
        """The bindingHash of the artifacts."""
        return sha256(canonical(self.claims()))

    def check(self, nonce: bool = False) -> None:
        """Refuses an incomplete binding."""
        good = within(self.subject, _MAX_NAME) and within(self.action, _MAX_NAME) and is_hash(self.content_hash)
        refuse_if(
            not good or not within(self.resource, _MAX_TEXT) or nonce and not within(self.nonce, _MAX_NAME),
            "artifact_malformed", "the binding lacks a member, or one is too long",
        )

    def same_action(self, other: Binding) -> bool:
        """Whether both differ at most in their nonces."""
        return (self.subject, self.action, self.resource, self.content_hash) == (
            other.subject, other.action, other.resource, other.content_hash
        )


def _sound_session(c: Claims) -> bool:
    head = c.get("interactions")
    if "enforcement" in c and c["enforcement"] not in ("isolated", "guard", "pod", "none"):
        return False
    return size(c.get("agentPod", "")) <= 256 and (head is None or _sound_head(head))


def _sound_head(head: Claims) -> bool:
    number, last, calls = head["number"], head.get("headHash", ""), head.get("openCalls", [])
    ids = [c.encode() for c in calls]
    ascending = all(a < b for a, b in zip(ids, ids[1:]))
    named = is_hash(last) if number > 0 else number == 0 and last == ""
    return named and len(ids) <= 128 and ascending and all(0 < len(i) <= 64 for i in ids)


def _sound_statement(c: Claims) -> bool:
    bounds = {"keyCustody": 64, "agent": 256, "eventId": 256, "session": 128}
    return (
        c["exp"] - c["iat"] == 600 and c["probabilistic"] and not c["nonHumanIdentityProven"]
        and c["kind"] in ("signal", "contract", "challenge") and size(c["owner"]) == 43
        and all(size(c[name]) <= bound for name, bound in bounds.items())
    )


def _sound_challenge(c: Claims) -> bool:
    bound = ""
    if "binding" in c:
        binding = Binding.of(c["binding"])
        binding.check(nonce=True)
        bound = binding.hash()
    return len(c["answers"]) > 0 and c.get("bindingHash", "") == bound


def _sound_capability(c: Claims) -> bool:
    Binding.of(c["binding"]).check(nonce=True)
    return True


def _sound_revocations(c: Claims) -> bool:
    return all(
        r["kind"] in ("artifact", "key") and r["exp"] > 0 and size(r["id"]) <= 256 and size(r["reason"]) <= 256
        for r in c["revoked"]
    )


_REGISTERED: Shape = {"aud": "s", "exp": "i", "iat": "i", "iss": "s", "jti": "s"}
_KEY: Shape = {"keyCustody": "t", "keyExportable": "b"}
_TRIGGER: Shape = {"id": "t", "kind": "t", "source": "t"}
_BINDING: Shape = {"action": "s", "contentHash": "s", "nonce?": "s", "resource": "s", "subject": "s"}
_FLAGS: Shape = {
    name: "b"
    for name in ("agentEnvironmentUserAccessible", "humanOperatorPresent", "humanPromptPresent", "userShellAccess")
}


def _texts(names: str) -> dict[str, str]:
    return {name: "h" if name.rstrip("?").endswith("Hash") else "t" for name in names.split()}


@dataclass(frozen=True, eq=False)
class Kind:
    """An artifact's type with its claims and the purpose that its key must be certified for."""

    typ: str
    purpose: str
    claims: Shape
    check: Callable[[Claims], bool] = lambda _: True
    lifetime: int = 600  # seconds, at most
    size: int = 16384  # bytes, at most


ORIGIN_PROOF = Kind("trigger-origin-proof+jwt", "trigger_origin_proof", _texts(
    "bindingHash eventId evidenceHash evidenceId kind payloadHash source verificationMethod"))
TRIGGER_RECEIPT = Kind("trigger-receipt+jwt", "trigger_receipt", {
    **_texts("bindingHash eventId kind originProofHash payloadHash source"), "humanInitiated": "b"})
POLICY_DECISION = Kind("policy-decision+jwt", "policy_decision", {
    **_KEY, "humanInitiated": "b",
    **_texts("action bindingHash challengeId contentHash decision environmentHash originEvidenceHash originEvidenceId "
             "originVerificationMethod policyHash reputationHash? resource rule runtimeId subject triggerEventId "
             "triggerKind triggerSource")})
SCOPES = ("actions", "bindingHashes", "contentHashes", "originEvidenceHashes", "originEvidenceIds",
          "originVerificationMethods", "policyDecisionHashes", "policyDecisionIds", "resources", "runtimeIds",
          "triggerEventIds", "triggerSources")
ACTION_GRANT = Kind("action-grant+jwt", "action_grant", {
    **_KEY, **_texts("environmentHash policyHash subject"), **dict.fromkeys(SCOPES, "l")},
    lambda c: all(c[name] for name in SCOPES))
ATTESTATION = Kind("runtime-attestation+jwt", "runtime_attestation", {
    **_KEY, "humanInteractive": "b", "observed?": "l", "trigger": _TRIGGER,
    **_texts("bindingHash challengeId contentHash environmentHash mode policyHash runtimeId triggerReceiptHash")})
SESSION_RECEIPT = Kind("agent-session-receipt+jwt", "agent_session", {
    **_KEY, **_FLAGS, "observed?": "l", "interactions?": {"headHash?": "s", "number": "i", "openCalls?": "l"},
    **_texts("agentPod? bindingHash challengeId enforcement? environmentHash eventId inputKind inputSource policyHash "
             "runtimeId sessionId transcriptHash")}, _sound_session)
REQUEST_PROOF = Kind("request-proof+jwt", "request_proof", {
    **_KEY, **_texts("accessTokenHash action bindingHash capabilityId contentHash resource subject")})
STATEMENT = Kind("agent-statement+jwt", "agent_statement", {
    **_KEY, **_texts("agent bindingHash eventId kind owner session statementHash"), "nonHumanIdentityProven": "b",
    "probabilistic": "b"}, _sound_statement)
SIGNER_CERTIFICATE = Kind("signer-custody-certificate+jwt", "signer_certificate", {
    **_KEY, "accessibleToAgent": "b", "accessibleToUsers": "b", "observed?": "l", "purposes": "l",
    **_texts("subjectIssuer subjectKeyId subjectPublicKey subjectPublicKeyHash")},
    lambda c: len(c["purposes"]) == 1 and not c["subjectKeyId"].startswith("mac:"), 400 * DAY)
DEPLOYMENT_CERTIFICATE = Kind("deployment-certificate+jwt", "deployment_certificate", _texts(
    "controlsHash deploymentId manifestHash version"), lifetime=400 * DAY)
REVOCATION_LIST = Kind("revocation-list+jwt", "signer_certificate", {
    "revoked": [{"exp": "i", "id": "t", "kind": "t", "reason": "t"}]}, _sound_revocations, 400 * DAY, 262144)
CHALLENGE = Kind("challenge+jwt", "", {
    "answers": [_texts("hash id kind salt") | {"hash": "h"}], "binding?": _BINDING, "bindingHash?": "s",
    "difficulty": "t", "tasksHash": "h"}, _sound_challenge)
CAPABILITY = Kind("capability+jwt", "", {
    "binding": _BINDING, **_texts("challengeId decisionId? grantId?"), "verificationConsumed": "b",
    "runtime?": {**_texts("attestationId environmentHash issuer keyId policyHash runtimeId"), "issuedAt": "i",
                 "trigger": _TRIGGER},
    "session?": {**_FLAGS, **_texts("inputKind receiptId sessionId")}}, _sound_capability)

ROOTS = ("signer_certificate", "deployment_certificate")  # purposes that only a pinned key has


def decode(kind: Kind, payload: bytes) -> Claims:
    """The claims of a payload, which must be their canonical form."""
    shape = {**_REGISTERED, **kind.claims}
    try:
        claims = rebuilt(shape, parse(payload))
        if canonical(claims).encode() != payload:
            raise Malformed("it lacks a member, or is not in canonical form")
    except (Malformed, UnicodeEncodeError) as error:
        raise Refusal("artifact_malformed", f"the claims of the {kind.typ} are malformed: {error}") from None
    sound = all(within(claims[name], _MAX_NAME) for name in ("iss", "aud", "jti")) and (
        0 < claims["iat"] < claims["exp"] <= claims["iat"] + kind.lifetime
    )
    if not sound or not _checked(shape, claims) or not kind.check(claims):
        raise Refusal("artifact_malformed", f"a claim of the {kind.typ} has a value that it cannot have")
    return claims


def rebuilt(shape: Shape, given: Any) -> Claims:
    """The object with exactly the members of a shape. One that is missing has its empty value."""
    if not isinstance(given, dict) or not given.keys() <= {name.rstrip("?") for name in shape}:
        raise Malformed("it has an unknown member, or one of another type")
    out: Claims = {}
    for spelled, of in shape.items():
        name = spelled.rstrip("?")
        value = _typed(of, given[name]) if name in given else _empty(of)
        if name == spelled or (name in given and (value or isinstance(of, dict))):
            out[name] = value
    return out


def without_null(of: Any, value: Any) -> Any:
    """A document whose reader takes null for empty, without null. of is its shape."""
    if value is None:
        return _empty(of)
    if isinstance(of, dict) and isinstance(value, dict):
        shape = {name.rstrip("?"): member for name, member in of.items()}
        return {name: without_null(shape[name], v) if name in shape else v for name, v in value.items()}
    if of == "m" and isinstance(value, dict):
        return {name: "" if text is None else text for name, text in value.items()}
    if of == "l" and isinstance(value, list):
        return ["" if text is None else text for text in value]
    return value


_TYPES: dict[str, type] = {"b": bool, "f": int, "i": int, "w": int, "l": list, "n": list, "m": dict}


def _typed(of: Any, value: Any) -> Any:
    if isinstance(of, list):
        if not isinstance(value, list):
            raise Malformed("a member has another type")
        return [rebuilt(of[0], item) for item in value]
    if isinstance(of, dict):
        return rebuilt(of, value)
    good = type(value) is _TYPES.get(of, str) or of == "n" and value is None or of == "f" and type(value) is float
    if good and isinstance(value, list | dict):
        good = all(isinstance(item, str) for item in (value.values() if isinstance(value, dict) else value))
    bound = {"i": _MAX_WHOLE, "w": (1 << 63) - 1}.get(of)
    if not good or bound is not None and abs(value) > bound:
        raise Malformed("a member has another type")
    return value


def _empty(of: Any) -> Any:
    if isinstance(of, list):
        return []
    if isinstance(of, dict):
        return rebuilt(of, {})
    return _TYPES.get(of, str)()


def _checked(shape: Shape, claims: Claims) -> bool:
    for spelled, of in shape.items():
        value = claims.get(spelled.rstrip("?"))
        if value is None:
            continue
        if isinstance(of, list):
            good = all(_checked(of[0], item) for item in value)
        elif isinstance(of, dict):
            good = _checked(of, value)
        else:
            texts = {"t": [value], "l": value}.get(of, [])
            good = all(within(text, _MAX_TEXT) for text in texts) and (of != "h" or is_hash(value))
        if not good:
            return False
    return True
