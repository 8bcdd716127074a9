"""What must hold of Iceberg commits after a run. Each function raises a `Violation` that names the rule."""

from itertools import pairwise

from arco.iceberg import Pointer
from arco.iceberg._pointer import encode_pointer, sha256_of
from tests.simulation.commits_history import Call, Commits, Marks, Request, State
from tests.simulation.probe import Probe
from tests.simulation.scheduler import Violation

__all__ = ["check_commits"]


def check_commits(history: Commits, probe: Probe) -> None:
    states = {table: history.states(table) for table in history.pointers}
    for table, chain in history.pointers.items():
        _check_chain(table, [pointer for _, pointer in chain])
        _check_lineage(table, states[table])
        _check_before(table, history.pointers[table], states[table])
    _check_reads(history)
    for request in history.requests:
        effects = _effects(request, states)
        _check_atomic(request, effects)
        tick = effects[0][0] if effects and effects[0] else None
        for call in request.calls:
            _check_answer(history, request, call, tick)
            if call.answer == "unknown" and tick is not None and tick > (call.returned or 0):
                probe.path("settled after the answer")
        _check_last_word(request, tick)
    _count_new_tries(history, probe)


def _count_new_tries(history: Commits, probe: Probe) -> None:
    """Transactions of one operation that were aborted before another of it was committed."""
    txns: dict[str, set[str]] = {}
    for chain in history.pointers.values():
        for _, pointer in chain:
            if pointer.txn is not None:
                txns.setdefault(pointer.operation, set()).add(pointer.txn)
    for found in txns.values():
        outcomes = [history.decisions.get(txn, (0, ""))[1] for txn in found]
        if len(found) > 1 and "committed" in outcomes:
            probe.path("aborted under way")


def _check_chain(table: str, chain: list[Pointer]) -> None:
    """Every pointer continues its predecessor, and `before` is what held."""
    for previous, pointer in pairwise(chain):
        if pointer.previous_hash != sha256_of(encode_pointer(previous)):
            raise Violation("chains hold", f"pointer {pointer.number} of {table} does not continue its predecessor")
        if pointer.committed_at <= previous.committed_at:
            raise Violation("times grow", f"pointer {pointer.number} of {table} is older than its predecessor")


def _check_before(table: str, chain: list[tuple[int, Pointer]], states: list[State]) -> None:
    """A prepared pointer carries what was in force when it was created."""
    for tick, pointer in chain:
        if pointer.txn is not None:
            earlier = [state.pointer.held for state in states if state.tick < tick]
            if pointer.before != (earlier[-1] if earlier else None):
                raise Violation("before is what held", f"pointer {pointer.number} of {table} says {pointer.before}")


def _check_lineage(table: str, states: list[State]) -> None:
    """Each commit adds exactly its own mark to what was in force; a table that is made has none."""
    marks: Marks = None
    for state in states:
        if state.marks is None:
            marks = None
            continue
        if state.marks != (() if marks is None else (*marks, *state.marks[-1:])):
            raise Violation(
                "lineage is unbroken", f"pointer {state.pointer.number} of {table} makes {marks} into {state.marks}"
            )
        if len(set(state.marks)) != len(state.marks):
            raise Violation("each commit once", f"{table} holds {state.marks}")
        marks = state.marks


def _check_reads(history: Commits) -> None:
    for read in history.reads:
        possible = history.during(read.table, read.invoked, read.returned)
        if read.marks not in possible:
            raise Violation(
                "strong reads are linearizable",
                f"{read.table} was read as {read.marks} from {read.invoked} to {read.returned}, it was {possible}",
            )


def _effects(request: Request, states: dict[str, list[State]]) -> list[list[int]]:
    """Per table the ticks at which the request's mark appeared."""
    if request.kind != "mark":
        return []
    found = []
    for table in request.tables:
        ticks, before = [], 0
        for state in states[table]:
            count = (state.marks or ()).count(request.mark)
            if state.marks is not None:
                ticks += [state.tick] * max(count - before, 0)
                before = count
        found.append(ticks)
    return found


def _check_atomic(request: Request, effects: list[list[int]]) -> None:
    if any(len(ticks) > 1 for ticks in effects):
        raise Violation("each commit once", f"{request.mark} took effect at {effects}")
    if any(ticks != effects[0] for ticks in effects):
        raise Violation("transactions are atomic", f"{request.mark} took effect at {effects} on {request.tables}")


def _check_answer(history: Commits, request: Request, call: Call, tick: int | None) -> None:
    if call.returned is None:
        return
    if request.kind != "mark":
        _check_switch(history, request, call)
        return
    if call.answer == "acknowledged" and (tick is None or not call.invoked < tick < call.returned):
        raise Violation("what is acknowledged is there", f"{request.mark}: {call}, took effect at {tick}")
    if call.answer == "replayed" and (tick is None or tick > call.returned):
        raise Violation("what is acknowledged is there", f"{request.mark}: {call}, took effect at {tick}")
    if call.answer == "refused":
        _check_refusal(history, request, call)
        if tick is not None and tick < call.returned:
            raise Violation("what is refused is not there", f"{request.mark}: {call}, took effect at {tick}")
    if call.answer in ("refused", "unavailable") and request.key is None and tick is not None:
        raise Violation("what is refused is not there", f"{request.mark}: {call}, took effect at {tick}")


def _check_switch(history: Commits, request: Request, call: Call) -> None:
    seen = history.during(request.tables[0], call.invoked, call.returned or 0)
    wanted = request.kind == "drop"
    if call.answer == "acknowledged" and not any((marks is None) == wanted for marks in seen):
        raise Violation("what is acknowledged is there", f"{request.kind} of {request.tables[0]}: it was {seen}")


def _check_refusal(history: Commits, request: Request, call: Call) -> None:
    """Some state while the call was under way must say no."""
    if "times while" in call.reason or "by others" in call.reason:
        return  # it gave up, which is no statement about the state
    first = True
    for table in request.tables:
        for marks in history.during(table, call.invoked, call.returned or 0):
            if marks is None or (first and request.expected is not True and _last(marks) != request.expected):
                return
        first = False
    raise Violation("refusals rest on what is there", f"{request.mark} on {request.tables}: {call}")


def _check_last_word(request: Request, tick: int | None) -> None:
    """After a refusal nothing lands, unless the request is sent again."""
    last = request.calls[-1]
    if last.answer == "refused" and tick is not None and last.returned is not None:
        raise Violation("what is refused is not there", f"{request.mark}: refused at {last.returned}, there at {tick}")


def _last(marks: Marks) -> str | None:
    return marks[-1] if marks else None
