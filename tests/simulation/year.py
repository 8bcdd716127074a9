"""`live_year`: a workspace for a year, with everything that runs in one, and what was there at the end of each month.

    load + loops of a server (controllers, history, backups, Iceberg upkeep) + chores of a day -> months -> the end

The loops and chores are the product's own; the store is in memory, the clock is virtual, and a share of all writes
fails, half of them after they took effect. A *form* says how long and how much. In the short one a month has four days,
packs are small, and history and backups are kept for eight days; revisions are kept for 30 as always.

What must be flat and what may grow is judged in `tests.simulation.year_checks`.

`python -m tests.simulation.year [short]` prints the table.
"""

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from arco.backup import BackupLoop, Schedule, Vault
from arco.core import DAY, HOUR, new_ulid
from arco.cost import bill, load_prices, prices_named
from arco.domains.access import UpdateSettings, read_settings
from arco.domains.deployments import ASSETS
from arco.domains.execution import DataFile, RetentionPolicy
from arco.domains.orchestration import FinishTask
from arco.iceberg import Locations, Upkeep, Who, open_iceberg, open_upkeep
from arco.log import FIRST_LINK, Receipt, position_of, read_log
from arco.servo import Asked, Envelope, remove_orphans, retire_versions
from arco.state import Cadence, Level, PackSize, Revisions, examine_log, open_ledger, verify_revision
from arco.storage import ObjectExists, Operation, RequestCounts, Role, RoleStore, StoreFailed, Tail
from tests.iceberg.house import ROOT, commit_of, created
from tests.simulation.months import (
    COLLECTION,
    SCOPE,
    Chore,
    Life,
    Load,
    Loop,
    Observed,
    Prefix,
    folder_of,
    live,
    plain_result,
    run,
)

__all__ = ["SHORT", "YEAR", "End", "Form", "Month", "Year", "live_year"]

S3 = prices_named(load_prices(), "s3")
NAMES = {"range": Operation.GET_RANGE}
TABLE = ("n", "events")
PROPERTIES = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "10"}
EMPTY = ("ClaimTasks",)
"""Commands that append nothing if there is nothing to do."""
FINE = (Level.OK, Level.NOTE)


@dataclass(frozen=True)
class Form:
    """How long a year is, and what happens in it."""

    days: int
    months: int
    settled: int
    """The month from which on nothing new sets in: what must be flat is compared with it."""
    load: Load
    schedule: Schedule = field(default_factory=Schedule)
    packs: PackSize = field(default_factory=PackSize)
    settings: Mapping[str, int] = field(default_factory=dict)
    commits: float = 4
    """To an Iceberg table, a day."""
    faults: float = 0.02
    packing: bool = True
    collection: bool = True
    history: bool = True
    """Mutants leave one of them out."""


YEAR = Form(365, 12, 6, Load(runs=2, tasks=4, posts=6, facts=120, changes=2, reads=24), commits=2)
SHORT = Form(
    48,
    12,
    10,
    Load(runs=1, tasks=3, posts=2, facts=10, changes=1, reads=4),
    Schedule(every=12 * HOUR, keep=8 * DAY),
    PackSize(segments=64, keep=16),
    {f"history.{name}_days": 8 for name in ("runs", "checks", "lineage", "observations", "rejections", "requests")},
    commits=1,
)


@dataclass(frozen=True)
class Month:
    """A mean day of a month, and what was there at its end."""

    number: int
    requests: dict[str, float]
    """A day, by kind; those of backups included."""
    stored: dict[str, Prefix]
    floors: Counter[str]
    """Of the objects that are stored, by folder."""
    vault: Prefix
    vault_inodes: int
    backups: int
    inodes: int
    """Files and folders that the workspace is on a local disk."""
    manifest: int
    segments: float
    """A day."""
    layers: int
    packs: int
    rows: dict[str, int]
    """By table, as the layers of the heads say."""
    memory: int
    """Rows that the process held at the most, at the end of a day."""
    dollars: float
    """A month, for requests and for what is stored, both places."""

    @property
    def bytes(self) -> int:
        return sum(prefix.bytes for prefix in self.stored.values())


@dataclass(frozen=True)
class End:
    """What was found when it was over. Lists are of what is wrong."""

    doctor: list[str]
    rebuild: list[str]
    lost: list[str]
    backups: list[str]
    acknowledged: int
    events: int


@dataclass
class Year:
    form: Form
    life: Life
    vault: Observed
    months: list[Month]
    end: End


async def live_year(form: Form, *, seed: int = 0, ended: Callable[[Month], None] = lambda month: None) -> Year:
    months: list[Month] = []
    chores = _Chores(form)
    marks: list[Counter[str]] = [Counter()]

    def day_ended(life: Life) -> None:
        done = len(life.days)
        month = len(months)
        if done == round((month + 1) * form.days / form.months):
            first = round(month * form.days / form.months)
            months.append(_month(life, chores.vault, month + 1, first, marks))
            ended(months[-1])

    size = form.packs if form.packing else PackSize(segments=1 << 30, bytes=1 << 60)
    life = await live(
        form.days,
        form.load,
        chores=chores.all(),
        loops=chores.loops,
        result=_written_result,
        cadence=Cadence(packs=size),
        faults=form.faults,
        seed=seed,
        ended=day_ended,
    )
    return Year(form, life, chores.vault, months, await _end(life, chores.told))


class _Chores:
    """What runs beside the load, as in a server and in the crontab of who looks after it."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self.vault: Observed
        self._upkeep: Upkeep
        self._commits = 0
        self.told: list[str] = []
        """What was said about backups."""

    def loops(self, life: Life) -> list[Loop]:
        workspace, runtime = life.workspace, life.runtime
        self.vault = Observed(runtime, self._form.faults, seed=1)
        handle = RoleStore(self.vault, SCOPE, Role.BACKUP, RequestCounts())
        vault = Vault(handle, SCOPE.tenant, SCOPE.workspace, runtime)
        locations = Locations(workspace.handle(Role.ICEBERG), ROOT, SCOPE.root)
        self._iceberg = open_iceberg(workspace, locations)
        self._upkeep = open_upkeep(workspace, self._iceberg.committer, locations)
        backups = BackupLoop(workspace, vault, locations, ROOT, self._form.schedule, told=self.told.append)
        servo = life.servo if self._form.history else life.servo.controllers
        return [servo, self._upkeep, backups]

    def all(self) -> list[Chore]:
        form = self._form
        found = [COLLECTION] if form.collection else []
        found += [Chore("settings", self._set, form.days * 86_400.0)] if form.settings else []
        return [
            *found,
            Chore("versions", self._retire),
            Chore("Iceberg collection", self._collect_iceberg),
            Chore("Iceberg commits", self._commit, 86_400.0 / form.commits),
        ]

    async def _set(self, life: Life) -> None:
        await life.workspace.decide("catalog", UpdateSettings(dict(self._form.settings)), actor="me")

    async def _retire(self, life: Life) -> None:
        """`arco maintain versions` and `arco maintain orphans`."""
        workspace = life.workspace
        settings = await read_settings(workspace.logs["catalog"].replica)
        names = ("min_days", "min_versions", "max_versions", "grace_hours")
        policy = RetentionPolicy(**{name: settings[f"retention.{name}"] for name in names})
        catalog = await workspace.logs["catalog"].frozen()
        assets = (await catalog.scan(ASSETS)).column("asset_id").to_pylist()
        await retire_versions(workspace, assets, policy, Asked("me"), dry_run=False, let_go=life.servo.let_go)
        await remove_orphans(workspace, assets, (), hours=24, dry_run=False, let_go=life.servo.let_go)

    async def _commit(self, life: Life) -> None:
        who = Who("ann", new_ulid(life.runtime, life.runtime))
        if not self._commits and not await self._iceberg.tables.exists(TABLE):
            await self._iceberg.tables.create(TABLE, created(properties=PROPERTIES), who)
        update = {"action": "set-properties", "updates": {"commit": str(self._commits)}}
        await self._iceberg.tables.commit(TABLE, commit_of(update), who)
        self._commits += 1

    async def _collect_iceberg(self, life: Life) -> None:
        if self._commits:
            await self._upkeep.collector.collect()


async def _written_result(life: Life, envelope: Envelope) -> FinishTask:
    """What a worker says that wrote a file for each of its outputs."""
    made = await plain_result(life, envelope)
    store = life.workspace.handle(Role.WORKER)
    outputs = []
    for place, output in zip(envelope.outputs, made.outputs, strict=True):
        path = f"{place.location}part-0.parquet"
        while True:
            try:
                await store.put(path, b"x" * 100, only_if_absent=True)
                break
            except StoreFailed:
                continue
            except ObjectExists:
                break
        outputs.append(msgspec.structs.replace(output, files=(DataFile(path, 100, 5),), row_count=5, byte_size=100))
    return msgspec.structs.replace(made, outputs=tuple(outputs))


def _month(life: Life, vault: Observed, number: int, first: int, marks: list[Counter[str]]) -> Month:
    days = life.days[first:]
    asked = sum((day.requests for day in days), vault.requests - marks[-1])
    marks.append(Counter(vault.requests))
    requests = {name: count / len(days) for name, count in sorted(asked.items())}
    copies = [info for info in vault.infos() if "/floor/" not in info.path]
    kept = Prefix(len(copies), sum(info.size for info in copies))
    heads = [life.head(log) for log in life.workspace.logs]
    rows: Counter[str] = Counter()
    for head in heads:
        for layer in head.layers:
            rows[layer.table] += layer.rows
    return Month(
        number=number,
        requests=requests,
        stored=days[-1].stored,
        floors=Counter(folder_of(info.path) for info in life.store.infos() if "/floor/" in info.path),
        vault=kept,
        vault_inodes=kept.objects + len(vault.folders),
        backups=sum("/objects/" not in info.path for info in copies),
        inodes=days[-1].objects + len(life.store.folders),
        manifest=max(day.manifest for day in days),
        segments=sum(day.segments for day in days) / len(days),
        layers=sum(len(head.layers) for head in heads),
        packs=sum(len(head.packs) for head in heads),
        rows=dict(rows),
        memory=max(day.memory for day in days),
        dollars=_dollars(requests, days[-1].stored, kept),
    )


def _dollars(requests: Mapping[str, float], stored: Mapping[str, Prefix], vault: Prefix) -> float:
    asked = {NAMES.get(name) or Operation(name): count for name, count in requests.items()}
    sizes = {name: float(prefix.bytes) for name, prefix in stored.items()} | {"backups": float(vault.bytes)}
    return bill({"all": asked}, sizes, S3).dollars_a_month


async def _end(life: Life, told: list[str]) -> End:
    """`arco doctor`, `arco rebuild --verify`, and a look for every event that was acknowledged. It is closed by now."""
    doctor, rebuild, lost, events = [], [], [], 0
    reader = RoleStore(life.store, SCOPE, Role.READER, RequestCounts())
    for name, log in life.workspace.logs.items():
        findings = await examine_log(log.definition, reader, log.place, life.runtime)
        doctor += [f"{one.log} {one.check}: {one.message}" for one in findings if one.level not in FINE]
        revisions = Revisions(reader, log.place, life.runtime)
        head = (await revisions.head()).manifest
        ledger = open_ledger(reader, revisions, head.packs)
        compared = await verify_revision(log.definition, reader, ledger, head)
        rebuild += [f"{name}.{one.table}: {one.rows}, {one.refolded_rows} anew" for one in compared if not one.equal]
        there: dict[int, str] = {}
        async for one in read_log(ledger, Tail(0, float("-inf")), FIRST_LINK):
            if not isinstance(one, Tail):
                first = position_of(one[0].header.number, 0)
                there |= {first + index: event.operation for index, event in enumerate(one[0].events)}
        told_of = [(command, receipt) for known, command, receipt in life.acknowledged if known == name]
        ours = set(there.values())
        lost += [
            f"{command.name} {receipt}"
            for command, receipt in told_of
            if not _is_there(receipt, there) and not (command.name in EMPTY and receipt.operation not in ours)
        ]
        events += len(there)
    return End(doctor, rebuild, lost, [text for text in told if "not succeed" in text], len(life.acknowledged), events)


def _is_there(receipt: Receipt, there: Mapping[int, str]) -> bool:
    positions = range(int(receipt.first), int(receipt.last) + 1)
    return all(there.get(position) == receipt.operation for position in positions)


if __name__ == "__main__":
    from tests.simulation.year_checks import judge, table_of

    lived = run(live_year(SHORT if "short" in sys.argv else YEAR, ended=lambda month: print(month, flush=True)))
    print(table_of(lived.months))
    for check in judge(lived):
        print(check)
