"""A missing emulator must not pass silently where it counts."""

import pytest

from tests.emulators.servers import missing_component


def test_a_missing_component_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="not installed"):
        missing_component("not installed")


def test_a_missing_component_skips_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="not installed"):
        missing_component("not installed")
