"""How a figure of ours stands beside Dagster's and beside its budget, as a line of the table."""

from bench._measure import Line

__all__ = ["SECTION", "versus"]

SECTION = "servo: assets that do nothing (local disk)"


def versus(
    name: str, ours: float, unit: str, theirs: float | None, budget: float | None = None, by: str = "one process"
) -> Line:
    """Ahead of Dagster, and within the budget if there is one."""
    wanted, holds = [], []
    if budget is not None:
        wanted.append(f"< {budget:g}{unit}")
        holds.append(ours < budget)
    if theirs is not None:
        wanted.append("ahead")
        holds.append(ours < theirs)
    return Line(
        SECTION,
        name,
        f"{_number(ours)}{unit}",
        "" if theirs is None else f"Dagster, {by}: {_number(theirs)}{unit}",
        None if theirs is None else ours / theirs,
        ", ".join(wanted),
        all(holds) if holds else None,
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
