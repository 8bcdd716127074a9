"""Where everything of a log lives below its workspace. Every path is computed here or named by a manifest."""

from dataclasses import dataclass

from arco.log import Place

__all__ = ["Layout"]


@dataclass(frozen=True)
class Layout:
    place: Place

    @property
    def ledger(self) -> str:
        return f"{self.place.incarnation}/ledger/{self.place.log}"

    @property
    def ledger_hint(self) -> str:
        return f"{self.ledger}/hint"

    @property
    def manifests(self) -> str:
        return f"{self.place.incarnation}/manifests/{self.place.log}"

    @property
    def manifests_hint(self) -> str:
        return f"{self.manifests}/hint"

    @property
    def state(self) -> str:
        return f"{self.place.incarnation}/state/{self.place.log}"

    @property
    def private(self) -> str:
        return f"{self.place.incarnation}/private/{self.place.log}"

    @property
    def packs(self) -> str:
        return f"{self.place.incarnation}/packs/{self.place.log}"

    def attempt(self, base: int, attempt: str) -> str:
        """The name of the directory of one attempt to build on revision `base`."""
        return f"{base:020d}-{attempt}"
