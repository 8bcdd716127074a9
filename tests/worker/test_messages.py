"""What a driver is told is the envelope's own content, and results are told in full."""

import typing

import msgspec
import pytest

from arco.assets import CheckDefinition, GatingAction, GatingPolicy, Severity
from arco.servo import _envelope
from arco.worker import _messages
from arco.worker._messages import (
    MAX_MESSAGE_BYTES,
    CheckAnswer,
    Report,
    Start,
    Task,
    decode_from_driver,
    decode_from_worker,
    pack,
)
from arco.worker._outcome import gate
from tests.servo.test_envelope import ENVELOPE


@pytest.mark.parametrize("name", ["Task", "OutputPlace", "PinnedFile", "InputPin", "InputValue"])
def test_fields_of_a_task_are_those_of_an_envelope(name: str) -> None:
    theirs = getattr(_envelope, "Envelope" if name == "Task" else name)
    fields = {field.name: field for field in msgspec.structs.fields(theirs)}
    for field in msgspec.structs.fields(getattr(_messages, name)):
        assert field.default == fields[field.name].default
        assert typing.get_origin(field.type) == typing.get_origin(fields[field.name].type)


def test_an_envelope_is_read_as_a_task() -> None:
    sent = pack(Start((msgspec.Raw(msgspec.msgpack.encode(ENVELOPE)),)))
    start = decode_from_worker(sent[4:])
    assert isinstance(start, Start)
    task = msgspec.msgpack.decode(start.tasks[0], type=Task)
    assert task.definitions == ENVELOPE.definitions
    assert msgspec.to_builtins(task.inputs) == msgspec.to_builtins(ENVELOPE.inputs)


def test_messages_come_back_and_have_a_greatest_size() -> None:
    report = Report("A", checks=(CheckAnswer("n.a", "c", None),))
    assert decode_from_driver(pack(report)[4:]) == report
    with pytest.raises(ValueError, match="takes"):
        pack(Report("A", checks=(CheckAnswer("n.a", "c", None, "x" * (MAX_MESSAGE_BYTES + 1)),)))


@pytest.mark.parametrize(
    ("policy", "severity", "passed", "action"),
    [
        (None, Severity.INFO, False, GatingAction.CONTINUE),
        (None, Severity.WARNING, False, GatingAction.WARN),
        (None, Severity.ERROR, False, GatingAction.BLOCK_DOWNSTREAM),
        (None, Severity.CRITICAL, False, GatingAction.FAIL_RUN),
        (None, Severity.INFO, None, GatingAction.BLOCK_DOWNSTREAM),
        (None, Severity.CRITICAL, None, GatingAction.FAIL_RUN),
        (GatingPolicy("p", {"error": GatingAction.QUARANTINE}), Severity.ERROR, False, GatingAction.QUARANTINE),
        (GatingPolicy("p", {"error": GatingAction.QUARANTINE}), Severity.ERROR, None, GatingAction.QUARANTINE),
        (GatingPolicy("p", {}), Severity.ERROR, False, GatingAction.WARN),
        (GatingPolicy("p", {}, GatingAction.FAIL_TASK), Severity.INFO, False, GatingAction.FAIL_TASK),
    ],
)
def test_gating_by_policy_and_severity(
    policy: GatingPolicy | None, severity: Severity, passed: bool | None, action: GatingAction
) -> None:
    check = CheckDefinition("c", "m:c", severity)
    decided = gate(policy, check.name, check.severity, passed)
    assert decided is not None
    assert decided.action is action
    assert gate(policy, check.name, check.severity, True) is None
