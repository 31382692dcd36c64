"""JSON with a single reading, and its canonical form (RFC 8785)."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

MAX_DEPTH = 100
MAX_ITEMS = 200_000  # names and values
_MAX_NUMBER = 1100  # characters; every double written out in full is shorter
_WHOLE = 1 << 53


class Malformed(ValueError):
    """The text is no JSON, or JSON without a canonical form."""


def parse(raw: bytes) -> Any:
    """The value of a JSON text that has a canonical form. A number is an int exactly if it is spelled as one."""
    try:
        text = raw.decode()
        value = _DECODER.decode(text)
        if _items(value) > MAX_ITEMS:
            raise Malformed(f"there are more than {MAX_ITEMS} names and values")
        if "\\" in text:
            _ENCODER.encode(value).encode()  # fails for half of a surrogate pair
    except Malformed:
        raise
    except (ValueError, RecursionError):
        raise Malformed("it is not JSON in UTF-8") from None
    return value


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(members)
    if len(out) != len(members):
        raise Malformed("a name comes twice")
    return out


def _items(value: Any, depth: int = 0) -> int:
    """The number of names and values in a value."""
    if not isinstance(value, dict | list):
        return 1
    if depth == MAX_DEPTH:
        raise Malformed(f"it is nested deeper than {MAX_DEPTH} levels")
    names, values = (len(value), value.values()) if isinstance(value, dict) else (0, value)
    return 1 + names + sum(_items(v, depth + 1) for v in values)


def _whole(spelled: str) -> int:
    _faithful(spelled)
    return int(spelled)


def _faithful(spelled: str) -> float:
    """The double of a number, if its canonical form means the same."""
    if len(spelled) > _MAX_NUMBER:
        raise Malformed("a number is too long")
    value = float(spelled)
    underflow = value == 0 and any(c in "123456789" for c in spelled.lower().partition("e")[0])
    if math.isinf(value) or underflow or abs(value) >= _WHOLE and Decimal(spelled) != Decimal(repr(value)):
        raise Malformed("a double does not hold a number exactly")
    return value


def _no_number(spelled: str) -> float:
    raise Malformed(f"{spelled} is no number")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_faithful, parse_int=_whole, parse_constant=_no_number)
_ENCODER = json.JSONEncoder(ensure_ascii=False)


def canonical(value: Any) -> str:
    """The canonical form of a value that JSON has."""
    if value is None or isinstance(value, str | bool):
        return _ENCODER.encode(value)
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
