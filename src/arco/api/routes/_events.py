"""External facts: what other producers know of materializations, observations, checks and lineage.

Nobody can refuse a fact for the state it meets, so no state is read: an event is judged by itself. Those that do not
fit are refused one by one, the others are one append.
"""

import msgspec

from arco.api._routing import router
from arco.api._writing import RecordsDep, Writes
from arco.core import Invalid, new_ulid
from arco.log import Command, NewEvent
from arco.wire import EventAnswer, EventBatch, EventIn, EventsWritten

__all__ = ["events"]

events = router("events")


@events.post("/events")
async def post_events(writes: RecordsDep, body: EventBatch) -> EventsWritten:
    """Record facts. The answer has a result for each; what is refused was not written, everything else was.

    Facts without an `Idempotency-Key` are not remembered as an operation: `/operations` does not know them.
    """
    answers: list[EventAnswer] = []
    taken: list[tuple[int, NewEvent]] = []
    for index, given in enumerate(body.events):
        try:
            event = _event(writes, given)
            await _check(writes, event)
            taken.append((index, event))
            answers.append(EventAnswer(index=index, status="recorded", id=event.id))
        except Invalid as error:
            answers.append(EventAnswer(index=index, status="refused", detail=error.message))
    if not taken:
        return EventsWritten(
            operation_id=None, position=None, replayed=False, recorded=0, refused=len(answers), results=answers
        )
    receipt = await writes.record("activity", [event for _, event in taken])
    first = int(receipt.first)
    for offset, (index, event) in enumerate(taken):
        # On a replay, ids that were minted here were others the first time; only the positions are the same.
        answers[index] = EventAnswer(
            index=index,
            status="recorded",
            id=body.events[index].id if receipt.replayed else event.id,
            position=str(first + offset),
        )
    return EventsWritten(
        operation_id=receipt.operation if writes.key else None,  # without a key nobody can ask for it again
        position=receipt.last,
        replayed=receipt.replayed,
        recorded=len(taken),
        refused=len(answers) - len(taken),
        results=answers,
    )


def _event(writes: Writes, given: EventIn) -> NewEvent:
    runtime = writes.caller.workspace.runtime
    return NewEvent(
        type=given.type,
        data=msgspec.Raw(msgspec.json.encode(given.data)),
        id=given.id or new_ulid(runtime, runtime),
        time=given.time or "",
        source=given.source,
        subject=given.subject,
    )


async def _check(writes: Writes, event: NewEvent) -> None:
    """`Invalid` if the log would not take the event, whatever its state."""
    workspace = writes.caller.workspace
    opened, runtime = workspace.logs["activity"], workspace.runtime
    command = Command(operation=new_ulid(runtime, runtime), actor=writes.caller.actor, events=(event,))
    await opened.admission.admit(command, (event,), runtime.now())
