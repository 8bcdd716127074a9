"""The secret scan: an event that holds a credential is refused before it is appended, since a log never forgets.

Two steps. `may_hold_secret` searches the encoded JSON with one regex and clears nearly every event; `check_no_secret`
walks the decoded value of the others and names the place, never the value.

A secret is known by its *shape* (an AWS key id, a JWT, a URL with a password) or by the *name* of its field
(`password`, `apiKey`, `client-secret`). References (`secret://env/NAME`) and masks (`***`, `${PASSWORD}`) are none.

Both steps are built from the same `_Mark`s. A mark is a pattern in three parts, `before`, `at` and `after`. The regex
engine skips to the first letter of an `at` and looks behind only there, so most `at`s begin with a letter that hashes
and ULIDs do not have: `g`, `k`, `v`, `w`, `x`, `y`, `z`, `I`, `O`.

The first step must clear nothing that the second would find. Encoding changes what stands next to a text (a line
break before it becomes `\\n`), so a mark's guards (`not_after`, `not_before`) count in the second step only, and a
`hint` stands in for an `after` that allows characters which JSON escapes, or that has no bound. Escapes that no
encoder needs (`\\u0041`, `\\/`) could hide any mark: they send an event to the second step.
"""

import json
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from arco.core import Invalid

__all__ = ["check_no_secret", "find_secret", "may_hold_secret"]


class _Mark(NamedTuple):
    """What gives a secret away: a shape somewhere in a text, or the end of a field's name."""

    kind: str
    before: str
    """Of one fixed width, as a look behind needs it."""
    at: str
    """Plain letters."""
    after: str
    not_after: str = ""
    """Characters that may not precede it."""
    not_before: str = ""
    """Characters that may not follow it."""
    hint: str | None = None
    """What encoded JSON is searched for instead of `after`."""


_ALNUM: Final = "A-Za-z0-9"
_SEP: Final = "[-_. ]?"
_MASK: Final = (
    r"(?:\*+|[xX]{3,}|\$\{(?:env:|secret:)?[A-Za-z_][A-Za-z0-9_.]*\}|\$[A-Z_][A-Z0-9_]*|<[A-Za-z0-9_ /-]+>"
    r"|\{\{? ?[A-Za-z_][A-Za-z0-9_.]* ?\}?\}|%s|%\([A-Za-z0-9_]+\)s|\[[A-Z]+\]|(?i:redacted|masked|hidden))"
)
_SIGNATURE: Final = "[A-Za-z0-9%+/=_-]{20}"
_UNMASKED: Final = rf"(?!{_MASK}(?:[&;\s]|\Z))[^\s&;'\"]{{3}}"
_AWS_ASSIGNED: Final = r"""["']?\s*[:=]\s*["']?[A-Za-z0-9/+]{40}"""

_SCOPE: Final = "[a-z0-9-]{1,63}"
_ULID: Final = "[0-7][0-9A-HJKMNP-TV-Z]{25}"

_SHAPES: Final = (
    _Mark("an Arco key", "ar", "co_", f"{_SCOPE}_{_SCOPE}_{_ULID}_[A-Za-z0-9_-]{{43}}", _ALNUM),
    _Mark("an AWS access key id", "A[KS]", "IA", "[A-Z0-9]{16}", _ALNUM, _ALNUM),
    _Mark(
        "an AWS secret access key",
        "[sS]e",
        "cret",
        f"{_SEP}[aA]ccess{_SEP}[kK]ey{_AWS_ASSIGNED}",
        not_before="A-Za-z0-9/+=",
        hint=f"{_SEP}[aA]ccess{_SEP}[kK]ey",
    ),
    _Mark(
        "an AWS secret access key",
        "",
        "SECRET",
        f"{_SEP}ACCESS{_SEP}KEY{_AWS_ASSIGNED}",
        not_before="A-Za-z0-9/+=",
        hint=f"{_SEP}ACCESS{_SEP}KEY",
    ),
    _Mark("a private key", "-----BEG", "IN ", "(?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY"),
    # Its guard also keeps the search linear: a long run of such letters is tried once, not from every "eyJ" in it.
    _Mark("a JSON Web Token", "e", "yJ", r"[\w-]{8,}\.[\w-]{8,}\.[\w-]{8}", r"\w-", hint=r"[\w-]{8}"),
    _Mark("a GitHub token", "", "gh", "[pousr]_[A-Za-z0-9]{36}", _ALNUM),
    _Mark("a GitHub token", "", "github_pat_", "[A-Za-z0-9_]{22}", _ALNUM),
    _Mark("a GitLab token", "", "gl", "(?:pat|ptt|dt|rt)-[A-Za-z0-9_-]{20}", _ALNUM),
    _Mark("a Slack token", "", "xox", "[abeoprs]-[A-Za-z0-9-]{10}", _ALNUM),
    _Mark("a Slack token", "", "xapp-", "[0-9]-[A-Za-z0-9-]{10}", _ALNUM),
    _Mark("a Slack webhook", "hoo", "ks", r"\.slack\.com/services/[A-Za-z0-9/]{20}"),
    _Mark("a Stripe key", "[sr]", "k_", "(?:live|test)_[A-Za-z0-9]{16}", _ALNUM + "_"),
    _Mark("a Google API key", "A", "Iza", "[A-Za-z0-9_-]{35}", "A-Za-z0-9+/_-"),
    _Mark("an npm token", "n", "pm_", "[A-Za-z0-9]{36}", _ALNUM + "_"),
    _Mark("a PyPI token", "pypi-AgE", "IcHlwaS5vcmc", ""),
    _Mark("a Databricks token", "da", "pi", "[0-9a-f]{32}", _ALNUM, _ALNUM),
    _Mark("an Azure storage account key", "AccountKe", "y=", "[A-Za-z0-9+/]{40}"),
    _Mark("an Azure shared access key", "SharedAccessKe", "y=", "[A-Za-z0-9+/]{40}"),
    _Mark("an Azure SAS signature", "[?&;]si", "g=", _SIGNATURE),
    _Mark("the signature of a presigned URL", "[?&-][sS]i", "gnature=", _SIGNATURE),
    _Mark("a password", "[?&;][pP]ass", "word=", _UNMASKED, hint=""),
    _Mark("a password", "[?&;][pP]", "wd=", _UNMASKED, hint=""),
    _Mark("a password", "[?&;]PASSWORD", "=", _UNMASKED, hint=""),
    _Mark("a password", "[?&;]PWD", "=", _UNMASKED, hint=""),
    _Mark("a token", "[?&]access_to", "ken=", r"[\w.~%-]{16}"),
    _Mark("a bearer token", "[bB]earer", " ", r"(?=[\w.~+/-]*[0-9])[\w.~+/-]{16}", hint=r"[\w.~+/-]{16}"),
)
# A URL has no rare letter. It is searched for only where there is an @, which is rare and found at once.
_URL: Final = _Mark("a URL with a password", ":/", "/", rf'[^\s/@:"]*:(?!{_MASK}@)[^\s/?;@"]+@')

_NAMES: Final = (
    _Mark("a password", "[pP]ass", "word", ""),
    _Mark("a password", "[pP]ass", "wd", ""),
    _Mark("a password", "PASSW", "ORD", ""),
    _Mark("a password", "PAS", "SWD", ""),
    _Mark("a secret", "[sS]e", "cret", f"(?:{_SEP}[aA]ccess)?(?:{_SEP}[kK]ey)?"),
    _Mark("a secret", "", "SECRET", f"(?:{_SEP}ACCESS)?(?:{_SEP}KEY)?"),
    _Mark("a token", "[tT]o", "ken", ""),
    _Mark("a token", "T", "OKEN", ""),
    _Mark("an API key", "[aA]", "pi", f"{_SEP}[kK]ey"),
    _Mark("an API key", "AP", "I", f"{_SEP}K(?:EY|ey)"),
    _Mark("a private key", "[pP]ri", "vate", f"{_SEP}[kK]ey"),
    _Mark("a private key", "PR", "IVATE", f"{_SEP}KEY"),
    _Mark("an authorization header", "authori", "zation", "", not_after="A-Za-z"),
    _Mark("an authorization header", "Authori", "zation", ""),
    _Mark("an authorization header", "AUTH", "ORIZATION", "", not_after="A-Z"),
    _Mark("an Azure storage account key", r"fs\.a", "zure", r"\.account\.key(?:\.[A-Za-z0-9.-]{1,80}+)?"),
)
_NAME_END: Final = "[-_. 0-9]*"
_JSON_SPACE: Final = r"[ \t\r\n]*"

_HARMLESS_NAME: Final = re.compile(
    rf"(?i:page|next|continuation|cursor|resume|sync|fencing|idempotency){_SEP}(?i:token){_NAME_END}\Z", re.ASCII
)
_HARMLESS_VALUE: Final = re.compile(
    rf"(?:(?i:bearer|basic|token) +)?(?:secret://[a-z][a-z0-9-]*/[\w./:#-]+|{_MASK}|(?i:true|false|null|none))",
    re.ASCII,
)


def _any_of(patterns: Iterable[tuple[str, str]]) -> str:
    """One pattern of many (first letter, rest), grouped by the letter: the engine then tries few of them at a place."""
    groups: dict[str, list[str]] = {}
    for first, rest in patterns:
        groups.setdefault(first, []).append(rest)
    return "|".join(f"{first}(?:{'|'.join(rests)})" for first, rests in groups.items())


def _in_text(index: int, mark: _Mark) -> tuple[str, str]:
    """How a mark is found in a decoded text. The empty group at its end tells which mark it was."""
    guard = f"(?<![{mark.not_after}]{mark.before}{mark.at})" if mark.not_after else ""
    end = f"(?![{mark.not_before}])" if mark.not_before else ""
    return mark.at[0], f"{mark.at[1:]}(?<={mark.before}{mark.at}){guard}{mark.after}{end}(?P<m{index}>)"


def _in_json(mark: _Mark, end: str = "") -> tuple[str, str]:
    after = mark.after if mark.hint is None else mark.hint
    return mark.at[0], f"{mark.at[1:]}(?<={mark.before}{mark.at}){after}{end}"


_ALL_SHAPES: Final = (*_SHAPES, _URL)
_SHAPE: Final = re.compile(_any_of(_in_text(i, mark) for i, mark in enumerate(_ALL_SHAPES)), re.ASCII)
_NAME: Final = re.compile(f"(?:{_any_of(_in_text(i, mark) for i, mark in enumerate(_NAMES))}){_NAME_END}\\Z", re.ASCII)
_NAMED_VALUE: Final = f'{_NAME_END}"{_JSON_SPACE}:{_JSON_SPACE}"[^"]'
_HINT: Final = re.compile(
    _any_of(
        [
            *(_in_json(mark) for mark in _SHAPES),
            *(_in_json(mark, _NAMED_VALUE) for mark in _NAMES),
            (r"\\", "u00[2-7]|/"),
        ]
    ).encode()
)
_URL_HINT: Final = re.compile(_any_of([_in_json(_URL)]).encode())
_AT: Final = ord("@")

_MAX_KEY: Final = 64
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)


def may_hold_secret(data: bytes) -> bool:
    """False only if `find_secret` finds nothing in the value that `data` is the JSON of."""
    return _HINT.search(data) is not None or (_AT in data and _URL_HINT.search(data) is not None)


def find_secret(value: object) -> str | None:
    """The JSON path of the first secret in a decoded JSON value, such as `$.options.password`, or None.

    A key that is a secret itself stands in the path by its number: `$.options.<key 2>`.
    """
    found = _find(value)
    return found.path if found else None


def check_no_secret(kind: str, value: object) -> None:
    """Raise `Invalid` if a decoded JSON value holds a secret. `kind` says in the message what the value is."""
    found = _find(value)
    if found:
        raise Invalid(
            f"the {kind} holds {found.kind} at {found.path}; store it in a secret provider and refer to it as a "
            "SecretRef such as secret://env/NAME",
            path=found.path,
            secret=found.kind,
        )


class _Found(NamedTuple):
    path: str
    kind: str


class _Place(NamedTuple):
    """Where a value stands: under a key of an object, or (`key` is None) as an item of an array."""

    parent: "_Place | None"
    key: str | None
    number: int


def _find(value: object) -> _Found | None:
    # A stack instead of recursion: JSON may be nested as deep as the interpreter allows its decoder to go.
    pending: list[tuple[object, _Place]] = [(value, _Place(None, None, 0))]
    while pending:
        node, place = pending.pop()
        kind = _shape_of(place.key) if place.key is not None else None
        if isinstance(node, str):
            kind = kind or _shape_of(node) or _kind_by_name(place.key, node)
        if kind:
            return _Found(_path(place, node), kind)
        if isinstance(node, dict):
            children = [(child, _Place(place, str(key), i)) for i, (key, child) in enumerate(node.items())]
            pending.extend(reversed(children))
        elif isinstance(node, list | tuple):
            pending.extend(reversed([(child, _Place(place, None, i)) for i, child in enumerate(node)]))
    return None


def _shape_of(text: str) -> str | None:
    match = _SHAPE.search(text)
    return _ALL_SHAPES[_number(match)].kind if match else None


def _kind_by_name(name: str | None, text: str) -> str | None:
    match = _NAME.search(name) if name else None
    if not name or not match or _HARMLESS_NAME.search(name):
        return None
    return None if not text.strip() or _HARMLESS_VALUE.fullmatch(text) else _NAMES[_number(match)].kind


def _number(match: re.Match[str]) -> int:
    return int((match.lastgroup or "")[1:])


def _path(place: _Place, secret: object) -> str:
    """The path as text. It repeats no key that is, or contains, a secret."""
    steps = []
    while place.parent is not None:
        steps.append(_step(place, secret))
        place = place.parent
    return "$" + "".join(reversed(steps))


def _step(place: _Place, secret: object) -> str:
    if place.key is None:
        return f"[{place.number}]"
    repeats = isinstance(secret, str) and secret != "" and secret in place.key
    if repeats or len(place.key) > _MAX_KEY or _shape_of(place.key):
        return f".<key {place.number}>"
    return f".{place.key}" if _PLAIN_KEY.fullmatch(place.key) else f"[{json.dumps(place.key)}]"
