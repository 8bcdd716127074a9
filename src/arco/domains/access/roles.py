"""`UserRole`: what a person or key may do, from least to most. Which permission needs which role is decided above."""

from enum import StrEnum

__all__ = ["UserRole"]


class UserRole(StrEnum):
    """Declared from least to most: each role may do all that the ones before it may."""

    VIEWER = "viewer"
    EDITOR = "editor"
    ADMIN = "admin"
    OWNER = "owner"

    def allows(self, needed: "UserRole") -> bool:
        """Whether this role may do what `needed` may."""
        order = list(UserRole)
        return order.index(self) >= order.index(needed)
