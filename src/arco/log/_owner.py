"""`Owner`: the one process that appends to a log, by group commit.

Commands wait in a queue; one loop takes what has gathered, validates it and creates the next segment. The rules:

- The group is validated at tail T, each member on the state with the earlier members, and creates T+1 and no other
  number. Won: nothing came between, so every validation holds. Lost: fold the winner, validate everything again.
- Answers are given when the group is settled, refusals too: a refusal may rest on an earlier member, and only a won
  T+1 (or the proof that T+1 is absent) shows that T was the tail. Refusals are never logged.
- The loop owns a create to its end. Callers wait for a future; when they go away nothing is undone or done twice. While
  an outcome is open the same bytes are tried for the same number, and nothing else is appended. If the floor passed
  that number meanwhile, the packs tell whose it was.
- After the win there is only success, or `OutcomeUnknown` with the operation id.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from arco.core import (
    ArcoError,
    Corrupt,
    Future,
    Invalid,
    OutcomeUnknown,
    Refused,
    Runtime,
    StoreRefused,
    Superseded,
    TooLarge,
    Unavailable,
    new_ulid,
)
from arco.log._admission import Admission, Admitted
from arco.log._event import Command, Receipt, position_of
from arco.log._follower import Follower
from arco.log._ledger import Unknown
from arco.log._segment import MAX_EVENTS, MAX_SEGMENT_BYTES, SEGMENT_FORMAT, Header, Link, encode_segment
from arco.storage import Lost, Tail, Won

__all__ = ["Owner"]

GROUP_BYTES = MAX_SEGMENT_BYTES - (64 << 10)
"""Room for events in a segment; the rest is for its header."""

MAX_QUEUE = 10_000
"""Commands that may wait while the store does not answer."""


@dataclass(eq=False, slots=True)
class _Entry:
    command: Command
    answer: Future[Receipt]
    recorded: list[Admitted] | None
    """The events, if the command is recorded and not decided."""


@dataclass(slots=True)
class _Group:
    """What one validation of the queue came to."""

    taken: int
    """How many entries of the queue it covers."""
    members: list[tuple[_Entry, int, int]]
    """Entries whose events are in the segment, with the first index and the count."""
    known: list[tuple[_Entry, Receipt]]
    refused: list[tuple[_Entry, ArcoError]]
    encoded: list[bytes]
    received: int


class Owner:
    def __init__(
        self,
        follower: Follower,
        admission: Admission,
        runtime: Runtime,
        writer: str,
        *,
        on_won: Callable[[Tail, bytes], None] = lambda tail, data: None,
    ) -> None:
        self._follower = follower
        self._admission = admission
        self._runtime = runtime
        self._writer = writer
        self._on_won = on_won
        self._queue: deque[_Entry] = deque()
        self._wakeup: Future[None] = runtime.future()
        self._ended: Superseded | None = None
        self._closing = False
        self._reached = follower.tail.number
        """The newest number that was there before us or that we tried for; what is folded beyond it is not ours."""
        self.has_won = False
        self._task = runtime.spawn(self._run(), f"owner of {follower.place.log}")

    async def submit(self, command: Command) -> Receipt:
        """Carry out a command; returns when its segment is won and folded.

        Raises `Invalid` or `Refused` (nothing written), `Superseded` if this process no longer owns the log (nothing
        written), `OutcomeUnknown` if only the log knows.
        """
        now = max(self._runtime.now(), self._follower.fold.link.received)  # retention goes by the log's time too
        self._admission.check_command(command, now)
        recorded = await self._admission.admit(command, command.events, now) if command.events else None
        if recorded and sum(len(a.encoded) + 1 for a in recorded) > GROUP_BYTES:
            raise TooLarge(f"the {len(recorded)} events of one command do not fit into a segment; split the batch")
        if self.ended:
            raise self._ended or Superseded("this process gives up the log; ask the next owner")
        if len(self._queue) >= MAX_QUEUE:
            raise Unavailable(
                f"{MAX_QUEUE} commands wait for the log {self._follower.place.log} already; try again later"
            )
        entry = _Entry(command, self._runtime.future(), recorded)
        self._queue.append(entry)
        self._wakeup.set(None)
        return await entry.answer

    async def close(self) -> None:
        """Settle what is queued, then stop."""
        self.retire()
        await self._task

    def retire(self) -> None:
        """Stop once what is queued is settled."""
        self._closing = True
        self._wakeup.set(None)

    @property
    def waiting(self) -> int:
        """Commands that are not settled yet."""
        return len(self._queue)

    @property
    def ended(self) -> bool:
        return self._ended is not None or self._closing or self._is_overtaken()

    def _is_overtaken(self) -> bool:
        """Somebody else has appended. To go on would be safe, but two owners would not hear of each other."""
        return self._follower.tail.number > self._reached

    async def _run(self) -> None:
        try:
            while True:
                if not self._queue:
                    if self._closing:
                        return
                    self._wakeup = self._runtime.future()
                    await self._wakeup
                    continue
                await self._commit()
        except Superseded as error:
            self._end(error)
        except ArcoError as error:
            self._end(Superseded(f"the owner stopped: {error.message}"), error)
        except BaseException:
            self._end(Superseded("the owner stopped unexpectedly"), OutcomeUnknown("the owner stopped unexpectedly"))
            raise

    def _end(self, ended: Superseded, answer: ArcoError | None = None) -> None:
        self._ended = ended
        while self._queue:
            self._queue.popleft().answer.fail(answer or ended)

    async def _commit(self) -> None:
        """Settle one group: its entries leave the queue with an answer, or all stay and the owner ends."""
        self._follower.check_writable()
        if self._is_overtaken():
            raise Superseded("another process appended to the log; ask the owner that the hint names")
        tail, link = self._follower.tail, self._follower.fold.link
        if tail.number != link.number or tail.number < self._reached:
            await self._follower.catch_up()  # the fold is being set back to another revision: wait for it
            return
        epoch = self._follower.epoch
        try:
            group = await self._validate(tail, link)
        except Unavailable:
            if epoch == self._follower.epoch:
                raise
            return  # the state was set back under the validation: once more
        if epoch != self._follower.epoch:
            return
        if group.encoded:
            settled = await self._append(tail, link, group)
        elif group.refused or group.members:
            settled = (await self._follower.catch_up()).number == tail.number
        else:
            settled = True
        if not settled:
            return
        for _ in range(group.taken):
            self._queue.popleft()
        self._answer(tail.number + 1, group)

    async def _validate(self, tail: Tail, link: Link) -> _Group:
        received = max(self._runtime.now(), link.received)
        draft = self._follower.fold.draft()
        group, size = _Group(0, [], [], [], [], received), 0
        for entry in tuple(self._queue):
            try:
                if entry.command.name or entry.command.key:
                    known = await draft.find(entry.command)
                    if known is not None:
                        group.known.append((entry, known))
                        group.taken += 1
                        continue
                events = entry.recorded
                if events is None:
                    new = await draft.decide(entry.command, received)
                    events = await self._admission.admit(entry.command, new, received)
                added = sum(len(event.encoded) + 1 for event in events)
                if added > GROUP_BYTES:
                    raise TooLarge(f"the events of {entry.command.name} do not fit into a segment; split the command")
                size += added
                if group.encoded and (size > GROUP_BYTES or len(group.encoded) + len(events) > MAX_EVENTS):
                    break
                index = len(group.encoded)
                await draft.stage(tail.number + 1, index, [event.event for event in events], received)
                group.members.append((entry, index, len(events)))
                group.encoded.extend(event.encoded for event in events)
            except (Invalid, Refused) as error:
                group.refused.append((entry, error))
            group.taken += 1
        return group

    async def _append(self, tail: Tail, link: Link, group: _Group) -> bool:
        """Create the next segment. Another process that took the number is the owner now: `Superseded`."""
        place = self._follower.place
        header = Header(
            format=SEGMENT_FORMAT,
            log=place.log,
            number=tail.number + 1,
            id=new_ulid(self._runtime, self._runtime),
            previous=link.sha256,
            incarnation=place.incarnation,
            tenant=place.tenant,
            workspace=place.workspace,
            writer=self._writer,
            received=group.received,
            folds=dict(self._follower.fold.versions),
        )
        data = encode_segment(header, group.encoded)
        self._reached = tail.number + 1
        outcome = await self._create(tail, data)
        if isinstance(outcome, Won):
            self.has_won = True
            try:
                await self._follower.accept(data, outcome.tail)
            except ArcoError as error:
                raise OutcomeUnknown(f"appended, but the state cannot be folded now: {error.message}") from error
            self._on_won(outcome.tail, data)
            return True
        await self._follower.accept(outcome.data, Tail(tail.number + 1, tail.proven))
        await self._follower.catch_up()
        if self._follower.sealed:
            self._follower.check_writable()
        raise Superseded("another process appended to the log; ask the owner that the hint names")

    async def _create(self, tail: Tail, data: bytes) -> Won | Lost:
        """Try until it is settled. Once a request was sent whose fate is open, no refusal can say that it failed."""
        is_open = False
        while True:
            try:
                return await self._follower.sequence.create(tail, data)
            except Unavailable:
                is_open = True
                await self._runtime.sleep(self._runtime.uniform(0.5, 1.0))
            except Superseded as error:
                return await self._settle(tail.number + 1, data, error)
            except StoreRefused as error:
                if not is_open:
                    raise
                raise OutcomeUnknown(f"an earlier request may have been carried out: {error.message}") from error

    async def _settle(self, number: int, data: bytes, error: Superseded) -> Won | Lost:
        """This process slept: the number lies below the floor, and only the ledger knows what became of it there."""
        try:
            found = await self._follower.ledger.read(number)
        except (Corrupt, Superseded, StoreRefused, Unavailable) as trouble:
            raise OutcomeUnknown(f"{error.message}; what became of it is not known: {trouble.message}") from trouble
        return Won(Tail(number, Unknown)) if found == data else Lost(found)

    @staticmethod
    def _answer(number: int, group: _Group) -> None:
        for entry, first, count in group.members:
            # Without events there is nothing to point at but everything before.
            start = position_of(number, first) if count else position_of(number, first) - 1
            entry.answer.set(Receipt(entry.command.operation, str(start), str(start + max(count - 1, 0))))
        for entry, receipt in group.known:
            entry.answer.set(receipt)
        for entry, error in group.refused:
            entry.answer.fail(error)
