"""`Scope`: the tenant and workspace that every path starts with."""

from dataclasses import dataclass

from arco.core import check_tenant, check_workspace

__all__ = ["Scope"]


@dataclass(frozen=True, slots=True)
class Scope:
    tenant: str
    workspace: str

    def __post_init__(self) -> None:
        check_tenant(self.tenant)
        check_workspace(self.workspace)

    @property
    def root(self) -> str:
        """The folder that holds the whole workspace."""
        return f"{self.tenant}/{self.workspace}"
