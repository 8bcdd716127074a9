"""Commands around a workspace: create it, show the settings, export the rights of a role."""

import re
import shlex
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.text import Text

from arco.cli._command import Session, command
from arco.cli._example import check_empty, write_example
from arco.cli._open import open_base, reading
from arco.cli._output import dump, grid, say, visible
from arco.core import Invalid, format_time
from arco.runtime import init_workspace, read_incarnations
from arco.storage import Role, azure_policy, check_path, gcs_policy, s3_policy

__all__ = ["app"]

app = typer.Typer()


class Cloud(StrEnum):
    S3 = "s3"
    GCS = "gcs"
    AZURE = "azure"


_CLOUDS = {"s3": Cloud.S3, "gs": Cloud.GCS, "az": Cloud.AZURE}
_WRITERS = {Cloud.S3: s3_policy, Cloud.GCS: gcs_policy, Cloud.AZURE: azure_policy}
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


@command(app, "init")
async def init(
    session: Session,
    example: Annotated[
        bool,
        typer.Option("--example", help="Write an example into this folder as well: a shop's pipeline on Spark."),
    ] = False,
) -> None:
    """Test the store and create a workspace in it.

    Exits with 3 if the workspace exists already, or if there shall be an example and the folder is not empty.
    """
    project = session.project
    if example:
        check_empty(project.folder)
    async with open_base(project, session.runtime) as base:
        incarnation = await init_workspace(base, project.scope, session.runtime)
    document: dict[str, Any] = {
        "workspace": project.scope.root,
        "store": project.store,
        "incarnation": incarnation.id,
        "created_at": format_time(incarnation.created_at),
    }
    created = _created(project.scope.root, project.store, incarnation.id)
    if example:
        document["files"] = write_example(project.folder)
        session.output.emit(document, created, *_example_steps())
    else:
        session.output.emit(document, created, *_next_steps(session))


def _example_steps() -> list[Text]:
    """What to do with an example, and what is missing for it."""
    from arco.spark import missing_for_spark

    told = _lines(
        "Wrote an example: README.md says what to do, pipeline.py is it, till.py makes up its data.",
        "Next: arco deploy",
        "      arco backfill '*' --from 2026-08-03 --to 2026-08-30",
        "      arco quarantine list",
    )
    missing = missing_for_spark()
    return [told, say(f"It runs on Spark: {missing}.", "yellow")] if missing is not None else [told]


def _created(workspace: str, store: str, incarnation: str) -> Text:
    head = Text.assemble(("Created the workspace ", "green"), (visible(workspace), "bold"))
    tested = "  The store keeps its promises: creates are atomic, reads follow writes, missing is missing."
    return Text("\n").join([head, _lines(f"  store        {store}", f"  incarnation  {incarnation}", tested)])


def _lines(*lines: str) -> Text:
    return Text("\n").join(say(line) for line in lines)


def _next_steps(session: Session) -> list[Text]:
    """How other commands find the workspace, if it was named by flags, and what to look at first."""
    loaded = session.project.loaded
    values = {
        "store": session.project.store,
        "tenant_id": loaded.settings.tenant_id,
        "workspace_id": loaded.settings.workspace_id,
    }
    flags = [name for name in values if loaded.origin[name].startswith("--")]
    exports = [f"  export ARCO_{name.upper()}={shlex.quote(values[name])}" for name in flags]
    found_by = [_lines("Other commands find it by the same flags, or with:", *exports)] if flags else []
    steps = _lines(
        "Next: arco check, arco deploy, if there is a pipeline here; arco init --example writes one to an empty folder",
        "      arco doctor, arco log tail, arco state tables",
    )
    return [*found_by, steps]


@command(app)
async def config(session: Session) -> None:
    """Print every setting and where its value comes from.

    Secrets are masked.
    """
    project = session.project
    rows = project.loaded.rows()
    document = {
        "file": str(project.toml) if project.toml else None,
        "settings": [{"name": name, "value": value, "origin": origin} for name, value, origin in rows],
    }
    read = f"arco.toml: {project.toml}" if project.toml else f"arco.toml: none in {project.folder} or above"
    session.output.emit(document, grid(["setting", "value", "origin"], rows), say(read, "dim"))


@command(app)
async def policy(
    session: Session,
    role: Annotated[Role, typer.Argument(help="Whose rights.", show_default=False)],
    bucket: Annotated[
        str | None, typer.Option("--bucket", help="The bucket or container, unless the store names one.")
    ] = None,
    cloud: Annotated[
        Cloud | None, typer.Option("--cloud", help="Whose policy; that of the store, or S3's.", show_default=False)
    ] = None,
) -> None:
    """Print the policy with a role's rights in this workspace, for S3, Google Cloud or Azure.

    It names the workspace's incarnation: export it again after a restore.
    """
    url = session.project.store
    scheme, _, place = url.partition("://")
    named, _, prefix = place.partition("/") if scheme in _CLOUDS else ("", "", "")
    prefix = prefix.strip("/")
    if cloud is not None and cloud is not _CLOUDS.get(scheme, cloud):
        raise Invalid(f"the store {url} is not of {cloud}; leave out --cloud")
    cloud = cloud or _CLOUDS.get(scheme, Cloud.S3)
    bucket = bucket or named
    if not bucket:
        raise Invalid(f"the store {url} has no bucket; name it with --bucket")
    if _BUCKET.fullmatch(bucket) is None:
        raise Invalid(f"{bucket[:80]!r} is not the name of a bucket; use 3 to 63 characters of a-z, 0-9, - and .")
    if prefix:
        check_path(prefix)
    async with reading(session.project, session.runtime) as reader:
        lives = await read_incarnations(reader.base, reader.scope, session.runtime, all_of_them=role is Role.COLLECTOR)
        *former, used = (life.id for life in lives)
        document = _WRITERS[cloud](role, bucket, reader.scope, used, prefix, former=former)
    session.output.line(dump(document, indent=2))
