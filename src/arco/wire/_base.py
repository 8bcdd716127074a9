"""What all models share: strict requests, positions and times as text, pages, the answer to a write, problems.

A position is text of the whole number, since browsers lose integers above 2^53. A time is RFC 3339 in UTC.
"""

from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Answer", "Page", "Problem", "ProblemItem", "Request", "Written"]

T = TypeVar("T")


class Request(BaseModel):
    """What a client sends. An unknown field is refused: nothing is accepted that is not acted on."""

    # Built at once, unlike answers: FastAPI hides a warning of pydantic's while it builds a body, and not later.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


class Answer(BaseModel):
    """What a server answers. A client ignores fields it does not know: later servers may add some."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True, defer_build=True)


class Page(Answer, Generic[T]):
    """One page of a list. `next_cursor` is null on the last page; a cursor is opaque and good for this list only."""

    # Pydantic looks for docstrings of attributes in the source of every `Page[X]`, which costs seconds at each start.
    model_config = ConfigDict(use_attribute_docstrings=False)

    @classmethod
    def model_parametrized_name(cls, params: tuple[Any, ...]) -> str:
        """`KeyInfoPage`: the name that generated clients give it."""
        return f"{params[0].__name__}Page"

    items: list[T]
    next_cursor: str | None = None
    position: Annotated[str, Field(description="The position of the log this page was read at.")]


class Written(Answer):
    """The answer to a write that is durable."""

    operation_id: str
    position: str
    """Position of its last event: `min_position` of a read that must see it. Before that of a run write `activity:`."""
    replayed: bool
    """True if the same request key had been carried out before; nothing was written now."""
    warnings: list[str] = []


class ProblemItem(Answer):
    """One thing that is wrong with a request."""

    where: Annotated[str, Field(description="Where it is: `body.columns.0.data_type`, `query.limit`.")]
    message: str


class Problem(Answer):
    """RFC 9457 problem details. `type` is stable and for programs; `detail` and `hint` are for people."""

    type: Annotated[str, Field(description="`urn:arco:problem:` and the kind, such as `not-found`.")]
    title: str
    status: int
    detail: str
    hint: str
    """What to do about it."""
    request_id: str
    operation_id: str | None = None
    """Ask `GET /api/v1/operations/{id}` whether it was carried out."""
    errors: list[ProblemItem] = []
    details: dict[str, Any] = {}
