"""The client for coroutines. `python -m tests.client.unasync --write` makes the one that blocks from these files."""
