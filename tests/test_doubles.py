"""The virtual loop itself: what depends on it depends on this."""

import asyncio

from tests.doubles import run

YEAR = 365 * 86_400.0


def test_timers_come_however_long_the_loop_has_run() -> None:
    async def main() -> float:
        for _ in range(10):
            await asyncio.sleep(YEAR)
            for _ in range(100):
                await asyncio.sleep(0.1)
        return asyncio.get_running_loop().time()

    assert abs(run(main()) - 10 * (YEAR + 10.0)) < 0.001
