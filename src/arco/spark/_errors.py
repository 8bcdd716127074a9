"""Errors of Spark that end a task. Failures are classified by their names, so each name is a reaction.

Spark's own errors are of several worlds: Java exceptions with pages of stack, PySpark's classes, broken sockets.
`translated` makes one sentence of them and leaves alone what already says what it is.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from arco.core import ArcoError, Corrupt, Invalid, LostObject, Refused, Unavailable

__all__ = [
    "BadFrame",
    "FilesChanged",
    "FilesDamaged",
    "InputDamaged",
    "InputLost",
    "NothingReturned",
    "ReadFile",
    "SessionStopped",
    "SparkFailed",
    "SparkOutOfMemory",
    "SparkUnavailable",
    "SparkUnreachable",
    "raised_first",
    "text_of",
    "translated",
    "without_stack",
]

MAX_TEXT: Final = 2_000

_BAD_FILE: Final = re.compile(
    r"FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER|is not a Parquet file|ChecksumException|Could not read footer"
)
_NO_FILE: Final = re.compile(r"FILE_NOT_EXIST|PATH_NOT_FOUND|FileNotFoundException")
_STATIC: Final = re.compile(r"CANNOT_MODIFY_CONFIG|CANNOT_MODIFY_STATIC_CONFIG")
_KILLED: Final = re.compile(r"Python worker exited unexpectedly \(crashed\)(?!.*Fatal Python error)", re.DOTALL)
"""Whoever is killed says nothing; a library that breaks its process does, if Spark is told to listen."""
_FRAME: Final = re.compile(r'^ +File "(?P<path>[^"\n]+)", line (?P<line>\d+).*$', re.MULTILINE)
_LIBRARY: Final = re.compile(r"/(?:site-packages|dist-packages|pyspark|pyspark\.zip|lib/python3[^/]*)/|^<")
"""Paths of files that no author of an asset wrote."""


class SparkUnavailable(Invalid):
    """Spark cannot be started here: PySpark or Java is missing or the wrong one. Install it."""


class SessionStopped(Invalid):
    """The function stopped the session that was lent to it. Correct the function."""


class SparkUnreachable(Unavailable):
    """The cluster that the worker was told to use does not answer."""


class SparkOutOfMemory(ArcoError):
    """Spark's process has or gets too little memory."""


class BadFrame(Refused):
    """What the function returned cannot be kept. Nothing was written."""


class NothingReturned(BadFrame):
    """The function returned None."""


class SparkFailed(ArcoError):
    """Spark could not do what the function asked for."""


class InputLost(LostObject):
    """A file of a version that the task reads is gone. Whatever makes that asset must run again."""


class InputDamaged(Corrupt):
    """A file of a version that the task reads is not as it was written. Whatever makes that asset must run again."""


class FilesChanged(Unavailable):
    """Somebody wrote files while a task read them. Once that is done another attempt reads all of them."""


class FilesDamaged(Corrupt):
    """A file that others bring cannot be read. No run makes it."""


class ReadFile(NamedTuple):
    """A file that a task reads, as errors tell of it."""

    told: str
    """What it belongs to, in words."""
    is_ours: bool = True
    """A run made it; else others bring it."""


def text_of(error: BaseException) -> str:
    """What an error of Spark says, without the stack of the Java side."""
    java = getattr(error, "java_exception", None)
    try:
        text = str(java.toString()) if java is not None else str(error)
    except Exception:  # noqa: BLE001 - the Java side may be gone
        text = str(error)
    return without_stack(text).partition("JVM stacktrace:")[0].strip()[:MAX_TEXT]


def without_stack(text: str) -> str:
    """What Java says, without the lines that say where."""
    return "\n".join(line for line in text.split("\n") if not line.lstrip().startswith(("at ", "... ")))


def raised_first(text: str, folder: str) -> str:
    """What Spark says of an exception in a function that it ran: what was raised and where, then the traceback.

    Spark's own text begins with a sentence that says nothing of it, and ends with what was raised.
    """
    begin = max(text.find("Traceback (most recent call last):"), 0)
    frames = list(_FRAME.finditer(text, begin))
    after = text[frames[-1].end() :].split("\n") if frames else []
    raised = next((line for line in after if line and not line[0].isspace()), None)
    if raised is None:
        return text
    own = [frame for frame in frames if not _LIBRARY.search(frame["path"])]
    path = own[-1]["path"].removeprefix(f"{folder}/").rpartition(".zip/")[2] if own else ""
    place = f" ({path}:{own[-1]['line']})" if own else ""
    return f"{raised}{place}\n{text[begin:].strip()}"


def translated(error: BaseException, files: Mapping[str, ReadFile]) -> BaseException:
    """The error to report. `files` are those that the task reads, by path."""
    if isinstance(error, ArcoError) or not _is_of(error, "pyspark.", "py4j."):
        return error
    text = text_of(error)
    found = next((file for path, file in files.items() if path in text), None)
    if _NO_FILE.search(text) and found is not None:
        return _lost(found)
    if _BAD_FILE.search(text) and found is not None:
        return _damaged(found)
    if _STATIC.search(text):
        whose = (
            "a whole server of Spark Connect: set it on the server, and neither for the asset nor for the worker"
            if _is_of(error, "pyspark.errors.exceptions.connect")
            else "a whole application: give it to the worker with --spark-conf"
        )
        return Invalid(f"{text.partition(chr(10))[0]}; it holds for {whose}")
    if _KILLED.search(text):
        return SparkOutOfMemory(
            "a Python process of Spark's, in which functions of the task run, was killed or crashed, most often for "
            "lack of memory; give executors more beside Java's (--spark-conf spark.executor.memoryOverhead=...), or "
            "use fewer cores where Spark is local (--master local[2]); if memory is not the cause, "
            "spark.python.worker.faulthandler.enabled=true shows where it crashes"
        )
    return SparkFailed(text) if type(error).__name__ == "Py4JJavaError" else error


def _lost(file: ReadFile) -> ArcoError:
    if file.is_ours:
        return InputLost(f"{file.told}, which the task reads, is gone; run what makes it again")
    return FilesChanged(f"{file.told} went away while it was read; run it again when others are done with their files")


def _damaged(file: ReadFile) -> ArcoError:
    if file.is_ours:
        return InputDamaged(f"{file.told}, which the task reads, is damaged; run what makes it again")
    return FilesDamaged(f"{file.told}, which the task reads, is damaged; have those who bring it bring it again")


def _is_of(error: BaseException, *packages: str) -> bool:
    return any(kind.__module__.startswith(packages) for kind in type(error).__mro__)
