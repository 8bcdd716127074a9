"""Rebuilding state from packs against loose segments: the same events, few of them in a segment, on local disk.

A quiet workspace has a few events a segment, so a rebuild of loose ones opens an object for every hundred events here.
Times are wall times of `Runner.refold`, each in a process of its own, which prints it: `python -m bench._packs FOLDER
EVENTS ENGINE KIND`. Spark is started before and has folded a part of the log once. Both must give the same tables.
Requests are those that the process made to read: executors of Spark make theirs elsewhere, so they are told of one
process only. On a local disk a request costs next to nothing, which it does not in a bucket.
"""

import asyncio
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from arco.log import Header, Pack, Place, encode_pack, encode_segment
from arco.runtime import AsyncRuntime
from arco.spark import Site, SparkRunner, spark_sessions
from arco.spark._site import definition_of
from arco.state import Layout, LocalRunner, Manifest, PackSize, RefoldJob, Runner
from arco.storage import LocalStore, Operation, RequestCounts, Role, RoleStore, Scope
from arco.storage import Sequence as Numbers
from bench._measure import Line, Stopwatch
from bench._sample import event_batches

__all__ = ["measure_packs"]

SECTION = "rebuild from packs (local disk, 2 cores, wall time)"
SIZE = 100
"""Events of a segment."""
WARM = 200
"""Segments that warm Spark up."""
AT = 1_750_000_000_000_000
KINDS = ("loose", "packed")
SLOWER = 1.15
"""What packs may take, where reading loose segments costs no round trip."""
FEWER = 0.1

Figures = dict[str, Any]


async def measure_packs(folder: Path, runtime: AsyncRuntime, quick: bool) -> list[Line]:
    lines = []
    for engine, events in (("local", 100_000), ("spark", 300_000 if quick else 10_000_000)):
        _fill(folder, events)
        loose, packed = (_figures(folder, events, engine, kind) for kind in KINDS)
        if loose["digests"] != packed["digests"]:
            raise RuntimeError("packs and loose segments gave different tables")
        where = "Spark" if engine == "spark" else "this process"
        ratio = packed["seconds"] / loose["seconds"]
        lines.append(
            Line(
                SECTION,
                f"{events:,} events from packs, in {where}",
                f"{packed['seconds']:.1f} s",
                f"from loose segments {loose['seconds']:.1f} s",
                ratio,
                f"≤ {SLOWER}",
                ratio <= SLOWER,
            )
        )
        if engine == "local":
            few = packed["requests"] / loose["requests"]
            lines.append(
                Line(
                    SECTION,
                    "  requests that read",
                    f"{packed['requests']:,}",
                    f"loose {loose['requests']:,}",
                    few,
                    f"≤ {FEWER}",
                    few <= FEWER,
                )
            )
    return lines


def _place(events: int, kind: str) -> Place:
    return Place("bench", f"packs-{events}-{kind}", "inc-bench", "activity")


def _list(folder: Path, events: int) -> Path:
    return folder / f"packs-{events}.json"


def _fill(folder: Path, events: int) -> None:
    """Write the log twice past owner and store: as loose segments, and as packs of the default size."""
    if _list(folder, events).exists():
        return
    loose, packed = (_place(events, kind) for kind in KINDS)
    size, runtime = PackSize(), AsyncRuntime()
    paths = {place: Numbers(LocalStore(folder), Layout(place).ledger, runtime) for place in (loose, packed)}
    previous = dict.fromkeys((loose, packed), "")
    packs: list[Pack] = []
    batch: list[bytes] = []
    count = -(-events // SIZE)
    for number, encoded in enumerate(event_batches(events, SIZE, AT), 1):
        for place in (loose, packed):
            where = (place.log, number, f"01SEG{number:021d}", previous[place], place.incarnation)
            header = Header(1, *where, place.tenant, place.workspace, "bench", AT, {})
            data = encode_segment(header, encoded)
            previous[place] = hashlib.sha256(data).hexdigest()
            if place is loose:
                _write(folder, place, paths[place].path(number), data)
            else:
                batch.append(data)
        if len(batch) == size.segments or sum(map(len, batch)) >= size.bytes or number == count:
            path = f"{Layout(packed).packs}/{0:020d}-bench/{number:020d}.pack"
            whole, pack = encode_pack(path, packed, number - len(batch) + 1, batch)
            _write(folder, packed, path, whole)
            packs.append(pack)
            batch = []
    _list(folder, events).write_bytes(msgspec.json.encode(packs))


def _write(folder: Path, place: Place, path: str, data: bytes) -> None:
    file = folder / place.tenant / place.workspace / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


def _figures(folder: Path, events: int, engine: str, kind: str) -> Figures:
    command = [sys.executable, "-m", "bench._packs", str(folder), str(events), engine, kind]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr[-2000:]}")
    found: Figures = json.loads(done.stdout.splitlines()[-1])
    return found


# In the process that is measured


async def _measure(
    runner: Runner, folder: Path, place: Place, through: int, packs: tuple[Pack, ...], counts: RequestCounts
) -> Figures:
    definition = definition_of(place.log)
    if isinstance(runner, SparkRunner):
        await runner.refold(RefoldJob(definition, min(WARM, through), f"{0:020d}-warm", packs=packs))
    before = _reads(counts)
    with Stopwatch() as watch:
        manifest = await runner.refold(RefoldJob(definition, through, f"{0:020d}-bench", packs=packs))
    return {"seconds": watch.wall, "requests": _reads(counts) - before, "digests": _digests(folder, manifest)}


def _reads(counts: RequestCounts) -> int:
    return sum(counts.count(operation=one) for one in (Operation.GET, Operation.GET_RANGE, Operation.HEAD))


def _digests(folder: Path, manifest: Manifest) -> dict[str, list[Any]]:
    """By table: how many rows there are, and a sum of their hashes."""
    place = folder / manifest.tenant / manifest.workspace
    files: dict[str, list[str]] = {}
    for layer in manifest.layers:
        files.setdefault(layer.table, []).extend(str(place / file.path) for file in layer.files)
    with duckdb.connect() as sql:
        query = "select count(*), sum(hash(found)::hugeint)::varchar from read_parquet($1) found"
        return {name: list(sql.execute(query, [paths]).fetchall()[0]) for name, paths in sorted(files.items())}


def main() -> None:
    folder, events, engine, kind = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    place, runtime = _place(events, kind), AsyncRuntime()
    packs: tuple[Pack, ...] = ()
    if kind == "packed":
        packs = msgspec.json.decode(_list(folder, events).read_bytes(), type=tuple[Pack, ...])
    counts = RequestCounts()
    store = RoleStore(LocalStore(folder), Scope(place.tenant, place.workspace), Role.COMPACTOR, counts)
    with spark_sessions("local[2]") as sessions:
        runner: Runner = LocalRunner(store, place, runtime)
        if engine == "spark":
            runner = SparkRunner(store, Site.of(f"file://{folder.absolute()}", {}, place), runtime, sessions)
        print(json.dumps(asyncio.run(_measure(runner, folder, place, -(-events // SIZE), packs, counts))))


if __name__ == "__main__":
    main()
