"""Proofs that a transparency log holds an entry (c2sp.org/tlog-proof), and who must have signed it (tlog-policy)."""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .claims import Claims, Shape, is_hash, rebuilt, sha256, size
from .httpsig import verifies
from .problem import Refusal, refuse, refuse_if
from .strictjson import Malformed, canonical, parse
from .token import unb64_padded

_MAX_POLICY, _MAX_MEMBERS, _MAX_PROOF, _MAX_NOTE, _MAX_OPENING = 64 << 10, 32, 64 << 10, 32 << 10, 8 << 10
_MAX_SIZE, _YEAR_10000 = 1 << 53, 253_402_300_800
_PAIRED = {"intent": "post", "outcome": "post", "session-opened": "session", "session-closed": "session"}
DOCUMENT = ("bundle", "code", "manifest", "post", "record", "requestProof", "session", "state")
_OPENING: Shape = {"document": {**{f"{name}?": "s" for name in DOCUMENT}, "status?": "i"},
                   "entry": {"commitment": "s", "kind": "s", "of?": "s", "time": "i"}, "salt": "s"}


class Cosignature(NamedTuple):
    """Who saw a checkpoint, and when, in Unix seconds."""

    witness: str  # its name in the policy
    time: int


class Tree(NamedTuple):
    """A log of some size."""

    size: int
    hash: bytes


@dataclass(frozen=True)
class Proven:
    """What a proof shows."""

    document: Claims
    entry: Claims
    origin: str
    index: int
    tree: Tree
    witnesses: list[Cosignature]

    @property
    def leaf(self) -> bytes:
        """The hash of the entry in the log."""
        return _leaf(self.entry)

    @property
    def name(self) -> str:
        """The entry that the proof is of."""
        of = self.document.get("post") or self.document.get("session") or "no post"
        return f"the {self.entry['kind']} of {of[:64]}"


class _Key(NamedTuple):
    """A key of a log (algorithm 1) or of a witness (4)."""

    name: str
    hash: bytes
    algorithm: int
    public: bytes

    def verifies(self, text: str, signature: bytes) -> bool:
        if self.algorithm == 1:
            return verifies(self.public, signature, text.encode())
        if len(signature) != 72 or _checkpoint(text) is None or text != _written(text):
            return False
        at = int.from_bytes(signature[:8], "big")
        return verifies(self.public, signature[8:], f"cosignature/v1\ntime {at}\n{text}".encode())


def _space(c: str) -> bool:
    return c.isspace() and c not in "\x1c\x1d\x1e\x1f"  # as Go's unicode package has it


def _named(name: str) -> bool:
    return name != "" and not any(c == "+" or _space(c) for c in name)


def _key(vkey: str, algorithm: int) -> _Key:
    name, _, rest = vkey.partition("+")
    hashed, _, encoded = rest.partition("+")
    raw = unb64_padded(encoded) or b""
    good = re.fullmatch("[0-9a-fA-F]{8}", hashed) and _named(name) and len(raw) == 33 and raw[0] == algorithm
    if not good or bytes.fromhex(hashed) != hashlib.sha256(name.encode() + b"\n" + raw).digest()[:4]:
        raise ValueError(f"a key is malformed: {vkey[:80]}")
    return _Key(name, bytes.fromhex(hashed), algorithm, raw[1:])


_Quorum = Callable[[set[_Key]], bool]


@dataclass
class Policy:
    """The signatures that a checkpoint needs: one by a key of the log, and a quorum of witnesses."""

    origin: str = ""
    logs: list[_Key] = field(default_factory=list)
    witnesses: dict[str, _Key] = field(default_factory=dict)
    _quorum: str = ""
    _groups: dict[str, tuple[int, list[str]]] = field(default_factory=dict)

    @classmethod
    def read(cls, raw: bytes) -> Policy:
        """Reads a file in the format of c2sp.org/tlog-policy with one log, which has a line for each of its keys."""
        refuse_if(len(raw) > _MAX_POLICY, "config_malformed", "the log's policy is too large")
        p = cls()
        try:
            text = raw.decode()
            if any((_space(c) or unicodedata.category(c) == "Cc") and c not in " \t\n" for c in text):
                raise ValueError("it has a control character, or odd white space")
            for line in text.split("\n"):
                fields = line.partition("#")[0].split()
                if fields:
                    p._line(*fields)
            if not p.logs or not p._quorum or not (p._quorum == "none" or p._quorum in {*p.witnesses, *p._groups}):
                raise ValueError("it names no log, or no known quorum")
        except (ValueError, TypeError) as error:
            raise Refusal("config_malformed", f"the log's policy: {error}") from None
        return p

    def _line(self, word: str, first: str, *rest: str) -> None:
        if word == "log":
            key = _key(first, 1)
            if key in self.logs or self.origin not in ("", key.name) or len(self.logs) == _MAX_MEMBERS:
                raise ValueError("it names a key twice, a second log, or too many keys")
            self.origin = key.name
            self.logs.append(key)
        elif word == "quorum":
            if self._quorum:
                raise ValueError("it has two quorums")
            self._quorum = first
        elif word in ("witness", "group") and first in {"none", *self.witnesses, *self._groups}:
            raise ValueError(f"{first[:80]} has a meaning already")
        elif word == "witness":
            key = _key(rest[0] if rest else "", 4)
            known = any(key.public == other.public for other in self.witnesses.values())
            if known or len(self.witnesses) == _MAX_MEMBERS or len(rest) > 1 and not _url(rest[1]):
                raise ValueError("two witnesses have one key, there are too many, or one has an odd URL")
            self.witnesses[first] = key
        elif word == "group":
            self._group(first, *rest)
        else:
            raise ValueError(f"the word {word[:80]} is not known")

    def _group(self, name: str, threshold: str, *children: str) -> None:
        grouped = {child for _, of in self._groups.values() for child in of}
        needed = {"any": 1, "all": len(children)}.get(threshold) or int(threshold)
        if not 1 <= needed <= len(children) or len({*children}) < len(children) or grouped & {*children} or not (
                {*children} <= {*self.witnesses, *self._groups}):
            raise ValueError(f"the group {name[:80]} has another threshold, or a member that is in another group")
        self._groups[name] = needed, list(children)

    def _members(self, name: str) -> Iterator[_Key]:
        """The witnesses that count for a part of the policy."""
        if name in self.witnesses:
            yield self.witnesses[name]
        for child in self._groups.get(name, (0, []))[1]:
            yield from self._members(child)

    def _holds(self, name: str, signed: set[_Key]) -> bool:
        if name in self.witnesses:
            return self.witnesses[name] in signed
        needed, children = self._groups[name]
        return sum(self._holds(child, signed) for child in children) >= needed

    def open(self, note: str) -> tuple[str, Tree, list[Cosignature]]:
        """Origin and tree of a checkpoint that the policy accepts, and who saw it."""
        refuse_if(size(note) > _MAX_NOTE, "evidence_malformed", "the checkpoint is too large")
        text, signatures = _opened(note, [*self.logs, *self._members(self._quorum)])
        found = _checkpoint(text)
        good = found is not None and found[0] == self.origin and {*self.logs} & signatures.keys()
        held = self._quorum == "none" or self._holds(self._quorum, {*signatures})
        if found is None or not good or not held:
            refuse("log_unwitnessed", "the checkpoint is not signed and cosigned as the policy demands")
        refuse_if(found[1].size > _MAX_SIZE, "evidence_malformed", "the checkpoint has too many entries")
        seen = [Cosignature(name, int.from_bytes(signatures[key][:8], "big")) for name, key in self.witnesses.items()
                if key in signatures]
        return *found, [c for c in seen if c.time < _YEAR_10000]


def _url(url: str) -> bool:
    return re.fullmatch(r"https?://[^/?#@\s]+(/[^?#\s]*)?", url) is not None


def _cut(note: str) -> tuple[str, str]:
    at = note.rfind("\n\n")
    return (note[: at + 1], note[at + 2 :]) if at >= 0 else ("", "")


def _opened(note: str, keys: list[_Key]) -> tuple[str, dict[_Key, bytes]]:
    """The text of a signed note, and the signatures by known keys: all of them must be right."""
    text, lines = _cut(note)
    known, signed = {(key.name, key.hash): key for key in keys}, dict[_Key, bytes]()
    broken = not text or not lines.endswith("\n") or any(c < " " and c != "\n" for c in note)
    signatures = lines.split("\n")[:-1]
    refuse_if(broken or len(signatures) > 100, "log_unwitnessed", "the checkpoint is malformed")
    for line in signatures:
        name, _, encoded = line.removeprefix("— ").partition(" ")
        raw = unb64_padded(encoded) or b""
        refuse_if(not line.startswith("— ") or not _named(name) or len(raw) < 5, "log_unwitnessed",
                  "a signature of the checkpoint is malformed")
        key = known.get((name, raw[:4]))
        if key is not None and key not in signed:
            refuse_if(not key.verifies(text, raw[4:]), "log_unwitnessed", f"the signature of {name} is wrong")
            signed[key] = raw[4:]
    return text, signed


def _checkpoint(text: str) -> tuple[str, Tree] | None:
    origin, *rest = text.split("\n", 3)
    if len(rest) < 3 or not text.endswith("\n") or rest[2] and "" in rest[2].split("\n")[:-1]:
        return None
    raw = unb64_padded(rest[1])
    if re.fullmatch("0|[1-9][0-9]{0,18}", rest[0]) is None or int(rest[0]) >= 1 << 63 or raw is None or len(raw) != 32:
        return None
    return origin, Tree(int(rest[0]), raw)


def _written(text: str) -> str:
    """The one spelling of a checkpoint."""
    origin, number, encoded, rest = text.split("\n", 3)
    return "\n".join((origin, number, base64.b64encode(unb64_padded(encoded) or b"").decode(), rest))


class Proof(NamedTuple):
    """The parts of a .tlog-proof, none of them verified."""

    opening: bytes
    place: int
    hashes: list[bytes]
    checkpoint: str

    @classmethod
    def read(cls, text: str) -> Proof:
        """Takes a proof apart."""
        head, blank, checkpoint = text.partition("\n\n")
        lines = head.split("\n")
        long = size(text) > _MAX_PROOF or not blank or not 3 <= len(lines) <= 66
        extra, number, hashes = None, "", list[bytes | None]()
        if not long:
            extra, number = unb64_padded(lines[1].removeprefix("extra ")), lines[2].removeprefix("index ")
            hashes = [unb64_padded(line) for line in lines[3:]]
        if extra is None or re.fullmatch("0|[1-9][0-9]{0,18}", number) is None or int(number) >= 1 << 63:
            refuse("evidence_malformed", "the text is no proof of a log with an opening")
        proof = cls(extra, int(number), [h for h in hashes if h is not None and len(h) == 32], checkpoint)
        found = _checkpoint(_cut(checkpoint)[0])
        refuse_if(proof._write() != text or found is not None and found[1].size > _MAX_SIZE, "evidence_malformed",
                  "the proof is not written as its format demands")
        return proof

    def _write(self) -> str:
        lines = ["c2sp.org/tlog-proof@v1", "extra " + base64.b64encode(self.opening).decode(), f"index {self.place}",
                 *(base64.b64encode(h).decode() for h in self.hashes)]
        return "\n".join(lines) + "\n\n" + self.checkpoint


def prove(text: str, policy: Policy | None) -> Proven:
    """Verifies a proof offline. Without a policy no signature is: it shows only what the proof says."""
    proof = Proof.read(text)
    document, entry = _open(proof.opening)
    seen: list[Cosignature] = []
    if policy is not None:
        origin, tree, seen = policy.open(proof.checkpoint)
    else:
        found = _checkpoint(_cut(proof.checkpoint)[0])
        if found is None or size(proof.checkpoint) > _MAX_NOTE:
            refuse("evidence_malformed", "the proof has no checkpoint that can be read")
        origin, tree = found
    root = _root(proof.hashes, 0, tree.size, proof.place, _leaf(entry)) if proof.place < tree.size else None
    refuse_if(root != tree.hash, "record_mismatch", f"the log does not hold the entry at the index {proof.place}")
    return Proven(document, entry, origin, proof.place, tree, seen)


def _leaf(entry: Claims) -> bytes:
    return hashlib.sha256(b"\0" + canonical(entry).encode()).digest()


def _root(hashes: list[bytes], low: int, high: int, index: int, leaf: bytes) -> bytes | None:
    """The tree's root that a proof implies (RFC 6962)."""
    if low + 1 == high:
        return leaf if not hashes else None
    if not hashes:
        return None
    half = 1 << (high - low - 1).bit_length() - 1
    left = index < low + half
    part = _root(hashes[:-1], low if left else low + half, low + half if left else high, index, leaf)
    if part is None:
        return None
    return hashlib.sha256(b"\1" + (part + hashes[-1] if left else hashes[-1] + part)).digest()


def _open(raw: bytes) -> tuple[Claims, Claims]:
    """The document and the entry of an opening."""
    try:
        given: Any = parse(raw) if len(raw) <= _MAX_OPENING else None
        o = rebuilt(_OPENING, given)
        if canonical(o).encode() != raw:
            raise Malformed("it is not in canonical form")
    except (Malformed, UnicodeEncodeError) as error:
        raise Refusal("evidence_malformed", f"the opening of a log's entry: {error}") from None
    document, entry, salt = o["document"], o["entry"], o["salt"]
    member, of = _PAIRED.get(entry["kind"]), entry.get("of", "")
    good = (member or entry["kind"] in ("trust", "heartbeat")) and is_hash(entry["commitment"]) and is_hash(salt)
    good = good and bool(of) == bool(member) and (not of or is_hash(of)) and 0 <= entry["time"] < _YEAR_10000 * 1000
    refuse_if(not good, "evidence_malformed", "an entry of the log, or its salt, is malformed")
    committed = sha256(bytes.fromhex(salt) + canonical(document).encode()) == entry["commitment"]
    own = sha256(document.get(member, "")) if member else ""
    refuse_if(not committed or own != of, "record_mismatch", "the opening's document is not the entry's")
    return document, entry
