"""Drivers that are kept warm: a task gets one that has its code loaded already, if there is one.

Each driver unpacks the code into a folder of its own, which goes when the driver ends. Archives are fetched once and
kept in the worker's folder, checked against their hash.
"""

import asyncio
import itertools
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from arco.assets import Engine
from arco.core import Corrupt, sha256_hex
from arco.spark import SparkSettings
from arco.worker._control import ControlPlane
from arco.worker._messages import Setup
from arco.worker._process import DriverProcess, driver_environment

__all__ = ["DriverPool", "StorePlace", "WarmDriver"]


KEPT_ARCHIVES: Final = 10


class StorePlace:
    """Which workspace of which store drivers read and write. Its options may hold credentials."""

    def __init__(self, url: str, options: Mapping[str, str], tenant: str, workspace: str) -> None:
        self.url, self.options, self.tenant, self.workspace = url, dict(options), tenant, workspace


class WarmDriver:
    def __init__(self, process: DriverProcess, sha256: str, engine: Engine, folder: Path, scratch: Path) -> None:
        self.process, self.sha256, self.engine, self.folder, self.scratch = process, sha256, engine, folder, scratch


class DriverPool:
    def __init__(
        self,
        control: ControlPlane,
        place: StorePlace,
        folder: Path,
        environment: Mapping[str, str],
        size: int,
        spark: SparkSettings,
    ) -> None:
        self._control = control
        self._place = place
        self._folder = folder
        self._environment = driver_environment(environment)
        self._size = size
        self._spark = spark
        self._warm: list[WarmDriver] = []
        """Idle ones; the last was used most recently."""
        self._busy: set[WarmDriver] = set()
        self._numbers = itertools.count()
        self._fetching: dict[str, asyncio.Lock] = {}

    async def open(self) -> None:
        """Remove what an earlier life of the worker left."""
        await asyncio.to_thread(shutil.rmtree, self._folder / "drivers", ignore_errors=True)

    async def acquire(self, sha256: str, engine: Engine) -> WarmDriver:
        """A driver with this code that runs tasks of this engine only: one that Spark makes heavy stays free for what
        needs it. `DriverLost` if none can be started, `Unavailable` if the code cannot be had now."""
        for driver in reversed(self._warm):
            if (driver.sha256, driver.engine) == (sha256, engine):
                self._warm.remove(driver)
                if driver.process.alive:
                    self._busy.add(driver)
                    return driver
                await self._end(driver, "it is dead")
                break
        archive = await self._archive(sha256)
        number = next(self._numbers)
        folder = self._folder / "drivers" / f"{number:06d}"
        scratch = folder.with_suffix(".scratch")
        folder.mkdir(parents=True)
        setup = Setup(
            archive=str(archive),
            folder=str(folder),
            store=self._place.url,
            store_options=self._place.options,
            tenant=self._place.tenant,
            workspace=self._place.workspace,
            scratch=str(scratch),
            spark=self._spark,
        )
        try:
            process = await DriverProcess.start(setup, self._environment)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        driver = WarmDriver(process, sha256, engine, folder, scratch)
        self._busy.add(driver)
        return driver

    async def release(self, driver: WarmDriver, unfit: str = "") -> None:
        """Take a driver back; with a reason it is ended. The least used ones of its engine make room: Spark takes long
        to start, and a light task between two of its own must not cost that."""
        self._busy.discard(driver)
        if unfit or not driver.process.alive:
            await self._end(driver, unfit or "it is dead")
            return
        self._warm.append(driver)
        alike = [known for known in self._warm if known.engine is driver.engine]
        for old in alike[: -self._size]:
            self._warm.remove(old)
            await self._end(old, "others are used more")

    async def close(self) -> None:
        for driver in [*self._busy, *self._warm]:
            await self._end(driver, "the worker stops")
        self._busy.clear()
        self._warm.clear()
        shutil.rmtree(self._folder / "drivers", ignore_errors=True)

    async def _end(self, driver: WarmDriver, why: str) -> None:
        await driver.process.kill(why)
        for folder in (driver.folder, driver.scratch):
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _archive(self, sha256: str) -> Path:
        """The file with the code, fetched once."""
        path = self._folder / "code" / f"{sha256}.zip"
        async with self._fetching.setdefault(sha256, asyncio.Lock()):
            if path.exists() and sha256_hex(path.read_bytes()) == sha256:
                return path
            data = await self._control.code(sha256)
            if sha256_hex(data) != sha256:
                raise Corrupt(f"the code {sha256} has other bytes than its name says; deploy it again")
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_suffix(".tmp")
            temporary.write_bytes(data)
            temporary.rename(path)
            for old in sorted(path.parent.glob("*.zip"), key=lambda file: file.stat().st_mtime)[:-KEPT_ARCHIVES]:
                old.unlink()
        return path
