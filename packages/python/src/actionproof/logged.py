"""Compares records with the transparency log, by the proofs that an export has of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from .claims import Claims, sha256
from .problem import Refusal, refuse_if
from .strictjson import canonical
from .token import SECOND
from .translog import Cosignature, Policy, Proven, Tree, prove

_SKEW, _LOGGED = 60 * SECOND, 2 * 3600 * SECOND
_WITNESS = 2 * _SKEW  # of two clocks: the log takes no cosignature that differs more
_MOST = 100  # of a kind that is listed
OUTCOMES = ("forwarded", "failed", "indeterminate")
_INTENT = ("action", "bindingHash", "capabilityId", "contentHash", "event", "flow", "host", "id", "method", "path",
           "resource", "rule", "session", "started", "subject")
_WORD = "the operator's word"


def rfc3339(seconds: int) -> str:
    """A time as it is printed."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class Doubt:
    """A record that the log does not hold, or is not known to hold."""

    id: str
    detail: str
    code: str = ""


@dataclass
class LogJudge:
    """Counts the records that equal the log's entries. No line of the result speaks for another."""

    policy: Policy | None
    posts: int = 0
    held: int = 0
    refused: list[Doubt] = field(default_factory=list)
    doubtful: list[Doubt] = field(default_factory=list)
    seen: int = 0  # by a witness
    by: dict[str, tuple[int, int]] = field(default_factory=dict)  # records and the latest time, by witness
    origin: str = ""
    _ids: set[str] = field(default_factory=set)
    _entries: dict[int, bytes] = field(default_factory=dict)
    _trees: dict[int, Tree] = field(default_factory=dict)

    def add(self, r: Claims, intent: str, outcome: str, started: int, finished: int | None) -> None:
        """Judges one record by its proofs. Times are in µs."""
        post = r["id"][:64]
        sent, over = r["state"] != "refused", r["state"] in OUTCOMES
        self.posts += sent
        try:
            witnesses = self._verify(r, intent, outcome, started, finished)
        except Refusal as refusal:
            self.refused.append(Doubt(post, refusal.detail, refusal.code))
            return
        if not sent:
            return
        doubt = ("there is no proof that the log holds it" if not intent else
                 "the log holds an outcome, which the record had not yet" if outcome and not over else
                 "it had no outcome yet" if not over else
                 "there is no proof that the log holds its outcome" if not outcome else
                 "no policy names the log of its proofs" if self.policy is None else "")
        if doubt:
            self.doubtful.append(Doubt(post, doubt))
        else:
            self.held += 1
            self._witness(witnesses)

    def _verify(self, r: Claims, intent: str, outcome: str, started: int, finished: int | None) -> list[Cosignature]:
        key = sha256(r["id"])  # an export can have ids of any length
        refuse_if(key in self._ids, "record_mismatch", "there is another record with this id")
        self._ids.add(key)
        refuse_if(r["state"] == "refused" and (intent or outcome), "record_mismatch",
                  "the record says that nothing was sent, but the log has the post")
        first = self._proof(r, "intent", intent, started) if intent else None
        last = None
        if outcome and r["state"] in OUTCOMES:
            last = self._proof(r, "outcome", outcome, started if finished is None else finished)
        refuse_if(last is not None and last.index < (first.index if first else 0), "record_mismatch",
                  "the log holds its outcome before its intent")
        later = dict(last.witnesses) if last else {}
        early = first.witnesses if first else []
        return [c._replace(time=max(c.time, later[c.witness])) for c in early if c.witness in later]

    def _proof(self, r: Claims, kind: str, text: str, at: int) -> Proven:
        v = prove(text, self.policy)
        logged = v.entry["time"] * 1000
        refuse_if(v.entry["kind"] != kind, "record_mismatch",
                  f"the proof of its {kind} is one of the kind {v.entry['kind']}")
        refuse_if(at - logged > _SKEW, "record_mismatch", f"the log got its {kind} before the record's own time")
        backdated = kind == "intent" and logged - at > _LOGGED  # an outcome can wait for a ledger that is away
        refuse_if(backdated, "record_mismatch", "the record is backdated: the log got its intent later")
        refuse_if(any(logged - w.time * SECOND > _WITNESS for w in v.witnesses), "record_mismatch",
                  f"a witness saw its {kind} before the log got it")
        refuse_if(_document(kind, r) != v.document, "record_mismatch",
                  f"the record does not match the {kind} in the log")
        if self.policy is not None:
            self.origin = v.origin
        entry, tree = self._entries.setdefault(v.index, v.leaf), self._trees.setdefault(v.tree.size, v.tree)
        refuse_if(entry != v.leaf or tree != v.tree, "log_contradicted", f"no log can hold {v.name} and an earlier one")
        return v

    def _witness(self, witnesses: list[Cosignature]) -> None:
        self.seen += bool(witnesses)
        for c in witnesses:
            count, latest = self.by.get(c.witness, (0, 0))
            self.by[c.witness] = count + 1, max(latest, c.time)

    def lines(self) -> list[str]:
        """Three of the four lines of a result, with what they list."""
        out = ["Untampered:  " + self._untampered()]
        out += [f"             REFUSED {d.id + ', ' if d.id else ''}{d.code}: {d.detail}" for d in self.refused[:_MOST]]
        out += _more(self.refused, "refused")
        if self.held:  # otherwise it is not known of any
            out += [f"             not known of {d.id}: {d.detail}" for d in self.doubtful[:_MOST]]
            out += _more(self.doubtful, "not known")
        complete = "Complete:    not known: give mediator verify --log and --log-policy"
        return [*out, "Witnessed:   " + self._witnessed(), complete]

    def _untampered(self) -> str:
        if self.held:
            own = f"; of {self.held - self.seen} that is {_WORD}" if self.held > self.seen else ""
            return (f"{self.held} of {self.posts} records of posts that went out are the ones in the log {self.origin}"
                    f"{own}")
        if not self.posts:
            return "nothing to compare: no record says that its post went out"
        return f"not known: no record of {self.posts} is proven to be in the log that --log-policy names"

    def _witnessed(self) -> str:
        if not self.by:
            return f"no: {_WORD}"
        by = [f"{name} saw {count} of {self.posts} records by {rfc3339(at)}" for name, (count, at) in self.by.items()]
        return "; ".join(by) + (f"; {self.posts - self.seen} are {_WORD}" if self.posts > self.seen else "")


def _more(doubts: list[Doubt], what: str) -> list[str]:
    return [f"             {len(doubts) - _MOST} more are {what}"] if len(doubts) > _MOST else []


def _document(kind: str, r: Claims) -> Claims:
    """What the log's entry of a record commits to."""
    out = {"post": r["id"], "session": r.get("session", "")}
    if kind == "intent":
        hashes = [{"hash": sha256(a["token"]), "name": a["name"]} for a in r["artifacts"]]
        out["requestProof"] = "".join(a["hash"] for a in hashes if a["name"] == "requestProof")
        intent = {name: r[name] for name in _INTENT if r.get(name) or name in ("flow", "id", "started")}
        out["record"] = sha256(canonical({**intent, "artifacts": hashes}))
    else:
        out |= {"state": r["state"], "code": r.get("code", ""), "status": r.get("status", 0)}
        out["record"] = sha256(canonical({name: v for name, v in r.items() if name not in ("artifacts", "keys")}))
    return {name: value for name, value in out.items() if value}
