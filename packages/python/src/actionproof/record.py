"""Verifies exported records of any age with two pinned roots: see python -m actionproof verify --help."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, BinaryIO

from .chain import Chain, first_failure, proves, same
from .claims import (ACTION_GRANT, ATTESTATION, CAPABILITY, CHALLENGE, DEPLOYMENT_CERTIFICATE, ORIGIN_PROOF,
                     POLICY_DECISION, REQUEST_PROOF, SESSION_RECEIPT, STATEMENT, TRIGGER_RECEIPT, Binding, Claims,
                     Kind)
from .manifest import Manifest
from .problem import Refusal, refuse, refuse_if
from .strictjson import Malformed, canonical, parse
from .token import SECOND, Moment, Root, b64, parse_rooted, unverified
from .trust import PastTrust, parse_root

_MAX_LINE, _MAX_SHARED, _MAX_TRUSTS = 1 << 20, 64 << 20, 512
_SKEW, _EARLY = 60 * SECOND, 3600 * SECOND
_ENVELOPE = {"challenge": "challengeToken", "originProof": "originProof", "triggerReceipt": "triggerReceipt",
             "policyDecision": "policyDecision", "grant": "grant", "runtimeAttestation": "attestation",
             "sessionReceipt": "sessionReceipt", "deploymentCertificate": "deploymentCertificate"}
_SIGNED: dict[str, Kind] = {
    "originProof": ORIGIN_PROOF, "triggerReceipt": TRIGGER_RECEIPT, "policyDecision": POLICY_DECISION,
    "grant": ACTION_GRANT, "runtimeAttestation": ATTESTATION, "sessionReceipt": SESSION_RECEIPT,
    "requestProof": REQUEST_PROOF, "agentStatement": STATEMENT}
_NAMES = {*_ENVELOPE, "capability", "requestProof", "agentStatement", "reputation"}
_TEXTS = ("id flow state session event rule subject action resource method host path scheme message contentHash "
          "bindingHash capabilityId manifest code step reason result carries unfit started finished").split()
_MEMBERS = {*_TEXTS, *("queryNames mcp graphql learning tools model interactions status answer bytesOut bytesIn "
                       "artifacts checks steps keys").split()}


class CannotJudge(Exception):
    """The record has a part that only the mediator's own command verifies."""


@dataclass
class Trusted:
    """What an export says of one pair of roots."""

    roots: list[Root]
    certificates: list[str] = field(default_factory=list)
    earlier: list[str] = field(default_factory=list)
    revocations: list[str] = field(default_factory=list)  # the current list first
    manifests: dict[str, Manifest] = field(default_factory=dict)
    pinned: bool = False
    past: dict[str, PastTrust] = field(default_factory=dict)  # by the manifest's hash

    def signed(self, certificate: str) -> bool:
        """Whether the auditor has signed a deployment certificate."""
        try:
            p = parse_rooted(certificate, DEPLOYMENT_CERTIFICATE)
            self.roots[1].verify(DEPLOYMENT_CERTIFICATE.typ, p, False)
        except Refusal:
            return False
        return p.kid == self.roots[1].kid

    def believed(self, manifest: Manifest) -> PastTrust:
        """The certificates of all times that a manifest believes."""
        if manifest.hash not in self.past:
            self.past[manifest.hash] = PastTrust(
                self.roots, [*self.earlier, *self.certificates], self.revocations, manifest.signers())
        return self.past[manifest.hash]


@dataclass
class Judged:
    """One record with its result: verified, incomplete or refused."""

    id: str
    result: str
    check: str = ""
    refusal: Refusal | None = None
    receipts: bool = False  # it names interaction receipts, which are not judged here


class Export:
    """An export, read line by line."""

    def __init__(self, lines: BinaryIO, pinned: Sequence[Root], bundle: Claims | None = None) -> None:
        """Reads up to the records. bundle is the trust bundle of the reader, whose revocations count, too."""
        self._lines, self._number, self.trusts = lines, 0, list[Trusted]()
        self.proofs, self._seen = 0, set[str]()
        name, value = self._read()
        if name != "actionproof-evidence" or value != {"version": 1}:
            self._malformed("this is no export of version 1")
        size = 0
        while True:
            name, value = self._read()
            if name in ("record", "end", "receipt"):
                break
            size += len(json.dumps(value))
            if size > _MAX_SHARED:
                self._malformed("too much comes before the records")
            self._share(name, value)
        if not self.trusts:
            self._malformed("the export has no roots")
        self._next = name, value
        for t in self.trusts:
            t.pinned = [(r.kid, r.public, r.raw_post_quantum) for r in t.roots] == [
                (r.kid, r.public, r.raw_post_quantum) for r in pinned]
            if t.pinned and bundle is not None:
                t.earlier, t.certificates = [*t.earlier, *t.certificates], list(bundle["certificates"])
                t.revocations = [r for r in (bundle.get("revocations", ""), *t.revocations) if r]

    def _malformed(self, why: str) -> None:
        refuse("evidence_malformed", f"line {self._number} of the export: {why}")

    def _read(self) -> tuple[str, Any]:
        self._number += 1
        raw = self._lines.readline(_MAX_LINE + 1)
        if len(raw) > _MAX_LINE or not raw.endswith(b"\n"):
            self._malformed("the line is too long, or the export breaks off")
        try:
            line = parse(raw)
        except Malformed as error:
            self._malformed(str(error))
        if not isinstance(line, dict) or len(line) != 1:
            self._malformed("each line has one member")
        return next(iter(line.items()))  # type: ignore[no-any-return]

    def _share(self, name: str, value: Any) -> None:
        if name == "roots":
            if not isinstance(value, dict) or value.keys() != {"registry", "auditor"}:
                return self._malformed("the roots are not two keys")
            roots = [parse_root(json.dumps(value[of]).encode(), purpose) for of, purpose in (
                ("registry", "signer_certificate"), ("auditor", "deployment_certificate"))]
            if len(self.trusts) == _MAX_TRUSTS:
                self._malformed("there are too many roots")
            return self.trusts.append(Trusted(roots))
        if not isinstance(value, str) or not self.trusts:
            return self._malformed(f"{name} has no text, or comes before the roots")
        t = self.trusts[-1]
        if name == "manifest":
            m = Manifest(value.encode())
            t.manifests[m.hash] = m
        elif name == "certificate":
            t.certificates.append(value)
        elif name == "earlierCertificate":
            t.earlier.append(value)
        elif name in ("revocations", "earlierRevocations"):
            t.revocations.insert(0 if name == "revocations" else len(t.revocations), value)
        else:
            self._malformed(f"{name!r} does not belong in an export")

    def judge(self, now: int) -> Iterator[Judged]:
        """Judges the records, each as of its last signature. now is in µs."""
        count = 0
        while True:
            name, value = self._next
            if name == "end":
                if value != {"records": count} or self._lines.read(1):
                    self._malformed("the end counts other records, or something follows it")
                return
            if name == "record":
                count += 1
                yield self._record(value, now)
            elif name in ("intentProof", "outcomeProof"):
                self.proofs += 1
            elif name != "receipt" or count == 0:
                self._malformed(f"{name!r} does not belong among the records")
            self._next = self._read()

    def _record(self, r: Any, now: int) -> Judged:
        if not isinstance(r, dict) or not r.keys() <= _MEMBERS or not isinstance(r.get("artifacts"), list) or not all(
                isinstance(r.get(name, ""), str) for name in _TEXTS) or not {"started", "state"} <= r.keys():
            self._malformed("the record has an unknown member, lacks one, or has one of another type")
        try:
            _time(r["started"])
            _time(r.get("finished", r["started"]))
        except ValueError:
            self._malformed("the record has no time")
        tokens: dict[str, str] = {}
        for a in r["artifacts"]:
            good = isinstance(a, dict) and set(a) == {"name", "token"} and isinstance(a["token"], str)
            if not good or a["name"] not in _NAMES - tokens.keys():
                self._malformed("an artifact has another name, or occurs twice")
            tokens[a["name"]] = a["token"]
        if "reputation" in tokens or "answer" in r:
            raise CannotJudge(f"{r.get('id', '')} has a reputation or an API's signed answer: use mediator verify")
        certificate = tokens.get("deploymentCertificate", "")
        t = next((t for t in self.trusts if t.signed(certificate)), self.trusts[0])
        return _Judge(r, tokens, t, now).judged(self._seen)


def _time(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * SECOND)


class _Judge:
    def __init__(self, r: Claims, tokens: dict[str, str], trusted: Trusted, now: int) -> None:
        self.r, self.tokens, self.trusted, self.now = r, tokens, trusted, now
        signed = []
        for name, kind in _SIGNED.items():
            try:
                signed.append(unverified(kind, tokens.get(name, ""))["iat"] * SECOND)
            except Refusal:
                continue
        self.signed = sorted(signed)

    def judged(self, seen: set[str]) -> Judged:
        record_id, missing = self.r.get("id", ""), False
        names = "interactions" in self.r
        try:
            manifest, past, last = self._trust()
        except Refusal as untrusted:
            return Judged(record_id, "refused", "trust", untrusted)
        for at in (last, last - SECOND):  # a key before a restart in this second
            failed = self._chain(manifest, past, at)
            if not failed or failed[-1][1].code != "signature_invalid":
                break
        for check, reason in sorted(failed, key=lambda f: f[1].code == "artifact_missing"):
            if reason.code != "artifact_missing" or self.r["state"] != "refused":
                return Judged(record_id, "refused", check, reason)
            missing = True
        steps = [("record", lambda: self._record(manifest)), ("record", lambda: self._once(seen))]
        found = first_failure(steps)
        if found is not None:
            return Judged(record_id, "refused", *found)
        return Judged(record_id, "incomplete" if missing else "verified", receipts=names)

    def _trust(self) -> tuple[Manifest, PastTrust, int]:
        """The manifest of the record's time, what it believes, and the moment to judge by."""
        refuse_if(not self.trusted.pinned, "roots_not_pinned", "the record belongs to roots that are not pinned here")
        known = self.trusted.manifests
        manifest = known.get(self.r.get("manifest", "")) or (next(iter(known.values())) if len(known) == 1 else None)
        if manifest is None:
            refuse("manifest_unknown", "the export lacks the record's manifest")
        last = self.signed[-1] if self.signed else _time(self.r["started"])
        try:
            last = unverified(REQUEST_PROOF, self.tokens.get("requestProof", ""))["iat"] * SECOND
        except Refusal:
            pass
        refuse_if(last > self.now + 2 * SECOND, "clock_skew", "the record is of the future")
        return manifest, self.trusted.believed(manifest), last

    def _chain(self, manifest: Manifest, past: PastTrust, at: int) -> list[tuple[str, Refusal]]:
        """The failed checks: artifacts that are missing, and then at most one of another kind."""
        envelope = {name: self.tokens.get(of, "") for of, name in _ENVELOPE.items()}
        chain, r = Chain(manifest, past, Moment(at), envelope), self.r

        def call() -> None:
            chain.work = unverified(CHALLENGE, envelope["challengeToken"], "HS256")
            asked = Binding(*(r.get(name, "") for name in ("subject", "action", "resource", "contentHash")))
            asked.check()
            bound = "binding" in chain.work and chain.binding.same_action(asked)
            refuse_if(not bound, "challenge_refused", "the challenge is for another operation")
            method, _, rest = asked.resource.partition(" ")
            target, _, message = rest.partition(" ")
            same("record_mismatch", "record", r.get("bindingHash", ""), chain.binding.hash(),
                 r.get("method", ""), method, r.get("path", ""), target.partition("?")[0],
                 r.get("message", ""), message)

        def of(step: Callable[[], None], member: str, name: str, claim: str) -> None:
            alone = name == "triggerReceipt" and envelope[name] and not envelope["originProof"]
            refuse_if(alone, "artifacts_mismatch", "the record has a trigger receipt without its origin proof")
            step()
            same("record_mismatch", "record", r.get(member, ""), chain.claims(name)[claim])

        def deployment() -> None:
            chain.deployment()
            refuse_if(r.get("manifest", manifest.hash) != manifest.hash, "record_mismatch")

        def proof() -> None:
            expected = manifest.expected(REQUEST_PROOF)
            o = past.open(REQUEST_PROOF, self.tokens.get("requestProof", ""), expected, chain.at)
            proves(o.claims, r.get("capabilityId", ""), chain.binding)
            if "capability" in self.tokens:
                c = unverified(CAPABILITY, self.tokens["capability"], "HS256")
                same("record_mismatch", "record", c["jti"], r.get("capabilityId", ""), Binding.of(c["binding"]).hash(),
                     chain.binding.hash())

        def statement() -> None:
            s = past.open(STATEMENT, self.tokens["agentStatement"], manifest.expected(STATEMENT), chain.at).claims
            same("statement_mismatch", "statement", s["owner"], _owner(self.trusted.roots[0].public),
                 s["statementHash"], chain.binding.content_hash, s["bindingHash"], chain.binding.hash(),
                 s["agent"], chain.binding.subject, s["session"], r.get("session", ""),
                 s["eventId"], r.get("event", ""))

        steps = [
            ("call", call), ("origin proof and trigger receipt",
                             lambda: of(chain.trigger, "event", "triggerReceipt", "eventId")),
            ("policy decision", chain.decision), ("action grant", chain.grant),
            ("runtime attestation", chain.runtime if envelope["policyDecision"] else chain.attestation),
            ("agent session receipt", lambda: of(chain.session, "session", "sessionReceipt", "sessionId")),
            ("deployment certificate", deployment), ("request proof", proof),
        ]
        failed = []
        for step in steps + ([("agent statement", statement)] if "agentStatement" in self.tokens else []):
            found = first_failure([step])
            if found is not None:
                failed.append(found)
                if found[1].code != "artifact_missing":
                    break
        return failed

    def _record(self, manifest: Manifest) -> None:
        r = self.r
        wrong = r.get("flow") != "post" or r.get("learning") or r.get("keys")
        refuse_if(wrong, "record_mismatch", "only the record of a post has evidence")
        refuse_if(r.get("manifest", "") != manifest.hash and "deploymentCertificate" in self.tokens, "record_mismatch",
                  "the record and its deployment certificate name different manifests")
        started, finished = _time(r["started"]), _time(r["finished"]) if "finished" in r else None
        if self.signed:
            first, last = self.signed[0], self.signed[-1]
            wrong = not first - _EARLY <= started <= first + SECOND + _SKEW or (
                finished is not None and last - finished > _SKEW)
            refuse_if(wrong, "record_mismatch", "the record starts or ends at another time than its artifacts say")
        if finished is not None:
            refuse_if(not started <= finished <= self.now + _SKEW, "record_mismatch", "the record ends at no time")
        if "sessionReceipt" in self.tokens:
            head = unverified(SESSION_RECEIPT, self.tokens["sessionReceipt"]).get("interactions")
            said = r.get("interactions")
            want = head and {"number": head["number"], "head": head.get("headHash"), "open": head.get("openCalls")}
            refuse_if(not isinstance(said, dict | None), "record_mismatch", "the record has no interactions")
            given = said and {name: said.get(name) for name in ("number", "head", "open")}
            if given and not given["number"]:
                given["number"] = 0
            refuse_if(given != want, "record_mismatch", "record and session receipt name different receipts")

    def _once(self, seen: set[str]) -> None:
        for name in ("id", "bindingHash"):
            value = self.r.get(name, "")
            refuse_if(value and f"{name} {value}" in seen, "record_mismatch", f"another record has this {name}")
            seen.add(f"{name} {value}")


def _owner(public: bytes) -> str:
    """The RFC 7638 thumbprint of the key registry's key."""
    jwk = canonical({"crv": "Ed25519", "kty": "OKP", "x": b64(public)})
    return b64(hashlib.sha256(jwk.encode()).digest())
