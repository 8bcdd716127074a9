"""Selections: the text with which people say which assets they mean.

    selection := both (("or" | ",") both)*          or
    both      := single ("and" single)*             and
    single    := "not" single | [N] "+" term | term "+" [N] | term
    term      := "(" selection ")" | method ":" value | pattern

A pattern is a key, a name that only one asset has, or has wildcards (`sales.*`, `*_daily`). `+a` adds everything `a` is
made of, `a+` everything made of it, with a number at most so many steps away. Methods: `tag:k=v`, `tag:k`, `owner:x`,
`namespace:x`, `kind:external`. A value with spaces, parentheses or commas stands in double quotes.
"""

import re
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import NamedTuple, NoReturn

from arco.assets._definition import AssetKind, Project
from arco.assets._graph import Graph
from arco.assets._lookup import Lookup
from arco.core import Invalid, shown

__all__ = ["select"]

_LENGTH_MAX = 10_000
_DEPTH_MAX = 100
_NEAREST = 3
_TOKEN = re.compile(
    r"\s*(?:(?P<open>(?P<ahead>\d{0,4}\+)?\()|(?P<close>\)(?P<behind>\+\d{0,4})?)|(?P<comma>,)"
    r'|(?P<word>(?:"[^"]*"|[^\s(),"])+))'
)
_STEPS = re.compile(r"(?:(?P<ahead>\d{0,4})\+)?(?P<term>.+?)(?:\+(?P<behind>\d{0,4}))?", re.DOTALL)
_METHODS = ("tag", "owner", "namespace", "kind")


class _Token(NamedTuple):
    kind: str
    text: str
    at: int
    steps: str = ""
    """How far a bracket's contents are extended: `+`, `2+` before, `+`, `+2` after."""


def select(text: str, project: Project, graph: Graph | None = None) -> tuple[str, ...]:
    """The keys of the assets that a text selects, sorted. A text that selects nothing is refused."""
    if len(text) > _LENGTH_MAX:
        raise Invalid(f"the selection has {len(text):,} characters; at most {_LENGTH_MAX:,} are read")
    chosen = _Parser(text, graph or Graph(project)).parse()
    if not chosen:
        raise Invalid(f"the selection {shown(text)} selects nothing; its parts have no asset in common", selection=text)
    return tuple(sorted(chosen))


class _Parser:
    """Reads a selection from left to right; every method returns the keys that its part selects."""

    def __init__(self, text: str, graph: Graph) -> None:
        self._text = text
        self._graph = graph
        self._lookup = Lookup(graph.assets.values())
        self._tokens = self._split()
        self._next = 0
        self._depth = 0

    def parse(self) -> set[str]:
        if not self._tokens:
            raise Invalid("the selection is empty; name an asset, or write * for all")
        chosen = self._either()
        if self._next < len(self._tokens):
            token = self._tokens[self._next]
            self._fail(token.at, f"{shown(token.text)} is not expected here; join parts with 'and', 'or' or a comma")
        return chosen

    def _split(self) -> list[_Token]:
        tokens: list[_Token] = []
        at = 0
        while self._text[at:].strip():
            match = _TOKEN.match(self._text, at)
            if match is None:
                self._fail(at, "a quote is not closed")
            kind = match.lastgroup if match.lastgroup in ("comma", "word") else "open" if match["open"] else "close"
            steps = match["ahead"] or match["behind"] or ""
            token = match[0].strip()
            if kind == "word" and token in ("and", "or", "not"):
                kind = token
            tokens.append(_Token(str(kind), token, match.end() - len(token), steps))
            at = match.end()
        return tokens

    def _peek(self) -> str:
        return self._tokens[self._next].kind if self._next < len(self._tokens) else "end"

    def _either(self) -> set[str]:
        chosen = self._both()
        while self._peek() in ("or", "comma"):
            self._next += 1
            chosen |= self._both()
        return chosen

    def _both(self) -> set[str]:
        chosen = self._single()
        while self._peek() == "and":
            self._next += 1
            chosen &= self._single()
        return chosen

    def _single(self) -> set[str]:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            self._fail(self._tokens[self._next].at, f"the selection is nested more than {_DEPTH_MAX} deep")
        kind = self._peek()
        if kind == "end":
            self._fail(len(self._text), "something is missing here; name an asset")
        token = self._tokens[self._next]
        self._next += 1
        if kind == "not":
            chosen = set(self._graph.assets) - self._single()
        elif kind == "open":
            chosen = self._bracket(token)
        elif kind == "word":
            chosen = self._word(token)
        else:
            self._fail(token.at, f"{shown(token.text)} is not expected here; name an asset")
        self._depth -= 1
        return chosen

    def _bracket(self, opened: _Token) -> set[str]:
        chosen = self._either()
        if self._peek() != "close":
            self._fail(opened.at, "this parenthesis is not closed")
        closed = self._tokens[self._next]
        self._next += 1
        ahead = opened.steps.removesuffix("+") if opened.steps else None
        behind = closed.steps.removeprefix("+") if closed.steps else None
        return self._extended(chosen, ahead, behind)

    def _word(self, token: _Token) -> set[str]:
        match = _STEPS.fullmatch(token.text)
        if match is None or not match["term"].strip("+"):
            self._fail(token.at, f"{shown(token.text)} names no asset; write +a, a+ or +a+2")
        term = match["term"].replace('"', "")
        method, colon, value = term.partition(":")
        chosen = self._method(token.at, method, value) if colon else self._pattern(token.at, term)
        return self._extended(chosen, match["ahead"], match["behind"])

    def _extended(self, chosen: set[str], ahead: str | None, behind: str | None) -> set[str]:
        """With what is before and behind: None for nothing, an empty text for all of it, else so many steps."""
        result = set(chosen)
        if ahead is not None:
            result |= self._graph.ancestors(chosen, int(ahead) if ahead else None)
        if behind is not None:
            result |= self._graph.descendants(chosen, int(behind) if behind else None)
        return result

    def _pattern(self, at: int, pattern: str) -> set[str]:
        if "*" in pattern or "?" in pattern:
            # Keys have no brackets, so none in a pattern means a set of characters.
            plain = pattern.replace("[", "[[]")
            chosen = {key for key in self._graph.assets if fnmatchcase(key, plain)}
            if not chosen and "." not in pattern:
                chosen = {key for key in self._graph.assets if fnmatchcase(key.partition(".")[2], plain)}
            if not chosen:
                known = sorted({key.partition(".")[0] for key in self._graph.assets})
                self._fail(at, f"no asset matches {shown(pattern)}; namespaces are {', '.join(known) or 'none'}")
            return chosen
        try:
            return {self._lookup.find(pattern)}
        except Invalid as error:
            self._fail(at, error.message, **error.details)

    def _method(self, at: int, method: str, value: str) -> set[str]:
        assets = self._graph.assets.items()
        if method == "tag":
            name, equals, wanted = value.partition("=")
            chosen = {key for key, asset in assets if name in asset.tags and (not equals or asset.tags[name] == wanted)}
            known = {f"{name}={text}" for _, asset in assets for name, text in asset.tags.items()}
        elif method == "owner":
            chosen = {key for key, asset in assets if value in asset.owners}
            known = {owner for _, asset in assets for owner in asset.owners}
        elif method == "namespace":
            chosen = {key for key, _ in assets if key.partition(".")[0] == value}
            known = {key.partition(".")[0] for key, _ in assets}
        elif method == "kind":
            chosen = {key for key, asset in assets if asset.kind == value}
            known = {kind.value for kind in AssetKind}
            if value in known:
                return chosen
        else:
            self._fail(at, f"there is no {shown(method + ':')}; methods are {', '.join(f'{m}:' for m in _METHODS)}")
        if not chosen:
            self._fail(at, f"no asset has {method} {shown(value)}; {_nearest(value, known)}")
        return chosen

    def _fail(self, at: int, message: str, **details: object) -> NoReturn:
        text = self._text if len(self._text) <= 200 else f"{self._text[:200]}..."
        pointer = f"\n  {text}\n  {' ' * at}^" if at <= 200 and "\n" not in text else ""
        raise Invalid(f"in the selection at character {at + 1}: {message}{pointer}", position=at, **details)


def _nearest(value: str, known: set[str]) -> str:
    if not known:
        return "the project has none"
    near = get_close_matches(value, known, _NEAREST)
    return f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(sorted(known)[:10])}"
