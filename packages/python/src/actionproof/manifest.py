"""The deployment manifest: what a gate demands of each artifact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .claims import (ACTION_GRANT, ATTESTATION, DAY, DEPLOYMENT_CERTIFICATE, ORIGIN_PROOF, POLICY_DECISION,
                     REQUEST_PROOF, SESSION_RECEIPT, STATEMENT, TRIGGER_RECEIPT, Kind, Shape, is_hash, rebuilt, sha256)
from .problem import Refusal, refuse, refuse_if
from .strictjson import Malformed, canonical, parse
from .token import Expected, cut_key_id, match_name
from .trust import SignerPolicy

KINDS = ("source_event", "scheduled", "autonomous_policy")
METHODS = ("webhook_signature", "scheduler_lock", "policy_engine_decision", "queue_claim", "external_attestation")
PROTECTED = ("external_mediator", "hardware_backed")
_MAX_FILE, _FRESH = 256 << 10, 60_000


def _shape(lists: str = "", flags: str = "", texts: str = "", age: str = "", **more: Any) -> dict[str, Any]:
    shape = dict.fromkeys(f"allowedIssuers allowedAudiences allowedKeyIds {lists}".split(), "n")
    shape |= dict.fromkeys(flags.split(), "b") | dict.fromkeys(texts.split(), "s") | ({age: "w"} if age else {})
    return {**shape, **more}


_CUSTODY = "requireNonExportableKey"
_ORIGIN = _shape("allowedKinds allowedSources allowedVerificationMethods", "requireEventId requireEvidenceId",
                 "requiredPayloadHash? requiredBindingHash? requiredEvidenceHash?", "maxProofAgeMs")
_RECEIPT = _shape("allowedKinds allowedSources", "requireEventId requireOriginProof requireVerifiedOriginProof",
                  "requiredPayloadHash? requiredBindingHash?", "maxReceiptAgeMs", originProofPolicy=_ORIGIN)
_OPTIONAL = dict.fromkeys("allowedKeyCustody? allowedRuntimeIds? allowedTriggerKinds? deniedTriggerKinds? "
                          "alsoEnvironmentHashes?".split(), "l")
_RUNTIME = _shape("", "requireNonExportableKey?", "requiredMode? requiredPolicyHash requiredEnvironmentHash",
                  "maxAttestationAgeMs", triggerReceiptPolicy=_RECEIPT, **_OPTIONAL)
_SESSION_FLAGS = ("requireChallengeId requireBindingHash requireNoHumanPrompt requireNoHumanOperator "
                  "denyUserShellAccess denyUserAccessibleAgentEnvironment")
_PROOF = _shape("allowedKeyCustody", _CUSTODY, "", "maxProofAgeMs")
TRUE = ("proofRequiredForPost deploymentCertificateRequired agentSessionReceiptRequiredForPost "
         "requestProofRequiredForPost accessTokenSenderConstrained signerCustodyCertificatesRequired "
         "policyDecisionRequiredForPost grantRequiresPolicyDecision consumeVerification consumeCapability "
         "atomicConsumptionWithPost").split()
FALSE = """bearerTokenAloneCanPost directUserPostingAllowed agentSessionSignerAccessibleToAgent
    agentSessionSignerAccessibleToUsers agentSessionAcceptsHumanPrompts agentSessionAllowsHumanOperators
    agentSessionAllowsUserShellAccess agentEnvironmentAccessibleToUsers agentSessionCanBeMintedByRuntimeSigner
    requestProofSignerAccessibleToAgent requestProofSignerAccessibleToUsers requestProofCanBeMintedByRuntimeSigner
    requestProofCanBeMintedByGrantSigner requestProofCanBeMintedByPolicyDecisionSigner runtimeSignerAccessibleToAgent
    runtimeSignerAccessibleToUsers runtimeAcceptsInteractiveRequests runtimeCanBeInvokedByUsersForPosting
    triggerSignerAccessibleToAgent triggerSignerAccessibleToUsers triggerAcceptsHumanInitiatedEvents
    triggerCanBeMintedByRuntimeSigner originProofSignerAccessibleToAgent originProofSignerAccessibleToUsers
    originProofAcceptsManualEvents originProofCanBeMintedByTriggerSigner originProofCanBeMintedByRuntimeSigner
    policyDecisionSignerAccessibleToAgent policyDecisionSignerAccessibleToUsers
    policyDecisionAcceptsHumanInitiatedRequests policyDecisionCanBeMintedByRuntimeSigner
    policyDecisionCanBeMintedByTriggerSigner policyDecisionCanBeMintedByGrantSigner""".split()
_MANIFEST: Shape = {
    "version": "s", "deploymentId": "s", "runtimePolicy": _RUNTIME,
    "signerCertificatePolicy": _shape(
        "allowedKeyCustody", f"{_CUSTODY} denyAgentAccessible denyUserAccessible requireSubjectPublicKeyHash "
        "requirePostQuantumSignature?", "", "maxCertificateAgeMs", **{"maxRevocationListAgeMs?": "w"}),
    "deploymentCertificatePolicy": _shape(
        "allowedDeploymentIds", "requirePostQuantumSignature?", "", "maxCertificateAgeMs"),
    "agentSessionReceiptPolicy": _shape(
        "allowedKeyCustody allowedRuntimeIds allowedInputKinds deniedInputKinds", f"{_CUSTODY} {_SESSION_FLAGS}",
        "requiredPolicyHash requiredEnvironmentHash", "maxReceiptAgeMs"),
    "policyDecisionPolicy": _PROOF, "grantPolicy": _PROOF,
    "requestProofPolicy": {**_PROOF, "requireBindingHash": "b", "requireCapabilityId": "b"},
    "interactionReceiptPolicy?": _shape("allowedKeyCustody", _CUSTODY, "", "maxReceiptAgeMs"),
    "autonomyPolicy?": _shape("allowedKeyCustody", f"{_CUSTODY} requireVerification? allowDegraded?", "scoringHash",
                              "maxReputationAgeMs"),
    "agentStatementPolicy?": _shape("allowedKeyCustody", _CUSTODY, "", "maxStatementAgeMs"),
    "webBotAuthPolicy?": _shape("allowedKeyCustody", _CUSTODY, "", "maxDirectoryAgeMs"),
    "egressCeiling?": [{"url": "s", "methods?": "l"}],
    "maxChallengeAgeMs": "w", "capabilityTtlMs": "w", "maxCapabilityAgeMs": "w",
    "controls": dict.fromkeys([*TRUE, *FALSE], "b"),
}


class _Role(NamedTuple):
    path: str
    bound: int  # of the age, in ms
    keyed: bool = True  # the policy makes demands on the key


_ROLES = [
    _Role("runtimePolicy", _FRESH, False), _Role("runtimePolicy.triggerReceiptPolicy", _FRESH, False),
    _Role("runtimePolicy.triggerReceiptPolicy.originProofPolicy", _FRESH, False),
    _Role("signerCertificatePolicy", 400 * DAY * 1000), _Role("deploymentCertificatePolicy", 7 * DAY * 1000, False),
    _Role("agentSessionReceiptPolicy", _FRESH), _Role("policyDecisionPolicy", _FRESH), _Role("grantPolicy", _FRESH),
    _Role("requestProofPolicy", _FRESH), _Role("interactionReceiptPolicy", _FRESH),
    _Role("autonomyPolicy", 600_000), _Role("agentStatementPolicy", _FRESH),
    _Role("webBotAuthPolicy", 120_000),
]
_KIND_ROLES = {
    ATTESTATION.typ: _ROLES[0], TRIGGER_RECEIPT.typ: _ROLES[1], ORIGIN_PROOF.typ: _ROLES[2],
    DEPLOYMENT_CERTIFICATE.typ: _ROLES[4], SESSION_RECEIPT.typ: _ROLES[5], POLICY_DECISION.typ: _ROLES[6],
    ACTION_GRANT.typ: _ROLES[7], REQUEST_PROOF.typ: _ROLES[8], "interaction-receipt+jwt": _ROLES[9],
    "reputation+jwt": _ROLES[10],
    STATEMENT.typ: _ROLES[11],
}


class Manifest:
    """A manifest with every safeguard."""

    def __init__(self, raw: bytes) -> None:
        """Refuses a manifest that is malformed, or lacks a safeguard."""
        refuse_if(len(raw) > _MAX_FILE, "config_malformed", "the manifest is too large")
        try:
            given = parse(raw)
            self.claims = rebuilt(_MANIFEST, given)
            self.hash = sha256(canonical(self.claims))
        except Malformed as error:
            raise Refusal("config_malformed", f"the manifest is malformed: {error}") from None
        if sha256(canonical(given)) != self.hash:
            refuse("config_malformed", "a key of the manifest is missing, or an optional one is empty or false")
        weak = sorted(set(self._audit()))
        refuse_if(weak, "deployment_unsafe", f"the manifest lacks safeguards: {', '.join(weak[:5])}")
        self.controls_hash = sha256(canonical(self.claims["controls"]))
        self.deployment_id: str = self.claims["deploymentId"]
        self.runtime, self.session = self.policy("runtimePolicy"), self.policy("agentSessionReceiptPolicy")
        self.receipt = self.runtime["triggerReceiptPolicy"]
        self.origin = self.receipt["originProofPolicy"]
        self.environments = [self.runtime["requiredEnvironmentHash"], *self.runtime.get("alsoEnvironmentHashes", [])]
        self.trigger_kinds = self._trigger_kinds()
        self.runtime_ids: Sequence[str] = self.runtime.get("allowedRuntimeIds") or self.session["allowedRuntimeIds"]

    def policy(self, path: str) -> Mapping[str, Any]:
        """A policy by its path; nothing if the manifest has none."""
        at: Mapping[str, Any] = self.claims
        for name in path.split("."):
            at = at.get(name, {})
        return at

    def age(self, name: str) -> int:
        """An age of the whole manifest, in µs."""
        return int(self.claims[name]) * 1000

    def expected(self, kind: Kind) -> Expected:
        """The demands on an artifact."""
        role = _KIND_ROLES[kind.typ]
        p = self.policy(role.path)
        if not p:
            return Expected()
        of_runtime = role.path.startswith("runtimePolicy")
        custody = self.policy("runtimePolicy").get("allowedKeyCustody", PROTECTED) if of_runtime else (
            p.get("allowedKeyCustody", ()))
        return _expected(p, custody, of_runtime or p.get(_CUSTODY, False))

    def signers(self) -> SignerPolicy:
        """The demands on custody certificates."""
        p = self.policy("signerCertificatePolicy")
        return SignerPolicy(
            _expected(p, p["allowedKeyCustody"], p[_CUSTODY]), p["denyAgentAccessible"], p["denyUserAccessible"],
            p.get("maxRevocationListAgeMs", 0) * 1000)

    def _trigger_kinds(self) -> list[str]:
        runtime = self.policy("runtimePolicy")
        allowed, denied = runtime.get("allowedTriggerKinds", KINDS), runtime.get("deniedTriggerKinds", [])
        kinds = runtime["triggerReceiptPolicy"]["allowedKinds"] or []
        return [kind for kind in kinds if kind in allowed and kind not in denied]

    def _audit(self) -> Iterator[str]:
        """The paths of fields that lack a safeguard."""
        m = self.claims
        runtime, session, signers = m["runtimePolicy"], m["agentSessionReceiptPolicy"], m["signerCertificatePolicy"]
        receipt, deployment = runtime["triggerReceiptPolicy"], m["deploymentCertificatePolicy"]
        origin = receipt["originProofPolicy"]
        deployments = deployment["allowedDeploymentIds"] or []
        later = {"autonomyPolicy", "agentStatementPolicy", "webBotAuthPolicy"} & m.keys()
        rows: list[tuple[str, bool]] = [
            ("version", m["version"] not in ("1.0", "1.1") or m["version"] == "1.0" and bool(later)),
            ("deploymentId", not m["deploymentId"] or m["deploymentId"] not in deployments or "" in deployments),
            ("runtimePolicy.allowedKeyCustody", _weak(runtime.get("allowedKeyCustody", PROTECTED), PROTECTED)),
            ("runtimePolicy.requiredMode", runtime.get("requiredMode", "autonomous") != "autonomous"),
            ("runtimePolicy.allowedTriggerKinds", _weak(runtime.get("allowedTriggerKinds", KINDS), KINDS)
             or not self._trigger_kinds()),
            ("runtimePolicy.deniedTriggerKinds",
             not {"human_request", "unknown"} <= set(runtime.get("deniedTriggerKinds", ["human_request", "unknown"]))),
            ("runtimePolicy.allowedRuntimeIds", _odd(runtime.get("allowedRuntimeIds", []))),
            ("triggerReceiptPolicy.allowedKinds", _weak(receipt["allowedKinds"], KINDS)),
            ("triggerReceiptPolicy.allowedSources", _weak(receipt["allowedSources"])),
            ("originProofPolicy.allowedKinds", _weak(origin["allowedKinds"], KINDS)),
            ("originProofPolicy.allowedSources", _weak(origin["allowedSources"])),
            ("originProofPolicy.allowedVerificationMethods", _weak(origin["allowedVerificationMethods"], METHODS)),
            ("agentSessionReceiptPolicy.allowedRuntimeIds",
             _weak(session["allowedRuntimeIds"]) or _odd(session["allowedRuntimeIds"])),
            ("agentSessionReceiptPolicy.allowedInputKinds", _weak(session["allowedInputKinds"], KINDS)),
            ("agentSessionReceiptPolicy.deniedInputKinds",
             not {"human_prompt", "manual_shell", "unknown"} <= set(session["deniedInputKinds"] or [])),
            ("signerCertificatePolicy.maxRevocationListAgeMs",
             "maxRevocationListAgeMs" in signers and not 1000 <= signers["maxRevocationListAgeMs"] <= 7 * DAY * 1000),
        ]
        hashes = [runtime["requiredPolicyHash"], *runtime.get("alsoEnvironmentHashes", [])]
        pins = [p[name] for p in (receipt, origin) for name in p if name.startswith("required")]
        rows.append(("hashes", not all(map(is_hash, [*hashes, runtime["requiredEnvironmentHash"], *pins]))
                     or len(hashes) > 9))
        rows += [(name, not is_hash(session[name]) or session[name] != runtime[name])
                 for name in ("requiredPolicyHash", "requiredEnvironmentHash")]
        rows += [(name, not 1000 <= m[name] <= _FRESH)
                 for name in ("maxChallengeAgeMs", "capabilityTtlMs", "maxCapabilityAgeMs")]
        rows += [(f"controls.{name}", m["controls"][name] != (name in TRUE)) for name in m["controls"]]
        for p in (receipt, origin, signers, session, m["requestProofPolicy"]):
            rows += [(name, not p[name]) for name in p if name.startswith(("require", "deny")) and p[name] is False]
        yield from (path for path, weak in rows if weak)
        yield from self._audit_roles()

    def _audit_roles(self) -> Iterator[str]:
        issuers: list[tuple[str, str]] = []
        keys: list[tuple[str, str]] = []
        for path, bound, keyed in _ROLES:
            p = self.policy(path)
            if not p:
                continue
            weak = any(_weak(p[name]) for name in ("allowedIssuers", "allowedAudiences", "allowedKeyIds"))
            key_ids = p["allowedKeyIds"] or []
            weak = weak or any(kid.startswith("mac:") for kid in key_ids) or _odd(key_ids)
            weak = weak or not 1000 <= p[_age(p)] <= bound
            weak = weak or keyed and (_weak(p["allowedKeyCustody"], PROTECTED) or not p[_CUSTODY])
            if path == "autonomyPolicy":
                weak = weak or not is_hash(p["scoringHash"])
            if weak:
                yield path
            issuers += [(path, issuer) for issuer in p["allowedIssuers"] or []]
            keys += [(path, cut_key_id(kid)[0]) for kid in key_ids]
        for names in (issuers, keys):  # whoever holds two roles could be two witnesses
            for i, (path, name) in enumerate(names):
                if name and any(
                    path != other and taken and (match_name([taken], name) or match_name([name], taken))
                    for other, taken in names[:i]
                ):
                    yield path


def _age(p: Mapping[str, Any]) -> str:
    return next(name for name in p if name.startswith("max") and "Revocation" not in name)


def _expected(p: Mapping[str, Any], custody: Sequence[str], non_exportable: bool) -> Expected:
    return Expected(
        p["allowedIssuers"], p["allowedAudiences"], p["allowedKeyIds"], p[_age(p)] * 1000, custody, non_exportable,
        p.get("requirePostQuantumSignature", False))


def _weak(values: Sequence[str] | None, of: Sequence[str] | None = None) -> bool:
    """Whether a list says nothing, or holds something that no strict policy accepts."""
    return not values or "" in values or of is not None and not set(values) <= set(of)


def _odd(entries: Sequence[str] | None) -> bool:
    """Whether a * is not the whole last segment of an entry."""
    cut = [entry.removesuffix("/*") for entry in entries or []]
    return any("*" in prefix or not prefix and entry for prefix, entry in zip(cut, entries or []))
