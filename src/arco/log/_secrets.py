"""The secret scan: an event that holds a credential is refused before it is appended, since a log never forgets.

Two steps. `may_hold_secret` looks at the encoded JSON with one regex and clears nearly every event;
`check_no_secret` walks the decoded value of the others and names the place, never the value.

A secret is known by its *shape* (an AWS key id, a JWT, a URL with a password) or by the *name* of its field
(`password`, `apiKey`, `client-secret`). References (`secret://env/NAME`) and masks (`***`, `${PASSWORD}`) are no secrets.

Both steps are built from the same `_Mark`s. A mark is a pattern in three parts, `before`, `at` and `after`: searching
for the one character `at`, and looking back for `before` only where it stands, is what makes the regex fast. `at` is a
character that is rare in events: hashes and ULIDs have no `g`, `k`, `w`, `x`, `I`, `O`, `=`.

The first step must pass nothing that the second would find. Encoding changes the neighbours of a text (a line break
before it becomes `\\n`), so a mark's guards (`not_after`, `not_before`) count only in the second step, and `hint`
replaces an `after` that goes beyond characters which JSON writes as themselves. Escapes that hide such a character
(`\\u0041`, `\\/`) send the event to the second step.
"""

import json
import re
from typing import Final, NamedTuple

from arco.core import Invalid

__all__ = ["check_no_secret", "find_secret", "may_hold_secret"]


class _Mark(NamedTuple):
    """What gives a secret away: in the text of a value, or at the end of a field's name."""

    kind: str
    before: str
    """Of one fixed width, as a look behind needs it."""
    at: str
    after: str
    not_after: str = ""
    """Characters that may not precede it."""
    not_before: str = ""
    """Characters that may not follow it."""
    hint: str = ""
    """What to look for in encoded JSON instead of `after`."""

    def in_text(self) -> str:
        guard = f"(?<![{self.not_after}]{self.before}{self.at})" if self.not_after else ""
        end = f"(?![{self.not_before}])" if self.not_before else ""
        return f"{self.at}(?<={self.before}{self.at}){guard}{self.after}{end}"

    def in_json(self) -> str:
        return f"{self.at}(?<={self.before}{self.at}){self.hint or self.after}"

    def in_name(self) -> str:
        guard = f"(?<![{self.not_after}])" if self.not_after else ""
        return f"{guard}{self.before}{self.at}{self.after}"


_ALNUM: Final = "A-Za-z0-9"
_SEP: Final = "[-_. ]"
_REFERENCE: Final = r"secret://[a-z][a-z0-9-]*/[A-Za-z0-9_./-]+"
_MASK: Final = (
    r"(?:\*+|[xX]{3,}|\$\{(?:env:|secret:)?[A-Za-z_][A-Za-z0-9_.]*\}|\$[A-Z_][A-Z0-9_]*|<[A-Za-z0-9_ /-]+>"
    r"|\{\{? ?[A-Za-z_][A-Za-z0-9_.]* ?\}?\}|%s|%\([A-Za-z0-9_]+\)s|\[[A-Z]+\]|(?i:redacted|masked|hidden))"
)

_AWS_SECRET: Final = r"""["']?\s*[:=]\s*["']?[A-Za-z0-9/+]{40}"""
_SIGNATURE: Final = "[A-Za-z0-9%+/=_-]{20}"
_PASSWORD: Final = rf"(?!{_MASK}(?:[&;\s]|\Z))[^\s&;'\"]{{3}}"

_SHAPES: Final = (
    _Mark("an AWS access key id", "A[KS]", "I", "A[A-Z0-9]{16}", _ALNUM, _ALNUM),
    _Mark("a private key", "-----BEG", "I", "N (?:[A-Z0-9]+ ){0,4}PRIVATE KEY"),
    _Mark("a Google API key", "A", "I", "za[A-Za-z0-9_-]{35}", "A-Za-z0-9+/_-"),
    _Mark("a PyPI token", "pypi-AgE", "I", "cHlwaS5vcmc"),
    _Mark("a JSON Web Token", "e", "y", r"J[\w-]{8,}\.[\w-]{8,}\.[\w-]{8}", r"\w-", hint=r"J[\w-]{8}"),
    _Mark("a GitHub token", "", "g", "h[pousr]_[A-Za-z0-9]{36}", _ALNUM),
    _Mark("a GitHub token", "", "g", "ithub_pat_[A-Za-z0-9_]{22}", _ALNUM),
    _Mark("a GitLab token", "", "g", "l(?:pat|ptt|dt|rt)-[A-Za-z0-9_-]{20}", _ALNUM),
    _Mark("a Slack token", "", "x", "ox[abeoprs]-[A-Za-z0-9-]{10}", _ALNUM),
    _Mark("a Slack token", "", "x", "app-[0-9]-[A-Za-z0-9-]{10}", _ALNUM),
    _Mark("a Slack webhook", "hoo", "k", r"s\.slack\.com/services/[A-Za-z0-9/]{20}"),
    _Mark("a Stripe key", "[sr]", "k", "_(?:live|test)_[A-Za-z0-9]{16}", _ALNUM + "_"),
    _Mark("an npm token", "n", "p", "m_[A-Za-z0-9]{36}", _ALNUM + "_"),
    _Mark("a Databricks token", "da", "p", "i[0-9a-f]{32}", _ALNUM, _ALNUM),
    _Mark("an Azure storage account key", "AccountKey", "=", "[A-Za-z0-9+/]{40}"),
    _Mark("an Azure access key", "SharedAccessKey", "=", "[A-Za-z0-9+/]{40}"),
    _Mark("an Azure SAS signature", "[?&;]sig", "=", _SIGNATURE),
    _Mark("the signature of a presigned URL", "[?&-][sS]ignature", "=", _SIGNATURE),
    _Mark("a password", "[?&;][pP]assword", "=", _PASSWORD, hint=""),
    _Mark("a password", "[?&;][pP]wd", "=", _PASSWORD, hint=""),
    _Mark("a password", "[?&;]PWD", "=", _PASSWORD, hint=""),
    _Mark(
        "a URL with a password",
        ":/",
        "/",
        rf'[^\s/@:"]*:(?!{_MASK}@)[^\s/?;@"]+@',
        hint='[^/@:"]*:[^/?;@"]+@',
    ),
)
