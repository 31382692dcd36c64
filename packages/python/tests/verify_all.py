"""Verifies many exports in one process: python verify_all.py NUMBER-OF-FLAGS FLAG... FILE..."""

from __future__ import annotations

import contextlib
import io
import json
import sys

from actionproof.__main__ import main


def run(file: str, flags: list[str]) -> dict[str, object]:
    """What the command says of one file."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["verify", file, *flags])
    return {"Code": code, "Out": out.getvalue(), "Err": err.getvalue()}


if __name__ == "__main__":
    count = int(sys.argv[1])
    json.dump([run(file, sys.argv[2 : 2 + count]) for file in sys.argv[2 + count :]], sys.stdout)
