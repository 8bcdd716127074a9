"""What messages of several packages advise, in the same words."""

__all__ = ["PUT_BACK"]

PUT_BACK = "put it back from the bucket's own versions, or go on from the newest backup with `arco restore --replace`"
"""What to do about one object that is lost or damaged. No command brings a single one back from a backup."""
