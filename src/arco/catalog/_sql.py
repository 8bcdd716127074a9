"""SQL for readers: one query over `system.*` and over the data of tables, within limits and unable to do anything else.

    text -> parser (in a process of its own) -> names -> resolver -> relations, loaded -> the same process -> rows

The resolver turns the parts of a name into a relation (`_sql_relation`); nothing else is reachable: the process has no
files, no network and no variables of ours, and everything in it is thrown away with it. The time limit covers
loading and running, not waiting for the process, and ends by killing it (`_sql_process` says why).
"""

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from arco.catalog._sql_process import ProcessEnded, QueryProcess
from arco.catalog._sql_relation import Relation, Resolver, SqlView
from arco.catalog._sql_tree import ONLY_QUERIES, Query, inspect_tree, quoted, rewrite_tree
from arco.core import Invalid, Refused, Runtime, Slots, Task, TooLarge, Unavailable

__all__ = ["MAX_SQL", "Limits", "QueryResult", "ResultColumn", "Sandbox", "run_sql"]

MAX_SQL = 50_000
"""Characters of a query."""

_EXPLAIN = re.compile(r"\s*(explain(?:\s+analyze)?\s)(?=.)", re.IGNORECASE | re.DOTALL)
_PLACED = re.compile(r'"?_arco"?\."?q\d+"?\.')
_MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What one query may use."""

    max_rows: int = 10_000
    max_bytes: int = 8 * _MIB
    """Of the rows as JSON text. Rows beyond this or `max_rows` are left out, and the result says so."""
    max_input_bytes: int = 256 * _MIB
    """Of everything that is loaded for the query."""
    max_seconds: float = 30.0
    max_memory_bytes: int = 512 * _MIB
    """Beside the loaded data."""


@dataclass(frozen=True)
class ResultColumn:
    name: str
    type: str
    """As DuckDB writes it: BIGINT, VARCHAR, STRUCT(a INTEGER), ..."""


@dataclass(frozen=True)
class QueryResult:
    columns: tuple[ResultColumn, ...]
    rows: list[list[Any]]
    """Plain JSON values. Integers of up to 64 bits are numbers, also beyond 2**53; `_sql_worker` has the rest."""
    truncated: bool
    """There were more rows than the limits let through."""
    bytes_read: int
    """Of the loaded data, in memory."""
    elapsed: float
    """Seconds."""

    @property
    def row_count(self) -> int:
        return len(self.rows)


async def run_sql(sql: str, resolve: Resolver, limits: Limits, runtime: Runtime) -> QueryResult:
    """One query in a process started for it. A server keeps a `Sandbox`, which has one ready."""
    sandbox = Sandbox(runtime, spares=0)
    try:
        return await sandbox.run(sql, resolve, limits)
    finally:
        await sandbox.close()


WAIT_SECONDS = 10
"""How long a query waits for a process while others run."""

START_SECONDS = 30
"""How long a process may take until it is ready. A busy machine is not the fault of the query, so it has its own."""


class Sandbox:
    """Runs queries, each in a process that is used once. `spares` processes wait ready, at most `slots` work."""

    def __init__(self, runtime: Runtime, *, spares: int = 1, slots: int = 4) -> None:
        self._runtime = runtime
        self._spares = spares
        self._slots = Slots(runtime, slots)
        self._idle: list[QueryProcess] = []
        self._filling: Task | None = None
        self._closed = False

    async def run(self, sql: str, resolve: Resolver, limits: Limits) -> QueryResult:
        """The rows of a query.

        `Invalid`: the text is no query, or is wrong. `TooLarge`: it or what it reads is too large. `NotFound`: a name.
        `Refused`: it took too long or too much memory.
        """
        _check_text(sql)
        if self._closed:
            raise Unavailable("the server is shutting down; send the query again")
        try:
            await self._runtime.timeout(WAIT_SECONDS, self._slots.take())
        except TimeoutError:
            raise Unavailable("all processes for queries are busy; try again", retry_after=WAIT_SECONDS) from None
        try:
            return await self._run(sql, resolve, limits)
        finally:
            self._slots.give()
            if self._spares and (self._filling is None or self._filling.done()):
                self._filling = self._runtime.spawn(self._fill(), "sql spare")

    async def close(self) -> None:
        """End the processes that wait. Queries that run end by themselves."""
        self._closed = True
        if self._filling is not None:
            await self._filling
        idle, self._idle = self._idle, []
        for process in idle:
            await self._runtime.offload(process.close)

    async def _run(self, sql: str, resolve: Resolver, limits: Limits) -> QueryResult:
        process = await self._take_process()
        try:
            await self._wait_until_ready(process)
            run = _Run(process, self._runtime, resolve, limits, self._runtime.boottime())
            return await self._runtime.timeout(limits.max_seconds, run.answer(sql))
        except TimeoutError:
            raise Refused(
                f"the query took longer than {limits.max_seconds:g} s and was stopped; read less (fewer tables, a "
                "narrower WHERE, a LIMIT inside), or ask for a longer time limit",
                max_seconds=limits.max_seconds,
            ) from None
        except ProcessEnded:
            raise _too_much_memory(limits) from None
        finally:
            process.kill()
            await self._runtime.offload(process.close)

    async def _take_process(self) -> QueryProcess:
        while self._idle:
            process = self._idle.pop()
            if process.alive():
                return process
            await self._runtime.offload(process.close)
        return await self._start_process()

    async def _wait_until_ready(self, process: QueryProcess) -> None:
        try:
            await self._runtime.timeout(START_SECONDS, self._runtime.offload(process.ready))
        except TimeoutError:
            raise Unavailable(f"no process for the query was ready within {START_SECONDS} s; try again") from None
        except ProcessEnded:
            if await self._runtime.offload(process.exit_code) > 0:  # not killed: it could not even start
                raise Unavailable("no query can be run here; check that duckdb and pyarrow are installed") from None
            raise Unavailable("the process for the query was killed before it was ready; try again") from None

    async def _start_process(self) -> QueryProcess:
        """A new process. Who is cancelled meanwhile must not leave one behind, whichever side notices first."""
        started: list[QueryProcess] = []
        given_up: list[bool] = []

        def start() -> QueryProcess:
            started.append(QueryProcess())
            if given_up:
                started[0].close()
            return started[0]

        try:
            return await self._runtime.offload(start)
        except BaseException:
            given_up.append(True)
            for process in started:
                process.close()
            raise

    async def _fill(self) -> None:
        try:
            while len(self._idle) < self._spares and not self._closed:
                self._idle.append(await self._start_process())
        except Unavailable:
            return  # the query that needs a process tries again, and says so


class _Run:
    """One query on its way through its process."""

    def __init__(
        self, process: QueryProcess, runtime: Runtime, resolve: Resolver, limits: Limits, started: float
    ) -> None:
        self._process = process
        self._runtime = runtime
        self._resolve = resolve
        self._limits = limits
        self._started = started
        self._inputs: dict[str, pa.Table] = {}
        self._names: dict[int, str] = {}
        self._bytes = 0

    async def answer(self, sql: str) -> QueryResult:
        explain = _EXPLAIN.match(sql)
        prefix, text = (explain[1], sql[explain.end() :]) if explain else ("", sql)
        tree, query = await self._runtime.offload(lambda: self._parse(sql, text))
        views, places = await self._load(query)
        request = await self._runtime.offload(lambda: self._request(tree, places))
        request |= {"prefix": prefix, "views": views}
        first = await self._runtime.offload(lambda: self._process.start(request, self._inputs))
        self._check(first)
        columns = tuple(ResultColumn(name, kind) for name, kind in first["columns"])
        rows, truncated = await self._runtime.offload(self._rows)
        return QueryResult(columns, rows, truncated, self._bytes, self._runtime.boottime() - self._started)

    def _parse(self, sql: str, text: str) -> tuple[dict[str, Any], Query]:
        try:
            tree = self._process.parse(text, self._limits.max_memory_bytes, self._limits.max_seconds)
            if tree["error"]:
                raise _syntax_error(tree, sql, len(sql.encode()) - len(text.encode()))
            return tree, inspect_tree(tree)
        except RecursionError:
            raise Invalid("the query is nested too deeply; write it with fewer levels, or with WITH") from None

    def _request(self, tree: dict[str, Any], places: dict[tuple[str, ...], tuple[str, ...]]) -> dict[str, Any]:
        rewrite_tree(tree, places)
        schemas = {place[:end]: None for place in places.values() for end in range(2, len(place))}
        return {
            "ast": json.dumps(tree),
            "schemas": [quoted(schema) for schema in schemas],
            "rows": self._limits.max_rows,
            "bytes": self._limits.max_bytes,
        }

    async def _load(self, query: Query) -> tuple[list[tuple[str, str]], dict[tuple[str, ...], tuple[str, ...]]]:
        """Everything the query reads: the views over it, and where each reference is placed."""
        found = {name: await self._resolve(name) for name in query.references}
        if not query.describes:
            self._check_size(found.values())
        # One set for all: a relation that a view reads too is loaded once, with what both need of it.
        used = frozenset[str]().union(*(view.uses for view in found.values() if isinstance(view, SqlView)))
        columns = None if query.columns is None else query.columns | used
        views, places = [], {}
        for number, (name, relation) in enumerate(found.items()):
            places[name] = ("_arco", f"q{number}", *name)
            if isinstance(relation, SqlView):
                text = relation.text
                for source, inner in relation.sources.items():
                    text = text.replace(f"{{{source}}}", await self._input(inner, columns, query))
            else:
                text = f"FROM {await self._input(relation, columns, query)}"
            views.append((quoted(places[name]), text))
        return views, places

    def _check_size(self, relations: Iterable[Relation | SqlView]) -> None:
        sources = [found.sources.values() if isinstance(found, SqlView) else [found] for found in relations]
        single = {id(relation): relation for found in sources for relation in found}
        size = sum(relation.size_bytes for relation in single.values())
        if size > self._limits.max_input_bytes:
            raise _too_large(size, self._limits)

    async def _input(self, relation: Relation, columns: Collection[str] | None, query: Query) -> str:
        """The name under which the process finds the relation's data."""
        known = self._names.get(id(relation))
        if known is not None:
            return known
        table = relation.schema.empty_table() if query.describes else await relation.load(columns)
        self._bytes += table.nbytes
        if self._bytes > self._limits.max_input_bytes:
            raise _too_large(self._bytes, self._limits)
        name = self._names[id(relation)] = f"input_{len(self._inputs)}"
        self._inputs[name] = table
        return name

    def _rows(self) -> tuple[list[list[Any]], bool]:
        rows: list[list[Any]] = []
        while True:
            frame = self._process.receive()
            self._check(frame)
            if "end" in frame:
                return rows, frame["truncated"]
            rows += frame["rows"]

    def _check(self, frame: dict[str, Any]) -> None:
        if not frame.get("error"):
            return
        if frame["error_type"] == "memory":
            raise _too_much_memory(self._limits)
        message = _cleaned(frame["error_message"])
        if frame["error_type"] == "internal":
            raise Refused(f"DuckDB failed on this query ({message}); write it in another way")
        raise Invalid(f"the query cannot be run: {message}")


def _check_text(sql: str) -> None:
    if len(sql) > MAX_SQL:
        raise TooLarge(f"the query has {len(sql)} characters and at most {MAX_SQL} are taken; shorten it")
    if "\0" in sql:
        raise Invalid(f"the query has a NUL character at position {sql.index(chr(0))}; remove it")
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        raise Invalid(f"the query has a lone surrogate at position {error.start}; send valid Unicode") from None


def _syntax_error(found: dict[str, Any], sql: str, offset: int) -> Invalid:
    if found.get("error_type") == "not implemented":
        return Invalid(ONLY_QUERIES)
    message = _cleaned(found["error_message"])
    position = found.get("position")
    if position is None:
        return Invalid(f"the query cannot be read: {message}")
    before = sql.encode()[: offset + int(position)].decode(errors="ignore")
    line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    return Invalid(f"the query cannot be read: {message} (line {line}, column {column})", line=line, column=column)


def _cleaned(message: str) -> str:
    """DuckDB's words on one line, with names as the query has them."""
    if message.startswith("Max expression depth"):
        return "it is nested too deeply; write it with fewer levels, or with WITH"
    text = _PLACED.sub("", message.split("\n\nLINE ")[0])
    text = " ".join(text.split())
    return text if len(text) <= 500 else f"{text[:500]}..."


def _too_large(size: int, limits: Limits) -> TooLarge:
    return TooLarge(
        f"the query would read {size} bytes and may read {limits.max_input_bytes}; name fewer tables or columns",
        size=size,
        max_input_bytes=limits.max_input_bytes,
    )


def _too_much_memory(limits: Limits) -> Refused:
    return Refused(
        f"the query needs more than {limits.max_memory_bytes >> 20} MiB of memory and was stopped; sort, join or "
        "collect less, or build shorter texts and lists",
        max_memory_bytes=limits.max_memory_bytes,
    )
