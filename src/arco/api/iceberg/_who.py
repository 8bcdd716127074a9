"""Who asks for a change of a table, as `arco.iceberg` wants to know it."""

from typing import Any, Final

from arco.api.iceberg._ask import KEY_HEADER, Ask
from arco.iceberg import IdempotencyKey, Who, parse_idempotency_key

__all__ = ["who_asks"]

MAX_AGENT: Final = 256


def who_asks(ask: Ask, body: Any) -> Who:
    """The caller, and the key of the request, which holds for this route, these names and this body and no other."""
    agent = "".join(character for character in ask.request.headers.get("user-agent", "") if character.isprintable())
    return Who(
        actor=ask.caller.actor,
        operation=ask.operation,
        source="external",
        client=agent[:MAX_AGENT],
        traceparent=ask.caller.traceparent,
        correlation=ask.caller.request_id,
        key=_key(ask, body),
    )


def _key(ask: Ask, body: Any) -> IdempotencyKey | None:
    if KEY_HEADER not in ask.request.headers:
        return None
    names = " ".join(f"{name}={text}" for name, text in sorted(ask.parameters.items()))
    what = f"{ask.route} {names}"
    return parse_idempotency_key(ask.key, what=what, body=body, now=ask.host.runtime.now())
