"""`HttpTransport`: how a server's own HTTP clients reach others.

A server runs on uvloop, which has no socket for a connection that was reset while it was made: what a process that was
killed leaves in its queue. httpx asks it for its peer all the same, and what it then raises is no error of httpx. Here
it becomes one, so that callers who expect the network to fail see it fail.
"""

import httpx

__all__ = ["HttpTransport"]


class HttpTransport(httpx.AsyncHTTPTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        try:
            return await super().handle_async_request(request)
        except AttributeError as error:
            # Nothing was sent, as far as is known; but who must be sure is told of trouble that leaves it open.
            raise httpx.ReadError(f"the connection was reset ({error})", request=request) from error
