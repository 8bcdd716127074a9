"""Regular expressions that mean the same everywhere: a subset of what Python, Java (Spark) and RE2 (DuckDB) have.

`check_pattern` refuses what one of them lacks or reads otherwise; `portable_pattern` writes the rest for an engine.
"""

import re
from typing import Final

from arco.assets._dialect import Dialect
from arco.core import Invalid, shown

__all__ = ["check_pattern", "portable_pattern"]

_MAX_REPEAT: Final = 1000
_ESCAPES: Final = frozenset("dDwWsSbBtnrfA")
_GROUP: Final = re.compile(r"\(\?(?::|[ims]+(?:-[ims]+)?[:)]|-[ims]+[:)])")
_REPEAT: Final = re.compile(r"\{(\d{1,9})(?:,(\d{0,9}))?\}")
_TOKEN: Final = re.compile(
    r"(?P<escape>\\(?:x[0-9a-fA-F]{2}|.))|(?P<class>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<other>.)", re.S
)


def check_pattern(pattern: str) -> str:
    """The pattern, if every engine reads it alike."""
    place, after_repeat = 0, False
    while place < len(pattern):
        token = _token(pattern, place)
        text = token.group()
        if token.lastgroup == "escape":
            _check_escape(pattern, text)
        elif token.lastgroup == "class":
            _check_class(pattern, text)
        elif text == "(" and pattern.startswith("(?", place) and _GROUP.match(pattern, place) is None:
            raise _refused(pattern, "a group that looks around, has a name or a condition", "use ( ) or (?: )")
        elif text == "{":
            repeat = _REPEAT.match(pattern, place)
            if repeat is None:
                raise _refused(pattern, "a { that repeats nothing", "write \\{ for the character, or {0,3}")
            if any(int(number) > _MAX_REPEAT for number in repeat.groups() if number):
                raise _refused(pattern, f"a repetition of more than {_MAX_REPEAT}", "repeat less")
            text = repeat.group()
        is_repeat = token.lastgroup == "other" and (text in "*+?" or text.startswith("{"))
        if is_repeat and after_repeat and text != "?":
            raise _refused(pattern, "a repetition of a repetition", "put the inner one into (?: )")
        # `a*?` is lazy; whatever follows that repeats what is repeated.
        after_repeat = is_repeat
        place += len(text)
    # Last, because Python warns of what was refused above.
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise Invalid(f"the pattern {shown(pattern)} is no regular expression ({error}); correct it") from None
    return pattern


def portable_pattern(pattern: str, dialect: Dialect) -> str:
    """The pattern for an engine. `$` and `\\Z` are the very end: Java's also stand before a last line break."""
    parts = []
    for token in _TOKEN.finditer(pattern):
        text = token.group()
        is_end = (token.lastgroup == "other" and text == "$" and "m" not in _flags(pattern)) or text == "\\Z"
        parts.append("\\z" if is_end else text)
    written = "".join(parts)
    # Java also ends lines at other characters than \n, unless told.
    return f"(?d){written}" if dialect is Dialect.SPARK else written


def _token(pattern: str, place: int) -> re.Match[str]:
    token = _TOKEN.match(pattern, place)
    assert token is not None
    return token


def _check_escape(pattern: str, text: str) -> None:
    kind = text[1]
    if kind.isdigit():
        raise _refused(pattern, f"{text}, which refers to a group", "write what it should be once more")
    if kind.isalpha() and kind not in _ESCAPES and kind not in "xZ":
        raise _refused(pattern, f"{text}, which engines read differently", "write the character itself")


def _check_class(pattern: str, text: str) -> None:
    inside = re.sub(r"\\.", "", text[1:-1])
    if "[" in inside or "&&" in inside or "--" in inside or "||" in inside or "~~" in inside:
        raise _refused(pattern, "a [ or && inside of [ ]", "write \\[ and \\& there")
    if text.startswith(("[]", "[^]")):
        raise _refused(pattern, "a ] as the first character of [ ]", "write \\]")
    for escape in re.findall(r"\\(.)", text):
        if escape.isalnum() and escape not in "dDwWsStnrfx":
            raise _refused(pattern, f"\\{escape} inside of [ ]", "write the character itself")


def _flags(pattern: str) -> str:
    return "".join(re.findall(r"\(\?([ims]+)", pattern))


def _refused(pattern: str, what: str, cure: str) -> Invalid:
    return Invalid(f"the pattern {shown(pattern)} has {what}, which not every engine knows; {cure}")
