"""The command `arco`: what people and scripts use to look at a workspace and to look after it.

    main -> _app (groups, usage errors) -> _command (settings, exit codes) -> one module a group of commands
                                                                           -> _open, _points, _rows, _output

A command prints tables for people or, with `--json`, one JSON document; errors go to standard error and the exit code
says which kind it was (`arco.core` errors). Commands that only read write nothing, not even a hint.
"""

from arco.cli._app import main

__all__ = ["main"]
