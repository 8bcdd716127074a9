"""The Python client: `AsyncClient` for coroutines, `Client` for everybody else, one method a route of the API.

    with Client("http://127.0.0.1:8020", token) as arco:
        arco.create_namespace(NamespaceCreate(name="sales"))
        for table in arco.list_tables("sales"):
            print(table.name)

Requests and answers are the models of `arco.wire`. A list is an object to iterate (`Pages`); `page` fetches one page.
`Client` is made from `AsyncClient` by a script, so that they cannot differ.
"""

from arco.client._async._client import AsyncClient
from arco.client._async._connection import AsyncPages
from arco.client._calls import Changing, Consistency, Reading, Wait, Writing, is_loopback
from arco.client._problems import kind_of
from arco.client._sync._client import Client
from arco.client._sync._connection import Pages

__all__ = [
    "AsyncClient",
    "AsyncPages",
    "Changing",
    "Client",
    "Consistency",
    "Pages",
    "Reading",
    "Wait",
    "Writing",
    "is_loopback",
    "kind_of",
]
