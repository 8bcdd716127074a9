"""The difference between what a table should hold and what it holds, on any history of versions."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from arco.servo._iceberg_diff import (
    BRANCH,
    CloseBranches,
    HeldBack,
    OpenBranch,
    Present,
    Publish,
    Wanted,
    branch_of,
    next_step,
)

ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["publish", "hold", "release", "withdraw", "compact", "expire", "commit"]),
        st.integers(0, 2),
        st.integers(0, 3),
    ),
    max_size=40,
)


@dataclass
class Version:
    name: str
    partition: int
    files: tuple[str, ...]
    held: bool


@dataclass
class Asset:
    """Versions by partition, in a state that any history of events may lead to."""

    versions: list[Version] = field(default_factory=list)
    count: int = 0

    def act(self, action: str, partition: int, number: int) -> None:
        mine = [one for one in self.versions if one.partition == partition]
        self.count += 1
        name = f"v{self.count}"
        if action in ("publish", "hold"):
            files = tuple(f"{name}/{place}" for place in range(number))
            self.versions.append(Version(name, partition, files, held=action == "hold"))
        elif not mine:
            return
        elif action == "compact":
            mine[-1].files = (f"{mine[-1].name}/merged{self.count}",) if mine[-1].files else ()
        elif action == "expire":
            self.versions.remove(mine[number % len(mine)])
        else:
            mine[number % len(mine)].held = action == "withdraw"

    def wanted(self) -> Wanted:
        current = {one.partition: one for one in self.versions if not one.held}
        files = {path: one.name for one in current.values() for path in one.files}
        held = [one for one in self.versions if one.held]
        replaced = {one.partition: one.files for one in current.values()}
        return Wanted(files, tuple(HeldBack(one.name, one.files, replaced.get(one.partition, ())) for one in held))


@dataclass
class Table:
    main: dict[str, str] = field(default_factory=dict)
    branches: dict[str, set[str]] = field(default_factory=dict)
    operations: list[str] = field(default_factory=list)

    def bring(self, wanted: Wanted) -> None:
        for _ in range(100):
            step = next_step(wanted, Present(self.main, frozenset(self.branches)))
            match step:
                case None:
                    return
                case Publish():
                    assert not set(step.added) & set(self.main)
                    assert set(step.removed) <= set(self.main)
                    self._check(step, wanted)
                    kept = {path: name for path, name in self.main.items() if path not in step.removed}
                    self.main = kept | {path: path.partition("/")[0] for path in step.added}
                    self.operations.append(step.operation)
                case CloseBranches():
                    for name in step.names:
                        del self.branches[name]
                case OpenBranch():
                    assert step.name not in self.branches
                    assert set(step.removed) <= set(self.main)
                    self.branches[step.name] = (set(self.main) - set(step.removed)) | set(step.added)
        raise AssertionError("there is always something left to do")

    def _check(self, step: Publish, wanted: Wanted) -> None:
        before = set(self.main.values())
        assert set(step.versions) == {wanted.files[path] for path in step.added} - before
        match step.operation:
            case "append":
                assert step.added
                assert not step.removed
            case "delete":
                assert step.removed
                assert not step.added
            case "replace":  # no version came or went
                assert not step.versions
                assert {self.main[path] for path in step.removed} <= set(wanted.files.values())
            case _:
                assert step.added
                assert step.removed


@given(ACTIONS)
def test_after_any_history_the_table_is_what_is_current(history: list[tuple[str, int, int]]) -> None:
    asset, table = Asset(), Table()
    for action, partition, number in [*history, ("commit", 0, 0)]:
        if action != "commit":
            asset.act(action, partition, number)
            continue
        wanted = asset.wanted()
        table.bring(wanted)
        assert table.main == wanted.files
        assert set(table.branches) == {branch_of(one.materialization_id) for one in wanted.held}
        done = len(table.operations)
        table.bring(wanted)
        assert len(table.operations) == done


def test_what_nobody_knows_any_more_stays() -> None:
    present = Present({"v1/a": "v1", "v2/a": "v2"}, frozenset({f"{BRANCH}v3"}))
    assert next_step(Wanted({"v2/a": "v2"}, unknown=frozenset({"v1"})), present) == CloseBranches((f"{BRANCH}v3",))


def test_a_branch_has_its_version_instead_of_the_current_one() -> None:
    wanted = Wanted({"v1/a": "v1", "v2/a": "v2"}, (HeldBack("v3", ("v3/a",), ("v1/a",)),))
    step = next_step(wanted, Present({"v1/a": "v1", "v2/a": "v2"}))
    assert step == OpenBranch(f"{BRANCH}v3", "v3", ("v3/a",), ("v1/a",))
