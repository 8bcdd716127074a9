"""Murmur3, 32 bits, seed 0: the hash of Iceberg's buckets."""

__all__ = ["murmur3"]

_MASK = 0xFFFFFFFF


def murmur3(data: bytes) -> int:
    """The hash as an unsigned number."""
    digest = 0
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        digest ^= _mixed(int.from_bytes(data[at : at + 4], "little"))
        digest = ((digest << 13 | digest >> 19) * 5 + 0xE6546B64) & _MASK
    if whole < len(data):
        digest ^= _mixed(int.from_bytes(data[whole:], "little"))
    digest ^= len(data)
    digest = (digest ^ digest >> 16) * 0x85EBCA6B & _MASK
    digest = (digest ^ digest >> 13) * 0xC2B2AE35 & _MASK
    return digest ^ digest >> 16


def _mixed(word: int) -> int:
    word = word * 0xCC9E2D51 & _MASK
    return (word << 15 | word >> 17) * 0x1B873593 & _MASK
