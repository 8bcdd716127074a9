"""Iceberg's REST Compatibility Kit against a server: `python -m tests.rck`, or `make rck`."""
