"""Which engine makes an asset: Spark if its function speaks of Spark's DataFrame in its annotations, else Python.

An annotation may be the class itself, a type made of it (`DataFrame | None`, `tuple[DataFrame, ...]`), or text. A name
in a text is looked up where the function is defined; one that only type checkers import is looked up among the imports
in its file. So a project can be checked and deployed where PySpark is not installed.
"""

import inspect
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from arco.assets import Engine
from arco.core import shown
from arco.sdk._where import Where

__all__ = ["engine_of", "one_plan_of", "spark_conf_of"]

_DOTTED = re.compile(r"[A-Za-z_][\w.]*")
_FRAME = re.compile(r"pyspark\.sql(\.\w+)*\.DataFrame")
_DEPTH_MAX = 20


def engine_of(where: Where, function: Callable[..., Any] | None, said: Engine | str | None) -> Engine:
    """The engine that was said, else the one that the annotations tell."""
    if said is not None:
        if said not in set(Engine):
            where.refuse(f"there is no engine {shown(str(said))}", f"use {' or '.join(Engine)}")
        return Engine(said)
    if function is None:
        return Engine.PYTHON
    signature = inspect.signature(function)
    annotations = [parameter.annotation for parameter in signature.parameters.values()]
    names: Mapping[str, Any] = getattr(function, "__globals__", {})
    is_spark = any(_is_frame(one, names, where.file) for one in [*annotations, signature.return_annotation])
    return Engine.SPARK if is_spark else Engine.PYTHON


def spark_conf_of(where: Where, engine: Engine, conf: Mapping[Any, Any] | None) -> dict[str, str]:
    """Settings of a session as Spark takes them: texts by name."""
    if not conf:
        return {}
    if engine is not Engine.SPARK:
        where.refuse("spark_conf is given, but the asset does not run on Spark", "give engine='spark', or remove it")
    if not isinstance(conf, Mapping):
        where.refuse("spark_conf is no dictionary", "write spark_conf={'spark.sql.shuffle.partitions': 8}")
    written: dict[str, str] = {}
    for name, value in conf.items():
        if not isinstance(name, str) or not name.startswith("spark."):
            where.refuse(f"spark_conf has the setting {shown(str(name))}", "settings of Spark begin with spark.")
        if not isinstance(value, str | bool | int | float):
            where.refuse(f"the setting {name} is of type {type(value).__name__}", "use text, a number, True or False")
        written[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return dict(sorted(written.items()))


def one_plan_of(where: Where, engine: Engine, has_partitions: bool, said: bool) -> bool:
    if not isinstance(said, bool):
        where.refuse(f"one_plan is {shown(str(said))}", "write one_plan=True")
    if said and (engine is not Engine.SPARK or not has_partitions):
        where.refuse("one_plan is said of an asset without partitions, or not on Spark", "remove it")
    return said


def _is_frame(annotation: Any, names: Mapping[str, Any], file: str, depth: int = 0) -> bool:
    if depth > _DEPTH_MAX or annotation is inspect.Parameter.empty:
        return False
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        return any(_means_frame(dotted, names, file) for dotted in _DOTTED.findall(annotation))
    if isinstance(annotation, type) and _FRAME.fullmatch(_class_name(annotation)):
        return True
    return any(_is_frame(part, names, file, depth + 1) for part in typing.get_args(annotation))


def _means_frame(dotted: str, names: Mapping[str, Any], file: str) -> bool:
    """Whether a name in a text is Spark's DataFrame."""
    first, *rest = dotted.split(".")
    if first in names:
        value = names[first]
        for part in rest:
            value = getattr(value, part, None)
        return isinstance(value, type) and _FRAME.fullmatch(_class_name(value)) is not None
    return _FRAME.fullmatch(".".join([_imports(file).get(first, first), *rest])) is not None


def _class_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


@lru_cache(64)
def _imports(file: str) -> dict[str, str]:
    """What the names that a file imports stand for, also where only type checkers look."""
    import ast

    try:
        with open(file, encoding="utf-8") as source:
            tree = ast.parse(source.read())
    except (OSError, ValueError, SyntaxError, RecursionError):
        return {}
    return dict(_bound(ast, tree))


def _bound(ast: Any, tree: Any) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
