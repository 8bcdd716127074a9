"""What people may call things. Every name is checked here once, where it enters.

Three kinds of name, from strict to loose:

- *Servo names* (asset namespaces, asset names, partition dimensions, store options): `^[a-z][a-z0-9_]*$`, at most 128
  characters. They appear unescaped in keys and in code.
- *Scope names* (tenant, workspace): `^[a-z0-9][a-z0-9-]{0,62}$`. They are parts of paths and of bucket policies.
- *Catalog names* (Iceberg namespaces, tables, views, columns): any Unicode text that cannot escape a path, widen a
  policy or deceive a reader. Names are compared as they are and never normalised, so a text that is not normalised
  (NFC) is refused, and so are letters that pass for others: styled ones, and in one name two scripts that look alike.
"""

import re
import unicodedata
from collections.abc import Iterable

from arco.core._errors import Invalid

__all__ = ["check_catalog_name", "check_name", "check_tenant", "check_workspace", "format_path", "parse_path", "shown"]

_NAME_MAX = 128
_CATALOG_NAME_MAX = 255
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_SCOPE = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_SHOWN_MAX = 80

_FORBIDDEN_CHARACTERS = frozenset("*?/\\\"'`")
# Most names are such; they need no look at each character.
_ORDINARY = re.compile(rf"[A-Za-z0-9_-]{{1,{_CATALOG_NAME_MAX}}}")
# Scripts with letters that look like those of another one here. A script is the first word of a letter's Unicode name.
_ALIKE = ("Latin", "Cyrillic", "Greek", "Armenian", "Coptic", "Cherokee")
_STYLED = ("<font>", "<wide>")


def shown(text: str) -> str:
    """The text as an error message may show it: quoted, without control characters, and short."""
    quoted = repr(text)
    return quoted if len(quoted) <= _SHOWN_MAX else f"{quoted[:_SHOWN_MAX]}... ({len(text)} characters)"


def check_name(kind: str, text: str) -> str:
    """The text, if it is a Servo name. `kind` says in the error what was being named."""
    if len(text) > _NAME_MAX:
        raise Invalid(f"the {kind} {shown(text)} is longer than {_NAME_MAX} characters; shorten it")
    if _NAME.fullmatch(text) is None:
        raise Invalid(f"the {kind} {shown(text)} is not a name; use a-z, 0-9 and _, and begin with a letter")
    return text


def check_tenant(text: str) -> str:
    """The text, if it may name a tenant."""
    return _check_scope("tenant", text)


def check_workspace(text: str) -> str:
    """The text, if it may name a workspace."""
    return _check_scope("workspace", text)


def check_catalog_name(kind: str, text: str) -> str:
    """The text, if Iceberg and we agree that it may name a namespace level, a table or a view."""
    if _ORDINARY.fullmatch(text) is not None:
        return text
    if not text:
        raise Invalid(f"the {kind} name is empty; give it 1 to {_CATALOG_NAME_MAX} characters")
    if len(text) > _CATALOG_NAME_MAX:
        raise Invalid(f"the {kind} name {shown(text)} is longer than {_CATALOG_NAME_MAX} characters; shorten it")
    for position, character in enumerate(text):
        # Not printable are controls, format characters (bidirectional marks, zero widths), lone surrogates, separators
        # but the space, and what has no meaning: none of them is seen, each can make two names look like one.
        if character in _FORBIDDEN_CHARACTERS or not character.isprintable():
            raise Invalid(
                f"the {kind} name {shown(text)} has {_described(character)} at position {position}; remove it",
                position=position,
            )
    if text.strip() != text:
        culprit = text[0] if text[0].isspace() else text[-1]
        raise Invalid(f"the {kind} name {shown(text)} begins or ends with {_described(culprit)}; remove it")
    if not text.strip("."):
        raise Invalid(f"the {kind} name {shown(text)} consists of U+002E FULL STOP only; add another character")
    if not text.isascii():
        _check_look(kind, text)
    return text


def parse_path(text: str) -> tuple[str, ...]:
    """The names in a text such as `sales.orders`; a name that has a dot itself stands in double quotes.

    No name holds a quote, so every path has exactly one such text. The names themselves are not checked here.
    """
    parts: list[str] = []
    at = 0
    while True:
        if text.startswith('"', at):
            end = text.find('"', at + 1)
            part, at = text[at + 1 : end], end + 1
            if end < 0 or (at < len(text) and text[at] != "."):
                raise Invalid(f'{shown(text)} has a quote out of place; write it as sales.orders or "a.b".orders')
        else:
            end = text.find(".", at)
            end = len(text) if end < 0 else end
            part, at = text[at:end], end
        parts.append(part)
        if at == len(text):
            return tuple(parts)
        at += 1


def format_path(path: Iterable[str]) -> str:
    """The one text of a path; `parse_path` reads it."""
    return ".".join(f'"{part}"' if "." in part or not part else part for part in path)


def _check_look(kind: str, text: str) -> None:
    """Refuse a name that another name would be mistaken for."""
    if not unicodedata.is_normalized("NFC", text):
        raise Invalid(f"the {kind} name {shown(text)} is not in Unicode normalization form C; send its NFC form")
    scripts: dict[str, str] = {}
    for position, character in enumerate(text):
        if unicodedata.decomposition(character).startswith(_STYLED):
            plain = unicodedata.normalize("NFKC", character)
            if plain.isascii():
                raise Invalid(
                    f"the {kind} name {shown(text)} has {_described(character)} at position {position}, which passes "
                    f"for {plain!r}; use ordinary characters",
                    position=position,
                )
        if character.isalpha():
            script = unicodedata.name(character, "").partition(" ")[0].capitalize()
            if script in _ALIKE:
                scripts.setdefault(script, character)
    if len(scripts) > 1:
        (one, first), (other, second), *_ = scripts.items()
        raise Invalid(
            f"the {kind} name {shown(text)} mixes letters that look alike: {one} ({_described(first)}) and {other} "
            f"({_described(second)}); use the letters of one script"
        )


def _check_scope(kind: str, text: str) -> str:
    if _SCOPE.fullmatch(text) is None:
        raise Invalid(
            f"{shown(text)} cannot name a {kind}; use 1 to 63 characters of a-z, 0-9 and -, not beginning with -"
        )
    return text


def _described(character: str) -> str:
    return f"U+{ord(character):04X} {unicodedata.name(character, '')}".rstrip()
