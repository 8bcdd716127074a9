"""`Merging`: the merges of one log that this process works on. The runner does them."""

from collections.abc import Callable

from arco.core import Runtime, new_ulid
from arco.state._definition import Definition
from arco.state._jobs import Jobs
from arco.state._layout import Layout
from arco.state._manifest import File, Manifest, Pending
from arco.state._merge import inputs_of
from arco.state._runner import MergeJob, Runner
from arco.storage import Store

__all__ = ["Merging"]


class Merging(Jobs[File]):
    def __init__(
        self,
        definition: Definition,
        store: Store,
        layout: Layout,
        runner: Runner,
        runtime: Runtime,
        head: Callable[[], Manifest],
        done: Callable[[], None],
        changed: Callable[[], None],
    ) -> None:
        super().__init__("merge", File, store, layout.state, runtime, head, done, changed)
        self._definition = definition
        self._runner = runner

    async def work(self, head: Manifest, pending: Pending) -> tuple[File, ...] | None:
        layers = tuple(inputs_of(head, pending))
        if len(layers) != len(pending.inputs):
            return None  # the inputs are gone
        return await self._runner.merge(
            MergeJob(
                table=self._definition.tables[pending.table],
                layers=layers,
                oldest=head.layers_of(pending.table)[0] == layers[0],
                cutoff=head.cutoff(pending.table),
                directory=f"{pending.directory}/{new_ulid(self._runtime, self._runtime)}",
            )
        )
