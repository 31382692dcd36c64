"""What of a request the evidence is bound to, read as the mediator reads it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote, unquote_to_bytes

from .claims import sha256
from .problem import Refusal, refuse_if
from .strictjson import Malformed, canonical, parse

CAPABILITY, REQUEST_PROOF = "actionproof-capability", "actionproof-request-proof"
Headers = Mapping[str, str] | Iterable[tuple[str, str]]

_ORIGIN = re.compile(r"\A[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")
_PATH = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/\[\]-]|%[0-9A-Fa-f]{2})*")
_ESCAPE = re.compile(rb"%[0-9A-Fa-f]{2}")
_BROKEN = re.compile("%(?![0-9A-Fa-f]{2})")
_OVERRIDE = re.compile("_+(http_?)?method(_?override)?_*|_*(x_)?(http_?)?method_?override_*|"
                       "_*x_(http|tunneled)_method_*")
_WRITES = {"post", "put", "patch", "delete"}


class Fields:
    """The header fields of a request, each with all of its values."""

    def __init__(self, headers: Headers) -> None:
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        self._pairs = [(name.lower(), value) for name, value in pairs]

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._pairs)

    def all(self, name: str) -> list[str]:
        """The values of a field."""
        return [value for known, value in self._pairs if known == name]

    def once(self, name: str) -> str:
        """The one value of a field of evidence."""
        values = self.all(name)
        refuse_if(len(values) != 1 or not values[0], "proof_missing",
                  f"the request must carry the header {name} exactly once; a bearer token alone is not enough")
        return values[0]


def resource(method: str, url: str, public_url: str = "") -> str:
    """Method, path and query as the mediator sees them. public_url is set if a proxy cuts a prefix off the path."""
    path, mark, query = _ORIGIN.sub("", url, count=1).partition("?")
    path = _ORIGIN.sub("", public_url, count=1).rstrip("/") + (path or "/")
    if _PATH.fullmatch(path) is None:
        refuse_if(_BROKEN.search(path), "request_malformed", "the path has an escape that is none")
        path = quote(unquote_to_bytes(path), safe="$&+,/:;=@")
    return f"{method} {path}{mark}{query}"


def origin(public_url: str, fields: Fields) -> str:
    """Scheme and host as the mediator sees them."""
    match = _ORIGIN.match(public_url)
    return match[0] if match else "https://" + "".join(fields.all("host")[:1])


def refuse_overrides(method: str, url: str, fields: Fields) -> None:
    """Refuses headers and query parameters that make some servers use another method."""
    for name in fields:
        refuse_if(_OVERRIDE.fullmatch(_folded(name)), "override_refused", f"the header {name} would change the method")
    for parameter in re.split("[&;]", url.partition("?")[2]):
        name, _, value = parameter.partition("=")
        folded = _folded(_unescaped(name))
        value = _unescaped(value).strip().casefold()
        other = folded == "method" and value != method.casefold() and value in _WRITES
        refuse_if(_OVERRIDE.fullmatch(folded) or other, "override_refused", "a query parameter would change the method")


def _unescaped(text: str) -> str:
    raw = text.replace("+", " ").encode(errors="surrogateescape")
    return _ESCAPE.sub(lambda e: bytes.fromhex(e[0][1:].decode()), raw).decode(errors="surrogateescape")


def _folded(name: str) -> str:
    name = "".join(c.lower()[0] for c in name.lstrip(" ").partition("\0")[0])
    return re.sub("[^a-z0-9]", "_", name)


def content_hash(body: bytes, raw: bool) -> str:
    """The hash of the body: of its bytes, or of the canonical form of a JSON body."""
    if raw:
        return sha256(body)
    try:
        return sha256(canonical(parse(body)))
    except Malformed as error:
        raise Refusal("content_malformed", f"the JSON content has no canonical form: {error}") from None


def require_json(fields: Fields) -> None:
    """Refuses headers that could make the receiver read another text than the hashed one."""
    encodings, types = fields.all("content-encoding"), fields.all("content-type")
    plain = not encodings or [e.casefold() for e in encodings] == ["identity"]
    refuse_if(not plain, "content_malformed", "the body has a Content-Encoding; this route takes plain JSON")
    refuse_if(len(types) != 1, "content_malformed", "the request must have exactly one Content-Type")
    refuse_if("*" in types[0], "content_malformed", "the Content-Type has a parameter of RFC 2231")
    media, parameters = _media_type(types[0])
    refuse_if(media != "application/json" and not media.endswith("+json"), "content_malformed",
              "the Content-Type is not a JSON type")
    charset = parameters.get("charset", "utf-8")
    refuse_if(charset.casefold() != "utf-8", "content_malformed", "the charset is not UTF-8")


_TOKEN = r"[!#$%&'*+\-.^_`{|}~0-9A-Za-z]+"
_MEDIA = re.compile(rf"{_TOKEN}(/{_TOKEN})?")
_PARAMETER = re.compile(rf'\s*;\s*({_TOKEN})\s*=\s*(?:({_TOKEN})|"((?:[^"\\\r\n]|\\.)*)")')
_QUOTED = re.compile(r'\\([()<>@,;:\\"/\[\]?=])')


def _media_type(text: str) -> tuple[str, dict[str, str]]:
    """The media type and its parameters (RFC 2045)."""
    base = text.partition(";")[0]
    given: dict[str, str] = {}
    media, at = base.strip().lower(), len(base)
    good = _MEDIA.fullmatch(media) is not None
    while good and text[at:].strip() not in ("", ";"):
        match = _PARAMETER.match(text, at)
        if match is None:
            good = False
            break
        name, at = match[1].lower(), match.end()
        value = match[2] if match[2] is not None else _QUOTED.sub(r"\1", match[3])
        good = given.setdefault(name, value) == value
    refuse_if(not good, "content_malformed", "the Content-Type is malformed")
    return media, given
