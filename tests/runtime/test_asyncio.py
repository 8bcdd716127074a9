"""The runtime on asyncio: futures outlive their waiters, time-outs cancel, tasks are held and awaited."""

import asyncio
import threading

import pytest

from arco.core import Mutex, Unavailable
from arco.runtime import AsyncRuntime


def test_a_future_survives_the_cancellation_of_who_waits_for_it() -> None:
    async def main() -> None:
        future = AsyncRuntime().future()

        async def wait() -> object:
            return await future

        first, second = asyncio.create_task(wait()), asyncio.create_task(wait())
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert not future.done()
        future.set(7)
        assert future.done()
        assert await second == 7
        assert await future == 7
        assert await wait() == 7

    asyncio.run(main())


def test_the_first_outcome_of_a_future_stays() -> None:
    async def main() -> None:
        runtime = AsyncRuntime()
        won, lost = runtime.future(), runtime.future()
        won.set(1)
        won.set(2)
        won.fail(ValueError("late"))
        assert await won == 1
        lost.fail(ValueError("first"))
        lost.set(3)
        for _ in range(2):
            with pytest.raises(ValueError, match="first"):
                await lost

    asyncio.run(main())


def test_a_failure_that_nobody_collects_is_no_warning() -> None:
    """Warnings are errors in these tests, so an unretrieved exception would show."""

    async def main() -> None:
        AsyncRuntime().future().fail(ValueError("nobody asked"))

    asyncio.run(main())


def test_a_time_out_cancels_what_it_waited_for() -> None:
    async def main() -> None:
        runtime = AsyncRuntime()
        ended: list[str] = []

        async def slow() -> None:
            try:
                await runtime.sleep(60)
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise

        async def quick() -> int:
            await runtime.sleep(0)
            return 5

        with pytest.raises(TimeoutError):
            await runtime.timeout(0.01, slow())
        assert ended == ["cancelled"]
        assert await runtime.timeout(60, quick()) == 5

    asyncio.run(main())


def test_a_spawned_task_is_awaited_and_raises_what_it_raised() -> None:
    async def main() -> None:
        runtime = AsyncRuntime()

        async def fail() -> None:
            raise ValueError("inside")

        task = runtime.spawn(fail(), "fails")
        with pytest.raises(ValueError, match="inside"):
            await task
        assert task.done()

        async def forever() -> None:
            await runtime.future()

        endless = runtime.spawn(forever(), "waits")
        await runtime.sleep(0)
        endless.cancel()
        with pytest.raises(asyncio.CancelledError):
            await endless

    asyncio.run(main())


def test_clocks_and_chance_are_those_of_the_machine() -> None:
    async def main() -> None:
        runtime = AsyncRuntime()
        wall, boot = runtime.now(), runtime.boottime()
        await runtime.sleep(0.001)
        assert runtime.now() > wall > 1_700_000_000_000_000
        assert runtime.boottime() > boot
        assert len({runtime.bytes(16) for _ in range(10)}) == 10
        assert all(2.0 <= runtime.uniform(2.0, 3.0) <= 3.0 for _ in range(10))

    asyncio.run(main())


def test_others_go_on_while_a_long_computation_runs_and_its_end_is_the_caller_s() -> None:
    async def main() -> None:
        runtime = AsyncRuntime()
        begun, over = threading.Event(), threading.Event()

        def work() -> int:
            begun.set()
            assert over.wait(30)
            return threading.get_ident()

        async def others() -> None:
            while not begun.is_set():
                await runtime.sleep(0.001)
            over.set()

        runtime.spawn(others(), "others")
        assert await runtime.offload(work) != threading.get_ident()

        def fail() -> int:
            raise Unavailable("it broke")

        with pytest.raises(Unavailable, match="it broke"):
            await runtime.offload(fail)

    asyncio.run(main())


def test_a_mutex_on_this_runtime_lets_one_in_at_a_time() -> None:
    async def main() -> None:
        runtime = AsyncRuntime()
        mutex = Mutex(runtime)
        inside: list[int] = []

        async def enter(number: int) -> None:
            async with mutex:
                inside.append(number)
                await runtime.sleep(0)
                assert inside[-1] == number

        await asyncio.gather(*(enter(number) for number in range(5)))
        assert inside == [0, 1, 2, 3, 4]

    asyncio.run(main())
