"""How a project travels: as JSON in a blob, and compressed inside the command that deploys it.

The definitions of thousands of assets pass the cap of a command, and a decider cannot read a blob. So the command
carries the blob's own bytes, compressed, and the decider sees to it that both are the same.
"""

import base64
import binascii
import zlib
from typing import Final, NamedTuple

import msgspec

from arco.assets import AssetDefinition, Project
from arco.core import Invalid, TooLarge, sha256_hex

__all__ = ["MAX_PROJECT_BYTES", "PackedProject", "decode_project", "definition_text", "pack_project", "unpack_project"]

MAX_PROJECT_BYTES: Final = 32 << 20

_encoder: Final = msgspec.json.Encoder(order="sorted")
_decoder: Final = msgspec.json.Decoder(Project)


class PackedProject(NamedTuple):
    text: str
    """What the command carries."""
    data: bytes
    """What the blob holds."""
    sha256: str
    """The name of the blob."""


def pack_project(project: Project) -> PackedProject:
    """A resolved project, ready to travel; equal projects have equal bytes."""
    data = _encoder.encode(project)
    if len(data) > MAX_PROJECT_BYTES:
        raise TooLarge(f"the project has {len(data)} bytes of definitions, the limit is {MAX_PROJECT_BYTES}; split it")
    return PackedProject(base64.b64encode(zlib.compress(data, 9)).decode(), data, sha256_hex(data))


def unpack_project(text: str, sha256: str) -> Project:
    """The project that a command carries, if it is the one in the blob of this name."""
    try:
        inflate = zlib.decompressobj()
        data = inflate.decompress(base64.b64decode(text, validate=True), MAX_PROJECT_BYTES + 1)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise Invalid(f"the project cannot be unpacked: {error}; pack it with pack_project") from error
    if len(data) > MAX_PROJECT_BYTES:
        raise TooLarge(f"the project unpacks to more than {MAX_PROJECT_BYTES} bytes; split it")
    if not inflate.eof or inflate.unused_data or sha256_hex(data) != sha256:
        raise Invalid("the project in the command is not the one in its blob; pack it again")
    return decode_project(data)


def decode_project(data: bytes) -> Project:
    """The project in a blob."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"the project does not fit: {error}") from error


def definition_text(definition: AssetDefinition) -> str:
    """The one text of a definition; equal definitions have equal texts."""
    return _encoder.encode(definition).decode()
