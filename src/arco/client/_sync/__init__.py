"""The client that blocks. Made from `arco.client._async` by `python -m tests.client.unasync`: edit that."""
