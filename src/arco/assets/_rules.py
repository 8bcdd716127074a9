"""Rules: what a check asks of data, as frozen values that every engine can carry out.

- A *rule* is one of the structs of `Rule`. Its tag is its name, and the `check_type` of its results.
- Rules about rows (`RowRule`) count the rows that *fail*. `where` leaves rows out beforehand; `warn` and `error` say
  how many may fail. A null fails no rule but `NotNull`.
- A `Constant` is a value in a rule, with its type, so that it is the same after a trip through JSON.

`arco.assets._measures` makes SQL of a rule, `arco.assets._verdicts` a verdict of what the SQL gave.
"""

from typing import Final

import msgspec

__all__ = [
    "DATA",
    "ROW_COUNT",
    "AcceptedValues",
    "Anomaly",
    "Between",
    "Constant",
    "Fresh",
    "Limit",
    "Matches",
    "NotNull",
    "Percent",
    "References",
    "RowCount",
    "RowRule",
    "Rows",
    "Rule",
    "SchemaMatches",
    "SqlCheck",
    "Unique",
    "default_name",
    "rule_columns",
    "rule_name",
]

DATA: Final = "data"
"""What a query calls the version that is being checked."""
ROW_COUNT: Final = "row_count"


class Part(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A rule, or a part of one."""


class Rows(Part, frozen=True, tag="rows"):
    """So many rows."""

    most: int


class Percent(Part, frozen=True, tag="percent"):
    """So many of a hundred rows: `Percent(0.5)` is one in two hundred."""

    most: float


Limit = Rows | Percent
"""How many rows may fail. One more is a violation."""


class Constant(Part, frozen=True):
    type: str
    """`int`, `float`, `decimal`, `string`, `boolean`, `date` or `timestamp`."""
    text: str
    """As Python writes it; times in UTC."""


class RowRule(Part, frozen=True, kw_only=True):
    """A rule about rows, or about values in them."""

    where: str = ""
    """Only rows for which this SQL condition holds; empty for all."""
    warn: Limit | None = None
    """More failing rows than this are worth a warning."""
    error: Limit | None = None
    """More failing rows than this have the check's own severity. If neither is given, no row may fail."""


class NotNull(RowRule, frozen=True, tag="not_null"):
    column: str


class Unique(RowRule, frozen=True, tag="unique"):
    """A row fails if an earlier one has the same values. Rows with a null among them are not compared."""

    columns: tuple[str, ...]


class Between(RowRule, frozen=True, tag="between"):
    """Both ends belong to the range. Not-a-number is greater than every number."""

    column: str
    min: Constant | None = None
    max: Constant | None = None


class AcceptedValues(RowRule, frozen=True, tag="accepted_values"):
    column: str
    values: tuple[Constant, ...]


class Matches(RowRule, frozen=True, tag="matches"):
    """The pattern is found somewhere in the text; `^` and `$` tie it to the ends."""

    column: str
    pattern: str


class References(RowRule, frozen=True, tag="references"):
    """A row fails if the versions of `asset` that the task reads have no row with these values."""

    columns: tuple[str, ...]
    asset: str
    to: tuple[str, ...]
    """Columns of the other asset, in the order of `columns`."""


class SqlCheck(RowRule, frozen=True, tag="sql_check"):
    """A query that returns the failing rows."""

    sql: str


class RowCount(Part, frozen=True, tag="row_count"):
    min: int | None = None
    max: int | None = None
    where: str = ""


class Fresh(Part, frozen=True, tag="fresh"):
    """The newest value is not older than this at the end of the partition's window, or at the time of the run."""

    column: str
    within_seconds: float
    warn_seconds: float | None = None
    where: str = ""


class SchemaMatches(Part, frozen=True, tag="schema_matches"):
    columns: dict[str, str]
    """Types by name, as the catalog writes them; an empty type is not compared."""
    extra: bool = False
    """Whether there may be other columns."""


class Anomaly(Part, frozen=True, tag="anomaly"):
    """A number that is not far from what it was in earlier good versions.

    Far is further from their mean than so many standard deviations, or than so many percent of it.
    """

    measure: str = ROW_COUNT
    """`row_count`, or an SQL aggregate such as `sum(amount)`."""
    versions: int = 30
    at_least: int = 5
    """With fewer earlier versions it passes."""
    deviations: float | None = None
    percent: float | None = None
    where: str = ""

    @property
    def is_row_count(self) -> bool:
        """Whether its number is the row count of a version, which is known without the check."""
        return self.measure == ROW_COUNT and not self.where


Rule = (
    RowCount
    | NotNull
    | Unique
    | Between
    | AcceptedValues
    | Matches
    | References
    | Fresh
    | SchemaMatches
    | SqlCheck
    | Anomaly
)


def rule_name(rule: Rule) -> str:
    """What kind of rule it is."""
    return str(type(rule).__struct_config__.tag)


def rule_columns(rule: Rule) -> tuple[str, ...]:
    """The columns of the data that the rule names. Those that SQL text of its author names are not known."""
    match rule:
        case NotNull() | Between() | AcceptedValues() | Matches() | Fresh():
            return (rule.column,)
        case Unique() | References():
            return rule.columns
    return ()


def default_name(rule: Rule) -> str:
    """What a check is called if nobody names it. Limits are no part of it: a check that is tuned stays the same one."""
    about = rule.measure if isinstance(rule, Anomaly) else ",".join(rule_columns(rule))
    return f"{rule_name(rule)}({about})" if about else rule_name(rule)
