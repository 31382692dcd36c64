"""Structured fields (RFC 9651), as far as message signatures need them: no lists of items, decimals, dates."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from .token import unb64_padded

Bare = int | bool | str | bytes
_KEY = re.compile(r"[a-z*][a-z0-9_.*-]*")
_BARE = re.compile(r'(-?[0-9]{1,15})(?![0-9.])|"((?:[ !#-\[\]-~]|\\["\\])*)"|:([A-Za-z0-9+/=]*):|\?([01])'
                   r"|([A-Za-z*][!#$%&'*+.^_`|~0-9A-Za-z:/-]*)")


class Malformed(ValueError):
    """The text is no such field."""


class Token(str):
    """A word without quotes."""


@dataclass(frozen=True)
class Item:
    """A value with parameters."""

    value: Bare
    params: Mapping[str, Bare] = field(default_factory=dict)

    def __str__(self) -> str:
        return _bare(self.value) + _params(self.params)


@dataclass(frozen=True)
class InnerList:
    """Items in parentheses, with parameters."""

    items: Sequence[Item]
    params: Mapping[str, Bare] = field(default_factory=dict)

    def __str__(self) -> str:
        return "(" + " ".join(map(str, self.items)) + ")" + _params(self.params)


Member = Item | InnerList


def dictionary(lines: Sequence[str]) -> dict[str, Member]:
    """The members of a field that may have several lines. Of two with one name the last counts."""
    text, at, out = ", ".join(line.strip(" \t") for line in lines).strip(" "), 0, dict[str, Member]()
    while at < len(text):
        name, at = _key(text, at)
        if text.startswith("=", at):
            member, at = _member(text, at + 1)
        else:
            params, at = _parameters(text, at)
            member = Item(True, params)
        out.pop(name, None)
        out[name] = member
        at = _blank(text, at, " \t")
        if at == len(text):
            break
        if text[at] != ",":
            _malformed()
        at = _blank(text, at + 1, " \t")
        if at == len(text):
            _malformed()
    return out


def inner_list(text: str) -> InnerList:
    """The one inner list of a text."""
    member, at = _member(text, 0)
    if not isinstance(member, InnerList) or at != len(text):
        _malformed()
    return member


def item(text: str) -> Item:
    """The one item of a text."""
    found, at = _item(text, 0)
    if at != len(text):
        _malformed()
    return found


def _malformed() -> NoReturn:
    raise Malformed("a structured field is malformed")


def _blank(text: str, at: int, spaces: str = " ") -> int:
    while text[at : at + 1] and text[at] in spaces:
        at += 1
    return at


def _key(text: str, at: int) -> tuple[str, int]:
    match = _KEY.match(text, at)
    if match is None:
        _malformed()
    return match[0], match.end()


def _member(text: str, at: int) -> tuple[Member, int]:
    if not text.startswith("(", at):
        return _item(text, at)
    items: list[Item] = []
    at = _blank(text, at + 1)
    while not text.startswith(")", at):
        found, end = _item(text, at)
        items.append(found)
        at = _blank(text, end)
        if at == end and not text.startswith(")", at):
            _malformed()
    params, at = _parameters(text, at + 1)
    return InnerList(items, params), at


def _item(text: str, at: int) -> tuple[Item, int]:
    value, at = _value(text, at)
    params, at = _parameters(text, at)
    return Item(value, params), at


def _parameters(text: str, at: int) -> tuple[dict[str, Bare], int]:
    out: dict[str, Bare] = {}
    while text.startswith(";", at):
        name, at = _key(text, _blank(text, at + 1))
        value: Bare = True
        if text.startswith("=", at):
            value, at = _value(text, at + 1)
        out.pop(name, None)
        out[name] = value
    return out, at


def _value(text: str, at: int) -> tuple[Bare, int]:
    match = _BARE.match(text, at)
    if match is None:
        _malformed()
    number, quoted, encoded, flag, word = match.groups()
    if number is not None:
        return int(number), match.end()
    if quoted is not None:
        return re.sub(r"\\(.)", r"\1", quoted), match.end()
    if encoded is not None:
        raw = unb64_padded(encoded)
        if raw is None:
            _malformed()
        return raw, match.end()
    return (flag == "1" if flag is not None else Token(word)), match.end()


def _bare(value: Bare) -> str:
    if isinstance(value, bool):
        return "?1" if value else "?0"
    if isinstance(value, bytes):
        return ":" + base64.b64encode(value).decode() + ":"
    if isinstance(value, int | Token):
        return str(value)
    if re.fullmatch("[ -~]*", value) is None:
        _malformed()
    return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'


def _params(params: Mapping[str, Bare]) -> str:
    return "".join(f";{name}" + ("" if value is True else "=" + _bare(value)) for name, value in params.items())
