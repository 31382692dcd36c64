"""JSON with a single reading, and its canonical form (RFC 8785)."""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any

MAX_DEPTH = 100
MAX_ITEMS = 200_000  # names and values
_MAX_NUMBER = 1100  # characters; every double written out in full is shorter
_WHOLE = 1 << 53

_SPACE = re.compile(r"[ \t\r\n]*+")
_STRING = re.compile(r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+"')
_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]*+))(\.[0-9]++)?([eE][+-]?[0-9]++)?")
_WORDS = {"true": True, "false": False, "null": None}


class Malformed(ValueError):
    """The text is no JSON, or JSON without a canonical form."""


def parse(raw: bytes) -> Any:
    """The value of a JSON text that has a canonical form. A number is an int exactly if it is spelled as one."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise Malformed("a byte is not UTF-8") from None
    reader = _Reader(text)
    value = reader.value(0)
    reader.space()
    if reader.at != len(text):
        raise Malformed("text follows the value")
    return value


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at, self.items = text, 0, 0

    def space(self) -> None:
        match = _SPACE.match(self.text, self.at)
        assert match is not None  # it matches the empty text
        self.at = match.end()

    def takes(self, character: str) -> bool:
        self.space()
        if not self.text.startswith(character, self.at):
            return False
        self.at += 1
        return True

    def count(self) -> None:
        self.items += 1
        if self.items > MAX_ITEMS:
            raise Malformed(f"there are more than {MAX_ITEMS} names and values")

    def value(self, depth: int) -> Any:
        self.space()
        self.count()
        first = self.text[self.at : self.at + 1]
        if first == '"':
            return self.string()
        if first in ("{", "["):
            if depth == MAX_DEPTH:
                raise Malformed(f"it is nested deeper than {MAX_DEPTH} levels")
            self.at += 1
            return self.object(depth + 1) if first == "{" else self.array(depth + 1)
        for word, value in _WORDS.items():
            if self.text.startswith(word, self.at):
                self.at += len(word)
                return value
        return self.number()

    def object(self, depth: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        if self.takes("}"):
            return out
        while True:
            self.space()
            self.count()
            name = self.string()
            if name in out:
                raise Malformed("a name comes twice")
            if not self.takes(":"):
                raise Malformed("a colon is missing")
            out[name] = self.value(depth)
            if not self.takes(","):
                break
        if not self.takes("}"):
            raise Malformed("a comma or a closing brace is missing")
        return out

    def array(self, depth: int) -> list[Any]:
        out: list[Any] = []
        if self.takes("]"):
            return out
        while True:
            out.append(self.value(depth))
            if not self.takes(","):
                break
        if not self.takes("]"):
            raise Malformed("a comma or a closing bracket is missing")
        return out

    def string(self) -> str:
        match = _STRING.match(self.text, self.at)
        if match is None:
            raise Malformed("a text is missing or malformed")
        self.at = match.end()
        value: str = json.loads(match[0])
        if any("\ud800" <= c <= "\udfff" for c in value):
            raise Malformed("a text has half of a surrogate pair")
        return value

    def number(self) -> int | float:
        match = _NUMBER.match(self.text, self.at)
        if match is None:
            raise Malformed("a value is missing")
        self.at = match.end()
        value = _faithful(match[0])
        return int(match[1]) if match[2] is None and match[3] is None else value


def _faithful(spelled: str) -> float:
    """The double of a number, if its canonical form means the same."""
    if len(spelled) > _MAX_NUMBER:
        raise Malformed("a number is too long")
    value = float(spelled)
    underflow = value == 0 and any(c in "123456789" for c in spelled.lower().partition("e")[0])
    if math.isinf(value) or underflow or abs(value) >= _WHOLE and Decimal(spelled) != Decimal(repr(value)):
        raise Malformed("a double does not hold a number exactly")
    return value


def canonical(value: Any) -> str:
    """The canonical form of a value that JSON has."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int):
        return str(value) if abs(value) < _WHOLE else _double(float(value))
    if isinstance(value, float):
        return _double(value)
    if isinstance(value, dict):
        names = sorted(value, key=_code_units)
        return "{" + ",".join(canonical(name) + ":" + canonical(value[name]) for name in names) + "}"
    return "[" + ",".join(map(canonical, value)) + "]"


def _code_units(name: str) -> bytes:
    return name.encode("utf-16-be")


def _double(value: float) -> str:
    """A double as ECMAScript writes it (RFC 8785 section 3.2.2.3)."""
    if value == 0:
        return "0"
    sign, figures, exponent = Decimal(repr(value)).normalize().as_tuple()
    digits = "".join(map(str, figures))
    assert isinstance(exponent, int)  # it is finite
    point = len(digits) + exponent  # where the decimal point stands in the digits
    if len(digits) <= point <= 21:
        text = digits + "0" * exponent
    elif 0 < point <= 21:
        text = digits[:point] + "." + digits[point:]
    elif -6 < point <= 0:
        text = "0." + "0" * -point + digits
    else:
        text = digits[0] + ("." + digits[1:] if len(digits) > 1 else "") + f"e{point - 1:+d}"
    return "-" * sign + text
