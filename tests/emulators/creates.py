"""S3 decides atomically whether an object is absent; an emulator whose threads look first and write then does not."""

import threading
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["OneCreateAtATime"]


class OneCreateAtATime:
    """A WSGI application that lets one request after the other create an object only if it is absent."""

    def __init__(self, inner: Callable[..., Iterable[bytes]]) -> None:
        self._inner = inner
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if "HTTP_IF_NONE_MATCH" not in environ:
            return self._inner(environ, start)
        with self._lock:
            return list(self._inner(environ, start))
