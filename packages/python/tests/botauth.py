"""Judges the signatures of requests: python botauth.py, with the requests as JSON on standard input."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

from actionproof import verify_web_bot_auth


def judged(r: Any) -> dict[str, Any]:
    """The verdict on one request."""
    headers = [(name, value) for name, values in r["Header"].items() for value in values]
    v = verify_web_bot_auth(r["Method"], r["URL"], headers, r["Directory"], now=r["Now"],
                            raw_body=base64.b64decode(r["Body"] or ""))
    return {"Status": v.status, "Code": v.code, "Agent": v.agent, "Detail": v.detail}


if __name__ == "__main__":
    print(json.dumps([judged(r) for r in json.load(sys.stdin)]))
