"""Folding: how fast events become rows, against the time it takes only to decode them."""

import cProfile
import gc
import io
import pstats

from arco.log import Link, Place, Segment, decode_segment
from arco.runtime import DEFINITIONS, AsyncRuntime
from arco.state import LayerReader, Replica, empty_manifest
from arco.storage import MemoryStore
from bench._measure import Line, Stopwatch
from bench._sample import encoded_events, segments

__all__ = ["measure_fold", "profile_fold"]

SECTION = "fold (memory, CPU time)"
PLACE = Place("bench", "fold", "inc-bench", "activity")
BATCH = 10
"""Segments folded at once."""
SIZE = 1_000
"""Events of a segment."""


def _decode(found: list[tuple[bytes, Link]]) -> list[tuple[Segment, Link]]:
    return [(decode_segment(data, "bench"), link) for data, link in found]


def _replica() -> Replica:
    definition = next(found for found in DEFINITIONS if found.log == PLACE.log)
    return Replica(definition, LayerReader(MemoryStore()), empty_manifest(PLACE))


async def measure_fold(runtime: AsyncRuntime, quick: bool) -> list[Line]:
    """The best of some rounds: whatever else happened on the machine only adds."""
    count, rounds = (20_000, 3) if quick else (100_000, 5)
    log = list(segments(PLACE, count, SIZE, runtime.now()))
    best: tuple[float, float] | None = None
    for _ in range(rounds):
        gc.collect()  # what earlier rounds left is theirs; what this one makes is in its time
        replica, decoding, folding = _replica(), 0.0, 0.0
        for start in range(0, len(log), BATCH):
            with Stopwatch() as watch:
                batch = _decode(log[start : start + BATCH])
            decoding += watch.cpu
            with Stopwatch() as watch:
                await replica.apply(batch)
            folding += watch.cpu
        best = min(best or (folding, decoding), (folding, decoding))
    assert best is not None
    fold, decode = count / best[0], count / best[1]
    both = count / sum(best)
    size = sum(map(len, encoded_events(0, 1_000, runtime.now()))) / 1_000
    return [
        Line(SECTION, f"decode segments, events of {size:,.0f} bytes", f"{decode:,.0f} events/s"),
        Line(
            SECTION,
            f"fold with derivation, batches of {BATCH * SIZE:,}",
            f"{fold:,.0f} events/s",
            f"decode {decode:,.0f}/s",
            fold / decode,
            "≥ 100,000/s",
            fold >= 100_000,
        ),
        Line(SECTION, "decode and fold", f"{both:,.0f} events/s", f"decode {decode:,.0f}/s", both / decode),
    ]


async def profile_fold(runtime: AsyncRuntime) -> str:
    """Where the time of the fold goes."""
    log = _decode(list(segments(PLACE, 100_000, SIZE, runtime.now())))
    replica, profile = _replica(), cProfile.Profile()
    profile.enable()
    for start in range(0, len(log), BATCH):
        await replica.apply(log[start : start + BATCH])
    profile.disable()
    text = io.StringIO()
    pstats.Stats(profile, stream=text).strip_dirs().sort_stats("tottime").print_stats(16)
    return text.getvalue()
