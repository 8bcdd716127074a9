"""`Gateway`: the door through which commands enter a log, one per process and log.

If this process owns the log the command goes to its `Owner`. Else it is forwarded to the owner that the hint names; an
owner that refuses or stays silent for two seconds is replaced: this process folds to the tail and appends itself, and
once it has won a number it writes the hint. That is safe with any number of would-be owners, because the number decides
and every validation first looks for the command's operation id.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from arco.core import (
    SECOND,
    Corrupt,
    Forbidden,
    Invalid,
    LostObject,
    OutcomeUnknown,
    Refused,
    Runtime,
    StoreRefused,
    Superseded,
    Unauthenticated,
    Unavailable,
    new_ulid,
    parse_request_key,
)
from arco.log._admission import Admission
from arco.log._event import Command, Receipt
from arco.log._follower import Follower
from arco.log._hint import Hint, HintFile
from arco.log._owner import Owner
from arco.log._stream import SegmentStream
from arco.storage import Tail

__all__ = ["Forwarder", "Gateway", "InProcessForwarder"]

SILENCE = 2.0
"""Seconds after which an owner that does not answer is replaced."""

PATIENCE = 30.0
"""Seconds a caller waits for its own process to settle an append before it gets `OutcomeUnknown`."""

ESTRANGED = 60 * SECOND
"""Microseconds since the newest segment after which an owner that does not accept this process is no owner of ours."""

ROUNDS = 16
"""How often a command looks for an owner before its caller is told to come back."""


class Forwarder(Protocol):
    """Carries commands to the gateway of another process.

    It may lose them, delay them, or deliver one twice for lack of an answer; once an answer got through, the command
    must not be delivered again, because a refusal is remembered by nobody.
    """

    async def forward(self, address: str, log: str, command: Command) -> Receipt:
        """The other gateway's answer; `Unavailable` if it cannot be reached, `Superseded` if it is not the owner.

        `Unauthenticated` if whoever listens there does not accept this process.
        """
        ...


class InProcessForwarder:
    """Gateways of one process, found by address."""

    def __init__(self) -> None:
        self._gateways: dict[tuple[str, str], Gateway] = {}

    def register(self, gateway: "Gateway") -> None:
        self._gateways[gateway.address, gateway.log] = gateway

    def unregister(self, gateway: "Gateway") -> None:
        self._gateways.pop((gateway.address, gateway.log), None)

    async def forward(self, address: str, log: str, command: Command) -> Receipt:
        gateway = self._gateways.get((address, log))
        if gateway is None:
            raise Unavailable(f"no owner of the log {log} answers at {address}")
        return await gateway.receive(command)


class Gateway:
    def __init__(
        self,
        follower: Follower,
        admission: Admission,
        hint: HintFile,
        forwarder: Forwarder,
        runtime: Runtime,
        address: str,
        *,
        may_own: bool = True,
        stream: SegmentStream | None = None,
        on_won: Callable[[Tail], None] = lambda tail: None,
        renew: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        """`renew` moves the fold to a newer revision, if there is one, when files of its own are gone."""
        self.address = address
        self.log = follower.place.log
        self._follower = follower
        self._admission = admission
        self._hint = hint
        self._forwarder = forwarder
        self._runtime = runtime
        self._may_own = may_own
        self._stream = stream
        self._on_won = on_won
        self._renew = renew
        self._closed = False
        self._owner: Owner | None = None
        self.terms = 0
        """How often this process became the owner."""

    @property
    def owning(self) -> bool:
        """Whether this process believes that it owns the log; only the next append can tell for sure."""
        return self._owner is not None and not self._owner.ended

    @property
    def waiting(self) -> int:
        """Commands that are not settled yet."""
        return 0 if self._owner is None else self._owner.waiting

    @property
    def leading(self) -> bool:
        """Whether this process owns the log and has appended to it, so that others know and come here."""
        return self._owner is not None and self._owner.has_won and self.owning

    async def submit(self, command: Command) -> Receipt:
        """Carry out a command wherever the owner is.

        Raises `Invalid` or `Refused` if it will not be carried out, `Unavailable` if nothing happened and it may be
        tried again, `OutcomeUnknown` (with the operation id) if it may have happened.
        """
        command = self._entered(command)
        maybe_done = renewed = False
        for _ in range(ROUNDS):
            if self._closed:
                raise Unavailable(f"the log {self.log} was closed in this process; open the workspace again")
            try:
                if self._owner is not None and self.owning:
                    return await self._runtime.timeout(PATIENCE, self._owner.submit(command))
                receipt, silent = await self._forward(command)
                maybe_done = maybe_done or silent
                if receipt is not None:
                    return receipt
                await self._become_owner(command)
            except TimeoutError:
                raise self._unknown(command, None) from None
            except OutcomeUnknown:
                maybe_done = True
            except LostObject as error:
                # Who idled stands on files that were merged and collected since: the newest revision has them all.
                if renewed or self._renew is None or not await self._renew():
                    raise self._unknown(command, error) if maybe_done else error from None
                renewed = True
            except (Corrupt, Invalid, Refused, StoreRefused, Superseded, Unavailable) as error:
                if type(error) is Superseded and not self._follower.sealed:
                    continue  # somebody else owns the log now
                # What was forwarded before may still be on its way, and find another state there than we did here.
                if maybe_done:
                    raise self._unknown(command, error) from error
                raise
        raise (
            self._unknown(command, None)
            if maybe_done
            else Unavailable(
                f"the log {self.log} changes its owner too often to take a command; try again",
                operation=command.operation,
            )
        )

    async def receive(self, command: Command) -> Receipt:
        """A command that another process forwarded: carried out here, or `Superseded` if this is not the owner."""
        if self._owner is None or not self.owning:
            raise Superseded(f"this process does not own the log {self.log}")
        return await self._owner.submit(command)

    def resign(self) -> None:
        """Own the log no more, once what is queued is settled: others take another process for the owner."""
        if self._owner is not None:
            self._owner.retire()

    async def close(self) -> None:
        """Settle what is queued; nothing is taken any more."""
        self._closed = True
        if self._owner is not None:
            await self._owner.close()

    def _entered(self, command: Command) -> Command:
        """Ids are minted where a command enters, so that a command that lands twice carries the same events."""
        if command.key:
            command = msgspec.structs.replace(command, key=parse_request_key(command.key))
        if all(event.id for event in command.events):
            return command
        events = tuple(
            event if event.id else msgspec.structs.replace(event, id=new_ulid(self._runtime, self._runtime))
            for event in command.events
        )
        return msgspec.structs.replace(command, events=events)

    async def _forward(self, command: Command) -> tuple[Receipt | None, bool]:
        """The owner's receipt if one answers, and whether one may have taken the command without answering."""
        hint = await self._hint.read()
        if not hint.address or hint.address == self.address:
            return None, False
        try:
            work = self._forwarder.forward(hint.address, self.log, command)
            return await self._runtime.timeout(SILENCE, work), False
        except TimeoutError:
            return None, True
        except OutcomeUnknown:
            return None, True
        except (Superseded, Unavailable):
            # Also if that process is too old to write: whether this one is, its own fold will say.
            return None, False
        except Unauthenticated as error:
            # A live owner with another secret must not be fought. But an old hint may name a place where somebody
            # else's process listens by now, and that one would refuse for ever.
            await self._follower.catch_up()
            if self._runtime.now() - self._follower.fold.link.received < ESTRANGED:
                raise Forbidden(error.message) from error
            return None, False

    async def _become_owner(self, command: Command) -> None:
        if not self._may_own:
            raise Unavailable(
                f"no owner of the log {self.log} answers and this process may not own it; try again when one runs",
                operation=command.operation,
            )
        await self._follower.catch_up()
        self._follower.check_writable()
        if not self.owning:
            if self._owner is not None:
                self._owner.retire()
            self._owner = Owner(self._follower, self._admission, self._runtime, self.address, on_won=self._won)
            self.terms += 1

    def _won(self, tail: Tail, data: bytes) -> None:
        if self._stream is not None:
            self._stream.publish(tail, data)
        self._on_won(tail)
        self._runtime.spawn(self._hint.write(Hint(tail.number, self.address)), f"hint of {self.log}")

    def _unknown(self, command: Command, cause: Exception | None) -> OutcomeUnknown:
        reason = f": {cause}" if cause else ""
        return OutcomeUnknown(
            f"the outcome of operation {command.operation} is not known{reason}; ask by its id before trying again",
            operation=command.operation,
        )
