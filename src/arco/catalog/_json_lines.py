"""JSON that ends the process of who reads it, found before anybody does: Arrow's reader bears neither deep nesting nor
a line that is `null` where an object belongs."""

import re
from typing import Final

from arco.core import Refused

__all__ = ["check_json_lines"]

MAX_NESTING: Final = 32

_MARKS: Final = re.compile(rb'[\[\]{}]|"(?:[^"\\]|\\.)*"')
_NULL: Final = re.compile(rb"^(?:\xef\xbb\xbf)?[ \t\r]*null", re.MULTILINE)


def check_json_lines(data: bytes, path: str) -> None:
    """`Refused` if the text is nested deeper than any table here can be, or has a line that is nothing."""
    depth = 0
    for mark in _MARKS.finditer(data):
        found = mark[0]
        if found in (b"[", b"{"):
            depth += 1
        elif found in (b"]", b"}"):
            depth -= 1
        if depth > MAX_NESTING:
            raise Refused(f"{path} is nested more than {MAX_NESTING} deep, or does not close what it opens")
    if _NULL.search(data):
        raise Refused(f"{path} has a line that is null and not one JSON object; leave that line out")
