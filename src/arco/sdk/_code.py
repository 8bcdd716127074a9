"""Code versions: a hash of a function and of everything of the project it refers to.

It is computed from the source as it is parsed, so comments, layout and docstrings do not count, and a helper in another
module does. A function refers to the bindings of the global names it uses; those refer to further ones, through imports
into other modules of the project. `module.name` refers to that name, a module used otherwise to all of it. Values that
a function closed over, or has as defaults, count as values.

Packages outside the project count through the lock file. Code found only at run time (`importlib`, `getattr` by text)
is not seen. Nothing depends on the order of sets or on where the project lies.
"""

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

from arco.core import sha256_hex
from arco.sdk._modules import Module
from arco.sdk._source import WHOLE, Binding, Reference, Source, parse

__all__ = ["Code"]

_DEPTH_MAX = 20


class Code:
    """The source of a project, parsed as far as it was asked for."""

    def __init__(self, modules: Iterable[Module], lock_sha256: str = "") -> None:
        self._files = dict(modules)
        self._lock = lock_sha256
        self._sources: dict[str, Source | None] = {}
        self._bindings: dict[Reference, Binding | None] = {}

    def version(self, function: Callable[..., Any] | None, *extra: str) -> str:
        """The code version of a function; `extra` is text that counts too, such as SQL."""
        parts = [f"lock {self._lock}", *(f"text {text}" for text in extra)]
        if function is not None:
            try:
                parts += self._of_function(function, set())
            except RecursionError:
                # Nested too deeply to be understood: then everything counts.
                parts += [f"file {name} {sha256_hex(path.read_bytes())}" for name, path in sorted(self._files.items())]
        return sha256_hex("\n".join(parts).encode())

    def _of_function(self, function: Callable[..., Any], seen: set[int]) -> list[str]:
        """Lines that tell everything about a function."""
        seen.add(id(function))
        code: CodeType | None = getattr(function, "__code__", None)
        source = self._source(function.__module__)
        nodes = source.definitions(code) if source is not None and code is not None else []
        if source is None or code is None or not nodes:
            # Made from text, or of another package: its name and instructions are all there is.
            instructions = "" if code is None else sha256_hex(code.co_code + repr(code.co_names).encode())
            return [f"function {function.__module__}.{function.__qualname__} {instructions}"]
        lines = [f"function {source.dump(node)}" for node in nodes]
        lines += self._reached(reference for node in nodes for reference in source.references(node))
        lines += self._values(function, seen)
        return lines

    def _values(self, function: Callable[..., Any], seen: set[int]) -> Iterator[str]:
        """What a function closed over, and its defaults."""
        if not isinstance(function, FunctionType):
            return
        named: list[tuple[str, Any]] = [("default", value) for value in function.__defaults__ or ()]
        named += sorted((function.__kwdefaults__ or {}).items())
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                named.append((name, cell.cell_contents))
            except ValueError:  # An empty cell: the name has no value yet.
                continue
        for name, value in named:
            inner = getattr(value, "function", value)
            if isinstance(inner, FunctionType):
                if id(inner) not in seen:
                    yield from [f"{name} {line}" for line in self._of_function(inner, seen)]
            else:
                yield f"{name} = {_value_text(value)}"

    def _reached(self, references: Iterable[Reference]) -> list[str]:
        """All bindings that can be reached, sorted."""
        reached: dict[Reference, str] = {}
        seen: set[Reference] = set()
        waiting = list(references)
        while waiting:
            reference = waiting.pop()
            if reference in seen:
                continue
            seen.add(reference)
            binding = self._binding(reference)
            if binding is not None:
                reached[reference] = binding.digest
                waiting.extend(binding.refers)
        return [f"name {module}.{name} {digest}" for (module, name), digest in sorted(reached.items())]

    def _binding(self, reference: Reference) -> Binding | None:
        if reference not in self._bindings:
            module, name = reference
            source = self._source(module)
            if f"{module}.{name}" in self._files:
                # `from package import module` means the module itself.
                self._bindings[reference] = Binding("", frozenset({(f"{module}.{name}", WHOLE)}))
            else:
                self._bindings[reference] = None if source is None else source.binding(name)
        return self._bindings[reference]

    def _source(self, module: str) -> Source | None:
        if module not in self._sources:
            path = self._files.get(module)
            self._sources[module] = None if path is None else parse(module, path, self._files)
        return self._sources[module]


def _value_text(value: object, depth: int = 0) -> str:
    """A value as text that is the same in every process; of unknown objects only the type."""
    if value is None or value is ... or isinstance(value, bool | int | float | complex | str | bytes):
        return repr(value)
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, enum.Enum):
        return f"{kind}.{value.name}"
    if isinstance(value, type):
        return f"class {value.__module__}.{value.__qualname__}"
    if depth < _DEPTH_MAX:
        if isinstance(value, Mapping):
            items = [f"{_value_text(k, depth + 1)}: {_value_text(v, depth + 1)}" for k, v in value.items()]
            return f"{kind}({', '.join(items)})"
        if isinstance(value, list | tuple):
            return f"{kind}({', '.join(_value_text(one, depth + 1) for one in value)})"
        if isinstance(value, set | frozenset):
            return f"{kind}({', '.join(sorted(_value_text(one, depth + 1) for one in value))})"
    return f"object {kind}"
