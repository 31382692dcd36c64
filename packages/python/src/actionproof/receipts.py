"""Interaction receipts: the chain of one session, which a post's session receipt names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from .claims import _KEY, Claims, Kind, is_hash, sha256, size
from .problem import Refusal, refuse, refuse_if
from .token import token_hash, unverified
from .trust import Opened

_MAX = 1 << 17  # receipts of a chain
_FIGURES = {
    ("observed", "not_measured"): "duration_ms ttft_ms turnaround_ms deltas input_bytes output_bytes new_input_words "
    "output_words tool_calls_made unmatched_results self_references depth_relayed sample_bytes word_entropy_millibits "
    "compression_permille",
    ("declared", "estimated", "not_measured"): "input_tokens output_tokens",
    ("declared", "not_measured"): "cached_tokens reasoning_tokens hosted_calls depth",
}
_OBSERVED = """chain constraints_commitment event_id inputs_commitment llm_commitment outcome output_clean_hash
    output_transport_hash policy_id relayed relayed_count request_id session timing""".split()
_OF_MODEL = """model_call.api model_call.hosted_tools model_call.host model_call.returned_calls model_call.rule
    model_call.status model_call.streamed model_call.tool_calls""".split()
_SHORT, _NAME, _AGENT = 64, 128, 256  # bytes
_HASHES = ("policy_id", "inputs_commitment", "constraints_commitment", "llm_commitment", "output_clean_hash",
           "output_transport_hash")


def _s(names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), "s")


def _texts(o: Claims, bound: int, needed: str = "", optional: str = "") -> bool:
    return all(0 < size(o[name]) <= bound for name in needed.split()) and (
        all(size(o.get(name, "")) <= bound for name in optional.split()))


def _tag(text: str) -> bool:
    return is_hash(text + text)  # half as long as a hash


def _tags(o: Claims, names: str) -> bool:
    return all(_tag(o[name]) for name in names.split() if name in o)


def _sound(c: Claims) -> bool:
    link, number = c["chain"], c["chain"]["sequence_number"]
    before = link.get("previous_receipt_hash", "")
    whole = c["exp"] - c["iat"] == 600 and c["probabilistic"] and not c["nonHumanIdentityProven"]
    linked = number >= 1 and (number == 1) == (before == "") and (number == 1 or is_hash(before))
    named = size(c["owner"]) == 43 and c.get("enforcement", "none") in ("isolated", "guard", "pod", "none")
    return (whole and linked and named and c["observed"] == _observed(c) and all(is_hash(c[name]) for name in _HASHES)
            and _texts(c, _SHORT, "keyCustody") and _texts(c, _NAME, "request_id runtime_id")
            and _texts(c, _AGENT, "agent event_id") and _texts(link, _NAME, "session_id")
            and _about(c) and _timed(c) and _challenged(c.get("challenge")) and _relayed(c) and _counted(c["session"]))


def _observed(c: Claims) -> list[str]:
    names = list(_OBSERVED)
    if "model_call" in c:
        names += _OF_MODEL + (["model_call.unknown_members"] if c["model_call"].get("unknown_members") else [])
    else:
        names += [name for name in ("post", "closing") if name in c][:1]
    names += ["challenge"] if "challenge" in c else []
    return sorted(names + (["enforcement"] if c.get("enforcement") in ("isolated", "guard") else []))


def _about(c: Claims) -> bool:
    subjects = [name for name in ("model_call", "post", "closing") if name in c]
    if len(subjects) != 1:
        return False
    of = c[subjects[0]]
    actions, outcomes = {
        "model_call": ("generic challenge_response confidential_llm_call",
                       "completed failed unfinished cut left indeterminate not_measured"),
        "post": ("compose_post", "completed failed indeterminate"), "closing": ("generic", "completed"),
    }[subjects[0]]
    good = _model(of, c["outcome"]) if "model_call" in c else _posted(of) if "post" in c else (
        of["reason"] in ("ended", "shutdown", "lost"))
    return good and c["action_type"] in actions.split() and c["outcome"] in outcomes.split()


def _posted(p: Claims) -> bool:
    names = [a["name"] for a in p["artifacts"]]
    return (is_hash(p["binding_hash"]) and _status(p) and 0 < len(names) <= 16 and len(set(names)) == len(names)
            and all(is_hash(a["hash"]) and _texts(a, _SHORT, "name") for a in p["artifacts"]))


def _status(o: Claims) -> bool:
    return "status" not in o or 100 <= o["status"] <= 999


def _model(m: Claims, outcome: str) -> bool:
    hosted, unknown = m.get("hosted_tools", []), m.get("unknown_members", [])
    calls, returned = m.get("tool_calls", []), m.get("returned_calls", [])
    unread = m.get("unread", "")
    fits = outcome != "not_measured" if unread == "" else outcome in ("not_measured", "failed")
    figures = m["figures"]
    bounded = len(hosted) + len(unknown) <= 8 and len(calls) <= 16 and len(returned) <= 32
    known = all(f["state"] in states and f["value"] >= 0 and (f["state"] != "not_measured" or f["value"] == 0)
                for states, names in _FIGURES.items() for f in (figures[name] for name in names.split()))
    sampled = figures["sample_bytes"]["value"] >= 4096 or all(
        figures[name]["state"] == "not_measured"
        for name in ("sample_bytes", "word_entropy_millibits", "compression_permille"))
    probe = m.get("probe")
    return (_status(m) and fits and bounded and known and sampled
            and len(calls) == min(figures["tool_calls_made"]["value"], 16)
            and _texts(m, _SHORT, "api", "unread") and _texts(m, _NAME, "host rule", "model answered_by")
            and all(map(_tag, returned)) and len(set(returned)) == len(returned)
            and all(0 < size(name) <= _SHORT for name in [*hosted, *unknown])
            and all(_tags(call, "id arguments") and _texts(call, _SHORT, "", "tool") for call in calls)
            and (probe is None or _tags(probe, "answer") and _texts(probe, _NAME, "id")))


def _timed(c: Claims) -> bool:
    seen = [c["timing"].get(name, 0) for name in ("llm_start_ms", "llm_end_ms", "response_sent_ms")]
    moments = [c["timing"]["request_received_ms"], *(at for at in seen if at)]
    return moments[0] > 0 and moments == sorted(moments) and moments[-1] // 1000 <= c["iat"]


def _challenged(r: Claims | None) -> bool:
    if r is None:
        return True
    made = r.get("commitment_hash", "")
    return (not made or is_hash(made)) and not (r.get("commitment_revealed") and not made) and (
        _texts(r, _NAME, "challenge_nonce"))


def _relayed(c: Claims) -> bool:
    calls = c.get("relayed", [])
    return len(calls) == min(4, c["relayed_count"]) and all(
        _texts(r, _NAME, "host tool") and _tags(r, "arguments call_id") for r in calls)


def _counted(s: Claims) -> bool:
    counted: bool = s["opened_ms"] > 0 and 0 <= s["calls_observed"] <= s["calls"] and (
        0 <= s["bytes_out_observed"] <= s["bytes_out"])
    return counted


RECEIPT = Kind("interaction-receipt+jwt", "interaction_receipt", {
    **_KEY, **_s("request_id action_type owner agent runtime_id event_id enforcement? outcome"),
    **dict.fromkeys(_HASHES, "s"),
    "timing": {"request_received_ms": "i", **dict.fromkeys(("llm_start_ms?", "llm_end_ms?", "response_sent_ms?"), "i")},
    "chain": {**_s("previous_receipt_hash? session_id"), "sequence_number": "i"},
    "challenge?": {**_s("challenge_nonce commitment_hash?"), "commitment_revealed?": "b"},
    "model_call?": {
        **_s("api host rule model? answered_by? unread?"), "status?": "i", "streamed": "b", "hosted_tools?": "l",
        "unknown_members?": "l", "tool_calls?": [_s("id? tool? arguments?")], "returned_calls?": "l",
        "probe?": _s("id answer?"),
        "figures": {name: {"state": "s", "value": "i"} for names in _FIGURES.values() for name in names.split()}},
    "post?": {"binding_hash": "s", "status?": "i", "artifacts": [_s("name hash")]},
    "closing?": _s("reason"), "relayed?": [_s("host tool arguments? call_id?")], "relayed_count": "i",
    "session": dict.fromkeys(("opened_ms", "calls", "calls_observed", "bytes_out", "bytes_out_observed"), "i"),
    "observed": "l", "probabilistic": "b", "nonHumanIdentityProven": "b"}, _sound)

Opener = Callable[[str, Claims], Opened]  # opens a receipt by the trust of its time


@dataclass
class Chain:
    """Verifies one session's receipts in order, from the first on."""

    open: Opener
    owner: str
    session: str
    agent: str
    hashes: list[str] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)  # of receipts, by request
    last: Claims | None = None

    def add(self, token: str) -> Claims:
        """Verifies the next receipt. After a refusal the chain is unchanged."""
        claims = unverified(RECEIPT, token)
        refuse_if(not self.owner or self.owner != claims["owner"], "roots_not_pinned",
                  "the receipt names another owner than the pinned key registry's")
        o = self.open(token, claims)
        self._follows(o.claims, o.hash)
        self.hashes.append(o.hash)
        self.numbers[o.claims["request_id"]] = o.claims["chain"]["sequence_number"]
        self.last = o.claims
        return o.claims

    def _follows(self, r: Claims, own: str) -> None:
        link, count, last = r["chain"], len(self.hashes), self.last
        number = link["sequence_number"]
        refuse_if(self.session and self.session != link["session_id"] or self.agent and self.agent != r["agent"],
                  "chain_broken", "the receipt belongs to another session or agent")
        refuse_if(last is not None and "closing" in last, "chain_broken", "a receipt follows the end of the session")
        refuse_if(count == _MAX, "session_full", "the chain is full")
        refuse_if(number > count + 1, "chain_incomplete", f"receipts before {number} are missing")
        refuse_if(number <= count, "chain_broken", f"receipt {number} comes twice, or out of order")
        refuse_if(last is not None and link.get("previous_receipt_hash") != self.hashes[-1], "chain_broken",
                  f"receipt {number} does not name the one before it")
        refuse_if(r["request_id"] in self.numbers, "chain_broken", f"receipt {number} is about a call of another one")
        if last is not None:
            same = all(r[name] == last[name] for name in ("event_id", "runtime_id"))
            now, before = r["session"], last["session"]
            fewer = any(now[name] < before[name] for name in now if name != "opened_ms")
            refuse_if(not same or now["opened_ms"] != before["opened_ms"] or r["iat"] < last["iat"] or fewer,
                      "chain_broken", f"receipt {number} contradicts the one before it")

    def names(self, head: Claims) -> None:
        """Refuses a session receipt's head that is not in the chain."""
        number, named = head["number"], head.get("headHash", "")
        none = number == 0 and named == ""
        there = 0 < number <= len(self.hashes) and self.hashes[number - 1] == named
        refuse_if(not none and not there, "chain_broken", f"receipt {number} is not the one that was named")
        closed = self.last is not None and "closing" in self.last
        for call in head.get("openCalls", []):
            ended = self.numbers.get(call)
            refuse_if(ended is not None and ended <= number or ended is None and closed, "chain_broken",
                      f"the call {call} was not open after receipt {number}")


@dataclass(frozen=True)
class Made:
    """What a post's receipt says of its record."""

    outcome: str
    status: int
    started: int  # Unix milliseconds
    binding: str
    artifacts: str

    @classmethod
    def of(cls, c: Claims) -> Made:
        """What the receipt of a post says."""
        p = c["post"]
        return cls(c["outcome"], p.get("status", 0), c["timing"]["request_received_ms"], p["binding_hash"],
                   _named((a["name"], a["hash"]) for a in p["artifacts"]))

    def check(self, r: Claims, started: int) -> None:
        """Refuses another record. started is its start in Unix milliseconds."""
        own = _named((a["name"], token_hash(a["token"])) for a in r["artifacts"])
        refuse_if(r.get("bindingHash", "") != self.binding or own != self.artifacts or started != self.started,
                  "record_mismatch", "the receipt of the post and the record differ in binding, artifacts or start")
        states = {"completed": ("forwarded",), "failed": ("failed", "refused"),
                  "indeterminate": ("forwarded", "failed", "indeterminate", "forwarding")}[self.outcome]
        other = self.outcome != "indeterminate" and r.get("status", 0) != self.status
        refuse_if(r["state"] not in states or other, "record_mismatch",
                  f"the receipt of the post says {self.outcome} and {self.status}")


def _named(pairs: Iterator[tuple[str, str]]) -> str:
    return sha256("".join(f"\n{name} {own}" for name, own in pairs))


@dataclass
class _Session:
    chain: Chain
    posts: dict[str, Made] = field(default_factory=dict)  # by id: with a receipt, and without a record as yet
    ids: dict[str, str] = field(default_factory=dict)  # of these posts, by binding


class Sessions:
    """The receipts on which the records of an export rest."""

    _AT_ONCE, _AFTER, _MOST = 500, 16, 1 << 20

    def __init__(self, read: Callable[[str, int], list[str]]) -> None:
        """read returns the next receipts of a session, at most some."""
        self._read, self._count = read, 0
        self._sessions: dict[str, _Session] = {}

    def verify(self, opener: Opener, owner: str, r: Claims, head: Claims) -> Made | None:
        """The post's own receipt, if there is one."""
        name = r.get("session", "")
        if name not in self._sessions:
            self._sessions[name] = _Session(Chain(opener, owner, name, r.get("subject", "")))
        s, number, binding = self._sessions[name], head["number"], r.get("bindingHash", "")
        chain, outcome = s.chain, r["state"] in ("forwarded", "failed", "indeterminate")
        while len(chain.hashes) < number or r["id"] not in s.posts and binding not in s.ids and outcome:
            try:
                if not self._more(s, name, number):
                    break
            except Refusal as refusal:
                if refusal.code != "roots_not_pinned" or not chain.hashes or len(chain.hashes) < number:
                    raise
                break  # a later start under other roots made the rest: it says nothing about the record
        if not chain.hashes and number > 0:
            return None
        event = chain.last["event_id"] if chain.last else ""
        refuse_if(event and event != r.get("event", ""), "chain_broken", "the receipts are of another event")
        chain.names(head)
        own = s.ids.get(binding, "")
        refuse_if(own and own != r["id"], "record_mismatch", "the receipt of the post names another id")
        made = s.posts.pop(r["id"], None)
        if made is not None:
            s.ids.pop(binding, None)
        return made

    def _more(self, s: _Session, name: str, number: int) -> int:
        tokens = self._read(name, min(self._AT_ONCE, max(self._AFTER, number - len(s.chain.hashes))))
        self._count += len(tokens)
        if self._count > self._MOST:
            refuse("session_full", "there are too many receipts")
        for token in tokens:
            c = s.chain.add(token)
            if "post" in c:
                s.posts[c["request_id"]], s.ids[c["post"]["binding_hash"]] = Made.of(c), c["request_id"]
        return len(tokens)

    def missing(self) -> list[str]:
        """The ids of posts with a receipt and no record."""
        return sorted(id for s in self._sessions.values() for id in s.posts)


def past_opener(open_at: Callable[[str, Claims, int], Opened]) -> Opener:
    """Opens each receipt as of its own second, or of the one before if a restart was in it."""
    def opened(token: str, claims: Claims) -> Opened:
        try:
            return open_at(token, claims, claims["iat"])
        except Refusal as refusal:
            if refusal.code != "signature_invalid":
                raise
            return open_at(token, claims, claims["iat"] - 1)
    return opened
