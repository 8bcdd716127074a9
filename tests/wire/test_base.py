"""Models that all answers share."""

import inspect

import pytest

from arco.wire import Answer, Page


class _Item(Answer):
    name: str


def test_a_page_of_a_new_kind_is_made_without_a_look_at_source_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are dozens of kinds, made while the program starts: looking for docstrings took most of a start."""

    def refuse(*_: object) -> None:
        raise AssertionError("a page looks for its source")

    monkeypatch.setattr(inspect, "getsource", refuse)
    monkeypatch.setattr(inspect, "findsource", refuse)
    monkeypatch.setattr(inspect, "getmodule", refuse)
    kind = Page[_Item]
    assert kind.__name__ == "_ItemPage"
    assert kind.model_fields["position"].description == "The position of the log this page was read at."
