"""Verifies exported records of any age with two pinned roots: see python -m actionproof verify --help."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from . import http, reputation
from .answer import COMPONENTS, TAG
from .chain import Chain, first_failure, proves, same
from .claims import (ACTION_GRANT, ATTESTATION, CAPABILITY, CHALLENGE, ORIGIN_PROOF, POLICY_DECISION, REQUEST_PROOF,
                     SESSION_RECEIPT, STATEMENT, TRIGGER_RECEIPT, Binding, Claims, Kind, sha256)
from .export import Export, Logged, Trusted, moment
from .fields import item
from .httpsig import Message, key_id, open_base
from .manifest import Manifest
from .problem import Refusal, refuse_if
from .receipts import RECEIPT, Made, Opener, Sessions, past_opener
from .reputation import REPUTATION
from .token import SECOND, Moment, token_hash, unb64_padded, unverified
from .trust import Opened, PastTrust

_SKEW, _EARLY, _ANSWER = 60 * SECOND, 3600 * SECOND, 300 * SECOND
_ENVELOPE = {"challenge": "challengeToken", "originProof": "originProof", "triggerReceipt": "triggerReceipt",
             "policyDecision": "policyDecision", "grant": "grant", "runtimeAttestation": "attestation",
             "sessionReceipt": "sessionReceipt", "deploymentCertificate": "deploymentCertificate"}
_SIGNED: dict[str, Kind] = {
    "originProof": ORIGIN_PROOF, "triggerReceipt": TRIGGER_RECEIPT, "policyDecision": POLICY_DECISION,
    "grant": ACTION_GRANT, "runtimeAttestation": ATTESTATION, "sessionReceipt": SESSION_RECEIPT,
    "requestProof": REQUEST_PROOF, "agentStatement": STATEMENT}
_TRIGGER, _SESSION, _DEPLOYMENT = "origin proof and trigger receipt", "agent session receipt", "deployment certificate"
_PROOF, _KEY = "request proof", "key of the API's answer"
# The members of a record, by the check that proves them: none of "", the post's receipt or the API's answer.
_PROVEN = """id:receipt flow:record state:outcome session:session event:trigger rule: subject:trigger action:trigger
    resource:trigger method:trigger host:api path:trigger scheme:api via: queryNames: carries: mcp: graphql:
    learning:record unfit: message:trigger result: tools: model: interactions:session contentHash:trigger
    bindingHash:trigger capabilityId:proof started:receipt finished: manifest:deployment code: step: reason:
    status:status answer:api bytesOut: bytesIn: artifacts:receipt checks: steps: keys:record"""


@dataclass
class Judged:
    """One record with its result: verified, incomplete or refused."""

    logged: Logged
    result: str
    trusted: Trusted
    check: str = ""
    refusal: Refusal | None = None
    unproven: list[str] = field(default_factory=list)  # members that no signature holds


class Judge:
    """Judges the records of an export, each as of its last signature, and all against each other."""

    def __init__(self, export: Export, now: int) -> None:
        """now is in µs."""
        self._export, self._now, self._seen = export, now, set[str]()
        self.sessions = Sessions(export.receipts)

    def records(self) -> Iterator[Judged]:
        """The records with their results."""
        for logged in self._export.records():
            r = logged.record
            tokens = {a["name"]: a["token"] for a in r["artifacts"]}
            yield self._judge(logged, _Record(r, tokens, self._export.trusts, self._now))

    def _judge(self, logged: Logged, r: _Record) -> Judged:
        out = Judged(logged, "refused", r.trusted)
        try:
            checks = r.judged(self.sessions, out)
        except Refusal as untrusted:
            out.check, out.refusal = "trust", untrusted.kept()
            return out
        refused = next((f for f in checks if f[1].code != "artifact_missing"), None)
        if refused is None:
            again = first_failure([("record", partial(self._once, logged.record))])
            refused = again or (checks[0] if checks and logged.record["state"] != "refused" else None)
        if refused is not None:
            (out.check, out.refusal), out.unproven = refused, []
        else:
            out.result = "incomplete" if checks else "verified"
        return out

    def _once(self, r: Claims) -> None:
        for name in ("id", "bindingHash"):
            value = r.get(name, "")
            key = sha256(f"{name} {value}")
            refuse_if(value and key in self._seen, "record_mismatch", f"another record has this {name}")
            self._seen.add(key)


_Failed = tuple[str, Refusal]


class _Record:
    def __init__(self, r: Claims, tokens: Mapping[str, str], trusts: Sequence[Trusted], now: int) -> None:
        self.r, self.tokens, self.now = r, tokens, now
        self.started = moment(r["started"])
        self.finished = moment(r["finished"]) if "finished" in r else None
        signed = []
        for name, kind in _SIGNED.items():
            try:
                signed.append(unverified(kind, tokens.get(name, ""))["iat"] * SECOND)
            except Refusal:
                continue
        self.signed = sorted(signed)
        self.last = self.signed[-1] if self.signed else self.started
        try:
            self.last = unverified(REQUEST_PROOF, tokens.get("requestProof", ""))["iat"] * SECOND
        except Refusal:
            pass
        self.trusted = self._trust(trusts)

    def _trust(self, trusts: Sequence[Trusted]) -> Trusted:
        """The trust whose auditor signed the deployment certificate, or without one, that with the manifest. Several
        can, as after one of two roots was replaced: the first that knew the record's keys by then. Or today's."""
        certificate, manifest = self.tokens.get("deploymentCertificate", ""), self.r.get("manifest", "")
        found: Trusted | None = None
        for t in trusts if len(trusts) > 1 else ():
            if t.signed(certificate) if certificate else manifest in t.manifests:
                if t.knew(manifest, self.tokens.values(), self.last):
                    return t
                found = found or t
        return found or trusts[0]

    def judged(self, sessions: Sessions, out: Judged) -> list[_Failed]:
        """The failed checks. At most the last is more than a missing artifact."""
        manifest = self.trusted.manifest(self.r.get("manifest", ""))
        past = self.trusted.believed(manifest)
        last = self.last
        refuse_if(last > self.now + 2 * SECOND, "clock_skew", "the record is of the future")
        for at in (last, last - SECOND):  # a key before a restart in this second
            failed = self._chain(manifest, past, at)
            if not failed or failed[-1][1].code != "signature_invalid":
                break
        pinned = "answer" in self.r and bool(self.trusted.answer_keys)
        steps: list[tuple[str, Callable[[], None]]] = [("record", partial(self._record, manifest))]
        for step in steps + ([(_KEY, self._answer_key)] if pinned else []):
            found = None if failed and failed[-1][1].code != "artifact_missing" else first_failure([step])
            failed += [found] if found else []
        if failed and failed[-1][1].code != "artifact_missing":
            return failed
        made = self._receipts(sessions, failed)
        out.unproven = self._unproven({name for name, _ in failed}, made, pinned)
        return failed

    def _head(self) -> Any:
        if "sessionReceipt" not in self.tokens:
            return None
        try:
            return unverified(SESSION_RECEIPT, self.tokens["sessionReceipt"]).get("interactions")
        except Refusal:
            return None

    def _receipts(self, sessions: Sessions, failed: list[_Failed]) -> Made | None:
        """The post's own receipt, if there is one."""
        head = self._head()
        if head is None:
            return None
        made = list[Made | None]([None])

        def verify() -> None:
            owner = key_id(self.trusted.roots[0].public)
            made[0] = sessions.verify(self._opener(), owner, self.r, head)
            if made[0] is not None:
                made[0].check(self.r, self.started // 1000)

        found = first_failure([("interaction receipts", verify)])
        failed += [found] if found else []
        return made[0]

    def _opener(self) -> Opener:
        def open_at(token: str, claims: Claims, at: int) -> Opened:
            manifest = self.trusted.manifest(claims["policy_id"])
            past = self.trusted.believed(manifest)
            refuse_if(at * SECOND > self.now + 2 * SECOND, "clock_skew", "the receipt is of the future")
            return past.open(RECEIPT, token, manifest.expected(RECEIPT), Moment(at * SECOND))
        return past_opener(open_at)

    def _unproven(self, failed: set[str], made: Made | None, pinned: bool) -> list[str]:
        api = pinned and _KEY not in failed
        outcome = made is not None and made.outcome != "indeterminate"
        completed = outcome and made is not None and made.outcome == "completed"
        held = {"record": True, "receipt": made is not None, "trigger": _TRIGGER not in failed, "api": api,
                "session": _SESSION not in failed, "proof": _PROOF not in failed,
                "deployment": _DEPLOYMENT not in failed, "status": api or outcome, "": False,
                "outcome": api and self.r["state"] == "forwarded" or completed}
        pairs = (pair.split(":") for pair in _PROVEN.split())
        return [name for name, by in pairs if not held[by]]

    def _chain(self, manifest: Manifest, past: PastTrust, at: int) -> list[_Failed]:
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

        def decision() -> None:
            token = self.tokens.get("reputation", "")
            refuse_if(token and not envelope["policyDecision"], "artifacts_mismatch", "a reputation has no decision")
            chain.decision()
            named = chain.claims("policyDecision").get("reputationHash", "")
            if not named and not token:
                return
            refuse_if(token and token_hash(token) != named, "artifacts_mismatch", "the decision has another reputation")
            c = past.open(REPUTATION, token, manifest.expected(REPUTATION), chain.at).claims
            reputation.check(c, manifest, key_id(self.trusted.roots[0].public), chain.binding.subject, at)

        def deployment() -> None:
            chain.deployment()
            refuse_if(r.get("manifest", manifest.hash) != manifest.hash, "record_mismatch")

        def proof() -> None:
            expected = manifest.expected(REQUEST_PROOF)
            o = past.open(REQUEST_PROOF, self.tokens.get("requestProof", ""), expected, chain.at)
            proves(o.claims, r.get("capabilityId", ""), chain.binding)
            if self.tokens.get("capability"):
                c = unverified(CAPABILITY, self.tokens["capability"], "HS256")
                same("record_mismatch", "record", c["jti"], r.get("capabilityId", ""), Binding.of(c["binding"]).hash(),
                     chain.binding.hash())

        def statement() -> None:
            s = past.open(STATEMENT, self.tokens["agentStatement"], manifest.expected(STATEMENT), chain.at).claims
            same("statement_mismatch", "statement", s["owner"], key_id(self.trusted.roots[0].public),
                 s["statementHash"], chain.binding.content_hash, s["bindingHash"], chain.binding.hash(),
                 s["agent"], chain.binding.subject, s["session"], r.get("session", ""),
                 s["eventId"], r.get("event", ""))

        steps = [
            ("call", call), (_TRIGGER, lambda: of(chain.trigger, "event", "triggerReceipt", "eventId")),
            ("policy decision", decision), ("action grant", chain.grant),
            ("runtime attestation", chain.runtime if envelope["policyDecision"] else chain.attestation),
            (_SESSION, lambda: of(chain.session, "session", "sessionReceipt", "sessionId")),
            (_DEPLOYMENT, deployment), (_PROOF, proof),
        ]
        steps += [("agent statement", statement)] if self.tokens.get("agentStatement") else []
        failed = []
        for step in steps + ([("API's answer", self._answer)] if "answer" in r else []):
            found = first_failure([step])
            if found is not None:
                failed.append(found)
                if found[1].code != "artifact_missing":
                    break
        return failed

    def _answer(self) -> None:
        """The API has answered the record's call, with the record's status."""
        r, a = self.r, self.r["answer"]
        public, signature = _bytes(a["publicKey"]), _bytes(a["signature"])
        values, params = open_base(a["base"], signature, public)
        refuse_if(r["state"] not in ("forwarded", "indeterminate"), "record_mismatch", "the API has answered")
        path = r.get("resource", "").split(" ")[1:2]
        try:
            digest = "sha-256=:" + base64.b64encode(bytes.fromhex(r.get("contentHash", ""))).decode() + ":"
        except ValueError:
            digest = ""
        fields = http.Fields([("content-digest", digest), ("idempotency-key", r.get("capabilityId", ""))])
        url = f"{r.get('scheme', '')}://{r.get('host', '')}{''.join(path)}"
        message = Message(fields, status=r.get("status", 0), request=Message(fields, r.get("method", ""), url))
        try:
            want = {name: message.value(item(name)) for name in COMPONENTS if name != '"content-digest"'}
        except (Refusal, ValueError) as error:
            raise Refusal("record_mismatch", str(error)) from None
        wrong = any(values.get(name) != value for name, value in want.items()) or '"content-digest"' not in values
        at, ended = params.get("created", 0) * SECOND, self.finished or 0
        late = not self.started - _ANSWER - 60 * SECOND <= at <= ended + _ANSWER
        refuse_if(wrong or late or params.get("tag") != TAG or params.get("keyid") != a["keyId"], "record_mismatch",
                  "the API's answer and the record differ")

    def _answer_key(self) -> None:
        keys, a = self.trusted.answer_keys, self.r["answer"]
        host, wanted = self.r.get("host", "").removesuffix(":443"), a["keyId"]
        key = keys.get(host, {}).get(wanted) or keys.get("", {}).get(wanted)
        refuse_if(key is None or key != _bytes(a["publicKey"]), "record_mismatch",
                  f"the key of the API's answer, {wanted}, is not in --api-keys for {host}")

    def _record(self, manifest: Manifest) -> None:
        r, started, finished = self.r, self.started, self.finished
        wrong = r["flow"] != "post" or r.get("learning") or r.get("keys")
        refuse_if(wrong, "record_mismatch", "only the record of a post has evidence")
        refuse_if(r.get("manifest", "") != manifest.hash and "deploymentCertificate" in self.tokens, "record_mismatch",
                  "the record and its deployment certificate name different manifests")
        if self.signed:
            first, last = self.signed[0], self.signed[-1]
            wrong = not first - _EARLY <= started <= first + SECOND + _SKEW or (
                finished is not None and last - finished > _SKEW)
            refuse_if(wrong, "record_mismatch", "the record starts or ends at another time than its artifacts say")
        if finished is not None:
            refuse_if(not started <= finished <= self.now + _SKEW, "record_mismatch", "the record ends at no time")
        if self.tokens.get("sessionReceipt"):
            head = self._head()
            want = head and {"number": head["number"], "head": head.get("headHash"), "open": head.get("openCalls")}
            said = r.get("interactions")
            given = said and {name: said.get(name) for name in ("number", "head", "open")}
            refuse_if(given != want, "record_mismatch", "record and session receipt name different receipts")


def _bytes(text: str) -> bytes:
    return unb64_padded(text) or b""
