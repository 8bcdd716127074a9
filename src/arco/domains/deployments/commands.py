"""Commands of deployments: what may be asked. `deciders` says what becomes of them."""

import msgspec

__all__ = ["AddPartitions", "Deploy", "DropPartitions"]


class Deploy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Make a project the current one. What a decider cannot see, the caller finds out and says.

    The blob with the project is stored before; the command carries its bytes compressed (`pack_project`).
    """

    project: str
    project_blob: str
    """sha256 of the blob."""
    expected_current: str | None = None
    """The deployment that the caller compared with; empty if there was none, None if it does not matter."""
    message: str = ""
    rollback_of: str = ""
    """The deployment whose code version this brings back."""
    table_ids: dict[str, str] = {}
    """Ids of tables of the catalog that have the name of an asset, by its key."""
    breaking: tuple[str, ...] = ()
    """Changes of declared schemas that readers of the registered ones would not survive, one sentence each."""
    allow_breaking: bool = False


class AddPartitions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Keys of a set of dynamic partitions; those that are there already stay where they are."""

    name: str
    keys: tuple[str, ...]


class DropPartitions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    keys: tuple[str, ...]
