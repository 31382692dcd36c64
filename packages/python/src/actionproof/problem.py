"""Refusals, and the problem documents (RFC 9457) that tell a caller of them."""

from __future__ import annotations

import json
from typing import NamedTuple, NoReturn


class Refusal(Exception):
    """A check that did not hold. code is stable, and the same as in every other implementation."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(detail or code)
        self.code, self.detail = code, detail or CODES[code].title

    def kept(self) -> Refusal:
        """Itself without the frames of where it was raised, and of what it was raised for: they may hold it."""
        self.__traceback__ = self.__context__ = self.__cause__ = None
        return self


class Code(NamedTuple):
    """One kind of refusal. An agent may read the sentence of a public one."""

    status: int
    title: str
    public: bool = False


CODES = {
    "artifact_malformed": Code(403, "An artifact is malformed"),
    "artifact_missing": Code(403, "An artifact of the chain is missing"),
    "artifacts_mismatch": Code(403, "Two artifacts do not belong together"),
    "chain_broken": Code(403, "A chain of interaction receipts contradicts itself"),
    "chain_incomplete": Code(403, "A chain of interaction receipts has gaps"),
    "challenge_refused": Code(403, "A challenge or its answer is wrong", True),
    "clock_skew": Code(403, "A time is too far from this machine's clock"),
    "config_malformed": Code(400, "A configuration file is malformed"),
    "content_incomplete": Code(400, "The body ended early or did not arrive in time", True),
    "content_malformed": Code(422, "The content is not JSON with a single meaning", True),
    "content_too_large": Code(413, "The body, or a part of it, is too large", True),
    "deployment_mismatch": Code(
        403, "Processes, or a process and the deployment certificate, have different manifests"
    ),
    "deployment_unsafe": Code(403, "The deployment manifest lacks safeguards"),
    "evidence_malformed": Code(403, "A record or an export is malformed or cut off"),
    "expired": Code(403, "An artifact is too old"),
    "human_involved": Code(403, "A human could have taken part", True),
    "internal": Code(500, "The mediator failed", True),
    "key_custody": Code(403, "The custody of a key is weaker than the policy demands"),
    "key_purpose": Code(403, "A key was used outside its certified role"),
    "key_retired": Code(403, "A retired version of a key signed an artifact"),
    "key_unknown": Code(403, "A key has no custody certificate from the pinned registry"),
    "log_contradicted": Code(503, "The transparency log is not the one that was signed or witnessed"),
    "log_unwitnessed": Code(
        503, "A checkpoint still lacks cosignatures that the log's policy demands"
    ),
    "manifest_unknown": Code(403, "The manifest of a record is missing"),
    "not_allowed": Code(403, "The manifest does not allow this signer, runtime or trigger"),
    "override_refused": Code(400, "A header, parameter or field could override the call", True),
    "pin_mismatch": Code(403, "A hash differs from the one that the manifest pins"),
    "policy_denied": Code(403, "The policy does not allow the post", True),
    "proof_access_token": Code(403, "The request proof is for another access token"),
    "proof_missing": Code(401, "The request carries no evidence", True),
    "query_malformed": Code(400, "A request to the mediator is malformed", True),
    "record_mismatch": Code(403, "A record contradicts its artifacts"),
    "replayed": Code(409, "A single-use key was used again"),
    "reputation_insufficient": Code(403, "A rule needs a rated or verified agent, and this one is not", True),
    "reputation_mismatch": Code(403, "A reputation token belongs to another agent or owner"),
    "request_malformed": Code(400, "The request can be read in more than one way", True),
    "revocations_rolled_back": Code(403, "A new trust bundle would undo a revocation or a retirement"),
    "revocations_stale": Code(403, "The revocation list is missing, old, or for another audience"),
    "revoked": Code(403, "The security team has revoked a key or an artifact"),
    "roots_not_pinned": Code(403, "The verifier has not pinned the root key behind this evidence"),
    "session_full": Code(403, "The session has reached a bound, or is closed", True),
    "signature_invalid": Code(403, "A signature is wrong or missing"),
    "statement_mismatch": Code(403, "An agent's statement is for another document, agent or post", True),
    "trust_malformed": Code(403, "The trust bundle or a pinned key is malformed"),
    "trust_stale": Code(503, "A verifier's trust bundle may be too old"),
}

# These say that nothing could be judged, not that the call is bad.
UNAVAILABLE = frozenset({"internal", "trust_stale"})


def refuse(code: str, detail: str = "") -> NoReturn:
    """Raises a Refusal."""
    raise Refusal(code, detail)


def refuse_if(condition: object, code: str, detail: str = "") -> None:
    """Raises a Refusal if condition is true."""
    if condition:
        raise Refusal(code, detail)


def document(code: str, detail: str) -> tuple[int, list[tuple[str, str]], bytes]:
    """Status, headers and body of the answer to a refusal. The agent reads it, so it tells no more than it may."""
    status, title, public = CODES[code]
    said = detail if public and detail and code != "internal" else title
    body = {
        "type": "https://github.com/actionproof/mediator/blob/main/docs/errors.md#" + code,
        "title": title, "status": status, "detail": said, "code": code, "message": said,
        "error": {"code": code, "message": said},
    }
    headers = [
        ("content-type", "application/problem+json; charset=utf-8"), ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
    ]
    if code == "proof_missing":
        headers.append(("www-authenticate", "ActionProof"))
    if code == "trust_stale":
        headers.append(("retry-after", "10"))
    return status, headers, json.dumps(body).encode() + b"\n"
