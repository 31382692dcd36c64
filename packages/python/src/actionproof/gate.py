"""A gate: it issues challenges, verifies chains, and lets a request through only with evidence for exactly it."""

from __future__ import annotations

import hmac
import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from . import answer, http
from .chain import FLAGS, Chain, free, proves
from .claims import CAPABILITY, CHALLENGE, REQUEST_PROOF, Binding, Claims, Kind, Shape, rebuilt, sha256, without_null
from .manifest import Manifest
from .problem import UNAVAILABLE, Refusal, refuse_if
from .stores import Key, Store
from .strictjson import Malformed, canonical, parse
from .task import new_task
from .token import SECOND, Expected, Moment, Secret, b64, match_key_id, match_name, open_mac
from .trust import Bundle, Trust, Uncertified, parse_bundle, parse_root

Status = Literal["verified", "refused", "absent", "unavailable"]
_log = logging.getLogger("actionproof")
_MAX_REQUEST, _MAX_FILE = 256 << 10, 8 << 20
TOKENS = ("challengeToken", "originProof", "triggerReceipt", "policyDecision", "grant", "attestation",
          "sessionReceipt", "deploymentCertificate")
_KEYS = {"originProof": "origin_proof", "triggerReceipt": "trigger_receipt", "policyDecision": "policy_decision",
         "grant": "action_grant", "attestation": "runtime_attestation", "sessionReceipt": "session_receipt"}


@dataclass(frozen=True)
class Post:
    """What the evidence of a verified request says of it."""

    capability_id: str  # the Idempotency-Key of the mediator's record
    subject: str
    action: str
    resource: str
    content_hash: str
    event: Mapping[str, str]  # id, kind and source of what made the agent run
    runtime_id: str
    session_id: str


@dataclass(frozen=True)
class Verdict:
    """The result of a verification. refused denies the request; unavailable says that it could not be judged."""

    status: Status
    code: str  # ok if verified
    detail: str = ""  # for the API's operator; do not send it to the agent
    post: Post | None = None
    keys: Sequence[Key] = ()
    store: Store | None = field(default=None, repr=False)
    error: BaseException | None = field(default=None, repr=False)
    signer: answer.Signer | None = field(default=None, repr=False, compare=False)  # of the answer; for adapters
    _used: list[Key] = field(default_factory=list, repr=False, compare=False)

    @property
    def used(self) -> bool:
        """Whether the evidence is used up."""
        return bool(self._used)

    def consume(self, store: Store | None = None) -> Verdict:
        """Uses up the evidence, in store or else the route's. Act on the request only if the result is verified."""
        if self.status != "verified":
            return self
        to = store or self.store
        try:
            if to is None:
                raise ValueError("the route has no store: give consume one")
            to.consume(self.keys)
            self._used.extend(self.keys)
        except Refusal as refusal:
            return replace(self, status="refused", code=refusal.code, detail=refusal.detail)
        except Exception as error:  # of the store: nobody knows whether the evidence is used up
            _log.exception("the store of used evidence failed")
            return replace(self, status="unavailable", code="internal", detail=str(error), error=error)
        return self


@dataclass(frozen=True)
class _Parts:
    manifest: Manifest
    trust: Trust
    raw: Mapping[str, bytes]


class Gate:
    """An API's gate. It is safe for concurrent use."""

    def __init__(self, name: str, files: Mapping[str, bytes], *, clock: Callable[[], float] = time.time) -> None:
        """files has registry.jwk, auditor.jwk, manifest.json, bundle.json and secret. See from_folder."""
        refuse_if(not name, "config_malformed", "a gate needs a name")
        self.name, self.clock = name, clock
        self.roots = [parse_root(files["registry.jwk"], "signer_certificate"),
                      parse_root(files["auditor.jwk"], "deployment_certificate")]
        self._parts = self._read(files, None)
        self._secret = Secret(files["secret"].removesuffix(b"\n").removesuffix(b"\r"))
        self._reload: Callable[[], None] = lambda: None

    @classmethod
    def from_folder(cls, name: str, folder: str | Path, *, every: float = 2, max_stale: float = 600,
                    changed: Callable[[Exception | None], None] = lambda _: None,
                    clock: Callable[[], float] = time.time) -> Gate:
        """Reads the files, and manifest.json and bundle.json again every few seconds (every), when the gate is used.

        A change that is refused leaves the earlier files in force, for max_stale seconds at most. changed is called
        after each change, with the reason for refusing it.
        """
        at = Path(folder)
        names = ("registry.jwk", "auditor.jwk", "manifest.json", "bundle.json", "secret")
        gate = cls(name, {n: _bounded(at / n) for n in names}, clock=clock)
        fresh = checked = clock()
        said, lock = "", threading.Lock()

        def reload() -> None:
            nonlocal fresh, checked, said
            with lock:
                now = clock()
                if not 0 <= now - checked < every:  # the clock may have been ahead
                    checked = now
                    try:
                        if gate._change({n: _bounded(at / n) for n in ("manifest.json", "bundle.json")}):
                            changed(None)
                        fresh, said = now, ""
                    except (Refusal, OSError) as error:
                        if str(error) != said:  # each reason once
                            changed(error)
                        said = str(error)
                refuse_if(now - fresh > max_stale, "trust_stale", "manifest and bundle could not be read for too long")

        gate._reload = reload
        return gate

    def _read(self, files: Mapping[str, bytes], old: _Parts | None) -> _Parts:
        raw = {n: files[n] for n in ("manifest.json", "bundle.json")}
        kept = old is not None and raw["manifest.json"] == old.raw["manifest.json"]
        manifest = old.manifest if old is not None and kept else Manifest(raw["manifest.json"])
        bundle: Bundle = parse_bundle(raw["bundle.json"])
        return _Parts(manifest, Trust(self.roots, bundle, manifest.signers()), raw)

    def _change(self, raw: Mapping[str, bytes]) -> bool:
        """Applies a new bundle even if the new manifest is refused, so that revocations count at once."""
        old = self._parts
        if raw == old.raw:
            return False
        refused: Refusal | None = None
        try:
            new = self._read(raw, old)
        except Refusal as refusal:
            refused = refusal
            new = self._read({**raw, "manifest.json": old.raw["manifest.json"]}, old)
        new.trust.succeeds(old.trust)
        self._parts = new
        if refused is not None:
            raise refused
        return True

    def _now(self) -> Moment:
        return Moment(round(self.clock() * SECOND))

    def _own(self, age: str, manifest: Manifest) -> Expected:
        return Expected([self.name], [self.name], ["own"], manifest.age(age))

    def _registered(self, seconds: float) -> Claims:
        now = self._now().now
        return {"iss": self.name, "aud": self.name, "iat": now // SECOND,
                "exp": (now + round(seconds * SECOND)) // SECOND, "jti": b64(secrets.token_bytes(16))}

    def _sign(self, kind: Kind, claims: Claims) -> str:
        head = canonical({"alg": "HS256", "kid": self._secret.kid, "typ": kind.typ})
        signed = b64(head.encode()) + "." + b64(canonical(claims).encode())
        return signed + "." + b64(self._secret.mac(signed.encode()))

    def challenge(self, asked: Binding) -> Claims:
        """A challenge for one operation, as the challenge endpoint answers."""
        asked.check()
        self._reload()
        binding = replace(asked, nonce=b64(secrets.token_bytes(16)))
        registered = self._registered(30)
        tasks, answers = [], []
        for name in ("t1", "t2"):
            task, text = new_task(name)
            salt = b64(secrets.token_bytes(16))
            salted = sha256("\0".join([salt, registered["jti"], name, sha256(text)]))
            tasks.append(task)
            answers.append({"hash": salted, "id": name, "kind": task["kind"], "salt": salt})
        token = self._sign(CHALLENGE, {
            **registered, "answers": answers, "binding": binding.claims(), "bindingHash": binding.hash(),
            "difficulty": "standard", "tasksHash": sha256(canonical(tasks)),
        })
        return {
            "id": registered["jti"], "difficulty": "standard", "binding": binding.claims(), "tasks": tasks,
            "token": token, "expiresAt": registered["exp"],
            "instructions": "Solve every task as its own instructions say, and respond with challengeId and answers.",
        }

    def admit(self, envelope: Claims, asked: Binding) -> tuple[Claims, list[Key]]:
        """Verifies a chain, and returns the answer of the verify endpoint with the keys to consume before it leaves."""
        self._reload()
        parts, at = self._parts, self._now()
        chain = Chain(parts.manifest, parts.trust, at, envelope)
        chain.deployment()
        own = self._own("maxChallengeAgeMs", parts.manifest)
        chain.fresh_work(replace(asked, nonce=""), envelope["response"], own, self._secret)
        for step in (chain.trigger, chain.decision, chain.grant, chain.runtime, chain.session):
            step()
        a, s = chain.claims("attestation"), chain.claims("sessionReceipt")
        claims: Claims = {
            **self._registered(parts.manifest.claims["capabilityTtlMs"] / 1000), "binding": chain.binding.claims(),
            "challengeId": chain.work["jti"], "decisionId": chain.claims("policyDecision")["jti"],
            "grantId": chain.claims("grant")["jti"], "verificationConsumed": True,
            "runtime": {
                "attestationId": a["jti"], "environmentHash": a["environmentHash"], "issuedAt": a["iat"],
                "issuer": a["iss"], "keyId": chain.opened["attestation"].kid, "policyHash": a["policyHash"],
                "runtimeId": a["runtimeId"], "trigger": a["trigger"],
            },
            "session": {**{name: s[name] for name in FLAGS}, "inputKind": s["inputKind"], "receiptId": s["jti"],
                        "sessionId": s["sessionId"]},
        }
        keys = [_key("challenge", chain.work)] + [_key(kind, chain.claims(name)) for name, kind in _KEYS.items()]
        return {"capability": self._sign(CAPABILITY, claims), "capabilityId": claims["jti"],
                "bindingHash": chain.binding.hash(), "expiresAt": claims["exp"]}, keys

    def authorize(self, capability: str, request_proof: str, access_token_hash: str,
                  asked: Binding) -> tuple[Claims, list[Key]]:
        """Verifies a capability and its request proof against a request. Returns the capability's claims, and the keys
        to consume."""
        self._reload()
        parts, at = self._parts, self._now()
        asked.check()
        c = open_mac(self._secret, CAPABILITY, capability, self._own("maxCapabilityAgeMs", parts.manifest), at)
        bound = Binding.of(c["binding"])
        refuse_if(bound.resource != asked.resource, "artifacts_mismatch", f"the capability is for {bound.resource}, "
                  f"not {asked.resource}; if a proxy changes the path, set public_url")
        refuse_if(not bound.same_action(asked), "artifacts_mismatch",
                  "the capability is for another subject, action or content")
        whole = c["verificationConsumed"] and c.keys() >= {"runtime", "session", "decisionId", "grantId"}
        refuse_if(not whole, "artifact_missing", "the capability lacks a part of the chain behind it")
        free(c["session"])
        r = c["runtime"]
        _admit_runtime(parts.manifest, r, at)
        ids = [c["jti"], c["decisionId"], c["grantId"], r["attestationId"], c["session"]["receiptId"]]
        parts.trust.not_revoked("evidence of the capability", r["keyId"], ids, at)
        try:
            expected = parts.manifest.expected(REQUEST_PROOF)
            proof = parts.trust.open(REQUEST_PROOF, request_proof, expected, at).claims
        except Uncertified as error:
            raise Refusal("trust_stale" if error.newer else error.code, error.detail) from None
        refuse_if(not hmac.compare_digest(proof["accessTokenHash"], access_token_hash), "proof_access_token")
        proves(proof, c["jti"], Binding.of(c["binding"]))
        return c, [Key("capability", c["jti"], c["exp"] + 2), _key("request_proof", proof)]

    def answer(self, endpoint: str, body: bytes, store: Store) -> Claims:
        """The answer of the endpoint challenge or verify to a request's body."""
        if endpoint == "challenge":
            return self.challenge(_binding(_read(_ASKED_BINDING, body)))
        request = _read(_REQUEST, body)
        answer, keys = self.admit(request["envelope"], _binding(request["binding"]))
        store.consume(keys)  # before the capability leaves
        return answer


@dataclass(frozen=True)
class Route:
    """A protected route: how its requests are read, and where used evidence is kept."""

    gate: Gate
    subject: str  # as in the sidecar's action
    action: str
    store: Store | None = None
    mode: Literal["enforce", "observe"] = "enforce"  # observe lets all requests through, and tells the handler
    raw: bool = False  # content: raw in the sidecar; else the body is JSON
    public_url: str = ""  # origin and path prefix as the mediator sees them, if a proxy cuts the prefix off
    max_body: int = 1 << 20
    sign: Ed25519PrivateKey | None = field(default=None, repr=False)  # signs the handler's answers to mediators
    # "handler": the handler calls the verdict's consume, in its own transaction; else the adapter does, before it
    consume: Literal["adapter", "handler"] = "adapter"

    def verify(self, method: str, url: str, headers: http.Headers, raw_body: bytes) -> Verdict:
        """Judges a request, given as it was received. Uses nothing up. Raises nothing."""
        fields = http.Fields(headers)
        try:
            binding, tokens = self._read(method, url, fields, raw_body)
            claims, keys = self.gate.authorize(*tokens, sha256(_authorization(fields)), binding)
        except Refusal as refusal:
            names = set(fields)
            absent = refusal.code == "proof_missing" and not names & {http.CAPABILITY, http.REQUEST_PROOF}
            status: Status = "absent" if absent else "unavailable" if refusal.code in UNAVAILABLE else "refused"
            return Verdict(status, refusal.code, refusal.detail)
        except Exception as error:  # a fault of this package: not verified
            _log.exception("a request could not be judged")
            return Verdict("unavailable", "internal", str(error), error=error)
        post = Post(claims["jti"], binding.subject, binding.action, binding.resource, binding.content_hash,
                    claims["runtime"]["trigger"], claims["runtime"]["runtimeId"], claims["session"]["sessionId"])
        target = http.origin(self.public_url, fields) + binding.resource.partition(" ")[2]
        signer = answer.signer(self.sign, method, target, fields, raw_body, post.capability_id, self.gate.clock)
        return Verdict("verified", "ok", "", post, keys, self.store, signer=signer)

    def _read(self, method: str, url: str, fields: http.Fields, body: bytes) -> tuple[Binding, tuple[str, str]]:
        http.refuse_overrides(method, url, fields)
        tokens = fields.once(http.CAPABILITY), fields.once(http.REQUEST_PROOF)
        refuse_if(len(fields.all("authorization")) > 1, "proof_access_token", "there are two Authorization headers")
        if not self.raw:
            http.require_json(fields)
        refuse_if(len(body) > self.max_body, "content_too_large", f"the body has more than {self.max_body} bytes")
        content = http.content_hash(body, self.raw)
        return Binding(self.subject, self.action, http.resource(method, url, self.public_url), content), tokens


def _authorization(fields: http.Fields) -> bytes:
    return "".join(fields.all("authorization")[:1]).encode("utf-8", "surrogateescape")


def _key(kind: str, claims: Claims) -> Key:
    return Key(kind, claims["iss"] + " " + claims["jti"], claims["exp"] + 2)


def _admit_runtime(m: Manifest, r: Claims, at: Moment) -> None:
    p = m.runtime
    allowed = r["issuer"] in p["allowedIssuers"] and match_key_id(p["allowedKeyIds"], r["keyId"]) and (
        match_name(m.runtime_ids, r["runtimeId"])) and r["trigger"]["kind"] in m.trigger_kinds and (
        r["trigger"]["source"] in m.receipt["allowedSources"]) and r["environmentHash"] in m.environments
    refuse_if(not allowed or r["policyHash"] != p["requiredPolicyHash"], "not_allowed",
              "the manifest does not allow the runtime attestation behind the capability")
    age = at.now - r["issuedAt"] * SECOND
    refuse_if(not -at.skew <= age <= p["maxAttestationAgeMs"] * 1000 + at.skew, "expired",
              "the runtime attestation behind the capability is too old")


_ASKED_BINDING: Shape = dict.fromkeys(("action", "contentHash", "nonce", "resource", "subject"), "s")
_REQUEST: Shape = {"envelope": {**dict.fromkeys(TOKENS, "s"), "response": {"challengeId": "s", "answers": "m"}},
                   "binding": _ASKED_BINDING, "assurance": "b"}


def _read(shape: Shape, body: bytes) -> Claims:
    """A request to an endpoint. Missing and null mean empty."""
    refuse_if(len(body) > _MAX_REQUEST, "query_malformed", f"the request has more than {_MAX_REQUEST} bytes")
    try:
        return rebuilt(shape, without_null(shape, parse(body)))
    except Malformed as error:
        raise Refusal("query_malformed", f"the request is malformed: {error}") from None


def _binding(c: Claims) -> Binding:
    return Binding(c["subject"], c["action"], c["resource"], c["contentHash"])


def _bounded(path: Path) -> bytes:
    with path.open("rb") as file:
        raw = file.read(_MAX_FILE + 1)
    refuse_if(len(raw) > _MAX_FILE, "config_malformed", f"{path} is too large")
    return raw
