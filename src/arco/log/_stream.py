"""`SegmentStream`: won segments on their way to the other replicas.

A subscriber that falls behind loses the buffered segments, not its place: its follower reads the gap from the store.
`close` ends every subscription: whoever waits is told to look for another owner.
"""

from collections import deque

from arco.core import Future, Runtime, Unavailable
from arco.log._follower import Follower
from arco.log._ledger import Unknown
from arco.storage import Tail

__all__ = ["SegmentStream", "Subscription", "follow"]

BUFFER = 256
"""Segments kept for a slow subscriber."""


class Subscription:
    def __init__(self, stream: "SegmentStream", runtime: Runtime) -> None:
        self._stream = stream
        self._runtime = runtime
        self._buffer: deque[tuple[Tail, bytes]] = deque(maxlen=BUFFER)
        self._arrived: Future[None] = runtime.future()

    async def next(self) -> tuple[Tail, bytes]:
        """The next segment that was won; waits for it. `Unavailable` once the stream has ended."""
        while not self._buffer:
            if self._stream.closed:
                raise Unavailable("the stream of segments has ended here; look for the owner again")
            self._arrived = self._runtime.future()
            await self._arrived
        return self._buffer.popleft()

    def push(self, tail: Tail, data: bytes) -> None:
        self._buffer.append((tail, data))
        self._arrived.set(None)

    def wake(self) -> None:
        self._arrived.set(None)

    def close(self) -> None:
        self._stream.drop(self)


class SegmentStream:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._subscriptions: list[Subscription] = []
        self.closed = False

    def subscribe(self) -> Subscription:
        subscription = Subscription(self, self._runtime)
        self._subscriptions.append(subscription)
        return subscription

    def publish(self, tail: Tail, data: bytes) -> None:
        for subscription in self._subscriptions:
            subscription.push(tail, data)

    def close(self) -> None:
        """Nothing follows: this process stops."""
        self.closed = True
        for subscription in self._subscriptions:
            subscription.wake()

    def drop(self, subscription: Subscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)


async def follow(subscription: Subscription, follower: Follower) -> None:
    """Keep a follower at what the owner wins, until cancelled. What was missed is read from the store."""
    while True:
        tail, data = await subscription.next()
        # The owner's proof counts on the owner's clock only.
        await follower.accept(data, Tail(tail.number, Unknown))
