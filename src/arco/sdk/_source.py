"""One module as source: its top-level names, what they are made of, and what they refer to in the project.

- *Binding*: what gives a top-level name its meaning: a definition, an assignment, an import, and statements that change
  it in place (`CONFIG["x"] = 1`).
- *Reference*: a name of a module of the project; `*` is the whole module.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType
from typing import NamedTuple

from arco.core import sha256_hex

__all__ = ["WHOLE", "Binding", "Reference", "Source", "parse"]

WHOLE = "*"
_PACKAGE = "arco"

Imports = ast.Import | ast.ImportFrom
# Tuples, because every node of every module is asked which of these it is.
_IMPORTS = (ast.Import, ast.ImportFrom)
_NAMES = (ast.Name, ast.Attribute)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = (*_DEFINITIONS, ast.Lambda, *_COMPREHENSIONS)
Reference = tuple[str, str]


class Binding(NamedTuple):
    digest: str
    refers: frozenset[Reference]


class Source:
    """One module of the project. `files` has the modules that belong to it."""

    def __init__(self, module: str, tree: ast.Module, is_package: bool, files: Mapping[str, Path]) -> None:
        self.module = module
        self.imports: dict[str, Reference] = {}
        """Names that stand for something of another module."""
        self.bindings: dict[str, list[ast.stmt]] = {}
        self.stars: list[str] = []
        """Modules of which every name is imported."""
        self._tree = tree
        self._files = files
        self._package = module if is_package else module.rpartition(".")[0]
        self._definitions: dict[tuple[int, str], list[ast.AST]] = {}
        self._outer: dict[ast.AST, ast.AST] = {}
        self._collect(tree.body)
        self._index(tree, None)

    def definitions(self, code: CodeType) -> list[ast.AST]:
        """The functions that may have been compiled to this code: those of its name that begin in its line."""
        return self._definitions.get((code.co_firstlineno, code.co_name), [])

    def binding(self, name: str) -> Binding | None:
        """What a top-level name means; None if the module has no such name."""
        if name == WHOLE:
            return self._bound(_without_docstring(self._tree.body))
        refers = {self.imports[name]} if name in self.imports else set()
        if name in self.bindings:
            binding = self._bound(self.bindings[name])
            return Binding(binding.digest, binding.refers | refers)
        if not refers:
            refers = {(star, name) for star in self.stars}
        return Binding("", frozenset(refers)) if refers else None

    def references(self, node: ast.AST) -> set[Reference]:
        """What a node refers to outside itself. Imports inside functions count like those of the module."""
        scopes: list[ast.AST] = [node]
        while scopes[-1] in self._outer:
            scopes.append(self._outer[scopes[-1]])
        imports = dict(self.imports)
        for scope in reversed(scopes):
            for inner in ast.walk(scope):
                if isinstance(inner, _IMPORTS):
                    imports.update(self._imported(inner))
        local = frozenset(name for scope in scopes[1:] for name in _locals(scope))
        found: set[Reference] = set()
        for expression in self._free(node, local):
            found |= self._resolve(expression, imports)
        return found

    def dump(self, node: object) -> str:
        """A node as text, without places, docstrings and Arco's decorators, whose arguments count as definitions.

        Empty fields are left out, because other versions of Python have other ones.
        """
        if isinstance(node, ast.AST):
            fields = []
            for name, value in ast.iter_fields(node):
                if name == "body" and isinstance(node, _DEFINITIONS):
                    value = _without_docstring(value)
                elif name == "decorator_list":
                    value = [one for one in value if not self._is_own(one)]
                if value is not None and value != [] and name not in ("ctx", "kind", "type_comment"):
                    fields.append(f"{name}={self.dump(value)}")
            return f"{type(node).__name__}({', '.join(fields)})"
        if isinstance(node, list):
            return f"[{', '.join(self.dump(one) for one in node)}]"
        return repr(node)

    def _bound(self, nodes: Iterable[ast.stmt]) -> Binding:
        nodes = list(nodes)
        refers = {reference for node in nodes for reference in self.references(node)}
        return Binding(sha256_hex("\n".join(self.dump(node) for node in nodes).encode()), frozenset(refers))

    def _is_own(self, node: ast.expr) -> bool:
        base = _base(node)
        module = self.imports.get(base, ("", ""))[0]
        return module == _PACKAGE or module.startswith(f"{_PACKAGE}.")

    def _free(self, node: ast.AST, local: frozenset[str]) -> Iterator[ast.Name | ast.Attribute]:
        """Names and attributes that are not of the scopes inside."""
        if isinstance(node, _NAMES) and (chain := _chain(node)):
            if chain[-1] not in local:
                yield node
            return
        inside = local | _locals(node) if isinstance(node, _SCOPES) else local
        for field, value in ast.iter_fields(node):
            # What stands before a function's body is evaluated outside of it.
            scope = local if field in ("decorator_list", "args", "returns") else inside
            for child in value if isinstance(value, list) else (value,):
                if isinstance(child, ast.expr) and field == "decorator_list" and self._is_own(child):
                    continue
                if isinstance(child, ast.AST):
                    yield from self._free(child, scope)

    def _resolve(self, node: ast.Name | ast.Attribute, imports: Mapping[str, Reference]) -> set[Reference]:
        """The bindings a name, or an attribute of a module, stands for."""
        *names, base = _chain(node)
        found: set[Reference] = set()
        if base in self.bindings:
            found.add((self.module, base))
        if base in imports:
            module, name = imports[base]
            if name == WHOLE or f"{module}.{name}" in self._files:
                module = module if name == WHOLE else f"{module}.{name}"
                while names and f"{module}.{names[-1]}" in self._files:
                    module = f"{module}.{names.pop()}"
                name = names[-1] if names else WHOLE
            found.add((module, name))
        return found or {(star, base) for star in self.stars}

    def _imported(self, node: Imports) -> dict[str, Reference]:
        if isinstance(node, ast.Import):
            # `import a.b` binds `a`, from which `a.b.c` is looked up.
            return {
                alias.asname or alias.name.partition(".")[0]: (
                    alias.name if alias.asname else alias.name.partition(".")[0],
                    WHOLE,
                )
                for alias in node.names
            }
        module = self._source_of(node)
        return {alias.asname or alias.name: (module, alias.name) for alias in node.names if alias.name != "*"}

    def _source_of(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        package = self._package.split(".") if self._package else []
        above = package[: len(package) - node.level + 1]
        return ".".join([*above, *([node.module] if node.module else [])])

    def _collect(self, body: Iterable[ast.stmt]) -> None:
        for node in body:
            if not isinstance(node, _IMPORTS):
                for name in _bound_names(node):
                    self.bindings.setdefault(name, []).append(node)
            for inner in _walk_scope(node):
                if isinstance(inner, _IMPORTS):
                    self.imports.update(self._imported(inner))
                if isinstance(inner, ast.ImportFrom) and any(alias.name == "*" for alias in inner.names):
                    self.stars.append(self._source_of(inner))

    def _index(self, node: ast.AST, outer: ast.AST | None) -> None:
        """Note where functions begin and in which function each is."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, _FUNCTIONS):
                # The first line of a function's code is that of its first decorator.
                line = min([child.lineno, *(one.lineno for one in getattr(child, "decorator_list", ()))])
                self._definitions.setdefault((line, getattr(child, "name", "<lambda>")), []).append(child)
                if outer is not None:
                    self._outer[child] = outer
            self._index(child, child if isinstance(child, _FUNCTIONS) else outer)


def parse(module: str, path: Path, files: Mapping[str, Path]) -> Source | None:
    """The module, or None if its source cannot be understood."""
    try:
        return Source(module, ast.parse(path.read_bytes()), path.name == "__init__.py", files)
    except (OSError, SyntaxError, ValueError):
        return None


def _bound_names(node: ast.stmt) -> set[str]:
    """The names a top-level statement gives a meaning to, or changes in place."""
    names: set[str] = set()
    for inner in _walk_scope(node):
        if isinstance(inner, _DEFINITIONS):
            names.add(inner.name)
        elif isinstance(inner, ast.Name | ast.Attribute | ast.Subscript) and not isinstance(inner.ctx, ast.Load):
            names.add(_base(inner))
        elif isinstance(inner, ast.Expr) and isinstance(inner.value, ast.Call):
            names.add(_base(inner.value.func))
    return names - {""}


def _locals(node: ast.AST) -> frozenset[str]:
    """The names that belong to a function or comprehension; none for anything else."""
    if isinstance(node, _COMPREHENSIONS):
        return frozenset(
            inner.id for one in node.generators for inner in ast.walk(one.target) if isinstance(inner, ast.Name)
        )
    if not isinstance(node, _FUNCTIONS):
        return frozenset()
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    names = {argument.arg for argument in every if argument is not None}
    elsewhere: set[str] = set()
    for statement in node.body if isinstance(node.body, list) else [node.body]:
        for inner in _walk_scope(statement):
            if isinstance(inner, _DEFINITIONS):
                names.add(inner.name)
            elif isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load):
                names.add(inner.id)
            elif isinstance(inner, ast.Global):
                elsewhere.update(inner.names)
    return frozenset(names - elsewhere)


def _base(node: ast.expr) -> str:
    """The name an expression begins with: `a` of `a.b(c)[d]`; empty if it begins with none."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _chain(node: ast.expr) -> list[str]:
    """The names of `a.b.c` from the last to the first; none if it is not made of names alone."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [*names, node.id] if isinstance(node, ast.Name) else []


def _walk_scope(node: ast.AST) -> Iterator[ast.AST]:
    """A node and what is in it, but not the insides of functions, classes and comprehensions."""
    yield node
    if not isinstance(node, _SCOPES):
        for child in ast.iter_child_nodes(node):
            yield from _walk_scope(child)


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return body[1:]
    return body
