"""Where a definition is written, and errors that say so."""

import sys
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple, NoReturn

from arco.core import Invalid, shown

__all__ = ["Where", "refuse_unknown"]

_PACKAGE = __name__.rpartition(".")[0]


class Where(NamedTuple):
    file: str
    line: int
    names: Mapping[str, Any]
    """The global names of the module."""

    @classmethod
    def of_function(cls, function: Callable[..., Any]) -> "Where":
        code = getattr(function, "__code__", None)
        if code is None:
            return cls.of_caller()
        return cls(code.co_filename, code.co_firstlineno, getattr(function, "__globals__", {}))

    @classmethod
    def of_caller(cls) -> "Where":
        """The line outside this package that called into it."""
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_PACKAGE):
            frame = frame.f_back
        return cls(frame.f_code.co_filename, frame.f_lineno, frame.f_globals)

    def refuse(self, message: str, cure: str) -> NoReturn:
        raise Invalid(
            f"{self.file}:{self.line}: {message}; {cure}", file=self.file, line=self.line, problem=message, cure=cure
        )

    def checked(self, what: str, make: Callable[[], Any]) -> Any:
        """The value made; an error of it is told with this place."""
        try:
            return make()
        except Invalid as error:
            if "cure" in error.details:
                raise
            message, _, cure = error.message.partition("; ")
            self.refuse(f"{what}: {message}", cure or "correct it")


def refuse_unknown(where: Where, what: str, unknown: Iterable[str], known: Iterable[str]) -> None:
    """Refuse arguments that nothing would act on."""
    for name in unknown:
        near = get_close_matches(name, known := sorted(known), 1)
        cure = f"did you mean {near[0]}?" if near else f"its arguments are {', '.join(known)}"
        where.refuse(f"{what} has no argument {shown(name)}", cure)
