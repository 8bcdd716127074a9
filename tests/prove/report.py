"""What the proofs found: sections with durations, checks that passed or failed, one line at the end."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Report"]


class Report:
    def __init__(self) -> None:
        self.passed = 0
        self.failed: list[str] = []
        self._section = ""

    @contextmanager
    def section(self, title: str) -> Iterator[None]:
        """What is checked in here belongs to this title; an error ends the section, not the run."""
        self._section = title
        started = time.monotonic()
        print(f"\n== {title}", flush=True)
        try:
            yield
        except Exception as error:  # noqa: BLE001  a proof that breaks has failed; the others still tell something
            self.check(f"ended by {type(error).__name__}: {error}", False)
        print(f"   took {time.monotonic() - started:.1f} s", flush=True)

    def check(self, what: str, holds: bool, detail: str = "") -> None:
        if holds:
            self.passed += 1
        else:
            self.failed.append(f"{self._section}: {what}")
        extra = f" ({detail})" if detail else ""
        print(f"   {'ok  ' if holds else 'FAIL'} {what}{extra}", flush=True)

    def none(self, what: str, wrong: list[str]) -> None:
        """Check that nothing is wrong; show the first of what is."""
        self.check(what, not wrong, f"{len(wrong)} wrong, first: {'; '.join(wrong[:3])}" if wrong else "")

    def say(self, text: str) -> None:
        print(f"        {text}", flush=True)

    def summary(self) -> str:
        lines = [f"FAILED {what}" for what in self.failed]
        return "\n".join([*lines, f"{self.passed} passed, {len(self.failed)} failed"])
