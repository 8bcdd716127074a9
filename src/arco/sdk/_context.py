"""The context: what a function can know and do while it runs. A function gets it by having a parameter `context`."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple, Protocol

from arco.assets import Dimension, SecretRef, TimePartitions, partition_text, window_of
from arco.core import Invalid, NotFound, PartitionKey, Scalar, shown

__all__ = ["Cancelled", "Context", "Signals", "TimeWindow"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Cancelled(BaseException):
    """The run was cancelled. Like KeyboardInterrupt no `except Exception`, so that a function ends when asked to."""


class Signals(Protocol):
    """How a context speaks with the process that runs the function."""

    def heartbeat(self) -> None:
        """Say that the function is alive."""
        ...

    def cancelled(self) -> bool:
        """Whether the function should end."""
        ...


class TimeWindow(NamedTuple):
    """From `start` to before `end`, both in UTC."""

    start: datetime
    end: datetime


class NoSignals:
    """Nobody listens, as in a test of the function alone."""

    def heartbeat(self) -> None:
        return

    def cancelled(self) -> bool:
        return False


class Secrets(Mapping[str, str]):
    """The secrets the asset declared, read when they are asked for. Never shown as text."""

    def __init__(self, refs: tuple[SecretRef, ...], environ: Mapping[str, str]) -> None:
        self._refs = {ref.name: ref for ref in refs}
        self._environ = environ

    def __getitem__(self, name: str) -> str:
        ref = self._refs.get(name)
        if ref is None:
            raise Invalid(f"the asset has not declared the secret {shown(name)}; add secrets=[secret({name!r})]")
        value = self._environ.get(ref.key)
        if value is None:
            raise NotFound(
                f"the secret {name} is missing; set the environment variable {ref.key} where the worker runs"
            )
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._refs)

    def __len__(self) -> int:
        return len(self._refs)

    def __repr__(self) -> str:
        return f"Secrets({', '.join(self._refs)})"


class Context:
    """One attempt of one task. Everything has a default, so that a test can say only what matters to it."""

    def __init__(
        self,
        *,
        run_id: str = "",
        task_key: str = "",
        attempt: int = 1,
        partition_key: PartitionKey | None = None,
        dimensions: tuple[Dimension, ...] = (),
        secrets: tuple[SecretRef, ...] = (),
        materialization_ids: Mapping[str, str] | None = None,
        signals: Signals | None = None,
        environ: Mapping[str, str] | None = None,
        spark: Any = None,
        previous: Callable[[str], Any] | None = None,
        read: Mapping[str, Sequence[PartitionKey]] | None = None,
    ) -> None:
        self._key = partition_key or PartitionKey.empty()
        self._dimensions = dimensions
        self._signals: Signals = signals or NoSignals()
        self._spark = spark
        self._previous = previous
        self._read = read or {}
        self.run_id = run_id
        self.task_key = task_key
        self.attempt = attempt
        self.secrets: Mapping[str, str] = Secrets(secrets, os.environ if environ is None else environ)
        self.materialization_ids: Mapping[str, str] = dict(materialization_ids or {})
        """The ids of the versions this attempt writes, by asset key."""
        self.log = logging.getLogger("arco.task")

    @property
    def partition(self) -> dict[str, Scalar]:
        """The partition's values by dimension; empty for an asset without partitions."""
        return self._key.to_dict()

    @property
    def partition_key(self) -> str:
        """The partition as people write it: `date=2025-01-01`."""
        return partition_text(self._key)

    @property
    def window(self) -> TimeWindow:
        """The partition's window of time. With several time dimensions, that of the first by name."""
        values = self.partition
        for dimension in self._dimensions:
            value = values.get(dimension.name)
            if isinstance(dimension.partitions, TimePartitions) and isinstance(value, date):
                begin, end = window_of(dimension.partitions, value)
                return TimeWindow(_EPOCH + timedelta(microseconds=begin), _EPOCH + timedelta(microseconds=end))
        raise Invalid("the asset has no time partitions, so there is no window; give it partitions=daily(...)")

    @property
    def spark(self) -> Any:
        """The Spark session of this task, with settings and temporary views of its own. It is not to be stopped."""
        if self._spark is None:
            raise Invalid("the asset does not run on Spark, so there is no session; give it engine='spark'")
        return self._spark

    @property
    def previous(self) -> Any:
        """The current version of this partition as a DataFrame, for merges; None if there is none yet.

        It is the one that was current when the run began, also in a later attempt. What the asset is made of decides
        whether it is up to date, not this.
        """
        keys = list(self.materialization_ids)
        if self._previous is None:
            raise Invalid("only assets on Spark are given their previous version; give it engine='spark'")
        if len(keys) != 1:
            raise Invalid(f"the function makes {', '.join(keys)}; name one: context.previous_of('...')")
        return self._previous(keys[0])

    def previous_of(self, asset_key: str) -> Any:
        """The same of one of the assets that the function makes."""
        if self._previous is None or asset_key not in self.materialization_ids:
            raise Invalid(f"{shown(asset_key)} is no asset on Spark that this function makes")
        return self._previous(asset_key)

    def partitions_of(self, parameter: str) -> list[dict[str, Scalar]]:
        """The partitions that a parameter holds, each as its values by dimension. Of an incremental one, those that
        are new or changed: what `previous` has of them is to be replaced."""
        if parameter not in self._read:
            raise Invalid(f"{shown(parameter)} is no parameter with data; it has {', '.join(self._read) or 'none'}")
        return [key.to_dict() for key in self._read[parameter]]

    def heartbeat(self) -> None:
        """Say that the function is alive. Needed only if it holds the interpreter for longer than `heartbeat`."""
        self._signals.heartbeat()

    @property
    def cancelled(self) -> bool:
        """Whether the run was cancelled or took too long, so that the function should end."""
        return self._signals.cancelled()

    def check_cancelled(self) -> None:
        """Raise `Cancelled` if the function should end. For long loops."""
        if self.cancelled:
            raise Cancelled("the run was cancelled")
