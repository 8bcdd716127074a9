"""Arco: a data platform in a bucket."""

__version__ = "0.1.0"
