"""Column types as text. One type has one text, whatever engine's words it was written in.

    boolean int long float double decimal(p,s) date time timestamp timestamptz string uuid fixed(n) binary
    list<T> map<K,V> struct<a:T,b:U>

Words of Spark, SQL, DuckDB, Arrow and Iceberg are read as one of these. What would lose something (`varchar(10)`) or
means one thing here and another there (`int8`, `decimal` without digits) is refused. A field of a struct keeps its case
and stands in double quotes if it is not an ordinary word.
"""

import difflib
import re
from functools import lru_cache
from typing import Final, NamedTuple

from arco.core import Invalid, TooLarge, check_catalog_name, shown

__all__ = ["MAX_TYPE_DEPTH", "MAX_TYPE_LENGTH", "parse_type", "widens"]

MAX_TYPE_LENGTH: Final = 16_384
MAX_TYPE_DEPTH: Final = 16
MAX_PRECISION: Final = 38
MAX_FIXED: Final = 65_535

_SYNONYMS: Final = {
    "boolean": "bool logical",
    "int": "integer int4 int32 int2 int16 smallint short tinyint byte uint16",
    "long": "bigint int64 uint32",
    "float": "real float4 float32",
    "double": "float8 float64,double precision",
    "decimal": "numeric dec decimal128",
    "date": "date32",
    "time": "time64,time without time zone",
    "timestamp": "timestamp_ntz datetime,timestamp without time zone",
    "timestamptz": "timestamp_ltz timestamp_tz,timestamp with time zone,timestamp with local time zone",
    "string": "varchar text str utf8 large_string large_utf8 char bpchar nvarchar,character varying",
    "uuid": "guid",
    "fixed": "fixed_size_binary",
    "binary": "blob bytes bytea varbinary large_binary",
    "list": "array large_list",
    "map": "",
    "struct": "row",
}
_WORDS: Final = {
    word: name
    for name, synonyms in _SYNONYMS.items()
    for word in (name, *(s for i, part in enumerate(synonyms.split(",")) for s in ([part] if i else part.split())))
}
_HINTS: Final = {
    "int8": "it has 8 bytes to SQL and 8 bits to Arrow; write long or int",
    "uint8": "it has 8 bytes to SQL and 8 bits to Arrow; write decimal(20,0) or int",
    "uint64": "it does not fit into long; write decimal(20,0)",
    "ubigint": "it does not fit into long; write decimal(20,0)",
    "hugeint": "it does not fit into long; write decimal(38,0)",
}
_PHRASES: Final = tuple(word.split() for word in sorted(_WORDS, key=len, reverse=True) if " " in word)
_NESTED: Final = ("list", "map", "struct")
_WIDER: Final = {("int", "long"), ("float", "double")}

_EXAMPLE: Final = "write it as int, decimal(10,2), list<string> or struct<a:int,b:string>"

_TOKEN: Final = re.compile(r"\s*(?:(?P<word>[\w$-]+)|(?P<quoted>\"[^\"]*\"|`[^`]*`)|(?P<mark>[<>(),:\[\]]))")
_ORDINARY: Final = re.compile(r"[\w$-]+")


class _Type(NamedTuple):
    """A type taken apart: its canonical word, its numbers, and what it is made of."""

    word: str
    numbers: tuple[int, ...] = ()
    parts: "tuple[_Type, ...]" = ()
    fields: tuple[str, ...] = ()


def parse_type(text: str) -> str:
    """The one text of a type; `Invalid` says what is wrong with it and which type is nearest."""
    if len(text) > MAX_TYPE_LENGTH:
        raise TooLarge(f"the type {shown(text)} is longer than {MAX_TYPE_LENGTH} characters; shorten it")
    return _canonical(text)


def widens(old: str, new: str) -> bool:
    """Whether every value of `old` is one of `new`, so that data of the old type can be read as the new one.

    Both are canonical. Inside lists, values of maps and structs the same holds; a struct may get fields at its end.
    """
    return old != new and _fits(_parsed(old), _parsed(new))


@lru_cache(maxsize=1_024)
def _canonical(text: str) -> str:
    return _text(_parsed(text))


@lru_cache(maxsize=1_024)
def _parsed(text: str) -> _Type:
    parser = _Parser(text)
    found = parser.type(1)
    if _depth(found) > MAX_TYPE_DEPTH:
        raise TooLarge(f"the type {shown(text)} is nested more than {MAX_TYPE_DEPTH} deep; flatten it")
    if parser.peek():
        raise Invalid(f"the type {shown(text)} goes on after its end with {shown(parser.peek())}; remove that")
    return found


def _depth(kind: _Type) -> int:
    return 1 + max(map(_depth, kind.parts), default=0)


def _text(kind: _Type) -> str:
    if kind.word == "struct":
        fields = zip(kind.fields, kind.parts, strict=True)
        return f"struct<{','.join(f'{_field(name)}:{_text(part)}' for name, part in fields)}>"
    if kind.parts:
        return f"{kind.word}<{','.join(map(_text, kind.parts))}>"
    return f"{kind.word}({','.join(map(str, kind.numbers))})" if kind.numbers else kind.word


def _field(name: str) -> str:
    return name if _ORDINARY.fullmatch(name) else f'"{name}"'


def _fits(old: _Type, new: _Type) -> bool:
    if old == new or (old.word, new.word) in _WIDER:
        return True
    if old.word != new.word:
        return False
    if old.word == "decimal":
        return old.numbers[1] == new.numbers[1] and old.numbers[0] < new.numbers[0]
    if old.word == "map":
        return old.parts[0] == new.parts[0] and _fits(old.parts[1], new.parts[1])
    if old.word in _NESTED:
        return old.fields == new.fields[: len(old.fields)] and all(map(_fits, old.parts, new.parts))
    return False


class _Parser:
    """Reads one type from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        self._at = 0
        at, end = 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None:
                raise Invalid(f"the type {shown(text)} cannot be read at {shown(text[at:])}; {_EXAMPLE}")
            self._tokens.append(match[0].strip())
            at = match.end()

    def peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self.peek()
        self._at += 1
        return token

    def _accept(self, *tokens: str) -> bool:
        if self.peek() in tokens:
            self._at += 1
            return True
        return False

    def _expect(self, *tokens: str) -> str:
        token = self._next()
        if token not in tokens:
            found = shown(token) if token else "its end"
            raise Invalid(f"the type {shown(self._text)} has {found} where {' or '.join(tokens)} belongs; {_EXAMPLE}")
        return token

    def type(self, depth: int) -> _Type:
        if depth > MAX_TYPE_DEPTH:
            raise TooLarge(f"the type {shown(self._text)} is nested more than {MAX_TYPE_DEPTH} deep; flatten it")
        word = self._word()
        found = self._nested(word, depth) if word in _NESTED else self._plain(word)
        while self._accept("["):
            self._expect("]")
            found = _Type("list", parts=(found,))
            if _depth(found) > MAX_TYPE_DEPTH:
                raise TooLarge(f"the type {shown(self._text)} is nested more than {MAX_TYPE_DEPTH} deep; flatten it")
        return found

    def _word(self) -> str:
        """The canonical word of what stands here, which may be several words."""
        for phrase in _PHRASES:
            if [token.lower() for token in self._tokens[self._at : self._at + len(phrase)]] == phrase:
                self._at += len(phrase)
                return _WORDS[" ".join(phrase)]
        given = self._next()
        word = given.lower()
        if word in _WORDS:
            return _WORDS[word]
        if word in _HINTS:
            raise Invalid(f"the type {shown(given)} is not used here: {_HINTS[word]}")
        if not given:
            raise Invalid(f"the type {shown(self._text)} ends where a type belongs; {_EXAMPLE}")
        near = difflib.get_close_matches(word, _WORDS, 1)
        known = f"did you mean {_shape(_WORDS[near[0]])}?" if near else f"known are {', '.join(map(_shape, _SYNONYMS))}"
        raise Invalid(f"the type {shown(given)} is not known; {known}")

    def _nested(self, word: str, depth: int) -> _Type:
        close = {"<": ">", "(": ")"}[self._expect("<", "(")]
        fields: list[str] = []
        parts: list[_Type] = []
        while True:
            if word == "struct":
                fields.append(self._name())
                self._accept(":")
            parts.append(self.type(depth + 1))
            if not self._accept(","):
                break
        self._expect(close)
        wanted = {"list": 1, "map": 2}.get(word, len(parts))
        if len(parts) != wanted:
            raise Invalid(f"the type {shown(self._text)} gives {word} {len(parts)} types, it takes {wanted}")
        if len({name.lower() for name in fields}) < len(fields):
            twice = next(name for i, name in enumerate(fields) if name.lower() in map(str.lower, fields[:i]))
            raise Invalid(f"the type {shown(self._text)} has the field {shown(twice)} twice; rename one")
        return _Type(word, parts=tuple(parts), fields=tuple(fields))

    def _name(self) -> str:
        name = self._next()
        if name[:1] in ('"', "`"):
            name = name[1:-1]
        elif not _ORDINARY.fullmatch(name):
            found = shown(name) if name else "its end"
            raise Invalid(f"the type {shown(self._text)} has {found} where a field's name belongs; {_EXAMPLE}")
        return check_catalog_name("field", name)

    def _plain(self, word: str) -> _Type:
        numbers: list[int] = []
        after = self._tokens[self._at + 1] if self._at + 1 < len(self._tokens) else ""
        if self.peek() == "(" or (word == "fixed" and self.peek() == "[" and after != "]"):
            close = {"(": ")", "[": "]"}[self._next()]
            while True:
                numbers.append(self._number())
                if not self._accept(","):
                    break
            self._expect(close)
        return self._checked(word, tuple(numbers))

    def _number(self) -> int:
        token = self._next()
        if not (token.isascii() and token.isdecimal() and len(token) <= 6):
            found = shown(token) if token else "its end"
            raise Invalid(f"the type {shown(self._text)} has {found} where a number belongs; {_EXAMPLE}")
        return int(token)

    def _checked(self, word: str, numbers: tuple[int, ...]) -> _Type:
        if word == "decimal":
            precision, scale = (*numbers, 0)[:2] if 1 <= len(numbers) <= 2 else (0, 0)
            if not (1 <= precision <= MAX_PRECISION and 0 <= scale <= precision):
                raise Invalid(
                    f"the type {shown(self._text)} has no valid digits; write decimal(p,s) with p from 1 to "
                    f"{MAX_PRECISION} and s from 0 to p"
                )
            return _Type(word, (precision, scale))
        if word == "fixed":
            if len(numbers) != 1 or not 1 <= numbers[0] <= MAX_FIXED:
                raise Invalid(f"the type {shown(self._text)} needs its bytes; write fixed(n), n from 1 to {MAX_FIXED}")
            return _Type(word, numbers)
        if numbers:
            raise Invalid(f"the type {shown(self._text)} has a size, which {word} does not keep; write {word}")
        return _Type(word)


def _shape(word: str) -> str:
    return {
        "decimal": "decimal(p,s)",
        "fixed": "fixed(n)",
        "list": "list<T>",
        "map": "map<K,V>",
        "struct": "struct<a:T>",
    }.get(word, word)
