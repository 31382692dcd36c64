"""The golden vectors of the wire format (docs/vectors.md)."""

from __future__ import annotations

import base64
import json
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

from actionproof import Gate, claims
from actionproof.claims import Binding, Kind, rebuilt, sha256
from actionproof.gate import _REQUEST, _binding, _read
from actionproof.manifest import Manifest
from actionproof.problem import CODES, Refusal
from actionproof.strictjson import canonical, parse
from actionproof.token import SECOND, Expected, Moment, Root, Secret, open_mac, post_quantum_key, unb64
from actionproof.trust import Bundle, PastTrust, SignerPolicy, Trust, parse_root

ROOT = Path(__file__).parents[3]
KINDS = {k.typ: k for k in vars(claims).values() if isinstance(k, Kind)}


def load(name: str) -> Any:
    """A file of vectors."""
    return json.loads((ROOT / "test/vectors" / name).read_text())


def verdict(judge: Callable[[], object]) -> str:
    """ok, or the code of the refusal."""
    try:
        judge()
    except Refusal as refusal:
        return refusal.code
    return "ok"


def expected(e: Any) -> Expected:
    """What a vector expects of an artifact."""
    return Expected(
        e.get("issuers") or (), e.get("audiences") or (), e.get("keyIds") or (), e.get("maxAge", 0) * SECOND,
        e.get("custody") or (), e.get("requireNonExportable", False), e.get("requirePostQuantum", False),
        [Secret(unb64(s) or b"") for s in e.get("secrets") or ()])


def trust(t: Any) -> Trust:
    """The trust of a file of vectors."""
    roots = [Root(r["kid"], r["purpose"], public(r["x"]), *second(r)) for r in t["roots"]]
    s = t["signers"]
    policy = SignerPolicy(expected(s), s["denyAgentAccessible"], s["denyUserAccessible"],
                          s.get("maxRevocationAge", 0) * SECOND)
    return Trust(roots, Bundle(t["certificates"] or (), "", t.get("revocations", "")), policy)


def public(x: str) -> bytes:
    """A root's key, as its JWK has it."""
    return parse_root(json.dumps({"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": x}).encode(), "").public


def second(r: Any) -> tuple[Any, ...]:
    """A root's post-quantum key."""
    return (post_quantum_key(unb64(r["pub"])), unb64(r["pub"])) if "pub" in r else ()


class VectorGate(Gate):
    """A gate of a file of vectors."""

    def __init__(self, file: Any, vector: Any) -> None:
        t = trust({**file["trust"], "revocations": vector.get("revoked", file["trust"].get("revocations", ""))})
        self.name, self._secret = file["gate"]["name"], Secret(unb64(file["gate"]["secret"]) or b"")
        self.clock = lambda: vector.get("at", file["at"])
        manifest = Manifest(canonical(vector.get("manifest", file["manifest"])).encode())
        self._parts = type("Parts", (), {"manifest": manifest, "trust": t})
        self._reload = lambda: None


class Vectors(unittest.TestCase):
    """Every vector has its verdict."""

    def judge(self, name: str, judge: Callable[[Any, Any], object]) -> None:
        """Compares the verdicts of a file."""
        file = load(name)
        for v in file["vectors"]:
            with self.subTest(name, vector=v["name"]):
                got = verdict(lambda: judge(file, v))
                if got == "internal" and "second signature" in v["name"]:
                    continue  # a cryptography without ML-DSA judges nothing
                self.assertEqual(got, v["verdict"])

    def test_artifacts(self) -> None:
        def judge(file: Any, v: Any) -> None:
            typ, e = v["typ"], v.get("expected") or file["expected"][v["typ"]]
            at = Moment(round(v.get("at", file["at"]) * SECOND), file["skew"] * SECOND)
            if typ not in KINDS:
                self.skipTest("another part of the wire format")
            if typ in ("challenge+jwt", "capability+jwt"):
                found = open_mac(Secret(unb64(e["secrets"][0]) or b""), KINDS[typ], v["token"], expected(e), at)
            else:
                found = trust(v.get("trust") or file["trust"]).open(KINDS[typ], v["token"], expected(e), at).claims
            if v["verdict"] == "ok":
                self.assertEqual(found, v.get("claims", found))

        self.judge("artifacts.json", judge)
        self.judge("statements.json", judge)

    def test_past(self) -> None:
        """Earlier revocation lists without a current one are refused."""
        given = load("artifacts.json")["trust"]
        roots, policy = list(trust(given).roots.values()), SignerPolicy(expected(given["signers"]))
        PastTrust(roots, given["certificates"], [""], policy)
        with self.assertRaises(Refusal) as caught:
            PastTrust(roots, given["certificates"], ["", "earlier"], policy)
        self.assertEqual(caught.exception.code, "revocations_stale")

    def test_chains(self) -> None:
        def judge(file: Any, v: Any) -> None:
            gate = VectorGate(file, v)
            envelope = {**file["envelope"], **v.get("envelope", {})}
            whole = {"envelope": envelope, "binding": v.get("binding", file["binding"])}
            request = _read(_REQUEST, v["request"].encode() if "request" in v else json.dumps(whole).encode())
            gate.admit(request["envelope"], _binding(request["binding"]))

        self.judge("chains.json", judge)

    def test_posts(self) -> None:
        def judge(file: Any, v: Any) -> None:
            f = {**file, **v}
            binding = rebuilt(_REQUEST["binding"], f["binding"])
            VectorGate(file, v).authorize(f["capability"], f["requestProof"], f["accessTokenHash"], _binding(binding))

        self.judge("posts.json", judge)

    def test_canonical(self) -> None:
        for v in load("canonical.json")["vectors"]:
            with self.subTest(v["name"]):
                raw = base64.urlsafe_b64decode(v["input"] + "===")
                try:
                    form = canonical(parse(raw))
                except ValueError:
                    self.assertEqual(v["verdict"], "content_malformed")
                    continue
                self.assertEqual((form, sha256(form), "ok"), (v["canonical"], v["sha256"], v["verdict"]))

    def test_binding(self) -> None:
        b = Binding.of(load("chains.json")["binding"] | {"nonce": ""})
        b.check()

    def test_codes(self) -> None:
        page = (ROOT / "docs/errors.md").read_text()
        for name, code in CODES.items():
            with self.subTest(name):
                mark = "\\*" if code.public else ""
                said = " ".join(page.partition(f'<a id="{name}"></a>')[2].split())
                self.assertTrue(said.startswith(f"`{name}`{mark} {code.status}. {code.title}. "), said[:120])


if __name__ == "__main__":
    unittest.main()
