"""What people may call things. Every name is checked here once, where it enters.

Three kinds of name, from strict to loose:

- *Servo names* (asset namespaces, asset names, partition dimensions, store options): `^[a-z][a-z0-9_]*$`, at most 128
  characters. They appear unescaped in keys and in code.
- *Scope names* (tenant, workspace): `^[a-z0-9][a-z0-9-]{0,62}$`. They are parts of paths and of bucket policies.
- *Catalog names* (Iceberg namespaces, tables, views): any Unicode text that cannot escape a path, widen a policy or
  deceive a reader. Names are compared as they are and never normalised.
"""

import re
import unicodedata

from arco.core._errors import Invalid

__all__ = ["check_catalog_name", "check_name", "check_tenant", "check_workspace", "shown"]

_NAME_MAX = 128
_CATALOG_NAME_MAX = 255
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_SCOPE = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_SHOWN_MAX = 80

# The categories are controls, format characters (bidirectional marks, zero widths), lone surrogates, line and
# paragraph separators: none of them is seen, each of them can make two names look like one.
_FORBIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_FORBIDDEN_CHARACTERS = frozenset("*?/\\\"'`")


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
    if not text:
        raise Invalid(f"the {kind} name is empty; give it 1 to {_CATALOG_NAME_MAX} characters")
    if len(text) > _CATALOG_NAME_MAX:
        raise Invalid(f"the {kind} name {shown(text)} is longer than {_CATALOG_NAME_MAX} characters; shorten it")
    for position, character in enumerate(text):
        if character in _FORBIDDEN_CHARACTERS or unicodedata.category(character) in _FORBIDDEN_CATEGORIES:
            raise Invalid(
                f"the {kind} name {shown(text)} has {_described(character)} at position {position}; remove it",
                position=position,
            )
    if text.strip() != text:
        culprit = text[0] if text[0].isspace() else text[-1]
        raise Invalid(f"the {kind} name {shown(text)} begins or ends with {_described(culprit)}; remove it")
    if not text.strip("."):
        raise Invalid(f"the {kind} name {shown(text)} consists of U+002E FULL STOP only; add another character")
    return text


def _check_scope(kind: str, text: str) -> str:
    if _SCOPE.fullmatch(text) is None:
        raise Invalid(
            f"{shown(text)} cannot name a {kind}; use 1 to 63 characters of a-z, 0-9 and -, not beginning with -"
        )
    return text


def _described(character: str) -> str:
    return f"U+{ord(character):04X} {unicodedata.name(character, '')}".rstrip()
