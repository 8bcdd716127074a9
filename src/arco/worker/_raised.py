"""Exceptions of users' code as values: what a driver tells its worker of them."""

import os
import traceback
from typing import Final

from arco.spark._errors import raised_first
from arco.worker._messages import RaisedError

__all__ = ["describe", "text_of"]

MAX_TEXT: Final = 100_000


def describe(error: BaseException, folder: str) -> RaisedError:
    lineage = tuple(f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__ if kind is not object)
    message = text_of(error)
    if isinstance(error, SystemExit):
        message = f"the code called sys.exit({message}); return a value or raise an exception instead"
    if type(error).__name__ == "PythonException":
        message = raised_first(message, folder)
    return RaisedError(lineage, message[:MAX_TEXT], _traceback(error, folder)[-MAX_TEXT:])


def text_of(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:  # noqa: BLE001 - their text is users' code too
        return f"{type(error).__name__}, whose text cannot be made"


def _traceback(error: BaseException, folder: str) -> str:
    """The traceback from where users' code begins, with paths as in their project."""
    ours = os.path.dirname(__file__)
    place = error.__traceback__
    while place is not None and place.tb_frame.f_code.co_filename.startswith(ours):
        place = place.tb_next
    try:
        text = "".join(traceback.format_exception(type(error), error, place or error.__traceback__))
    except Exception:  # noqa: BLE001 - formatting it runs users' code too
        text = type(error).__name__
    return text.replace(f"{folder}/", "") if folder else text
