"""The command line, on recorded workspaces."""

from tests.cli.conftest import cli, home

__all__ = ["cli", "home"]
