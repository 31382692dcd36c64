"""python -m actionproof verify FILE: verifies an export with public keys alone."""

from __future__ import annotations

import argparse
import gzip
import sys
import time
from pathlib import Path
from typing import BinaryIO, cast

from .problem import Refusal
from .record import CannotJudge, Export
from .trust import parse_bundle, parse_root

_WORD = "the operator's word"


def main(arguments: list[str]) -> int:
    """Returns 0 if nothing is refused, 1 if something is, 2 if the file cannot be judged."""
    top = argparse.ArgumentParser(prog="python -m actionproof")
    verify = top.add_subparsers(required=True).add_parser("verify", help="verify an export of posts")
    verify.add_argument("file")
    verify.add_argument("--registry", required=True, help="the key registry's public JWK")
    verify.add_argument("--auditor", required=True, help="the auditor's public JWK")
    verify.add_argument("--bundle", help="your trust bundle, whose revocations count, too")
    a = top.parse_args(arguments)
    try:
        roots = [parse_root(Path(a.registry).read_bytes(), "signer_certificate"),
                 parse_root(Path(a.auditor).read_bytes(), "deployment_certificate")]
        bundle = parse_bundle(Path(a.bundle).read_bytes())._asdict() if a.bundle else None
        with _open(a.file) as lines:
            return _print(Export(lines, roots, bundle))
    except Refusal as refusal:
        print(f"{refusal.code}: {refusal.detail}", file=sys.stderr)
        return 1
    except (OSError, EOFError, CannotJudge) as error:
        print(error, file=sys.stderr)
        return 2


def _open(path: str) -> BinaryIO:
    file = open(path, "rb")
    if file.peek(2)[:2] == b"\x1f\x8b":
        return cast(BinaryIO, gzip.GzipFile(fileobj=file))
    return file


def _print(export: Export) -> int:
    count = dict.fromkeys(("verified", "incomplete", "refused"), 0)
    receipts = 0
    for j in export.judge(time.time_ns() // 1000):
        count[j.result] += 1
        receipts += j.receipts
        if j.refusal is not None:
            said = f"{j.id} REFUSED at {j.check}, {j.refusal.code}: {j.refusal.detail}"
            print("".join(c if c.isprintable() else "?" for c in said))
    if not any(count.values()):
        raise CannotJudge("there is no record with evidence: nothing was verified")
    posts = count["verified"] + count["refused"]
    print(f"Authentic:   {count['verified']} verified, {count['incomplete']} incomplete (their records say that the "
          f"post was refused), {count['refused']} REFUSED")
    if export.proofs:
        print("Untampered:  not known: proofs of the log are not judged here; mediator verify does")
    else:
        print(f"Untampered:  not known: no record of {posts} is proven to be in a log")
    print(f"Witnessed:   no: {_WORD}")
    print("Complete:    not known: give --log and --log-policy to mediator verify")
    if receipts:
        print(f"\nThe interaction receipts of {receipts} records are not judged here; mediator verify does.")
    print("\nNo chain shows that no human was involved anywhere.")
    return 1 if count["refused"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
