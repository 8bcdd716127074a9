"""What Google and Azure decide by a policy: as much of their conditions as `arco policy` writes, and no more."""

import re
from typing import Any

__all__ = ["azure_allows", "gcs_allows"]

PREDEFINED = {
    "roles/storage.objectViewer": ["storage.objects.get", "storage.objects.list"],
    "roles/storage.objectCreator": ["storage.objects.create"],
}
_TOKEN = re.compile(
    r'\s*(?:(?P<op>\(|\)|&&|\|\||!(?!=))|resource\.name\.(?P<call>startsWith|endsWith)\("(?P<text>[^"]*)"\)'
    r'|resource\.name\.extract\("(?P<template>[^"]*)"\) != ""|resource\.name == "(?P<name>[^"]*)"'
    r'|api\.getAttribute\("storage\.googleapis\.com/objectListPrefix", ""\)\.startsWith\("(?P<prefix>[^"]*)"\))'
)


def gcs_allows(policy: dict[str, Any], permission: str, name: str, listed: str = "") -> bool:
    """Whether a binding grants a permission on an object (its whole name), or on a listing with a prefix."""
    custom = {role["name"]: role["includedPermissions"] for role in policy["custom_roles"]}
    return any(
        permission in {**PREDEFINED, **custom}[binding["role"]]
        and _Cel(binding["condition"]["expression"], name, listed).holds()
        for binding in policy["bindings"]
    )


class _Cel:
    """`||`, `&&`, `!`, brackets, and the four questions."""

    def __init__(self, text: str, name: str, listed: str) -> None:
        self._name, self._listed = name, listed
        self._tokens: list[re.Match[str]] = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            assert match is not None, text[at:]
            self._tokens.append(match)
            at = match.end()
        assert sum(text.count(operator) for operator in ("&&", "||", "!(")) <= 12, "Google takes twelve"

    def holds(self) -> bool:
        answer = self._any()
        assert not self._tokens
        return answer

    def _any(self) -> bool:
        answers = [self._all()]
        while self._next("||"):
            answers.append(self._all())
        return any(answers)

    def _all(self) -> bool:
        answers = [self._one()]
        while self._next("&&"):
            answers.append(self._one())
        return all(answers)

    def _one(self) -> bool:
        if self._next("!"):
            return not self._one()
        if self._next("("):
            answer = self._any()
            assert self._next(")")
            return answer
        token = self._tokens.pop(0)
        if token["call"] == "startsWith":
            return self._name.startswith(token["text"])
        if token["call"] == "endsWith":
            return self._name.endswith(token["text"])
        if token["template"] is not None:
            before, after = token["template"].split("{any}")
            found = re.search(f"{re.escape(before)}(.*?){re.escape(after)}", self._name)
            return found is not None and found[1] != ""
        return self._name == token["name"] if token["name"] is not None else self._listed.startswith(token["prefix"])

    def _next(self, operator: str) -> bool:
        if self._tokens and self._tokens[0]["op"] == operator:
            self._tokens.pop(0)
            return True
        return False


def azure_allows(policy: dict[str, Any], action: str, path: str, prefix: str | None = None) -> bool:
    """Whether an assignment with the condition lets somebody do this; `prefix` is that of a listing."""
    if not any(granted.endswith(action) for granted in policy["role_definition"]["DataActions"]):
        return False
    clauses = re.findall(r"\(\(!\((.*?)\)\) OR \((.*?)\)\)(?= AND \(\(!|$)", policy["condition"])
    assert " AND ".join(f"((!({when})) OR ({then}))" for when, then in clauses) == policy["condition"]
    for when, then in clauses:
        is_list = "SubOperationMatches" in when and "NOT SubOperationMatches" not in when
        concerns = f"{action}'" in when and ("SubOperation" not in when or is_list == (prefix is not None))
        if concerns and not _holds(then, path, prefix):
            return False
    return True


_TERM = re.compile(r"\s*(?:(?P<op>\(|\)|AND|OR)|@(?P<kind>\w+)\[[^\]]*\] (?P<how>\w+) '(?P<pattern>[^']*)')")


def _holds(text: str, path: str, prefix: str | None) -> bool:
    """Comparisons with AND, OR and brackets; those without brackets between them are all AND or all OR."""
    asked = {"Resource": path, "Request": prefix or ""}
    at = 0

    def term() -> re.Match[str] | None:
        nonlocal at
        match = _TERM.match(text, at)
        at = match.end() if match else at
        return match

    def one() -> bool:
        found = term()
        assert found is not None, text[at:]
        if found["op"]:
            assert found["op"] == "("
            return several()
        if found["how"] == "StringStartsWith":
            return asked[found["kind"]].startswith(found["pattern"])
        assert found["how"] in ("StringLike", "StringNotLike")
        return _like(found["pattern"], asked[found["kind"]]) == (found["how"] == "StringLike")

    def several() -> bool:
        answers, operators = [one()], set()
        while (found := term()) is not None and found["op"] != ")":
            operators.add(found["op"])
            answers.append(one())
        assert len(operators) < 2, "AND and OR need brackets between them"
        return all(answers) if operators == {"AND"} else any(answers)

    answer = several()
    assert at == len(text), text[at:]
    return answer


def _like(pattern: str, text: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), text) is not None
