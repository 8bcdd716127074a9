"""`Load`: what happens in a workspace in a day; and `Scale`, how many workspaces there are and what they run on."""

from dataclasses import dataclass, fields, replace

from arco.core import Invalid
from arco.state import PackSize

__all__ = ["Load", "Scale", "parse_model"]


@dataclass(frozen=True)
class Load:
    """A day of one workspace, evenly spread."""

    runs: float = 24
    tasks: float = 6
    """Of each run."""
    task_seconds: float = 40.0
    posts: float = 48
    """Batches of facts from outside."""
    facts: float = 25
    """In each of them."""
    changes: float = 8
    """Of the catalog."""
    reads: float = 96
    """Strong reads; others make no request."""

    @property
    def events(self) -> float:
        """Facts, changes, triggers, and of every task a claim and a result."""
        return self.posts * self.facts + self.changes + self.runs * (1 + 2 * self.tasks)


@dataclass(frozen=True)
class Scale:
    """Whose load, and on what."""

    workspaces: float = 1
    days: float = 30
    """How long it has been going on."""
    put_seconds: float = 0.05
    """What a create takes: appends that arrive meanwhile share the next one."""
    collections: float = 1
    """A day."""
    backups: float = 0
    """A day, if something changes; to a store with the same prices."""
    backup_days: float = 30
    """How long they are kept."""
    open_hours: float = 24
    """A day in which a process has the workspace open. Closed, it makes no request."""
    pack_segments: float = PackSize().segments
    pack_mib: float = PackSize().bytes / 2**20
    pack_keep: float = PackSize().keep
    """The settings of the same names."""


def parse_model(values: list[str]) -> tuple[Load, Scale]:
    """From `name=number` texts. `tenants` are workspaces; `events_per_day` of all of them together come as posts."""
    given: dict[str, float] = {}
    for text in values:
        name, _, number = text.partition("=")
        try:
            given[name.strip()] = float(number)
        except ValueError:
            raise Invalid(f"{text[:80]!r} is not of the form name=number") from None
        if not 0 <= given[name.strip()] <= 1e15:
            raise Invalid(f"{name} is a number of 0 or more")
    loads, scales = {one.name for one in fields(Load)}, {one.name for one in fields(Scale)}
    unknown = set(given) - loads - scales - {"tenants", "events_per_day"}
    if unknown:
        known = ", ".join(sorted(loads | scales | {"tenants", "events_per_day"}))
        raise Invalid(f"the model has no {', '.join(sorted(unknown))}; it has {known}")
    if "tenants" in given and "workspaces" in given:
        raise Invalid("tenants are workspaces: name one of the two")
    scale = replace(Scale(), **{name: value for name, value in given.items() if name in scales})
    scale = replace(scale, workspaces=given.get("tenants", scale.workspaces))
    if scale.put_seconds <= 0 or scale.workspaces <= 0 or scale.days <= 0:
        raise Invalid("put_seconds, workspaces and days are more than 0")
    if scale.pack_segments < 1 or scale.pack_mib < 1:
        raise Invalid("pack_segments and pack_mib are 1 or more")
    load = replace(Load(), **{name: value for name, value in given.items() if name in loads})
    if "events_per_day" in given:
        load = _with_events(load, given["events_per_day"] / scale.workspaces, given)
    return load, scale


def _with_events(load: Load, events: float, given: dict[str, float]) -> Load:
    """What runs and changes do not make of so many events comes as posts, of a hundred unless told otherwise."""
    if "posts" in given:
        raise Invalid("events_per_day decides how many posts there are: name one of the two")
    load = replace(load, posts=0, facts=given.get("facts", 100))
    left = events - load.events
    if left < 0 and ("runs" in given or "changes" in given):
        raise Invalid(f"runs and changes alone make {load.events:,.0f} events a day, more than {events:,.0f}")
    if left < 0:  # a smaller workspace than the usual one: as many runs and changes as fit
        share = events / load.events
        return replace(load, runs=load.runs * share, changes=load.changes * share)
    return replace(load, posts=left / load.facts if load.facts else 0)
