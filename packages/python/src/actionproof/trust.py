"""Whom a verifier believes: pinned roots, certified keys, and what was revoked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import NamedTuple

from .claims import (DEPLOYMENT_CERTIFICATE, REVOCATION_LIST, ROOTS, SIGNER_CERTIFICATE, Claims, Kind, Shape, decode,
                     rebuilt, sha256, without_null)
from .problem import Refusal, refuse, refuse_if
from .strictjson import Malformed, parse
from .token import (SECOND, Expected, Moment, Root, cut_key_id, key_id_of, parse_rooted, parse_token,
                    post_quantum_key, public_key, token_hash, unb64, verifies)

_BUNDLE: Shape = {"certificates": "l", "deploymentCertificate": "s", "revocations": "s",
                  "history": {"segment": "w", "texts": "w"}}
_MAX_BUNDLE, _MAX_CERTIFICATES, _MAX_JWK = 8 << 20, 1024, 64 << 10


@dataclass(frozen=True)
class SignerPolicy:
    """What custody certificates must satisfy. Without max_revocation_age (µs) a bundle needs no revocation list."""

    expected: Expected
    deny_agent_accessible: bool = False
    deny_user_accessible: bool = False
    max_revocation_age: int = 0


class Certified(NamedTuple):
    """A key whose certificate the key registry has signed."""

    public: bytes
    claims: Claims
    kid: str  # of the registry key
    shared: bool = False  # certified for another purpose, too

    @property
    def purpose(self) -> str:
        """What the key may sign."""
        purpose: str = self.claims["purposes"][0]
        return purpose


class Opened(NamedTuple):
    """A verified artifact."""

    token: str
    kid: str
    claims: Claims

    @property
    def hash(self) -> str:
        """The hash by which other artifacts name it."""
        return token_hash(self.token)


class Bundle(NamedTuple):
    """What the security team signs for verifiers."""

    certificates: Sequence[str] = ()
    deployment_certificate: str = ""
    revocations: str = ""


def parse_bundle(raw: bytes) -> Bundle:
    """Reads a trust bundle, and verifies nothing."""
    refuse_if(len(raw) > _MAX_BUNDLE, "trust_malformed", "the trust bundle is too large")
    try:
        b = rebuilt(_BUNDLE, without_null(_BUNDLE, parse(raw)))
    except Malformed as error:
        raise Refusal("trust_malformed", f"the trust bundle is malformed: {error}") from None
    return Bundle(b["certificates"], b["deploymentCertificate"], b["revocations"])


def parse_root(raw: bytes, purpose: str) -> Root:
    """Reads a root's public JWK, or a JWK Set of that and its ML-DSA-65 key."""
    refuse_if(len(raw) > _MAX_JWK, "trust_malformed", "a JWK is too large")
    try:
        given = json.loads(raw)
        keys = given.get("keys") or [given]
        first = keys[0]
        kid, x = first["kid"], unb64(first["x"])
        ours = (first["kty"], first["crv"]) == ("OKP", "Ed25519") and "d" not in first and (
            len(keys) == 2 or first is given)
        if not ours or x is None or not 0 < len(kid.encode()) <= 256:
            raise ValueError
        if len(keys) == 1:
            return Root(kid, purpose, public_key(x))
        second = keys[1]
        if (second["kty"], second["alg"], second["kid"]) != ("AKP", "ML-DSA-65", kid) or "priv" in second:
            raise ValueError
        pub = unb64(second["pub"]) or b""
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        refuse("trust_malformed", "a root is pinned by its public Ed25519 JWK, or a set of that and an ML-DSA-65 one")
    return Root(kid, purpose, public_key(x), post_quantum_key(pub), pub)


class Trust:
    """Pinned roots with the keys that they certify and the revocation list. It never changes."""

    def __init__(self, roots: Sequence[Root], bundle: Bundle, policy: SignerPolicy) -> None:
        """Verifies the signature of each certificate. One that is wrong fails the whole bundle."""
        self.policy = policy
        # the last one whose signatures were right: all chains of a deployment carry the same one
        self._deployment: dict[tuple[str, bool], Opened] = {}
        self.roots: dict[str, Root] = {}
        for root in roots:
            known = root.kid in self.roots or self._pins(root.public)
            refuse_if(known or root.purpose not in (*ROOTS, "dispute_arbiter"), "trust_malformed",
                      f"the root {root.kid} is pinned twice, or for another purpose")
            self.roots[root.kid] = root
        too_many = len(bundle.certificates) > _MAX_CERTIFICATES
        refuse_if(too_many, "trust_malformed", "the trust bundle has too many certificates")
        self.signers: dict[str, Certified] = {}
        self.newest: dict[str, int] = {}  # the highest certified version, by key name
        for token in bundle.certificates:
            self._add(self.open_certificate(token))
        purposes: dict[bytes, set[str]] = {}
        for s in self.signers.values():
            purposes.setdefault(s.public, set()).add(s.purpose)
        for kid, s in self.signers.items():
            self.signers[kid] = s._replace(shared=len(purposes[s.public]) > 1)
        self.revocations: Opened | None = None
        self._revoked: set[tuple[str, str]] = set()
        if bundle.revocations:
            self.revocations = self.open_revocations(bundle.revocations)

    def _pins(self, public: bytes) -> bool:
        return any(root.public == public for root in self.roots.values())

    def _add(self, s: Certified) -> None:
        kid = s.claims["subjectKeyId"]
        before = self.signers.get(kid)
        if before is not None:
            refuse_if(before.public != s.public, "key_unknown", f"two certificates of {kid} have different keys")
            if before.claims["iat"] > s.claims["iat"]:
                return
        name, version = cut_key_id(kid)
        self.newest[name] = max(self.newest.get(name, 0), version)
        self.signers[kid] = s

    def open_certificate(self, token: str) -> Certified:
        """Verifies a custody certificate, but for its times."""
        p = parse_rooted(token, SIGNER_CERTIFICATE)
        root = self.roots.get(p.kid)
        if root is None or root.purpose != SIGNER_CERTIFICATE.purpose:
            refuse("key_unknown", f"a custody certificate is by {p.kid}, which is no pinned registry key")
        root.verify(SIGNER_CERTIFICATE.typ, p, self.policy.expected.require_post_quantum)
        c = decode(SIGNER_CERTIFICATE, p.payload)
        kid, raw = c["subjectKeyId"], unb64(c["subjectPublicKey"])
        if raw is None or c["purposes"][0] in (*ROOTS, "dispute_arbiter"):
            refuse("key_unknown", f"the certificate of {kid} is for a root, or has no base64url key")
        public = public_key(raw)
        wrong = sha256(public) != c["subjectPublicKeyHash"] or kid in self.roots or self._pins(public)
        refuse_if(wrong, "key_unknown", f"the certificate of {kid} has another key's hash, or is for a root")
        return Certified(public, c, p.kid)

    def open_revocations(self, token: str) -> Opened:
        """Verifies a revocation list, but for its times, and honours its entries."""
        o = self._rooted(REVOCATION_LIST, token, self.policy.expected.require_post_quantum)
        self._revoked |= {(entry["kind"], entry["id"]) for entry in o.claims["revoked"]}
        return o

    def succeeds(self, old: Trust) -> None:
        """Refuses to follow old if that undid a revocation or a retirement."""
        mine, before = self.revocations, old.revocations
        if before is not None:
            age = mine.claims["iat"] - before.claims["iat"] if mine is not None else -1
            refuse_if(age < 0 or age == 0 and not old._revoked <= self._revoked, "revocations_rolled_back",
                      "the new trust bundle has no revocation list, or an older one")
        for kid in self.signers:
            name, version = cut_key_id(kid)
            retired = kid not in old.signers and 0 < version < old.newest.get(name, 0)
            refuse_if(retired, "revocations_rolled_back", f"the new trust bundle certifies {kid}, which was retired")

    def not_revoked(self, what: str, kid: str, ids: Iterable[str], at: Moment) -> None:
        """Refuses a revoked key or artifact, and everything while the list itself is not valid."""
        needed, policy = self.policy.max_revocation_age, self.policy.expected
        if self.revocations is None:
            refuse_if(needed > 0, "revocations_stale", "the policy demands a revocation list, and there is none")
            return
        try:
            replace(policy, max_age=needed or policy.max_age).admit(
                REVOCATION_LIST.typ, self.revocations.kid, self.revocations.claims, None, self._of_list(at))
        except Refusal as error:
            raise Refusal("revocations_stale", error.detail) from None
        refuse_if(self._revokes(kid) or self._revoked & {("artifact", i) for i in ids}, "revoked",
                  f"the {what}, or the key {kid} behind it, is revoked")

    def _revokes(self, kid: str) -> bool:
        name = cut_key_id(kid)[0]
        return any(n and ("key", n) in self._revoked for n in (kid, name, name.rpartition("/")[0]))

    def _of_list(self, at: Moment) -> Moment:
        return at

    def find(self, kid: str, _: Moment) -> tuple[Certified | None, int]:
        """A key's certificate, and the highest certified version of the key's name."""
        return self.signers.get(kid), self.newest.get(cut_key_id(kid)[0], 0)

    def signer(self, kid: str, kind: Kind, at: Moment) -> Certified:
        """The key, if it is certified for a kind, within the policy."""
        self.not_revoked(kind.typ, kid, [], at)
        found, newest = self.find(kid, at)
        refuse_if(kid in self.roots, "key_purpose", f"the {kind.typ} is by {kid}, which is a root")
        if found is None:
            version = cut_key_id(kid)[1]
            refuse_if(0 < version < newest, "key_retired", f"the {kind.typ} is by {kid}, a retired version")
            raise Uncertified(f"the {kind.typ} is by {kid}, which has no certificate", 0 < newest < version)
        c = found.claims
        self.not_revoked(SIGNER_CERTIFICATE.typ, found.kid, [c["jti"]], at)
        refuse_if(found.purpose != kind.purpose or found.shared, "key_purpose",
                  f"the {kind.typ} is by {kid}, which is certified for {found.purpose}, or for two purposes")
        self.policy.expected.admit(f"certificate of {kid}", found.kid, c, c, at)
        reached = self.policy.deny_agent_accessible and c["accessibleToAgent"] or (
            self.policy.deny_user_accessible and c["accessibleToUsers"])
        refuse_if(reached, "key_custody", f"agent or users can reach the key {kid}")
        return found

    def open(self, kind: Kind, token: str, expected: Expected, at: Moment) -> Opened:
        """Verifies one artifact completely, but does not compare it with others."""
        if expected.secrets:
            return self._shared(kind, token, expected, at)
        if kind.purpose in ROOTS:
            o = self._rooted(kind, token, expected.require_post_quantum)
            self.not_revoked(kind.typ, o.kid, [o.claims["jti"]], at)
            expected.admit(kind.typ, o.kid, o.claims, None, at)
            return o
        p = parse_token(token, "EdDSA", kind.typ, kind.size)
        refuse_if(expected.require_post_quantum, "roots_not_pinned", f"a {kind.typ} has one signature")
        s = self.signer(p.kid, kind, at)
        refuse_if(not verifies(s.public, p), "signature_invalid", f"the signature of the {kind.typ} is wrong")
        claims = decode(kind, p.payload)
        self.not_revoked(kind.typ, p.kid, [claims["jti"]], at)
        refuse_if(claims["iss"] != s.claims["subjectIssuer"], "key_purpose", f"the {kind.typ} has another issuer")
        differs = any(claims.get(name, s.claims[name]) != s.claims[name] for name in ("keyCustody", "keyExportable"))
        refuse_if(differs, "key_custody", f"the {kind.typ} and its key's certificate name different custody")
        expected.admit(kind.typ, p.kid, claims, s.claims, at)
        return Opened(token, p.kid, claims)

    def _rooted(self, kind: Kind, token: str, required: bool) -> Opened:
        before = self._deployment.get((token, required)) if kind is DEPLOYMENT_CERTIFICATE else None
        if before is not None:
            return before
        p = parse_rooted(token, kind)
        root = self.roots.get(p.kid)
        if root is None:
            refuse("key_purpose" if p.kid in self.signers else "key_unknown", f"the {kind.typ} is by no pinned root")
        refuse_if(root.purpose != kind.purpose, "key_purpose", f"the {kind.typ} is by another root, {p.kid}")
        root.verify(kind.typ, p, required)
        o = Opened(token, p.kid, decode(kind, p.payload))
        if kind is DEPLOYMENT_CERTIFICATE:
            self._deployment.clear()
            self._deployment[token, required] = o
        return o

    def _shared(self, kind: Kind, token: str, expected: Expected, at: Moment) -> Opened:
        refuse_if(kind.purpose != "runtime_attestation", "artifact_malformed", f"a {kind.typ} has a key of its own")
        p = parse_token(token, "HS256", kind.typ, kind.size)
        secret = next((s for s in expected.secrets if s.kid == p.kid), None)
        if secret is None:
            refuse("key_unknown", f"the policy does not hold the secret of the {kind.typ}")
        public = [s.public for s in self.signers.values()]
        public += [key for root in self.roots.values() for key in (root.public, root.raw_post_quantum)]
        refuse_if(any(secret.is_key(key) for key in public), "config_malformed", "a shared secret is a public key")
        refuse_if(not secret.authenticates(p), "signature_invalid", f"the {kind.typ} is not authentic")
        claims = decode(kind, p.payload)
        own = {"keyCustody": "shared_secret", "keyExportable": True}
        refuse_if({**claims, **own} != claims, "key_custody", f"the {kind.typ} does not say that a secret signed it")
        self.not_revoked(kind.typ, p.kid, [claims["jti"]], at)
        expected.admit(kind.typ, p.kid, claims, own, at)
        return Opened(token, p.kid, claims)


class Uncertified(Refusal):
    """A key without a certificate. If it is newer than all certified versions, the trust bundle may be too old."""

    def __init__(self, detail: str, newer: bool) -> None:
        super().__init__("key_unknown", detail)
        self.newer = newer


def _issued(s: Certified) -> int:
    iat: int = s.claims["iat"]
    return iat


class PastTrust(Trust):
    """Certificates of all times, for records: each key's last certificate by a moment counts, and every revocation."""

    def __init__(self, roots: Sequence[Root], certificates: Sequence[str], lists: Sequence[str],
                 policy: SignerPolicy) -> None:
        """The last of certificates from one second counts. The first of the lists is the current one."""
        refuse_if(len(lists) > 1 and not lists[0], "revocations_stale",
                  "there are earlier revocation lists, but no current one")
        super().__init__(roots, Bundle(revocations=lists[0] if lists else ""), policy)
        for token in lists[1:]:
            self.open_revocations(token)
        self._tokens: dict[str, dict[str, None]] = {}  # by kid; verified when they are needed
        self._since: dict[str, dict[int, int]] = {}  # the first iat of each version, by key name
        self._first: dict[str, tuple[int, str, str]] = {}  # iat, token and purpose, by hash of a public key
        self._verified: dict[str, Certified] = {}
        for token in certificates:
            c = decode(SIGNER_CERTIFICATE, parse_rooted(token, SIGNER_CERTIFICATE).payload)
            name, version = cut_key_id(c["subjectKeyId"])
            since = self._since.setdefault(name, {})
            since[version] = min(since.get(version, c["iat"]), c["iat"])
            tokens = self._tokens.setdefault(c["subjectKeyId"], {})
            tokens.pop(token, None)  # each once, in its last place
            tokens[token] = None
            first = self._first.get(c["subjectPublicKeyHash"])
            if first is None or c["iat"] < first[0]:
                self._first[c["subjectPublicKeyHash"]] = c["iat"], token, c["purposes"][0]

    def _of_list(self, at: Moment) -> Moment:
        assert self.revocations is not None
        return replace(at, now=max(at.now, self.revocations.claims["iat"] * SECOND))  # a later list revokes, too

    def _open(self, token: str) -> Certified:
        if token not in self._verified:
            self._verified[token] = self.open_certificate(token)
        return self._verified[token]

    def under(self, policy: SignerPolicy) -> PastTrust:
        """The same with another policy, which does not differ in require_post_quantum."""
        other = copy(self)
        other.policy = policy
        return other

    def knew(self, token: str, at: int) -> bool:
        """Whether a token's key was certified by then (µs), or is revoked: a thief can claim any time."""
        kid = key_id_of(token)
        if self._revokes(kid):
            return True
        found, _ = self.find(kid, Moment(at))
        return found is not None and found.claims["iat"] * SECOND <= at

    def find(self, kid: str, at: Moment) -> tuple[Certified | None, int]:
        """A key's certificate at a moment, and its newest version by then."""
        name, version = cut_key_id(kid)
        newest = max((v for v, iat in self._since.get(name, {}).items() if iat * SECOND <= at.now), default=0)
        found = sorted(map(self._open, self._tokens.get(kid, ())), key=_issued)
        if not found:
            return None, newest
        last = [s for s in found if s.claims["iat"] * SECOND <= at.now][-1:] or found[:1]
        s = last[0]
        if at.now - at.skew >= s.claims["exp"] * SECOND and version < newest:
            return None, newest
        _, token, purpose = self._first[s.claims["subjectPublicKeyHash"]]
        self._open(token)
        return s._replace(shared=purpose != s.purpose), newest
