"""Scripted worlds for what chance rarely reaches. Each ends with the same checkers as the random world."""

import msgspec

from arco.core import HOUR, Corrupt, LostObject, Superseded, Unavailable
from arco.log import Hint, decode_segment, encode_segment
from arco.state import PinRevision, decode_manifest, encode_manifest, packed_through, verify_chain
from tests.simulation.claims import Claim, Reserve
from tests.simulation.clients import Ask
from tests.simulation.look import pack_entries, true_head
from tests.simulation.node import OLD_DEFINITIONS, SCOPE, Node
from tests.simulation.scheduler import Violation
from tests.simulation.stage import HOURS, Scenario, Stage
from tests.simulation.store import Mix

__all__ = ["SCENARIOS"]


async def rivals(stage: Stage) -> None:
    """Two processes that both believe to own the log decide about the same name."""
    one, two = await stage.boot("one"), await stage.boot("two")
    for name in ("n0", "n1", "n2"):
        asks = [stage.start(node, stage.create(node, name)) for node in (one, two)]
        for task in asks:
            await task
        await stage.settle()
        stage.cluster.disk.objects = {
            path: found for path, found in stage.cluster.disk.objects.items() if not path.endswith("/hint")
        }


async def _sleeper(stage: Stage, *, pin: int = 0) -> tuple[Node, Node]:
    """`sleeper` holds a revision; `busy` publishes more within the same minute, hours pass, and all but the newest of
    them are collected. The one `pin` after what the head was when the sleeper fell asleep is kept."""
    busy = await stage.boot("busy")
    await stage.create(busy, "n0")
    await stage.publish(busy)
    sleeper = await stage.boot("sleeper")
    await stage.create(busy, "n1")
    await stage.settle()
    await stage.scheduler.sleep(60.0 - stage.scheduler.time % 60.0)
    held = true_head(stage.cluster, "catalog").number
    sleeper.process.stall(5 * HOURS)
    if pin:
        expires = busy.runtime.now() + 20 * HOUR
        await stage.ask(busy, "catalog", "pin", "pin0", PinRevision("pin0", held + pin, "test", expires))
    for turn in range(4):
        await stage.update(busy, "n0", f"turn {turn}")
        await stage.publish(busy)
    await stage.scheduler.sleep(2 * HOURS)
    for turn in range(2):
        await stage.update(busy, "n1", f"later {turn}")
        await stage.publish(busy)
    return busy, sleeper


async def sleeping_compactor(stage: Stage) -> None:
    """A publisher that slept while its next number was collected must not take it for free."""
    busy, sleeper = await _sleeper(stage)
    await stage.start(busy, busy.collect("catalog"))
    await stage.create(busy, "n2")
    busy.process.stall(4 * HOURS)  # only the sleeper will publish this
    sleeper.process.wake()
    await stage.settle()
    busy.process.wake()
    await stage.settle()
    await stage.create(sleeper, "n3")
    await stage.settle()


async def sleeping_compactor_meets_kept_revision(stage: Stage) -> None:
    """The same, but the next number is kept and the one after it is collected."""
    busy, sleeper = await _sleeper(stage, pin=1)
    await stage.start(busy, busy.collect("catalog"))
    await stage.create(busy, "n2")
    sleeper.process.wake()
    await stage.settle()
    await stage.create(sleeper, "n3")
    await stage.publish(sleeper)
    await stage.settle()


async def sleeping_reader(stage: Stage) -> None:
    """A reader that slept while the revisions after its own were collected finds the newest one."""
    busy, sleeper = await _sleeper(stage)
    await stage.start(busy, busy.collect("catalog"))
    sleeper.process.wake()
    for _ in range(3):
        await _check_snapshot(stage, sleeper)


async def _check_snapshot(stage: Stage, node: Node) -> None:
    """A reader gets a revision at least as new as the head was when it asked."""
    newest = true_head(stage.cluster, "catalog").number
    snapshot = await stage.start(node, node.log("catalog").snapshot())
    if snapshot is None or snapshot.manifest.number < newest:
        raise Violation("readers never go back", f"the reader stays behind revision {newest}")


async def zombie_below_the_floor(stage: Stage) -> None:
    """A create that arrives hours late fills a collected number below a kept one; whoever slept reads past it."""
    busy, sleeper = await _sleeper(stage, pin=2)
    await stage.start(busy, busy.collect("catalog"))
    disk = stage.cluster.disk
    known = sleeper.log("catalog").compactor.head.manifest.number
    gone = [path for path in disk.created if "/manifests/catalog/0" in path and path not in disk.objects]
    empty = min(path for path in gone if int(path.rsplit("/", 1)[1]) > known)
    late = decode_manifest(disk.archive[disk.created[empty][0]], empty)
    disk.put(empty, encode_manifest(msgspec.structs.replace(late, id="01ARZ3NDEKTSV4RRFFQ69G5FAV")), True)
    sleeper.process.wake()
    await stage.create(busy, "n2")
    await stage.settle()
    await stage.create(sleeper, "n3")
    await stage.publish(sleeper)
    await _check_snapshot(stage, sleeper)


async def hint_written_from_memory(stage: Stage) -> None:
    """A third process, with an old idea of everything, writes its hint while the sleeper is about to wake."""
    busy, sleeper = await _sleeper(stage)
    await stage.start(busy, busy.collect("catalog"))
    await stage.create(busy, "n2")
    hint = sleeper.log("catalog").compactor._revisions.hint
    sleeper.process.wake()
    await stage.start(sleeper, hint.write(Hint(1)))
    busy.process.stall(4 * HOURS)
    await stage.settle()
    busy.process.wake()
    await stage.settle()


async def sleeping_publish(stage: Stage) -> None:
    """A machine sleeps between the files of a publish and its manifest; a collector runs meanwhile."""
    busy = await stage.boot("busy", compact=False)
    sleeper = await stage.boot("sleeper", compact=False)
    await stage.create(sleeper, "n0")
    await stage.publish(sleeper)
    await stage.create(sleeper, "n1")

    def fall_asleep(path: str, data: bytes) -> None:
        if path.endswith("/delta"):
            sleeper.process.stall(3 * HOURS)

    stage.cluster.disk.on_create = fall_asleep
    publishing = stage.start(sleeper, sleeper.log("catalog").compactor.publish())
    await stage.scheduler.sleep(2.5 * HOURS)
    stage.cluster.disk.on_create = lambda path, data: None
    await stage.start(busy, busy.collect("catalog"))
    await publishing
    await stage.publish(busy)


async def forwarded_into_silence(stage: Stage) -> None:
    """The owner carries a forwarded command out, its answer is lost, the sender takes over and asks again."""
    owner, sender = await stage.boot("owner"), await stage.boot("sender")
    for name in ("n0", "n1"):
        await stage.create(owner, name)
        await stage.settle()
        stage.cluster.network.rates = {"answer lost": 1.0}
        ask = await stage.create(sender, f"{name}x")
        stage.cluster.network.rates = {}
        if ask.answer != "acknowledged":
            await stage.start(sender, stage.asking.perform(sender, ask))
        await stage.settle()


async def tombstone_between_layers(stage: Stage) -> None:
    """A row is written, changed and deleted in three deltas of a table whose layers merge."""
    node = await stage.boot("node")
    for name in ("n0", "n1", "n2"):
        await stage.create(node, name)
        await stage.publish(node)
        await stage.update(node, name, "changed")
        await stage.publish(node)
        await stage.drop(node, name)
        await stage.publish(node)
        await stage.settle()
    await stage.publish(node)


async def one_release_behind(stage: Stage) -> None:
    """A program that skips a type it does not know is asked to decide."""
    new = await stage.boot("new")
    old = await stage.boot("old", definitions=OLD_DEFINITIONS, compact=False)
    await stage.ask(new, "activity", "claim", "t0", Claim("t0", "w0"))
    await stage.ask(new, "activity", "reserve", "t1", Reserve("t1", "w0"))
    await stage.settle()
    new.process.crash()
    await stage.ask(old, "activity", "claim", "t1", Claim("t1", "w1"))
    await stage.ask(old, "activity", "claim", "t2", Claim("t2", "w1"))
    fresh = await stage.boot("fresh")
    await stage.ask(fresh, "activity", "claim", "t3", Claim("t3", "w1"))
    await stage.publish(fresh, "activity")


async def upgraded(stage: Stage) -> None:
    """A program publishes a state in which it skipped a type; the next release folds everything anew and swaps it."""
    new = await stage.boot("new", compact=False)
    await stage.ask(new, "activity", "claim", "t0", Claim("t0", "w0"))
    await stage.ask(new, "activity", "reserve", "t1", Reserve("t1", "w0"))
    old = await stage.boot("old", definitions=OLD_DEFINITIONS, compact=False)
    await stage.publish(old, "activity")
    if not true_head(stage.cluster, "activity").skipped:
        raise Violation("unknown survives", "a skipped type is not noted in the manifest")
    old.process.crash()
    upgraded = await stage.boot("upgraded", compact=False)
    await stage.ask(upgraded, "activity", "claim", "t1", Claim("t1", "w1"))
    await stage.publish(upgraded, "activity")


async def rival_rebuilds(stage: Stage) -> None:
    """A process announces a rebuild and stands still, another one swaps its own: the first finds its work gone."""
    one = await stage.boot("one")
    for name in ("n0", "n1", "n2"):
        await stage.create(one, name)
        await stage.publish(one)
    two = await stage.boot("two")

    def stand_still(path: str, data: bytes) -> None:
        if "/manifests/" in path and b'"rebuild"' in data:
            two.process.stall(60.0)

    stage.cluster.disk.on_create = stand_still
    slow = stage.start(two, two.log("catalog").compactor.rebuild())
    await stage.scheduler.sleep(10.0)
    stage.cluster.disk.on_create = lambda path, data: None
    await stage.start(one, one.log("catalog").compactor.rebuild())
    await stage.update(one, "n0", "meanwhile")
    try:
        await slow
    except Superseded:
        stage.sight.probe.path("rebuild given up")
    else:
        raise Violation("revisions are totally ordered", "a rebuild was published although another one came first")
    await stage.settle()
    await stage.update(two, "n1", "afterwards")
    await stage.publish(two)
    await stage.settle()


async def outage_in_the_middle(stage: Stage) -> None:
    """The store applies a create and then answers nothing for a minute, while other callers come and go."""
    node = await stage.boot("node")
    await stage.create(node, "n0")
    node.store.mix = Mix({"applied then error": 0.5, "delayed apply": 0.3})
    asks = [stage.start(node, stage.create(node, f"n{index}")) for index in range(1, 4)]
    await stage.scheduler.sleep(0.05)
    node.store.outage_until = stage.scheduler.time + 20.0
    asks += [stage.start(node, stage.create(node, f"n{index}")) for index in range(4, 7)]
    await stage.scheduler.sleep(30.0)
    node.store.mix = Mix()
    for task in asks:
        await task
    await stage.scheduler.sleep(3 * HOURS)
    await stage.publish(node)


# Packs


async def _compact(stage: Stage, node: Node, log: str = "catalog") -> None:
    await stage.start(node, node.log(log).compactor.compact())


async def _packed_over(stage: Stage, sleeper: Node) -> Node:
    """`sleeper` stands still while another process takes over, appends, packs and, hours later, drops the originals of
    everything that the sleeper would read or write next."""
    sleeper.process.stall(8 * HOURS)
    busy = await stage.boot("busy", compact=False)
    for turn in range(8):
        await stage.create(busy, f"b{turn}")
    await _compact(stage, busy)
    await stage.scheduler.sleep(2 * HOURS)
    for turn in range(2):
        await stage.update(busy, "b0", f"later {turn}")
    await _compact(stage, busy)
    done = await stage.start(busy, busy.collect("catalog"))
    if len(done.segments) < 6:
        raise Violation("progress", f"only {len(done.segments)} segments were dropped")
    stage.sight.probe.path("segments dropped")
    return busy


async def sleeping_owner(stage: Stage) -> None:
    """An owner sleeps while its next number is written by others, packed and deleted: it must not win it."""
    sleeper = await stage.boot("sleeper", compact=False)
    await stage.create(sleeper, "n0")
    await stage.publish(sleeper)
    busy = await _packed_over(stage, sleeper)
    sleeper.process.wake()
    for name in ("b1", "n1", "b2"):
        await stage.create(sleeper, name)
        await stage.settle()
    await stage.create(busy, "n2")
    await _compact(stage, sleeper)


async def owner_asleep_in_its_create(stage: Stage) -> None:
    """A create is applied, its answer lost, and its writer sleeps until the number is packed and deleted."""
    sleeper = await stage.boot("sleeper", compact=False)
    await stage.create(sleeper, "n0")
    await stage.publish(sleeper)
    ledger = sleeper.log("catalog").follower.sequence

    def fall_asleep(path: str, data: bytes) -> None:
        if path.endswith(f"/{ledger.path(2)}"):
            sleeper.process.stall(9 * HOURS)

    stage.cluster.disk.on_create = fall_asleep
    sleeper.store.mix = Mix({"applied then error": 1.0})
    asking = stage.start(sleeper, stage.create(sleeper, "n1"))
    await stage.scheduler.sleep(1.0)
    stage.cluster.disk.on_create = lambda path, data: None
    sleeper.store.mix = Mix()
    await _packed_over(stage, sleeper)
    sleeper.process.wake()
    ask = await asking
    if ask.answer not in ("acknowledged", "unknown"):
        raise Violation("every answer agrees with the log", f"a create that was won is {ask.answer}: {ask.reason}")
    await stage.settle()
    await stage.start(sleeper, stage.asking.perform(sleeper, ask))
    if ask.answer != "acknowledged":
        raise Violation("every answer agrees with the log", f"a create that was won is {ask.answer}: {ask.reason}")


async def sleeping_follower(stage: Stage) -> None:
    """Who follows and slept over the floor reads packs, and a filled number below the floor deceives nobody."""
    owner = await stage.boot("owner", compact=False)
    await stage.create(owner, "n0")
    await stage.publish(owner)
    sleeper = await stage.boot("sleeper", compact=False)
    await stage.start(sleeper, sleeper.log("catalog").follower.catch_up())
    owner.process.crash()
    await _packed_over(stage, sleeper)
    disk = stage.cluster.disk
    path = f"{SCOPE.root}/{sleeper.log('catalog').follower.sequence.path(2)}"
    late = decode_segment(disk.archive[disk.created[path][0]], path)
    header = msgspec.structs.replace(late.header, id="01ARZ3NDEKTSV4RRFFQ69G5FAV")
    disk.put(path, encode_segment(header, [msgspec.json.encode(event) for event in late.events]), True)
    sleeper.process.wake()
    for _ in range(2):
        await stage.start(sleeper, sleeper.log("catalog").follower.catch_up())
    await stage.create(sleeper, "n5")
    await _compact(stage, sleeper)


async def packed_in_an_idle_log(stage: Stage) -> None:
    """Everything but the newest segment is old and in packs; somebody opens the log and goes on."""
    node = await stage.boot("node", compact=False)
    for turn in range(5):
        await stage.create(node, f"n{turn}")
    await _compact(stage, node)
    await stage.scheduler.sleep(2 * HOURS)
    await stage.start(node, node.log("catalog").compactor.rebuild())
    await stage.start(node, node.collect("catalog"))
    node.process.crash()
    fresh = await stage.boot("fresh", compact=False)
    await stage.start(fresh, fresh.log("catalog").compactor.rebuild())
    await stage.create(fresh, "n9")
    await stage.publish(fresh)
    await _check_snapshot(stage, fresh)


async def sleeping_collector(stage: Stage) -> None:
    """A collector sleeps between looking and deleting; meanwhile much is appended, packed, rebuilt and collected."""
    busy = await stage.boot("busy", compact=False)
    slow = await stage.boot("slow", compact=False)
    for turn in range(6):
        await stage.create(busy, f"n{turn}")
    await _compact(stage, busy)
    await stage.scheduler.sleep(2 * HOURS)
    await stage.update(busy, "n0", "later")
    await stage.publish(busy)
    slow.store.delays = {"list": 120.0}
    collecting = stage.start(slow, slow.collect("catalog"))
    await stage.scheduler.sleep(60.0)
    slow.process.stall(3 * HOURS)
    for turn in range(6):
        await stage.create(busy, f"m{turn}")
    await _compact(stage, busy)
    await stage.start(busy, busy.log("catalog").compactor.rebuild())
    await stage.scheduler.sleep(2 * HOURS)
    await stage.update(busy, "n0", "latest")
    await stage.publish(busy)
    await stage.start(busy, busy.collect("catalog"))
    slow.process.wake()
    await collecting
    await stage.start(busy, busy.log("catalog").compactor.rebuild())


async def packing_interrupted(stage: Stage) -> None:
    """Packs cannot be written for a while, then their writer dies in the middle; another process does it again."""
    node = await stage.boot("node", compact=False)
    for turn in range(9):
        await stage.create(node, f"n{turn}")
    node.store.broken = "/packs/"
    packing = stage.start(node, node.log("catalog").compactor.publish())
    await stage.scheduler.sleep(30.0)
    node.store.broken = ""
    await packing
    await stage.scheduler.sleep(1.2)
    node.process.crash()
    other = await stage.boot("other", compact=False)
    await _compact(stage, other)
    if packed_through(true_head(stage.cluster, "catalog")) < 6:
        raise Violation("progress", "what was due is not packed")


async def lifecycle_rule(stage: Stage) -> None:
    """A rule of the bucket deletes a pack, or old segments that are in none: whoever needs them says so, and nothing
    is written. Then they are restored."""
    node = await stage.boot("node", compact=False)
    for turn in range(9):
        await stage.create(node, f"n{turn}")
    await _compact(stage, node)
    await stage.scheduler.sleep(2 * HOURS)
    for name in ("late", "later", "latest"):
        await stage.create(node, name)
    await _compact(stage, node)
    head = true_head(stage.cluster, "catalog")
    root, disk = f"{SCOPE.root}/", stage.cluster.disk
    pack = next(entry for entry in pack_entries(stage.cluster, head) if not entry.level)
    loose = node.log("catalog").follower.sequence.path(packed_through(head) + 1)
    for path in (pack.path, loose):
        stage.sight.probe.fault("lost object")
        kept = disk.objects.pop(root + path)
        before = sorted(found for found in disk.objects if "/hint" not in found)
        works = {
            "verify": lambda fresh: verify_chain(fresh.log("catalog").follower.ledger, known=head.link.number),
            "collect": lambda fresh: fresh.collect("catalog"),
        }
        for name, work in works.items():
            fresh = await stage.boot("fresh", compact=False)
            try:
                await stage.start(fresh, work(fresh))
            except LostObject:
                stage.sight.probe.path("lost object noticed")
            else:
                if name == "verify" or path == pack.path:
                    raise Violation("missing is never taken for absent", f"{path} is gone and {name} did not notice")
            fresh.process.crash()
            if path == pack.path and sorted(found for found in disk.objects if "/hint" not in found) != before:
                raise Violation("missing is never taken for absent", f"{name} wrote or deleted although {path} is gone")
        disk.objects[root + path] = kept
    await stage.start(node, node.log("catalog").compactor.rebuild())


# What the simulation once found


async def publish_that_failed_half_way(stage: Stage) -> None:
    """A compactor loses a number and cannot read the log just then; its next publish must not cover less."""
    owner = await stage.boot("owner", compact=False)
    await stage.create(owner, "n0")
    await stage.publish(owner)
    other = await stage.boot("other", compact=False)
    await stage.create(owner, "n1")
    await stage.start(other, other.log("catalog").follower.catch_up())
    await stage.create(owner, "n2")
    await stage.publish(owner)
    other.store.broken = "/ledger/catalog/0"
    try:
        await stage.start(other, other.log("catalog").compactor.publish())
    except Unavailable:
        other.store.broken = ""
    await stage.start(other, other.log("catalog").compactor.publish())


async def rebuild_announced_late(stage: Stage) -> None:
    """A rebuild loses the number it wanted; a collector that knows only the winner must leave its files alone."""
    busy = await stage.boot("busy", compact=False)
    await stage.create(busy, "n0")
    await stage.publish(busy)
    slow = await stage.boot("slow", compact=False)
    await stage.create(busy, "n1")
    await stage.publish(busy)
    busy.store.delays = {"list": 60.0}
    collecting = stage.start(busy, busy.collect("catalog"))
    await stage.scheduler.sleep(1.0)
    await stage.start(slow, slow.log("catalog").compactor.rebuild())
    await collecting


async def outdated_after_silence(stage: Stage) -> None:
    """The owner carries out what an outdated program forwarded, its answer is lost, and the program may not write."""
    new = await stage.boot("new", compact=False)
    await stage.ask(new, "activity", "reserve", "t1", Reserve("t1", "w0"))
    await stage.settle()
    old = await stage.boot("old", definitions=OLD_DEFINITIONS, compact=False)
    stage.cluster.network.rates = {"answer lost": 1.0}
    await stage.ask(old, "activity", "claim", "t2", Claim("t2", "w1"))
    stage.cluster.network.rates = {}
    await stage.settle()


async def invalid_after_silence(stage: Stage) -> None:
    """The owner's clock goes ahead: it carries out what the sender, asking itself after a silence, finds too early."""
    owner, sender = await stage.boot("owner"), await stage.boot("sender")
    owner.process.skew += HOUR
    await stage.start(
        owner, stage.asking.perform(owner, stage.asking.record(owner, (stage.asking.materialization(owner),)))
    )
    await stage.settle()
    stage.cluster.network.rates = {"answer lost": 1.0}
    ask = stage.asking.record(sender, (stage.asking.materialization(owner),))
    await stage.start(sender, stage.asking.perform(sender, ask))
    stage.cluster.network.rates = {}
    await stage.settle()


async def refused_while_a_copy_is_on_its_way(stage: Stage) -> None:
    """A forwarded command is delayed, its sender asks itself and would be refused; then the state changes and the
    delayed one arrives."""
    owner, sender = await stage.boot("owner"), await stage.boot("sender")
    await stage.create(owner, "n0")
    await stage.settle()
    stage.cluster.network.rates = {"message delayed": 1.0}
    await stage.create(sender, "n0")
    stage.cluster.network.rates = {}
    await stage.drop(owner, "n0")
    await stage.scheduler.sleep(120.0)


async def operator_deletes(stage: Stage) -> None:
    """Something that must exist is deleted by hand: whoever needs it says so, nobody guesses. Then it is restored."""
    node = await stage.boot("node", compact=False)
    for name in ("n0", "n1", "n2"):
        await stage.create(node, name)
        await stage.publish(node)
        await stage.scheduler.sleep(2.0)  # so that the hint names the newest revision
    head = true_head(stage.cluster, "catalog")
    state = next(layer.files[0].path for layer in head.layers if layer.table == "names")
    manifest = stage.cluster.disk.objects
    older = next(path for path in manifest if "/manifests/catalog/" in path and path.endswith(f"{2:020d}"))
    segment = next(path for path in manifest if "/ledger/catalog/" in path and path.endswith(f"{2:020d}"))

    async def read_names(fresh: Node) -> None:
        snapshot = await fresh.log("catalog").snapshot()
        await snapshot.scan(snapshot.table("names"))

    async def read_older(fresh: Node) -> None:
        await fresh.log("catalog").snapshot(revision=2)

    async def rebuild(fresh: Node) -> None:
        await fresh.log("catalog").compactor.rebuild()

    root = f"{SCOPE.root}/"
    for path, use in ((root + state, read_names), (older, read_older), (segment, rebuild)):
        stage.sight.probe.fault("lost object")
        kept = stage.cluster.disk.objects.pop(path)
        fresh = await stage.boot("fresh", compact=False)
        try:
            await stage.start(fresh, use(fresh))
        except LostObject:
            stage.sight.probe.path("lost object noticed")
        else:
            raise Violation("missing is never taken for absent", f"{path} is gone and nobody noticed")
        if path.startswith(root + state):
            ask = await stage.create(fresh, "n0")
            if ask.answer == "acknowledged":
                raise Violation("missing is never taken for absent", "a name was decided without its table")
        fresh.process.crash()
        stage.cluster.disk.objects[path] = kept
    await stage.settle()


async def operator_deletes_the_tail(stage: Stage) -> None:
    """The newest segment is deleted by hand and its number filled again: the chain shows it to whoever reads on."""
    owner = await stage.boot("owner", compact=False)
    await stage.create(owner, "n0")
    await stage.create(owner, "n1")
    await stage.settle()
    disk = stage.cluster.disk
    path = next(path for path in disk.objects if "/ledger/catalog/" in path and path.endswith(f"{2:020d}"))
    stage.sight.probe.fault("lost object")
    kept = disk.objects.pop(path)
    stage.sight.wins.pop(path)
    disk.objects = {name: found for name, found in disk.objects.items() if not name.endswith("/hint")}
    other = await stage.boot("other", compact=False)
    await stage.create(other, "n1")
    refilled = disk.objects[path]
    ask = await stage.create(owner, "n2")
    if ask.answer == "acknowledged" and path in disk.objects:
        try:
            await stage.start(other, other.log("catalog").follower.catch_up())
        except Corrupt:
            stage.sight.probe.path("lost object noticed")
        else:
            raise Violation("missing is never taken for absent", "two histories go on side by side")
    other.process.crash()
    owner.process.crash()
    # Back to what everybody was told: the lost segment is restored, what was built on its replacement is withdrawn.
    disk.objects[path] = kept
    disk.created[path] = disk.created[path][:1]
    stage.sight.wins[path] = kept[0]
    for found in [ask for ask in stage.history.asks if ask.receipt and _is_in(refilled[0], ask)]:
        stage.history.asks.remove(found)


def _is_in(segment: bytes, ask: Ask) -> bool:
    events = decode_segment(segment, "refilled").events
    return any(event.operation == ask.command.operation for event in events)


SCENARIOS: dict[str, Scenario] = {
    function.__name__: function
    for function in (
        rivals,
        sleeping_compactor,
        sleeping_compactor_meets_kept_revision,
        sleeping_reader,
        zombie_below_the_floor,
        hint_written_from_memory,
        sleeping_publish,
        forwarded_into_silence,
        tombstone_between_layers,
        one_release_behind,
        upgraded,
        rival_rebuilds,
        outage_in_the_middle,
        operator_deletes,
        operator_deletes_the_tail,
        sleeping_owner,
        owner_asleep_in_its_create,
        sleeping_follower,
        packed_in_an_idle_log,
        sleeping_collector,
        packing_interrupted,
        lifecycle_rule,
        publish_that_failed_half_way,
        rebuild_announced_late,
        outdated_after_silence,
        invalid_after_silence,
        refused_while_a_copy_is_on_its_way,
    )
}
