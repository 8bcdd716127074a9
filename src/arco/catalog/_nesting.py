"""How deep JSON is nested, found before anybody parses it: Arrow's reader ends the process when it is very deep."""

import re
from typing import Final

from arco.core import Refused

__all__ = ["check_nesting"]

MAX_NESTING: Final = 32

_MARKS: Final = re.compile(rb'[\[\]{}]|"(?:[^"\\]|\\.)*"')


def check_nesting(data: bytes, path: str) -> None:
    """`Refused` if the text is nested deeper than any table here can be."""
    depth = 0
    for mark in _MARKS.finditer(data):
        found = mark[0]
        if found in (b"[", b"{"):
            depth += 1
        elif found in (b"]", b"}"):
            depth -= 1
        if depth > MAX_NESTING:
            raise Refused(f"{path} is nested more than {MAX_NESTING} deep, or does not close what it opens")
