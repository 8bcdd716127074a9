"""Code versions: what changes them, what does not, and that they are the same in every process."""

import importlib
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from arco.sdk import Asset, add_to_path
from arco.sdk._code import Code
from arco.sdk._modules import project_modules

BASE = {
    "pipe.py": """
        from arco import asset, daily
        from helpers import clean as tidy, Base
        import tools.text
        import settings
        from tools import numbers

        FACTOR = 3
        TABLE = {"a": 1}
        TABLE["b"] = 2
        UNUSED = 1

        class Thing(Base):
            def size(self): return FACTOR

        def unused(): return 1

        def other(x): return x

        @asset(namespace="s", tags={"a": "b"})
        def orders(raw):
            return raw

        @asset(namespace="s")
        def target(context, orders):
            '''Docs.'''
            from late import lately
            total = [other(one) for one in orders]
            return tidy(total), Thing(), TABLE, tools.text.shorten("x"), numbers.double(2), settings.LIMIT, lately()
        """,
    "helpers.py": """
        from deeper import deep

        LIMIT = 5

        def clean(x): return deep(x) + LIMIT

        def unrelated(): return 0

        class Base:
            def name(self): return "base"
        """,
    "deeper.py": "def deep(x): return x\n",
    "late.py": "def lately(): return 1\n",
    "settings.py": "LIMIT = 1\nOTHER = 2\n",
    "tools/__init__.py": "",
    "tools/text.py": "def shorten(x): return x[:1]\ndef longer(x): return x * 2\n",
    "tools/numbers.py": "def double(x): return x * 2\n",
}


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(dedent(text))


def version(folder: Path, files: dict[str, str], name: str = "target", lock: str = "") -> str:
    """The code version of a function of `pipe` in a project of these files."""
    write(folder, files)
    modules = project_modules(folder)
    paths = list(sys.path)
    add_to_path(folder)
    importlib.invalidate_caches()
    try:
        found = getattr(importlib.import_module("pipe"), name)
        return Code(modules, lock).version(found.function if isinstance(found, Asset) else found)
    finally:
        sys.path[:] = paths
        for module, _ in modules:
            sys.modules.pop(module, None)


def changed(tmp_path: Path, file: str, old: str, new: str, name: str = "target") -> bool:
    assert old in BASE[file]
    before = version(tmp_path / "before", BASE, name)
    return before != version(tmp_path / "after", {**BASE, file: BASE[file].replace(old, new)}, name)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("pipe.py", "'''Docs.'''", "'''Other docs.'''"),
        ("pipe.py", "'''Docs.'''", "# A comment."),
        ("pipe.py", "total = [", "total  =  [  # why\n                "),
        ("pipe.py", "def unused(): return 1", "def unused(): return 2"),
        ("pipe.py", "UNUSED = 1", "UNUSED = 2\n\n\n"),
        ("pipe.py", "return raw", "return raw + 1"),
        ("pipe.py", '@asset(namespace="s")\n', '@asset(namespace="s", owners=["me"])\n'),
        ("helpers.py", "def unrelated(): return 0", "def unrelated(): return 9"),
        ("helpers.py", "def clean(x): return", "def clean(x):\n            'Docs.'\n            return"),
        ("settings.py", "OTHER = 2", "OTHER = 3"),
        ("tools/text.py", "x * 2", "x * 3"),
    ],
)
def test_what_means_the_same_has_the_same_version(tmp_path: Path, file: str, old: str, new: str) -> None:
    assert not changed(tmp_path, file, old, new)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("pipe.py", "return tidy(total)", "return tidy(total + 1)"),
        ("pipe.py", "def other(x): return x", "def other(x): return -x"),
        ("pipe.py", "FACTOR = 3", "FACTOR = 4"),
        ("pipe.py", 'TABLE["b"] = 2', 'TABLE["b"] = 3'),
        ("pipe.py", "def size(self)", "def length(self)"),
        ("helpers.py", "deep(x) + LIMIT", "deep(x) - LIMIT"),
        ("helpers.py", "LIMIT = 5", "LIMIT = 6"),
        ("helpers.py", '"base"', '"other"'),
        ("deeper.py", "return x", "return x + 1"),
        ("late.py", "return 1", "return 2"),
        ("settings.py", "LIMIT = 1", "LIMIT = 2"),
        ("tools/text.py", "x[:1]", "x[:2]"),
        ("tools/numbers.py", "x * 2", "x + x"),
    ],
)
def test_what_means_something_else_has_another_version(tmp_path: Path, file: str, old: str, new: str) -> None:
    assert changed(tmp_path, file, old, new)


def test_the_function_of_a_dependency_is_not_part_of_the_version(tmp_path: Path) -> None:
    """A parameter has the name of another function of the module, and hides it."""
    assert not changed(tmp_path, "pipe.py", "return raw", "return raw * 2")
    assert changed(tmp_path / "own", "pipe.py", "return raw", "return raw * 2", name="orders")


def test_decorators_that_are_not_ours_count(tmp_path: Path) -> None:
    text = """
        from functools import lru_cache
        def traced(f): return f
        @traced
        def target(): return 1
        """
    before = version(tmp_path / "a", {"pipe.py": text})
    assert before != version(tmp_path / "b", {"pipe.py": text.replace("return f", "return f or None")})
    assert before != version(tmp_path / "c", {"pipe.py": text.replace("@traced", "@lru_cache")})


def test_what_a_function_closed_over_counts(tmp_path: Path) -> None:
    text = """
        def make(limit, step):
            def inner(x, by=(1, 2)): return step(x) + limit
            return inner
        def once(x): return x
        target = make({"b": 1, "a": {3, 1, 2}}, lambda x: once(x))
        """
    before = version(tmp_path / "a", {"pipe.py": text})
    assert before == version(tmp_path / "a2", {"pipe.py": text.replace("{3, 1, 2}", "{2, 3, 1}")})
    for place, (old, new) in enumerate(
        [
            ('"b": 1', '"b": 2'),
            ("by=(1, 2)", "by=(1, 3)"),
            ("lambda x: once(x)", "lambda x: once(-x)"),
            ("return x\n", "return 0\n"),
        ]
    ):
        assert before != version(tmp_path / f"b{place}", {"pipe.py": text.replace(old, new)}), new


@pytest.mark.parametrize(
    ("text", "reached"),
    [
        ("from a.b import helper\ndef target(): return helper()", True),
        ("from a import b\ndef target(): return b.helper()", True),
        ("import a.b\ndef target(): return a.b.helper()", True),
        ("import a.b as c\ndef target(): return c.helper()", True),
        ("from a.b import *\ndef target(): return helper()", True),
        ("import a.b\ndef use(m): return m\ndef target(): return use(a.b)", True),
        ("from a.c import helper\ndef target(): return helper()", True),
        ("from a.d import indirect\ndef target(): return indirect()", True),
        (
            "try:\n    from a.b import helper\nexcept ImportError:\n    helper = None\ndef target(): return helper()",
            True,
        ),
        ("from a.b import helper\nTABLE = {1: helper}\ndef target(): return TABLE[1]()", True),
        ("from a.b import helper\ndef target(helper): return helper()", False),
        ("from a.b import helper\ndef target():\n    helper = len\n    return helper('')", False),
        ("from a.b import helper, spare\ndef target(): return spare()", False),
        ("import a.b\ndef target(): return a.b.spare()", False),
        ("from a.b import helper\ndef target(): return [helper for helper in (1, 2)]", False),
        ("from a.b import helper\ndef target(): return [x for x in (1, 2)], helper()", True),
    ],
)
def test_helpers_are_followed_through_imports(tmp_path: Path, text: str, reached: bool) -> None:
    files = {
        "pipe.py": text,
        "a/__init__.py": "",
        "a/b.py": "def helper(): return 1\ndef spare(): return 2\n",
        "a/c.py": "from .b import helper\n",
        "a/d.py": "from . import b\ndef indirect(): return b.helper()\n",
    }
    other = {**files, "a/b.py": files["a/b.py"].replace("return 1", "return 3")}
    assert (version(tmp_path / "a", files) != version(tmp_path / "b", other)) is reached


def test_functions_that_call_each_other_end(tmp_path: Path) -> None:
    text = "def odd(n): return n and target(n - 1)\ndef target(n): return not n or odd(n - 1)\n"
    before = version(tmp_path / "a", {"pipe.py": text})
    assert before != version(tmp_path / "b", {"pipe.py": text.replace("n and", "n or")})


def test_source_nested_too_deeply_counts_as_a_whole(tmp_path: Path) -> None:
    text = f"def target(): return {' + '.join(['1'] * 1500)}\n"
    before = version(tmp_path / "a", {"pipe.py": text, "x.py": "1"})
    assert before == version(tmp_path / "b", {"pipe.py": text, "x.py": "1"})
    assert before != version(tmp_path / "c", {"pipe.py": text, "x.py": "2"})


def test_the_lock_file_counts(tmp_path: Path) -> None:
    assert version(tmp_path / "a", BASE, lock="x") != version(tmp_path / "b", BASE, lock="y")


@pytest.mark.parametrize("seed", ["0", "1", "4711"])
def test_versions_are_the_same_in_every_process_and_place(tmp_path: Path, seed: str) -> None:
    write(tmp_path / seed, BASE)
    program = (
        "import sys; from pathlib import Path; from arco.sdk import add_to_path; from arco.sdk._code import Code;"
        "from arco.sdk._modules import project_modules; folder = Path(sys.argv[1]); add_to_path(folder); import pipe;"
        "print(Code(project_modules(folder)).version(pipe.target.function))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / seed)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == version(tmp_path / "here", BASE)
