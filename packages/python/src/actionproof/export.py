"""Reads an export of posts, one record at a time."""

from __future__ import annotations

import json
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, BinaryIO

from .claims import DEPLOYMENT_CERTIFICATE, REVOCATION_LIST, Claims, Shape, rebuilt, without_null
from .manifest import Manifest
from .problem import Refusal, refuse, refuse_if
from .strictjson import Malformed, parse
from .token import SECOND, Root, parse_rooted, unverified
from .translog import Proof
from .trust import Bundle, PastTrust, parse_root

_MAX_LINE, _MAX_SHARED, _MAX_TRUSTS, _MAX_RECORDS = 1 << 20, 64 << 20, 512, 1 << 19
ARTIFACTS = {*"""challenge originProof triggerReceipt reputation policyDecision grant runtimeAttestation sessionReceipt
    deploymentCertificate capability requestProof agentStatement""".split()}
_FIGURE: Shape = {"n": "w", "state": "s"}
_RECORD: Shape = {
    "id": "s", "flow": "s", "state": "s",
    **dict.fromkeys("""session? event? rule? subject? action? resource? method? host? path? scheme? via? carries? unfit?
        message? result? contentHash? bindingHash? capabilityId? finished? manifest? code? step?
        reason?""".split(), "s"),
    "queryNames?": "l", "mcp?": {"method?": "s", "tool?": "s"}, "graphql?": [{"type": "s", "fields": "n"}],
    "learning?": "b", "tools?": [{"name": "s", "hash?": "s", "unnamed?": "b"}],
    "model?": {**dict.fromkeys("api model? answeredBy? outcome unread? error?".split(), "s"), "streamed?": "b",
               "hosted?": "l", "unknownMembers?": "l", **{f"{name}?": _FIGURE for name in (
                   "inputTokens outputTokens cachedTokens reasoningTokens toolCalls hostedCalls sentMicros headMicros "
                   "firstMicros endMicros").split()}},
    "interactions?": {"number": "w", "head?": "s", "open?": "l"}, "started": "s",
    "answer?": dict.fromkeys(("base", "signature", "keyId", "publicKey"), "s"),
    **dict.fromkeys(("status?", "bytesOut?", "bytesIn?"), "w"), "artifacts?": [{"name": "s", "token": "s"}],
    "checks?": [{"name": "s", "ok": "b", "code?": "s", "detail?": "s"}], "steps?": [{"name": "s", "micros": "w"}],
    "keys?": "l",
}
_TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})")


def moment(text: str) -> int:
    """A record's time, in µs."""
    return round(datetime.fromisoformat(text).timestamp() * SECOND)


def _time(text: str) -> str:
    """The one spelling of a time."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise Malformed("a time is malformed")
    try:
        moment(text)
    except ValueError:
        raise Malformed("there is no such time") from None
    fraction = (match[2] or "")[:10].rstrip("0").rstrip(".")
    return match[1] + fraction + ("Z" if match[3][1:] == "00:00" else match[3])


def read_record(value: Any) -> Claims:
    """A record in the form that is hashed: without members that are empty."""
    given = value if isinstance(value, dict) else {}
    known = {name.rstrip("?") for name in _RECORD}
    r = rebuilt(_RECORD, without_null(_RECORD, {n: v for n, v in given.items() if v is not None or n not in known}))
    r["started"] = _time(r["started"])
    if given.get("finished") is not None:
        r["finished"] = _time(given["finished"])
        if r["finished"] == "0001-01-01T00:00:00Z":
            del r["finished"]
    names = [a["name"] for a in r.get("artifacts", [])]
    if not names or len({*names}) < len(names) or not {*names} <= ARTIFACTS:
        raise Malformed("it has no artifacts, one of another name, or one twice")
    return r


@dataclass
class Trusted:
    """What an export says of one pair of roots."""

    roots: list[Root]
    certificates: list[str] = field(default_factory=list)
    earlier: list[str] = field(default_factory=list)
    revocations: str = ""
    earlier_revocations: list[str] = field(default_factory=list)
    manifests: dict[str, Manifest] = field(default_factory=dict)
    pinned: bool = False
    answer_keys: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)  # by host and key id
    past: dict[bool, PastTrust | Refusal] = field(default_factory=dict)  # by whether ML-DSA-65 is required

    def signed(self, certificate: str) -> bool:
        """Whether the auditor has signed a deployment certificate."""
        try:
            p = parse_rooted(certificate, DEPLOYMENT_CERTIFICATE)
            self.roots[1].verify(DEPLOYMENT_CERTIFICATE.typ, p, False)
        except Refusal:
            return False
        return p.kid == self.roots[1].kid

    def manifest(self, wanted: str) -> Manifest:
        """A manifest by its hash, or the only one."""
        refuse_if(not self.pinned, "roots_not_pinned", "roots are not pinned here")
        only = next(iter(self.manifests.values())) if len(self.manifests) == 1 else None
        found = self.manifests.get(wanted, only)
        if found is None:
            refuse("manifest_unknown", "the export lacks the manifest")
        return found

    def believed(self, manifest: Manifest) -> PastTrust:
        """The certificates of all times that a manifest believes. An export may have many: all share one reading."""
        policy = manifest.signers()
        required = policy.expected.require_post_quantum
        if required not in self.past:
            try:
                self.past[required] = PastTrust(
                    self.roots, [*self.earlier, *self.certificates], [self.revocations, *self.earlier_revocations],
                    policy)
            except Refusal as refusal:
                self.past[required] = refusal
        past = self.past[required]
        if isinstance(past, Refusal):
            raise Refusal(past.code, past.detail)  # raised again, it would hold each record's frames
        return past.under(policy)

    def knew(self, wanted: str, tokens: Iterable[str], at: int) -> bool:
        """Whether this has the manifest, and one of the tokens' keys was certified by then (µs), or is revoked."""
        if wanted not in self.manifests:
            return False
        try:
            past = self.believed(self.manifests[wanted])
        except Refusal:
            return False
        for token in tokens:
            with suppress(Refusal):
                if past.knew(token, at):
                    return True
        return False

    def revocations_signed(self) -> int | None:
        """The unverified time of the revocation list, in Unix seconds."""
        return _signed(self.revocations)

    def join(self, own: Bundle) -> None:
        """Adds the reader's bundle, which may know of a retirement that the export does not."""
        self.earlier, self.certificates = [*self.earlier, *self.certificates], list(own.certificates)
        older, newer = self.revocations, own.revocations
        if (_signed(newer) or -1) < (_signed(older) or -1):
            older, newer = newer, older
        self.revocations, self.earlier_revocations = newer, [*self.earlier_revocations, *([older] if older else [])]


def _signed(revocations: str) -> int | None:
    try:
        iat: int = unverified(REVOCATION_LIST, parse_first(revocations))["iat"]
        return iat
    except Refusal:
        return None


def _counts(value: Any, name: str, number: int) -> bool:
    """Whether value has one member, the whole number: True and 1.0 are equal to 1, too."""
    return isinstance(value, dict) and value == {name: number} and type(value[name]) is int


def _cost(text: str) -> int:
    """The memory of a text: even an empty one takes some, and one odd character makes all of them wide."""
    return max(64 + len(text), sys.getsizeof(text))


def parse_first(token: str) -> str:
    """The Ed25519 token of a root's two."""
    return token.partition("~")[0]


@dataclass
class Logged:
    """A record with the proofs that a log holds it."""

    record: Claims
    intent: str = ""
    outcome: str = ""


class Export:
    """An export, read line by line."""

    def __init__(self, lines: BinaryIO, pinned: Sequence[Root], bundle: Bundle | None = None,
                 answer_keys: Mapping[str, Mapping[str, bytes]] | None = None) -> None:
        """Reads up to the records. bundle is the trust bundle of the reader, whose revocations count, too."""
        self._lines, self._number, self.trusts = lines, 0, list[Trusted]()
        self._session, self._failed = "", None  # type: str, Refusal | None
        self._held: dict[str, list[str]] = {}  # receipts that were not asked for with their record
        self._bytes = 0
        name, value = self._read()
        if name != "actionproof-evidence" or not _counts(value, "version", 1):
            self._malformed("this is no export of version 1")
        size = 0
        while True:
            name, value = self._read()
            if name in ("record", "end", "receipt"):
                break
            size += self._size
            if size > _MAX_SHARED:
                self._malformed("too much comes before the records")
            self._share(name, value)
        if not self.trusts:
            self._malformed("the export has no roots")
        self._next = name, value
        for t in self.trusts:
            t.pinned = [(r.kid, r.public, r.raw_post_quantum) for r in t.roots] == [
                (r.kid, r.public, r.raw_post_quantum) for r in pinned]
            if t.pinned:
                t.answer_keys = answer_keys or {}
                if bundle is not None:
                    t.join(bundle)

    def _malformed(self, why: str) -> None:
        refuse("evidence_malformed", f"line {self._number} of the export: {why}")

    def _read(self) -> tuple[str, Any]:
        self._number += 1
        try:
            raw = self._lines.readline(_MAX_LINE + 1)
        except (EOFError, zlib.error, OSError) as error:
            raise Refusal("evidence_malformed", f"line {self._number} of the export: {error}") from None
        if len(raw) > _MAX_LINE or not raw.endswith(b"\n"):
            self._malformed("the line is too long, or the export breaks off")
        self._size = len(raw) - 1
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
            if roots[0].kid == roots[1].kid or roots[0].public == roots[1].public:
                self._malformed("the two roots are one key, or have one name")
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
        elif name == "revocations" and not t.revocations:
            t.revocations = value
        elif name == "earlierRevocations":
            t.earlier_revocations.append(value)
        else:
            self._malformed(f"{name!r} does not belong in an export, or comes twice")

    def _goes_on(self) -> bool:
        try:
            return bool(self._lines.read(1))
        except (EOFError, zlib.error, OSError):  # after the end of what is compressed
            return True

    def records(self) -> Iterator[Logged]:
        """The records. Without a refusal at their end the export is whole."""
        count = 0
        while True:
            if count == 0 and self._next[0] == "receipt":
                self._malformed("a receipt comes before the first record")
            self._skip()
            name, value = self._next
            if name == "end":
                if not _counts(value, "records", count) or self._goes_on():
                    self._malformed("the end counts other records, or something follows it")
                return
            if name != "record" or count == _MAX_RECORDS:
                self._malformed(f"{name!r} does not belong among the records, or there are more than {_MAX_RECORDS}")
            try:
                logged = Logged(read_record(value))
            except Malformed as error:
                self._malformed(f"the record: {error}")
            self._session = logged.record.get("session", "")
            self._next = self._read()
            logged.intent = self._proof("intentProof")
            logged.outcome = self._proof("outcomeProof")
            count += 1
            yield logged

    def _proof(self, kind: str) -> str:
        name, text = self._next
        if name != kind:
            return ""
        if not isinstance(text, str):
            self._malformed("a proof is no text")
        Proof.read(text)
        self._next = self._read()
        return str(text)

    def receipts(self, session: str, limit: int) -> list[str]:
        """The next receipts of a session, in the order of the file and each once."""
        kept = self._held.pop(session, [])
        tokens, rest = kept[:limit], kept[limit:]
        if rest:
            self._held[session] = rest
        elif kept:
            self._bytes -= _cost(session)
        self._bytes -= sum(map(_cost, tokens))
        while len(tokens) < limit and session == self._session and self._next[0] == "receipt":
            tokens.append(self._receipt())
        return tokens

    def _receipt(self) -> str:
        if self._failed is None:
            token = self._next[1]
            try:
                if not isinstance(token, str):
                    self._malformed("a receipt is no text")
                self._next = self._read()
                return str(token)
            except Refusal as refusal:
                self._failed = refusal
        raise self._failed

    def _skip(self) -> None:
        """Holds the receipts of the last record that were not asked for."""
        while self._next[0] == "receipt":
            token = self._receipt()
            held = self._held.setdefault(self._session, [])
            self._bytes += _cost(token) + (0 if held else _cost(self._session))
            if self._bytes > _MAX_SHARED:
                self._malformed("too many receipts belong to records that are not verified")
            held.append(token)

    def unasked(self) -> int:
        """The receipts that belong to no record."""
        return sum(map(len, self._held.values()))
