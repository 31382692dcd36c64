"""What looks right at a glance, and is refused."""

from __future__ import annotations

import base64
import gc
import hashlib
import io
import json
import unittest
import weakref
from unittest.mock import Mock, patch

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from actionproof import Refusal, verify_web_bot_auth
from actionproof.chain import first_failure
from actionproof.export import Export, Trusted, read_record
from actionproof.http import Fields
from actionproof.httpsig import BotVerdict, Message, content_digest, key_id, raw_public
from actionproof.record import Judge
from actionproof.strictjson import Malformed
from actionproof.token import unb64_padded
from actionproof.translog import Policy
from actionproof.trust import parse_root


def exported(*lines: dict[str, object]) -> Export:
    """An export of these lines after its roots, which are pinned."""
    def jwk(kid: str) -> dict[str, str]:
        x = base64.urlsafe_b64encode(raw_public(Ed25519PrivateKey.generate())).rstrip(b"=").decode()
        return {"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x}
    roots = {"registry": jwk("registry"), "auditor": jwk("auditor")}
    pinned = [parse_root(json.dumps(roots["registry"]).encode(), "signer_certificate"),
              parse_root(json.dumps(roots["auditor"]).encode(), "deployment_certificate")]
    all_lines = [{"actionproof-evidence": {"version": 1}}, {"roots": roots}, *lines]
    return Export(io.BytesIO(b"".join(json.dumps(line).encode() + b"\n" for line in all_lines)), pinned)


class Refusals(unittest.TestCase):
    """Each has one thing wrong."""

    def bot(self, component: str, value: str, body: bytes = b"{}", agent: str = "", keys: object = None) -> BotVerdict:
        """The verdict on a request whose signature covers a component, by a directory with {} for its key."""
        key, now = Ed25519PrivateKey.generate(), 1_800_000_000
        public = raw_public(key)
        jwk = {"kty": "OKP", "crv": "Ed25519", "x": base64.urlsafe_b64encode(public).rstrip(b"=").decode()}
        params = (f'("@authority" {component});created={now};expires={now + 60};keyid="{key_id(public)}";'
                  'tag="web-bot-auth"')
        base = f'"@authority": example.com\n{component}: {value}\n"@signature-params": {params}'
        signature = base64.b64encode(key.sign(base.encode())).decode()
        headers = {"content-digest": f"{content_digest(b'{}')}, sha-512=:AAAA:", "signature-input": f"a={params}",
                   "signature": f"a=:{signature}:"} | ({"signature-agent": agent} if agent else {})
        own = [jwk | k if isinstance(k, dict) else k for k in keys] if isinstance(keys, list) else [jwk]
        return verify_web_bot_auth("POST", "https://example.com/", headers, {"keys": own}, raw_body=body, now=now)

    def test_digest(self) -> None:
        """A signed digest is of SHA-256, and the body is compared with it."""
        digest = content_digest(b"{}")
        for component, value in (('"content-digest"', f"{digest}, sha-512=:AAAA:"),
                                 ('"content-digest";key="sha-256"', digest.removeprefix("sha-256="))):
            self.assertEqual(self.bot(component, value).status, "verified", component)
            self.assertEqual(self.bot(component, value, b"[]").status, "refused", component)
        self.assertEqual(self.bot('"content-digest";key="sha-512"', ":AAAA:").status, "refused")

    def test_directory(self) -> None:
        """A key counts for signatures, and at its time. Entries that are none hide no other (RFC 7517 section 5)."""
        now, other = 1_800_000_000, {"x": "AAAA"}
        for keys, status in (
                ([{"use": "sig", "nbf": now, "exp": now + 1}], "verified"), ([{"use": "enc"}], "refused"),
                ([{"nbf": now + 1}], "refused"), ([{"exp": now}], "refused"), ([{"exp": "soon"}], "refused"),
                ([None, 1, {"x": None}, other, {}], "verified"), ([{"exp": now}, {}], "verified"), ([], "refused")):
            self.assertEqual(self.bot('"@method"', "POST", keys=keys).status, status, keys)

    def test_agent(self) -> None:
        """An agent is a text, and not a word without quotes."""
        for value, agent in (('"https://a.example"', "https://a.example"), ("agent", "")):
            v = self.bot('"signature-agent"', value, agent=value)
            self.assertEqual([v.status, v.agent], ["verified", agent])

    def test_url(self) -> None:
        """A URL with a space or a control character has no value."""
        for c in " \t\n\r\0\x7f":
            with self.assertRaises(Refusal, msg=repr(c)):
                Message(Fields({}), "GET", f"https://example.com/a{c}b")._derived("@path")

    def test_quorum(self) -> None:
        """A quorum is a witness or a group. No witness has the name none, the quorum of no witnesses."""
        def verifier(name: str, algorithm: int) -> str:
            raw = bytes([algorithm]) + raw_public(Ed25519PrivateKey.generate())
            number = hashlib.sha256(name.encode() + b"\n" + raw).digest()[:4].hex()
            return f"{name}+{number}+{base64.b64encode(raw).decode()}"

        def read(witness: str, group: str) -> Policy:
            text = f"witness {witness} {verifier('w', 4)}\ngroup {group} any {witness}\nquorum {group}\n"
            return Policy.read(f"log {verifier('log', 1)}\n{text}".encode())

        self.assertFalse(read("a", "g")._holds("g", set()))
        for names in ("none", "g"), ("a", "none"):
            with self.assertRaisesRegex(Refusal, "none has a meaning already"):
                read(*names)

    def test_empty_time(self) -> None:
        """A time may be missing, but not be an empty text."""
        record = {"started": "2026-01-01T00:00:00Z", "artifacts": [{"name": "grant", "token": "t"}]}
        self.assertNotIn("finished", read_record({**record, "finished": None}))
        with self.assertRaisesRegex(Malformed, "a time"):
            read_record({**record, "finished": ""})

    def test_version(self) -> None:
        """The version is a whole number."""
        for version in ("true", "1.0"):
            with self.assertRaisesRegex(Refusal, "no export of version 1"):
                Export(io.BytesIO(b'{"actionproof-evidence":{"version":%s}}\n' % version.encode()), [])

    def test_memory(self) -> None:
        """A record that is judged takes no more memory, also before garbage is collected: few objects hold much."""
        record = {"id": "p", "started": "2026-01-01T00:00:00Z", "artifacts": [{"name": "grant", "token": "t"}]}
        export = exported({"record": record}, {"end": {"records": 1}})
        gc.disable()
        self.addCleanup(gc.enable)
        judged = next(Judge(export, 2 * 10**15).records())
        kept = weakref.ref(judged)
        self.assertEqual(judged.refusal and judged.refusal.code, "manifest_unknown")
        del judged
        self.assertIsNone(kept())

        def refuses() -> None:
            try:
                int("")
            except ValueError:
                raise Refusal("expired") from None
        found = first_failure([("step", refuses)])
        self.assertEqual(found and [found[1].__traceback__, found[1].__context__], [None, None])

    def test_held(self) -> None:
        """What is kept of records that are not verified is bounded: receipts, and the sessions that they are of."""
        for session, records in (("s" * 1000, 9), ("s" * 999 + "\U0001f600", 3)):
            lines = []
            for n in range(records):
                lines += [{"record": {"id": str(n), "session": f"{n}{session}", "started": "2026-01-01T00:00:00Z",
                                      "artifacts": [{"name": "grant", "token": "t"}]}}, {"receipt": ""}]
            export = exported(*lines, {"end": {"records": records}})
            with patch("actionproof.export._MAX_SHARED", 8000), self.assertRaisesRegex(Refusal, "too many receipts"):
                list(Judge(export, 2 * 10**15).records())

    def test_padding(self) -> None:
        """Base64 has one length of padding."""
        for text, raw in (("AAA=", b"\0\0"), ("AAAA", b"\0\0\0"), ("AAAA=", None), ("AAAA==", None), ("AAA", None),
                          ("é===", None)):
            self.assertEqual(unb64_padded(text), raw)

    def test_root_set(self) -> None:
        """A root's set has its two keys."""
        x = base64.urlsafe_b64encode(raw_public(Ed25519PrivateKey.generate())).rstrip(b"=").decode()
        key = {"kty": "OKP", "crv": "Ed25519", "kid": "registry", "x": x}
        self.assertEqual(parse_root(json.dumps(key).encode(), "signer_certificate").kid, "registry")
        with self.assertRaises(Refusal):
            parse_root(json.dumps({"keys": [key]}).encode(), "signer_certificate")

    def test_one_reading(self) -> None:
        """Manifests of an export share one reading of its certificates, also if that is refused."""
        manifests = [Mock(**{"signers.return_value.expected.require_post_quantum": False}) for _ in range(3)]
        with patch("actionproof.export.PastTrust", side_effect=Refusal("artifact_malformed")) as reading:
            trusted = Trusted([])
            for manifest in manifests:
                with self.assertRaises(Refusal):
                    trusted.believed(manifest)
        reading.assert_called_once()
