"""python -m actionproof verify FILE: verifies an export with public keys alone."""

from __future__ import annotations

import argparse
import gzip
import sys
import time
import unicodedata
from collections import Counter
from pathlib import Path
from typing import BinaryIO, cast

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from .export import Export, Trusted, moment
from .httpsig import key_id
from .logged import LogJudge, rfc3339
from .problem import Refusal, refuse, refuse_if
from .record import Judge
from .translog import Policy
from .trust import parse_bundle, parse_root

_UNPROVEN = ("posts: that none passed by the log; receipts: that none is missing after the last one here; "
             "certificates, revocations: that none is missing")
_WHAT = """
Certified keys signed the artifacts, and all of them are about one call. That the challenge was solved, that the
capability was good and that everything was used once is the record's word: only the gate that issued them can confirm
it.
No chain shows that no human was involved anywhere.
nonHumanIdentityProven: false"""
_MAX_MISSING, _MAX_KEYS = 100, 16
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def main(arguments: list[str]) -> int:
    """Returns 0 if nothing is refused, 1 if something is, 2 if the file cannot be judged."""
    top = argparse.ArgumentParser(prog="python -m actionproof")
    verify = top.add_subparsers(required=True).add_parser("verify", help="verify an export of posts")
    verify.add_argument("file")
    verify.add_argument("--registry", required=True, help="the key registry's public JWK")
    verify.add_argument("--auditor", required=True, help="the auditor's public JWK")
    verify.add_argument("--bundle",
                        help="your trust bundle, of which the current revocation list counts, and not the history")
    verify.add_argument("--log-policy", help="the policy that names the log's key and its witnesses (tlog-policy)")
    verify.add_argument("--api-keys", action="append", default=[], metavar="[HOST=]FILE",
                        help="public keys (PEM) with which the API at HOST, or any, signs its answers")
    a = top.parse_args(arguments)
    try:
        roots = [parse_root(Path(a.registry).read_bytes(), "signer_certificate"),
                 parse_root(Path(a.auditor).read_bytes(), "deployment_certificate")]
        bundle = parse_bundle(Path(a.bundle).read_bytes()) if a.bundle else None
        policy = Policy.read(Path(a.log_policy).read_bytes()) if a.log_policy else None
        with _open(a.file) as lines:
            return _judge(Export(lines, roots, bundle, _answer_keys(a.api_keys)), LogJudge(policy))
    except Refusal as refusal:
        print(_line(f"{refusal.code}: {refusal.detail}"), file=sys.stderr)
        return 1
    except OSError as error:
        print(_line(str(error)), file=sys.stderr)
        return 2


def _open(path: str) -> BinaryIO:
    file = open(path, "rb")
    if file.peek(2)[:2] == b"\x1f\x8b":
        return cast(BinaryIO, gzip.GzipFile(fileobj=file))
    return file


def _answer_keys(named: list[str]) -> dict[str, dict[str, bytes]]:
    out: dict[str, dict[str, bytes]] = {}
    for text in named:
        host, found, path = text.partition("=")
        if not found or "/" in host:
            host, path = "", text
        marker = "-----BEGIN "
        blocks = [marker + block for block in Path(path).read_text().split(marker)[1:]]
        refuse_if(not 0 < len(blocks) <= _MAX_KEYS, "config_malformed", f"{path} has no public keys, or too many")
        for block in blocks:
            try:
                key = serialization.load_pem_public_key(block.encode())
            except ValueError:
                key = None
            if not isinstance(key, Ed25519PublicKey):
                refuse("config_malformed", f"{path} has a key that is not an Ed25519 public key")
            raw = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
            out.setdefault(host, {})[key_id(raw)] = raw
    return out


def _line(text: str) -> str:
    """One line that cannot steer a terminal."""
    return "".join("?" if unicodedata.category(c) == "Cc" or c in _BIDI else c for c in text)


def _judge(export: Export, log: LogJudge) -> int:
    count, unproven = Counter[str](), Counter[str]()
    used: list[Trusted] = []
    judge = Judge(export, time.time_ns() // 1000)
    for j in judge.records():
        count[j.result] += 1
        unproven.update(j.unproven)
        r = j.logged.record
        if j.refusal is not None:
            print(_line(f"{r['id']} REFUSED at {j.check}, {j.refusal.code}: {j.refusal.detail}"))
        elif not any(j.trusted is t for t in used):
            used.append(j.trusted)
        log.add(r, j.logged.intent, j.logged.outcome, moment(r["started"]),
                moment(r["finished"]) if "finished" in r else None)
    refuse_if(not count, "evidence_malformed", "there is no record with evidence: nothing was verified")
    refuse_if(not count["refused"] and export.unasked(), "evidence_malformed",
              f"{export.unasked()} interaction receipts of the export are not used by any of its records")
    print(f"Authentic:   {count['verified']} verified, {count['incomplete']} incomplete (their records say that the "
          f"post was refused), {count['refused']} REFUSED")
    for line in log.lines():
        print(_line(line))
    print()
    missing = judge.sessions.missing()
    if missing:
        print(_line(f"{len(missing)} posts have a receipt here and no record: {', '.join(missing[:_MAX_MISSING])}"))
    for t in (t for t in export.trusts if any(t is u for u in used)):
        print(_line(f"Roots {t.roots[0].kid} and {t.roots[1].kid}, with {_revocations(t)}."))
    if used:
        every = count["verified"] + count["incomplete"]
        names = [name if n >= every else f"{name} (of {n})" for name, n in unproven.most_common()]
        print(f"\nNot proven, the records' own word: {', '.join(names)}.\nNot proven of the file: {_UNPROVEN}.\n")
        print("Of the posts that this check did not refuse:" + _WHAT)
    return 1 if count["refused"] or log.refused else 0


def _revocations(t: Trusted) -> str:
    signed = t.revocations_signed()
    if signed is None:
        return "no revocation list: what was revoked is not known"
    return (f"the revocation list of {rfc3339(signed)} and {len(t.earlier_revocations)} earlier ones: what any other "
            "list revokes is not known")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
