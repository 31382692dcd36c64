"""A node's reputation token of an agent, on which a policy decision may rest."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .claims import _KEY, Claims, Kind, is_hash, size
from .manifest import Manifest
from .problem import refuse_if
from .token import SECOND

_WINDOW, _DAY = 20, 24 * 3600
# The 0.975 quantiles of Student's t for 1 to 19 degrees of freedom.
_STUDENT = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010, 2.1788, 2.1604,
            2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930)
_TIERS = (("new", 0, 0, False), ("building", 30, 10, False), ("established", 50, 100, False),
          ("trusted", 70, 500, True), ("verified", 85, 1000, True))
_RATINGS = (("S", 85), ("A", 70), ("B", 55), ("C", 40), ("D", -math.inf))


def _round(f: float) -> float:
    """Six decimals, halves away from zero."""
    scaled = abs(f) * 1e6
    whole = math.floor(scaled)
    return math.copysign((whole + (scaled - whole >= 0.5)) / 1e6, f) + 0.0


def _mean(values: Sequence[float]) -> float:
    total = 0.0
    for v in values:
        total += v
    return total / len(values) if values else 0.0


def _within(f: float, most: float) -> bool:
    return 0 <= f <= most and f == _round(f)


def _sound(c: Claims) -> bool:
    pending, won, lost = (c.get(f"disputes_{name}", 0) for name in ("pending", "won", "lost"))
    points, history, log = c.get("dispute_points", 0), c["score_history"], c["log"]
    received, kept, failed = c["challenges_received"], c["challenges_won"], c["challenges_lost"]
    owned = size(c["owner"]) == 43 and ":" not in c["owner"] and c["agent_id"] == f"{c['owner']}:{c['agent']}"
    agent = owned if c["owner"] else c["agent_id"] == c["agent"] and c["agent"].startswith("did:key:")
    ids = [s["session_id"] for s in history]
    return (
        c["probabilistic"] and not c["nonHumanIdentityProven"] and 0 < size(c["keyCustody"]) <= 128
        and agent and 0 < size(c["agent"]) <= 256 and is_hash(c["scoringHash"]) and is_hash(log["head"])
        and 0 <= c["flagged_interactions"] <= c["total_interactions"] <= c["total_sessions"]
        and len(history) <= min(c["total_sessions"], _WINDOW) and min(kept, failed, pending, won, lost) >= 0
        and kept + failed + pending <= received
        and -min(100, 5 * lost) <= points <= min(5, 2 * won + kept)
        and (c["flagged_interactions"] == 0 or failed > 0)
        and c["total_sessions"] + received + won + lost <= log["entries"]
        and (c["first_seen"] > 0) == (log["entries"] > 0) and len({*ids}) == len(ids)
        and all(s["timestamp"] > 0 and _within(s["score"], 100) and _within(s["coverage"], 1)
                and 0 < size(s["session_id"]) <= 128 for s in history)
        and _follows(c, points) and _verified(c.get("verification")) and _rated(c.get("rating")))


def _follows(c: Claims, points: int) -> bool:
    """Whether score, trend, tier and marks follow from history and counts."""
    scores: list[float] = [s["score"] for s in c["score_history"]]
    n, average, failed = len(scores), _mean(scores), c["challenges_lost"]
    points = points if n else 0
    disputed = failed > 0 and n < _WINDOW
    current = 0 if disputed else _round(min(max(average + points, 0), 100))
    change = _round(_mean(scores[-5:]) - _mean(scores[:-5])) if n > 5 else 0
    squares = 0.0
    for s in scores:
        squares += (s - average) * (s - average)
    interval = _round(max(0, average - _STUDENT[n - 2] * math.sqrt(squares / (n - 1) / n))) if n > 1 else 0
    lower = 0 if disputed else _round(max(interval + min(points, 0), 0))
    counted, score = c["total_interactions"] - c["flagged_interactions"], min(current, _round(average))
    tier = [name for name, least, interactions, spotless in _TIERS
            if score >= least and counted >= interactions and (failed == 0 or not spotless)][-1]
    coverage = _round(_mean([s["coverage"] for s in c["score_history"]]))
    follows: bool = (
        c["current_score"] == current and c["coverage"] == coverage
            and c["score_trend"] == ("rising" if change > 2 else "falling" if change < -2 else "stable")
            and c["lower"] == lower and c["provisional"] == (n < _WINDOW)
            and c["disputed"] == disputed and c["tier"] == tier)
    return follows


def _verified(v: Claims | None) -> bool:
    return v is None or is_hash(v["result"]) and 0 < v["at"] < v["expires"] <= v["at"] + _DAY and (
        v["mode"] in ("observed", "seed"))


def _rated(r: Claims | None) -> bool:
    if r is None:
        return True
    tier = next(name for name, least in _RATINGS if r["r"] >= least)
    return _within(r["r"], 100) and _within(r["q"], 3) and r["r_tier"] == tier


REPUTATION = Kind("reputation+jwt", "appraiser", {
    **_KEY, **dict.fromkeys("agent_id owner agent score_trend scoringHash tier".split(), "s"),
    **dict.fromkeys("""total_interactions flagged_interactions total_sessions first_seen challenges_received
        challenges_won challenges_lost disputes_pending? disputes_won? disputes_lost? dispute_points?""".split(), "i"),
    **dict.fromkeys("current_score lower coverage".split(), "f"),
    **dict.fromkeys("provisional disputed probabilistic nonHumanIdentityProven".split(), "b"),
    "score_history": [{"timestamp": "i", "score": "f", "session_id": "s", "coverage": "f"}],
    "log": {"entries": "i", "head": "s"},
    "verification?": {"result": "s", "at": "i", "expires": "i", "mode": "s", "degraded": "b"},
    "rating?": {"r": "f", "q": "f", "r_tier": "s"}}, _sound)


def check(c: Claims, manifest: Manifest, owner: str, subject: str, now: int) -> None:
    """Refuses a reputation of another agent, by other formulas, or without a verification. now is in µs."""
    p = manifest.policy("autonomyPolicy")
    refuse_if(c["owner"] != owner or c["agent"] != subject, "reputation_mismatch", "the reputation is of another agent")
    refuse_if(c["scoringHash"] != p["scoringHash"], "pin_mismatch", "the reputation was computed by other formulas")
    v = c.get("verification", {})
    counts = v and v["mode"] == "observed" and now // SECOND < v["expires"] and (
        p.get("allowDegraded") or not v["degraded"])
    refuse_if(p.get("requireVerification") and not counts, "reputation_insufficient",
              "the reputation shows no verification that counts")
