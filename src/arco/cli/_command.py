"""What makes a coroutine a command. Every command gets the common options, a `Session`, and the same end.

- `command`: works on the store itself.
- `asks`: reads through a server or, without one, through the same API in this process; has `--url`.
- `changes`: writes through it; has `--request-key` as well.

ArcoError            its message, its exit code, no traceback
Ctrl-C               130, as for a command that cancels itself when it is told to end
a reader that left   141, as a shell reports it (`arco log cat | head`)
anything else        1, one line, and the way to the traceback: --traceback
"""

import asyncio
import inspect
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec

import typer
from pydantic import ValidationError
from rich.traceback import Traceback

from arco.cli._open import Project, find_project
from arco.cli._options import (
    AllowedLocationsOption,
    JsonOption,
    ListenOption,
    PublicUrlOption,
    RequestKeyOption,
    StoreOption,
    StoreOptionsOption,
    TenantOption,
    TracebackOption,
    UrlOption,
    WorkspaceOption,
)
from arco.cli._output import Output
from arco.core import ArcoError, Invalid
from arco.runtime import AsyncRuntime

__all__ = ["EXIT_INTERRUPTED", "EXIT_UNEXPECTED", "Session", "asks", "changes", "command", "listens", "parse_options"]

P = ParamSpec("P")

EXIT_UNEXPECTED = 1
EXIT_INTERRUPTED = 130
EXIT_READER_LEFT = 141


@dataclass(frozen=True)
class Session:
    """What a command runs with."""

    project: Project
    output: Output
    runtime: AsyncRuntime
    writes: bool = False
    """Whether the command may change something through a server."""
    request_key: str | None = None


Body = Callable[Concatenate[Session, P], Coroutine[Any, Any, int | None]]
"""A command: takes a session and its own options, returns its exit code or None for 0."""


def command(app: typer.Typer, name: str | None = None) -> Callable[[Body[P]], Body[P]]:
    """Register a coroutine as a command on the store; its docstring is the help."""
    return _registering(app, name, [_common])


def asks(app: typer.Typer, name: str | None = None) -> Callable[[Body[P]], Body[P]]:
    """Register a coroutine as a command that reads through a server."""
    return _registering(app, name, [_server, _common])


def changes(app: typer.Typer, name: str | None = None) -> Callable[[Body[P]], Body[P]]:
    """Register a coroutine as a command that writes through a server."""
    return _registering(app, name, [_request, _server, _common], writes=True)


def listens(app: typer.Typer, name: str | None = None, *, public: bool = True) -> Callable[[Body[P]], Body[P]]:
    """Register a coroutine as a command that is a server itself; `public` if other machines may reach it."""
    return _registering(app, name, [_listening, *([_reached] if public else []), _common])


def _registering(
    app: typer.Typer, name: str | None, shared: list[Callable[..., None]], *, writes: bool = False
) -> Callable[[Body[P]], Body[P]]:
    def register(body: Body[P]) -> Body[P]:
        app.command(name or body.__name__)(_runnable(body, shared, writes))
        return body

    return register


def _server(url: UrlOption = None) -> None:
    """Options of commands that ask a server; as below, only the signature is used."""


def _request(request_key: RequestKeyOption = None) -> None: ...


def _listening(listen: ListenOption = None, allowed_locations: AllowedLocationsOption = None) -> None: ...


def _reached(public_url: PublicUrlOption = None) -> None: ...


def _common(
    as_json: JsonOption = False,
    store: StoreOption = None,
    tenant_id: TenantOption = None,
    workspace_id: WorkspaceOption = None,
    store_options: StoreOptionsOption = None,
    traceback: TracebackOption = False,
) -> None:
    """The options every command has; only the signature is used."""


def _runnable(body: Body[P], groups: list[Callable[..., None]], writes: bool) -> Callable[..., None]:
    """A function with the body's parameters and the shared ones, as Typer reads them from its signature."""
    call: Callable[..., Awaitable[int | None]] = body
    own = list(inspect.signature(body).parameters.values())[1:]
    common = [parameter for group in groups for parameter in inspect.signature(group).parameters.values()]
    names = {parameter.name for parameter in own}

    def run(**given: Any) -> None:
        mine = {name: value for name, value in given.items() if name in names}
        shared = {name: value for name, value in given.items() if name not in names}
        raise typer.Exit(_run(lambda session: call(session, **mine), writes, **shared))

    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in (*own, *common)]
    vars(run)["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__ = _flowing(body.__doc__)
    return run


def _flowing(doc: str | None) -> str:
    """A docstring with a line for each paragraph: where lines end is for the terminal to say, not for the source."""
    return "\n\n".join(part.replace("\n", " ") for part in inspect.cleandoc(doc or "").split("\n\n"))


def _run(
    body: Callable[[Session], Awaitable[int | None]],
    writes: bool,
    *,
    as_json: bool,
    traceback: bool,
    store_options: list[str] | None,
    request_key: str | None = None,
    allowed_locations: list[str] | None = None,
    **flags: object,
) -> int:
    output = Output(as_json=as_json)
    if allowed_locations:
        flags["allowed_locations"] = " ".join(allowed_locations)
    try:
        project = find_project(os.environ, {**flags, "store_options": parse_options(store_options)})
        session = Session(project, output, AsyncRuntime(), writes, request_key)
        with asyncio.Runner(loop_factory=_fast_loop() if "listen" in flags else None) as runner:
            return runner.run(_call(body, session)) or 0
    except ArcoError as error:
        if traceback:
            output.aside.print(Traceback())
        output.error(error)
        return error.exit_code
    except ValidationError as error:
        output.error(_unfit(error))
        return Invalid.exit_code
    except (KeyboardInterrupt, asyncio.CancelledError):
        output.note("interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The interpreter flushes once more on its way out; there is nobody to flush to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_READER_LEFT
    except Exception as error:  # noqa: BLE001 - the border: whatever nobody expected ends here, in one line
        if traceback:
            output.aside.print(Traceback())
        message = f"{type(error).__name__}: {error}; this is a fault of arco: --traceback shows where it arose"
        output.error(ArcoError(message))
        return EXIT_UNEXPECTED


def _fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The loop of a server: an answer takes it less processor time than Python's own, but it takes longer to load."""
    try:
        import uvloop
    except ImportError:  # there is none for Windows
        return None
    return uvloop.new_event_loop


def _unfit(error: ValidationError) -> Invalid:
    """What cannot even be sent. The value is not repeated: it may be long, or a secret."""
    found = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors(include_input=False)]
    return Invalid(f"the request does not fit: {'; '.join(found)}")


async def _call(body: Callable[[Session], Awaitable[int | None]], session: Session) -> int | None:
    return await body(session)


def parse_options(given: list[str] | None, flag: str = "--store-option") -> dict[str, str] | None:
    """`NAME=VALUE` texts as a table. No error shows a value: it may be a credential."""
    if not given:
        return None
    options: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise Invalid(f"{flag} takes NAME=VALUE, such as region=eu-west-1")
        if name in options:
            raise Invalid(f"{flag} {name!r} is given twice; give it once")
        options[name] = value
    return options
