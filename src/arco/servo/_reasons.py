"""Reasons: why a task is in a plan, and why something that was asked for is not. Sentences for people.

The first words of a skip's reason tell programs its kind (`SkipKind`); nothing else in a reason is for programs.
"""

from collections.abc import Sequence
from enum import StrEnum
from shlex import quote

from arco.domains.orchestration.plan import Skip, task_key_of

__all__ = [
    "SkipKind",
    "cannot_run",
    "external",
    "input_read_again",
    "is_up_to_date",
    "missing_input",
    "released_input",
    "selected_by",
    "skip_kind",
    "up_to_date",
]


class SkipKind(StrEnum):
    """The words with which the reason of a skip begins."""

    UP_TO_DATE = "up to date"
    EXTERNAL = "external"
    """Somebody else makes it."""
    CANNOT_RUN = "cannot run"
    """Something has to be done first."""


def skip_kind(skip: Skip) -> SkipKind:
    return SkipKind(skip.reason.partition(":")[0])


def is_up_to_date(skip: Skip) -> bool:
    return skip_kind(skip) is SkipKind.UP_TO_DATE


def selected_by(selection: str, chosen: Sequence[str], others: Sequence[str]) -> str:
    """Why a unit is asked for: `others` are made by the same function as the `chosen` and come with them."""
    if not others:
        return f"selected by `{selection}`"
    makes = "one function makes them all"
    return f"{_listed(chosen)} selected by `{selection}`, and with it {_listed(others)}: {makes}"


def up_to_date(materialization_id: str) -> str:
    return f"{SkipKind.UP_TO_DATE}: same code and same inputs as materialization {materialization_id}"


def external() -> str:
    return f"{SkipKind.EXTERNAL}: somebody else makes it, so there is nothing to run"


def cannot_run(why: str) -> str:
    return f"{SkipKind.CANNOT_RUN}: {why}"


def missing_input(
    own: str,
    partition: str,
    needed: str,
    needed_partition: str,
    why: str,
    *,
    is_held: bool = False,
    more: int = 0,
    all_of_them: str = "",
) -> str:
    """A partition of the asset `own` needs one of the asset `needed`, which has no good version.

    So it is with `more` partitions of it; `all_of_them` are the options that name these and the first.
    """
    # Where both have the same partition, one run can make them; else what is missing is made by itself.
    first = own if partition == needed_partition else needed
    text = task_key_of(needed, needed_partition)
    cure = f"make that first with `arco run +{first}{_options(needed_partition)}`"
    if more:
        why += f" ({more:,} more {'is' if more == 1 else 'are'} missing as well)"
        cure = f"make them all first with `arco backfill +{needed} {all_of_them}`"
    if is_held:
        look = f"arco quarantine show {needed}{_options(needed_partition)}"
        cure = f"look at it with `{look}` and release it if it is right, or {cure}"
    return cannot_run(f"it needs {text}, and {why}; {cure}")


def released_input(needed: str, needed_partition: str) -> str:
    """What changed when somebody vouched for a version."""
    return f"{task_key_of(needed, needed_partition)} was released"


def input_read_again(needed: str, needed_partition: str, *, is_good: bool, more: int) -> str:
    """Which version of an input a rerun reads that has a newer one, as `more` of its inputs have."""
    text = task_key_of(needed, needed_partition)
    others = "input has another version" if more == 1 else "inputs have other versions"
    rest = f" ({more:,} more {others} as well)" if more else ""
    if is_good:
        return f"{text} is read as the repeated run read it, though it has a newer version{rest}"
    return f"{text} is read in its newest version, since the one of the repeated run is not good any more{rest}"


def _options(partition: str) -> str:
    return "".join(f" --partition {quote(part)}" for part in partition.split(",") if part)


def _listed(keys: Sequence[str]) -> str:
    return " and ".join((", ".join(keys[:-1]), keys[-1])) if len(keys) > 1 else keys[0]
