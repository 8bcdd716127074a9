"""What a deploy would change: keys, fields, renames there and back, and what is downstream of it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from arco.assets import Project, Retries
from arco.servo._deploy_diff import Affected, Changed, DeployDiff, Renamed, diff
from tests.servo.projects import DAILY, asset, project

CHAIN = project(asset("s.a"), asset("s.b", "s.a"), asset("s.c", "s.b"), asset("s.x"))


def test_the_first_deploy_adds_everything() -> None:
    found = diff(None, CHAIN)
    assert found == DeployDiff(added=("s.a", "s.b", "s.c", "s.x"))
    assert not found.is_empty
    assert diff(CHAIN, CHAIN).is_empty


def test_changed_code_reaches_everything_that_is_made_of_it() -> None:
    after = project(asset("s.a", code_version="2"), asset("s.b", "s.a"), asset("s.c", "s.b"), asset("s.x"))
    found = diff(CHAIN, after)
    assert found.changed == (Changed("s.a", ("code",)),)
    assert found.changed[0].is_code
    assert found.affected == (Affected("s.b", "s.a", "s.a"), Affected("s.c", "s.a", "s.b"))
    assert [item.reason for item in found.affected] == [
        "it is made of s.a",
        "it is made of s.b, which depends on s.a",
    ]


def test_words_and_watching_change_no_data() -> None:
    after = project(
        asset("s.a", description="new", owners=("me",), tags={"a": "b"}, retries=Retries(3), timeout_seconds=1.0),
        *CHAIN.assets[1:],
    )
    found = diff(CHAIN, after)
    assert found.changed == (Changed("s.a", ("description", "owners", "retries", "tags", "timeout_seconds")),)
    assert not found.changed[0].is_code
    assert found.affected == ()


def test_other_partitions_reach_downstream() -> None:
    after = project(asset("s.a", partitions=[DAILY]), *CHAIN.assets[1:])
    found = diff(CHAIN, after)
    assert found.changed == (Changed("s.a", ("partitions",)),)
    assert [item.key for item in found.affected] == ["s.b", "s.c"]


def test_where_a_definition_stands_is_no_change() -> None:
    after = project(asset("s.a", file="other.py", line=99), *CHAIN.assets[1:])
    assert diff(CHAIN, after).is_empty


def test_removing_and_adding_are_by_key() -> None:
    after = project(asset("s.a"), asset("s.b", "s.a"), asset("s.x"), asset("s.y", "s.x"))
    found = diff(CHAIN, after)
    assert (found.added, found.removed, found.changed) == (("s.y",), ("s.c",), ())


def test_a_rename_is_one_thing_and_changes_nothing_downstream() -> None:
    after = project(asset("s.z", renamed_from=("s.a",)), asset("s.b", "s.z"), *CHAIN.assets[2:])
    found = diff(CHAIN, after)
    assert found == DeployDiff(renamed=(Renamed("s.a", "s.z"),))
    back = diff(after, CHAIN)
    assert back == DeployDiff(renamed=(Renamed("s.z", "s.a"),))


def test_a_rename_with_another_change_is_both() -> None:
    after = project(asset("s.z", renamed_from=("s.a",), code_version="2"), asset("s.b", "s.z"), *CHAIN.assets[2:])
    found = diff(CHAIN, after)
    assert found.renamed == (Renamed("s.a", "s.z"),)
    assert found.changed == (Changed("s.z", ("code",)),)
    assert [item.key for item in found.affected] == ["s.b", "s.c"]


def test_of_two_that_claim_the_same_past_one_gets_it() -> None:
    after = project(asset("s.y", renamed_from=("s.a",)), asset("s.z", renamed_from=("s.a",)))
    found = diff(project(asset("s.a")), after)
    assert (found.renamed, found.added) == ((Renamed("s.a", "s.y"),), ("s.z",))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Project, Project]:
    def one() -> Project:
        names = draw(st.sets(st.sampled_from("abcdef"), min_size=1))
        return project(
            *(
                asset(
                    f"s.{name}",
                    *(f"s.{other}" for other in sorted(names) if other < name and draw(st.booleans())),
                    code_version=draw(st.sampled_from("12")),
                )
                for name in sorted(names)
            )
        )

    return one(), one()


@given(pairs())
@settings(deadline=None)
def test_every_asset_is_in_exactly_one_place(both: tuple[Project, Project]) -> None:
    before, after = both
    found = diff(before, after)
    old, new = ({definition.key for definition in of.assets} for of in both)
    assert set(found.added) == new - old
    assert set(found.removed) == old - new
    changed = {change.key for change in found.changed}
    assert changed <= old & new
    touched = {*found.added, *changed}
    reached = {item.key for item in found.affected}
    assert not reached & touched
    # Whatever depends on something that is touched or reached is one of the two itself.
    for definition in after.assets:
        if any(need.key in touched | reached for need in definition.dependencies):
            assert definition.key in touched | reached
