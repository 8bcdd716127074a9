"""The tree of commands, and what happens around one: version, help, usage errors, and how the process ends."""

import atexit
import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from arco import __version__
from arco.cli._access import key, role, settings, who
from arco.cli._activity import events, single
from arco.cli._assets import app as assets
from arco.cli._backfill import app as backfill
from arco.cli._backup import app as backup
from arco.cli._backup import restoring
from arco.cli._check import app as check
from arco.cli._column import app as column
from arco.cli._command import EXIT_INTERRUPTED
from arco.cli._contract import contract, sla
from arco.cli._cost import app as cost
from arco.cli._deploy import app as deploy
from arco.cli._deploy import deployments
from arco.cli._dev import app as dev
from arco.cli._doctor import app as doctor
from arco.cli._erase import app as erasing
from arco.cli._init import app as setup
from arco.cli._lineage import app as lineage
from arco.cli._log import app as log
from arco.cli._maintain import app as maintain
from arco.cli._namespace import app as namespace
from arco.cli._output import Output
from arco.cli._partitions import app as partitions
from arco.cli._plan import app as plan
from arco.cli._quarantine import app as quarantine
from arco.cli._query import app as query
from arco.cli._run import app as run
from arco.cli._runs import app as runs
from arco.cli._runs import explain
from arco.cli._serve import app as server
from arco.cli._state import app as state
from arco.cli._table import app as table
from arco.cli._upgrade import app as upgrade
from arco.cli._upkeep import app as upkeep
from arco.cli._worker import app as worker
from arco.core import Invalid

__all__ = ["app", "main"]

EPILOG = """\
[bold]Exit codes[/bold]

  0  done
  1  unexpected: a fault of arco itself
  2  the input is wrong
  3  the state says no, or the thing named does not exist
  4  it did not work now: try again later
  5  somebody else goes on, or this arco is older than the data
  6  the store refuses: rights, space, or promises it does not keep
  7  stored data is wrong or missing
  8  the run that was watched did not succeed
130  interrupted

[bold]Settings[/bold]

Flags win over ARCO_STORE, ARCO_TENANT_ID, ARCO_WORKSPACE_ID, ARCO_URL
and ARCO_TOKEN, those over arco.toml in this folder or above.
"""


class _Group(TyperGroup):
    """The root. Usage errors speak like all other errors, as JSON too."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        given = list(sys.argv[1:] if args is None else args)
        try:
            code = super().main(given, "arco", complete_var, False, windows_expand_args, **extra)
        except typer.TyperException as error:
            code = error.exit_code
            # Typer has printed the help by then; it tells this case by the name as well.
            if type(error).__name__ != "NoArgsIsHelpError":
                _usage_error(error, as_json="--json" in given)
        if not standalone_mode:
            return code
        sys.exit(code or 0)


def _usage_error(error: typer.TyperException, *, as_json: bool) -> None:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "arco"
    message = error.format_message().rstrip(".")
    Output(as_json=as_json).error(Invalid(f"{message}; see `{command} --help`"))


app = typer.Typer(
    name="arco",
    help="Arco: a data platform in a bucket.",
    epilog=EPILOG,
    cls=_Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _add(panel: str, group: typer.Typer, name: str | None = None) -> None:
    """Add a group of commands, or without a name the commands themselves, below a heading of the help."""
    for found in group.registered_commands if name is None else []:
        found.rich_help_panel = panel
    app.add_typer(group, name=name, rich_help_panel=panel)


COMMANDS: dict[str, list[tuple[str | None, typer.Typer]]] = {
    "Catalog": [
        ("namespace", namespace),
        ("table", table),
        ("column", column),
        ("contract", contract),
        ("sla", sla),
        ("lineage", lineage),
        (None, query),
    ],
    "Pipelines": [
        (None, check),
        (None, deploy),
        ("deployments", deployments),
        ("assets", assets),
        ("partitions", partitions),
        (None, plan),
        (None, run),
        (None, backfill),
        ("runs", runs),
        ("explain", explain),
        ("quarantine", quarantine),
        ("maintain", maintain),
    ],
    "Activity": [("events", events), (None, single)],
    "Access": [("key", key), ("role", role), ("settings", settings), (None, who)],
    "Workspace and store": [
        (None, setup),
        (None, dev),
        (None, server),
        (None, worker),
        (None, doctor),
        (None, upkeep),
        (None, upgrade),
        ("backup", backup),
        (None, restoring),
        (None, erasing),
        (None, cost),
        ("log", log),
        ("state", state),
    ],
}
for _panel, _groups in COMMANDS.items():
    for _name, _group in _groups:
        _add(_panel, _group, _name)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"arco {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; ends the process with the exit code."""
    try:
        app()
    except KeyboardInterrupt:
        _leave(EXIT_INTERRUPTED)
    except SystemExit as ended:
        _leave(ended.code)
    _leave(0)


def _leave(code: str | int | None) -> NoReturn:
    """End the process. With a client of buckets at once: its threads abort an interpreter that is being taken down."""
    if "obstore" not in sys.modules or isinstance(code, str):
        sys.exit(code)
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):  # whoever reads it may be gone, which has been told
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code or 0)
