"""Loading: definitions come across whole, and whatever a module does becomes a problem that names it."""

import os
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest

from arco.assets import AssetKind, Problem, project_fingerprint
from arco.core import Invalid
from arco.sdk import Loaded, load_project

GOOD = """
    from arco import asset
    @asset(namespace="s")
    def good(): return 1
    """


def load(folder: Path, files: dict[str, str], **options: object) -> Loaded:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(dedent(text))
    return load_project(folder, **options)  # type: ignore[arg-type]


def only(loaded: Loaded) -> Problem:
    (problem,) = loaded.problems
    return problem


def test_a_project_comes_across_whole(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        {
            "pipelines/sales.py": """
                from arco import asset, check, daily, dep, external_asset, multi_asset, offset, sql_asset
                from shared.helpers import clean
                __namespace__ = "sales"
                print("x" * 10_000)
                raw = external_asset("raw", partitions=daily("2025-01-01"))
                @asset(partitions=daily("2025-01-01"))
                def orders(context, raw):
                    '''Orders.'''
                    return clean(raw)
                @asset(ins={"before": dep(orders, offset(-1))}, partitions=daily("2025-01-01"))
                def change(orders, before): ...
                @multi_asset(outputs=["x", "y"], deps=["change"])
                def both(): ...
                @sql_asset
                def totals(orders): return f"select 1 from {orders}"
                @check(asset=orders, severity="critical")
                def good(data): return True
                """,
            "src/shared/helpers.py": "def clean(x): return x\n",
            "tests/test_sales.py": "raise SystemExit\n",
            ".hidden/x.py": "raise SystemExit\n",
            "requirements.txt": "numpy\n",
        },
    )
    assert loaded.problems == ()
    by_key = {asset.key: asset for asset in loaded.project.assets}
    assert list(by_key) == ["sales.change", "sales.orders", "sales.raw", "sales.totals", "sales.x", "sales.y"]
    orders = by_key["sales.orders"]
    assert (orders.file, orders.line, orders.function) == ("pipelines/sales.py", 7, "pipelines.sales:orders")
    assert [check.function for check in orders.checks] == ["pipelines.sales:good"]
    assert orders.gating is not None
    assert orders.gating.name == "strict"
    assert len(orders.code_version) == 64
    assert by_key["sales.raw"].code_version == ""
    assert [one.key for one in by_key["sales.change"].dependencies] == ["sales.orders", "sales.orders"]
    assert list(by_key["sales.change"].dependencies[1].mappings) == ["date"]
    assert by_key["sales.totals"].kind is AssetKind.SQL
    assert by_key["sales.x"].unit == by_key["sales.y"].unit == "sales.both"
    assert len(loaded.project.lock_sha256) == 64
    assert loaded.project.python == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert not list(tmp_path.rglob("__pycache__"))


def test_the_same_project_has_the_same_fingerprint_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "a.py": GOOD,
        "b.py": "from arco import asset\n@asset(namespace='s', tags={'b': '1', 'a': '2'})\ndef b(good): ...",
    }
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    one = load(tmp_path / "one", files).project
    monkeypatch.setenv("PYTHONHASHSEED", "2")
    other = load(tmp_path / "other", files).project
    assert project_fingerprint(one) == project_fingerprint(other)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("x = 1\nraise ValueError('no luck')", 2, "the import failed: ValueError: no luck"),
        ("import sys\nsys.exit('bye')", 2, "the module calls sys.exit(bye) when it is imported"),
        ("\n\nimport no_such_package", 3, "ModuleNotFoundError: No module named 'no_such_package'"),
        ("def broken(:", 1, "SyntaxError"),
        ("raise KeyboardInterrupt", 1, "KeyboardInterrupt"),
        (
            "class Bad(Exception):\n    def __str__(self): raise RuntimeError\nraise Bad",
            3,
            "its message cannot be shown",
        ),
        ("raise ValueError('x' * 100_000)", 1, "xxx..."),
        ("def f(): return f()\nf()", 1, "RecursionError"),
        (
            "from arco import asset\n@asset(namespace='s', freshnes=1)\ndef a(): ...",
            2,
            "asset has no argument 'freshnes'",
        ),
        ("from arco import asset\n@asset\ndef a(): ...", 2, "the asset has no namespace"),
        ("from arco import static\n\nstatic('region', 'eu')", 3, "the keys of static('region', ...) are one text"),
        ("from arco import check\n@check\ndef alone(data): ...", 2, "the check alone belongs to no asset"),
        ("from arco import check\n@check(asset='s.goo')\ndef c(data): ...", 2, "no asset 's.goo'"),
        (
            "from arco import asset\n@asset(namespace='s')\ndef a(unknown): ...",
            2,
            "parameter unknown: there is no asset 'unknown'",
        ),
        ("from arco import asset\n@asset(namespace='s')\ndef good(): ...", 2, "two assets have this key"),
        ("from arco import asset\n@asset(namespace='s')\ndef a(a): ...", 2, "cycle: s.a -> s.a"),
    ],
)
def test_a_mistake_is_a_problem_and_the_rest_is_loaded(tmp_path: Path, text: str, line: int, words: str) -> None:
    loaded = load(tmp_path, {"bad.py": text, "zzz.py": GOOD})
    problem = only(loaded)
    if "two assets" in words:
        assert {"bad.py:2", "zzz.py:3"} <= set(problem.message.replace(",", "").split())
    else:
        assert (problem.file, problem.line) == ("bad.py", line)
    assert words in problem.message
    assert len(problem.message) < 3000
    assert problem.cure
    assert "s.good" in [asset.key for asset in loaded.project.assets]
    assert str(tmp_path) not in str(problem)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import os\nos._exit(0)", "ended with exit code 0"),
        ("import os\nos._exit(3)", "ended with exit code 3"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "ended with signal 11"),
        ("import os\nos.closerange(3, 100)", "ended with exit code"),
    ],
)
def test_a_module_that_ends_the_process_is_named(tmp_path: Path, text: str, words: str) -> None:
    problem = only(load(tmp_path, {"a.py": GOOD, "bad.py": text}))
    assert problem.file == "bad.py"
    assert words in problem.message


def test_a_module_that_never_ends_is_named(tmp_path: Path) -> None:
    problem = only(load(tmp_path, {"a.py": GOOD, "bad.py": "while True: pass"}, timeout=3))
    assert problem.file == "bad.py"
    assert "longer than 3 seconds" in problem.message


def test_what_a_module_leaves_running_neither_delays_nor_survives(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    loaded = load(
        tmp_path,
        {
            "forks.py": f"""
                import os, subprocess, sys, threading, time
                child = os.fork()
                if child == 0:
                    time.sleep(300)
                other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
                threading.Thread(target=time.sleep, args=(300,)).start()
                open({str(pids)!r}, "w").write(f"{{child}} {{other.pid}}")
                """,
            "good.py": GOOD,
        },
    )
    assert loaded.problems == ()
    assert [asset.key for asset in loaded.project.assets] == ["s.good"]
    # They were killed; the system may need a moment to take them away.
    left = [int(pid) for pid in pids.read_text().split()]
    for _ in range(1000):
        left = [pid for pid in left if _runs(pid)]
        if not left:
            break
        time.sleep(0.01)
    assert left == []


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


def test_a_fork_that_goes_on_loading_is_not_heard(tmp_path: Path) -> None:
    loaded = load(tmp_path, {"forks.py": "import os\nos.fork()\n", "good.py": GOOD})
    assert loaded.problems == ()
    assert [asset.key for asset in loaded.project.assets] == ["s.good"]


def test_output_without_end_goes_nowhere(tmp_path: Path) -> None:
    noisy = """
        import os, sys
        line = "x" * 1_000_000
        for _ in range(100):
            print(line)
            print(line, file=sys.stderr)
            os.write(1, line.encode())
        """
    assert load(tmp_path, {"noisy.py": noisy, "good.py": GOOD}).problems == ()


def test_names_that_are_taken_are_told(tmp_path: Path) -> None:
    problem = only(load(tmp_path, {"json.py": GOOD, "good.py": GOOD.replace("good", "other")}))
    assert (problem.file, problem.cure) == ("json.py", "rename the file")


def test_chosen_modules_only(tmp_path: Path) -> None:
    loaded = load(tmp_path, {"bad.py": "1 / 0", "good.py": GOOD}, modules=("good",))
    assert loaded.problems == ()
    assert "no module nothing" in only(load(tmp_path, {}, modules=("nothing",))).message


def test_an_empty_folder_is_an_empty_project(tmp_path: Path) -> None:
    loaded = load(tmp_path, {})
    assert loaded.problems == ()
    assert loaded.project.assets == ()


def test_what_cannot_be_loaded_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="is no folder"):
        load_project(tmp_path / "nothing")
    with pytest.raises(Invalid, match="cannot be started"):
        load_project(tmp_path, python="no-such-python")
    with pytest.raises(Invalid, match="could not be loaded"):
        load_project(tmp_path, python="/bin/false" if os.path.exists("/bin/false") else "false")


def test_assets_of_installed_packages_are_not_the_projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site"
    package.mkdir()
    (package / "elsewhere.py").write_text(dedent(GOOD).replace("good", "foreign"))
    monkeypatch.setenv("PYTHONPATH", str(package))
    loaded = load(tmp_path / "project", {"mine.py": "import elsewhere\n" + dedent(GOOD)})
    assert [asset.key for asset in loaded.project.assets] == ["s.good"]
