"""Envelopes: what was signed is what is opened, by whom it is for, as long as it lasts."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.assets import (
    AssetDefinition,
    CheckDefinition,
    CorruptRecords,
    Dependency,
    Retries,
    SchemaColumn,
    Source,
    SourceFormat,
)
from arco.core import MINUTE, Invalid, Outdated, Unauthenticated
from arco.servo._envelope import (
    Envelope,
    InputPin,
    InputValue,
    OutputPlace,
    PinnedFile,
    data_location,
    inputs_fingerprint,
    open_envelope,
    sign_envelope,
)

SECRET = bytes(range(32))
NOW = 1_700_000_000_000_000
ENVELOPE = Envelope(
    tenant="acme",
    workspace="prod",
    run_id="r1",
    task_key="n.a[date=2025-01-01]",
    task_id="task_1",
    attempt=2,
    attempt_id="a1",
    unit="n.a",
    code_version="code_1",
    code_sha256="00",
    definitions=(
        AssetDefinition(
            "n.a",
            function="pipes:a",
            dependencies=(Dependency("n.b", "b"),),
            checks=(CheckDefinition("c", "pipes:c"),),
            retries=Retries(3, on=("ValueError",)),
        ),
    ),
    outputs=(OutputPlace("A", "n.a", "part_1", "date=d:2025-01-01", "M", data_location("A", "part_1", "M")),),
    callback_token="cb1.1.secret",
    issued_at=NOW,
    expires_at=NOW + MINUTE,
    inputs=(
        InputValue(
            "B",
            "n.b",
            "b",
            True,
            "date: all",
            (InputPin("part_2", "", "N", (PinnedFile("data/x", 3, 10),), "hash", True),),
            Source("landing/x.csv", SourceFormat.CSV, {"sep": ";"}, CorruptRecords.DROP),
            (SchemaColumn("id", "long", False, True),),
        ),
    ),
    partition_key="date=d:2025-01-01",
    window_start=1,
    window_end=2,
    timeout_seconds=5.0,
    traceparent="00-1-2-01",
)
DATA = sign_envelope(SECRET, ENVELOPE)


def opened(data: bytes, *, secret: bytes = SECRET, tenant: str = "acme", now: int = NOW) -> Envelope:
    return open_envelope(secret, data, tenant=tenant, workspace="prod", now=now)


def test_what_was_signed_is_opened() -> None:
    assert opened(DATA) == ENVELOPE
    assert opened(DATA, now=NOW + MINUTE - 1) == ENVELOPE
    assert DATA.decode().isprintable()


@given(st.integers(0, len(DATA) - 1), st.integers(0, 255))
def test_a_changed_byte_is_refused(place: int, byte: int) -> None:
    changed = DATA[:place] + bytes([byte]) + DATA[place + 1 :]
    if changed != DATA:
        with pytest.raises(Unauthenticated):
            opened(changed)


@given(st.binary())
def test_whatever_else_arrives_is_refused(data: bytes) -> None:
    with pytest.raises(Unauthenticated):
        opened(data)


def test_refusals_are_all_alike() -> None:
    texts = set()
    for call in (
        lambda: opened(DATA, secret=bytes(32)),
        lambda: opened(DATA, tenant="other"),
        lambda: opened(DATA, now=NOW + MINUTE),
        lambda: opened(DATA, now=NOW - 10 * MINUTE),
        lambda: opened(b""),
        lambda: open_envelope(SECRET, DATA, tenant="acme", workspace="test", now=NOW),
    ):
        with pytest.raises(Unauthenticated) as caught:
            call()
        texts.add(str(caught.value))
    assert len(texts) == 1


def test_a_genuine_envelope_of_another_version_asks_for_an_upgrade() -> None:
    import hashlib
    import hmac

    from arco.core import derive_secret

    body = msgspec.json.encode({**msgspec.to_builtins(ENVELOPE), "novelty": 1})
    signature = hmac.new(derive_secret(SECRET, "envelope"), body, hashlib.sha256).hexdigest().encode()
    with pytest.raises(Outdated):
        opened(b"env1." + signature + b"." + body)


def test_the_token_is_not_shown() -> None:
    assert "secret" not in repr(ENVELOPE)
    assert "secret" not in f"{[ENVELOPE]}"


def test_a_secret_that_can_be_guessed_is_refused() -> None:
    with pytest.raises(Invalid):
        sign_envelope(b"short", ENVELOPE)


VERSIONS = st.lists(st.tuples(*[st.text("ABC_", min_size=1)] * 3), max_size=5)


@given(VERSIONS, st.randoms())
def test_order_and_repetition_of_inputs_do_not_matter(versions: list[tuple[str, str, str]], random: object) -> None:
    shuffled = [*versions, *versions]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert inputs_fingerprint(shuffled) == inputs_fingerprint(versions)


@given(VERSIONS, VERSIONS)
def test_other_inputs_have_another_fingerprint(
    one: list[tuple[str, str, str]], two: list[tuple[str, str, str]]
) -> None:
    assert (inputs_fingerprint(one) == inputs_fingerprint(two)) == (set(one) == set(two))


def test_the_fingerprint_of_inputs_is_what_it_always_was() -> None:
    found = inputs_fingerprint([("B", "part_2", "N"), ("A", "part_1", "M")])
    assert found == "2846730969df660e0c056a10f771643a862954eae9d3506bfb6761b80f47d588"
