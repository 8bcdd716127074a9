"""What in a new OpenAPI document would break somebody's client of the old one.

A client sends what the old document allows, so the new one must take at least that. A client reads what the old
document promises, so the new one must answer with at most that; fields it does not know it ignores. Both are one
question, whether every value of one schema fits another; only which is which is turned around.
"""

from collections.abc import Iterator
from typing import Any

__all__ = ["breaking_changes"]

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
MAXIMA = ("maxLength", "maxItems", "maxProperties", "maximum", "exclusiveMaximum")
MINIMA = ("minLength", "minItems", "minProperties", "minimum", "exclusiveMinimum")
TYPES = frozenset({"string", "integer", "number", "boolean", "object", "array", "null"})


def breaking_changes(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """One line for each change that a client of the old document would notice."""
    return list(dict.fromkeys(_Comparison(old, new).document()))


class _Comparison:
    def __init__(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        self._old = old
        self._new = new
        self._named: dict[tuple[str, str, bool], list[str]] = {}

    def document(self) -> Iterator[str]:
        if self._old.get("security") != self._new.get("security"):
            yield "what a request must carry to be let in is different"
        if _schemes(self._old) != _schemes(self._new):
            yield "the security schemes are different"
        for path, methods in self._old["paths"].items():
            if path not in self._new["paths"]:
                yield f"{path} is gone"
                continue
            for method in METHODS:
                where = f"{method.upper()} {path}"
                if method in methods and method not in self._new["paths"][path]:
                    yield f"{where} is gone"
                elif method in methods:
                    yield from self._operation(methods[method], self._new["paths"][path][method], where)

    # Operations

    def _operation(self, old: dict[str, Any], new: dict[str, Any], where: str) -> Iterator[str]:
        if old.get("operationId") != new.get("operationId"):
            yield f"{where} is called {new.get('operationId')} instead of {old.get('operationId')}"
        if old.get("security") != new.get("security"):
            yield f"{where} asks for another key"
        yield from self._parameters(_by_name(old), _by_name(new), where)
        yield from self._body(old.get("requestBody"), new.get("requestBody"), where)
        for status, response in old["responses"].items():
            if status not in new["responses"]:
                yield f"{where} answers {status} no more"
            else:
                yield from self._response(response, new["responses"][status], f"{where} {status}")
        for status in sorted(new["responses"].keys() - old["responses"].keys()):
            if status < "4":
                yield f"{where} answers {status}, which no client expects"

    def _parameters(self, old: dict[Any, Any], new: dict[Any, Any], where: str) -> Iterator[str]:
        for key, parameter in new.items():
            if parameter.get("required") and not old.get(key, {}).get("required"):
                yield f"{where} needs the parameter {key[1]}"
        for key, parameter in old.items():
            if key not in new:
                yield f"{where} does not know the parameter {key[1]} any more"
            else:
                yield from self._schema(parameter["schema"], new[key]["schema"], f"{where} {key[1]}", sent=True)

    def _body(self, old: dict[str, Any] | None, new: dict[str, Any] | None, where: str) -> Iterator[str]:
        if new is not None and new.get("required") and not (old or {}).get("required"):
            yield f"{where} needs a body"
        if old is None:
            return
        for media_type, content in old["content"].items():
            if new is None or media_type not in new["content"]:
                yield f"{where} takes no {media_type} any more"
            else:
                yield from self._schema(
                    content["schema"], new["content"][media_type]["schema"], f"{where} body", sent=True
                )

    def _response(self, old: dict[str, Any], new: dict[str, Any], where: str) -> Iterator[str]:
        old, new = _resolved(self._old, old), _resolved(self._new, new)
        for name in old.get("headers", {}):
            if name not in new.get("headers", {}):
                yield f"{where} has no header {name} any more"
        for media_type, content in old.get("content", {}).items():
            if media_type not in new.get("content", {}):
                yield f"{where} is not answered as {media_type} any more"
            else:
                yield from self._schema(content["schema"], new["content"][media_type]["schema"], where, sent=False)

    # Schemas

    def _schema(self, old: Any, new: Any, where: str, *, sent: bool) -> Iterator[str]:
        """Whether each value that is valid on the giving side is valid on the taking one."""
        if "$ref" in old and "$ref" in new:
            # A named schema is compared once, however often and however deep it is used.
            pair = (old["$ref"], new["$ref"], sent)
            if pair not in self._named:
                self._named[pair] = []
                found = self._resolved(old, new, _shown(old), sent=sent)
                self._named[pair] = list(found)
            yield from self._named[pair]
        else:
            yield from self._resolved(old, new, where, sent=sent)

    def _resolved(self, old: Any, new: Any, where: str, *, sent: bool) -> Iterator[str]:
        old, new = _resolved(self._old, old), _resolved(self._new, new)
        if any("anyOf" in schema or "oneOf" in schema for schema in (old, new)):
            yield from self._choices(old, new, where, sent=sent)
        else:
            yield from self._plain(old, new, where, sent=sent)

    def _choices(self, old: Any, new: Any, where: str, *, sent: bool) -> Iterator[str]:
        before, after = _options(old), _options(new)
        given, taken = (before, after) if sent else (after, before)
        for option in given:

            def fits(other: Any, option: Any = option) -> bool:
                one, two = (option, other) if sent else (other, option)
                return not list(self._schema(one, two, where, sent=sent))

            if not any(fits(other) for other in taken):
                yield f"{where} {'no longer takes' if sent else 'may now be'} {_shown(option)}"
        if sent and old.get("default") != new.get("default"):
            yield f"{where} means something else when it is absent"

    def _plain(self, old: Any, new: Any, where: str, *, sent: bool) -> Iterator[str]:
        given, taken = (old, new) if sent else (new, old)
        if not _types(given) <= _types(taken):
            yield f"{where} {'takes' if sent else 'may be'} {_shown(new)} instead of {_shown(old)}"
            return
        yield from self._words(old, new, where, sent=sent)
        for limit in MAXIMA:
            if limit in taken and given.get(limit, float("inf")) > taken[limit]:
                yield f"{where} has another {limit}: {old.get(limit)} became {new.get(limit)}"
        for limit in MINIMA:
            if limit in taken and given.get(limit, float("-inf")) < taken[limit]:
                yield f"{where} has another {limit}: {old.get(limit)} became {new.get(limit)}"
        for rule in ("pattern", "format"):
            if rule in taken and given.get(rule) != taken[rule]:
                yield f"{where} has another {rule}"
        if sent and old.get("default") != new.get("default"):
            yield f"{where} means something else when it is absent"
        if "items" in old and "items" in new:
            yield from self._schema(old["items"], new["items"], f"{where}[]", sent=sent)
        yield from self._fields(old, new, where, sent=sent)

    def _words(self, old: Any, new: Any, where: str, *, sent: bool) -> Iterator[str]:
        before, after = _enum(old), _enum(new)
        if before is not None and after is not None:
            if before - after:
                yield f"{where} has no {', '.join(sorted(map(str, before - after)))} any more"
            if after - before and not sent:
                yield f"{where} may now be {', '.join(sorted(map(str, after - before)))}"
        elif (after if sent else before) is not None:
            yield f"{where} is {'now' if sent else 'no longer'} one of a list"

    def _fields(self, old: Any, new: Any, where: str, *, sent: bool) -> Iterator[str]:
        before, after = old.get("properties", {}), new.get("properties", {})
        needed_before, needed_after = set(old.get("required", ())), set(new.get("required", ()))
        for name in sorted(needed_after - needed_before) if sent else ():
            yield f"{where} needs the field {name}"
        for name in sorted((needed_before - needed_after) & after.keys()) if not sent else ():
            yield f"{where} may now be without the field {name}"
        for name, schema in before.items():
            if name not in after:
                yield f"{where} has no field {name} any more"
            else:
                yield from self._schema(schema, after[name], f"{where}.{name}", sent=sent)
        more_before, more_after = old.get("additionalProperties", True), new.get("additionalProperties", True)
        if isinstance(more_before, dict) and isinstance(more_after, dict):
            yield from self._schema(more_before, more_after, f"{where}.*", sent=sent)
        elif sent and more_before is not False and more_after is not True and "object" in _types(new):
            yield f"{where} refuses fields it does not know"


def _schemes(document: dict[str, Any]) -> Any:
    schemes = document.get("components", {}).get("securitySchemes", {})
    return {name: {key: scheme[key] for key in scheme if key != "description"} for name, scheme in schemes.items()}


def _by_name(operation: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(found["in"], found["name"]): found for found in operation.get("parameters", ())}


def _resolved(document: dict[str, Any], node: Any) -> Any:
    while "$ref" in node:
        target: Any = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    return node


def _options(schema: Any) -> list[Any]:
    return list(schema.get("anyOf") or schema.get("oneOf") or [schema])


def _types(schema: Any) -> frozenset[str]:
    """What a value may be; a whole number is also a number."""
    if "const" in schema or "enum" in schema:
        return frozenset({"string"}) if all(isinstance(word, str) for word in _enum(schema) or ()) else TYPES
    named = schema.get("type", TYPES)
    found = frozenset({named} if isinstance(named, str) else named)
    return found | {"integer"} if "number" in found else found


def _enum(schema: Any) -> frozenset[Any] | None:
    if "const" in schema:
        return frozenset({schema["const"]})
    return frozenset(schema["enum"]) if "enum" in schema else None


def _shown(schema: Any) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    return "anything" if _types(schema) == TYPES else " or ".join(sorted(_types(schema)))
