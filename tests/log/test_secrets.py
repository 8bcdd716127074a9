"""The secret scan: what is a secret and what is not, and that the first step and the messages keep their promises."""

import base64
import hashlib
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from arco.core import Invalid
from arco.log import _secrets
from arco.log._secrets import check_no_secret, find_secret, may_hold_secret

# Samples are put together from pieces, so that no scanner takes this file for a leak.
MIXED = "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY"
AWS_SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
PEM = "-----BEGIN {}PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\n-----END"
CLAIMS = [base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (b'{"alg":"HS256"}', b'{"sub":"12345678"}')]
JWT = ".".join([*CLAIMS, MIXED])

KEY_ID = "01JCR4T8K3M9ZQ2XW5V7B6N0PE"

SHAPES = [
    ("an Arco key", f"arco_acme_prod_{KEY_ID}_{MIXED}-_abcdefghi"),
    ("an Arco key", f"export ARCO_TOKEN='arco_a_p-1_{KEY_ID}_{MIXED}0123456789-' # mine"),
    ("an Arco key", f"Authorization: Token arco_{'t' * 63}_{'w' * 63}_{KEY_ID}_{MIXED}{MIXED[:11]}"),
    ("an AWS access key id", "AKIA" + "IOSFODNN7EXAMPLE"),
    ("an AWS access key id", "the key is ASIA" + "Y34FZKBOKMUTVV7A, ask Bob"),
    ("an AWS secret access key", f"aws_secret_access_key = {AWS_SECRET}"),
    ("an AWS secret access key", f"export AWS_SECRET_ACCESS_KEY='{AWS_SECRET}'"),
    ("an AWS secret access key", f'{{"SecretAccessKey": "{AWS_SECRET}"}}'),
    ("a private key", PEM.format("")),
    ("a private key", PEM.format("RSA ")),
    ("a private key", PEM.format("OPENSSH ")),
    ("a private key", "log line\n" + PEM.format("ENCRYPTED ")),
    ("a JSON Web Token", JWT),
    ("a JSON Web Token", f"\n{JWT}\n"),
    ("a GitHub token", "ghp_" + MIXED + "abcd"),
    ("a GitHub token", "https://x-access:gho_" + MIXED + "abcd"),
    ("a GitHub token", "github_pat_" + MIXED),
    ("a GitLab token", "glpat-" + MIXED[:20]),
    ("a Slack token", "xoxb-" + "123456789012-abcdefABCDEF"),
    ("a Slack token", "xapp-1-" + "A0123456789-abcdef"),
    ("a Slack webhook", "https://hooks.slack.com/services/" + "T00000000/B00000000/" + MIXED),
    ("a Stripe key", "sk_live_" + MIXED),
    ("a Stripe key", "rk_test_" + MIXED),
    ("a Google API key", "https://maps.example.com/?key=AIza" + MIXED + "_-z"),
    ("an npm token", "//registry/:_authToken=npm_" + MIXED + "abcd"),
    ("a PyPI token", "pypi-AgEIcHlwaS5vcmc" + MIXED * 3),
    ("a Databricks token", "dapi" + "0123456789abcdef" * 2),
    ("an Azure storage account key", "AccountName=a;AccountKey=" + MIXED * 2 + MIXED[:22] + "=="),
    ("an Azure shared access key", "Endpoint=sb://h/;SharedAccessKey=" + MIXED + MIXED[:11] + "="),
    ("an Azure SAS signature", f"https://a.blob.core.windows.net/c?sv=2024&sig={MIXED}%3D"),
    ("the signature of a presigned URL", "https://b.s3.amazonaws.com/k?X-Amz-Signature=" + "0f" * 32),
    ("the signature of a presigned URL", "https://storage.googleapis.com/b/k?X-Goog-Signature=" + "0f" * 128),
    ("the signature of a presigned URL", "http://arco.local/files/a.parquet?expires=1&signature=" + "0f" * 32),
    ("a password", "jdbc:postgresql://h:5432/db?user=u&password=hunter2"),
    ("a password", "jdbc:sqlserver://h:1433;database=d;user=me@srv;Password=hunter2;encrypt=true"),
    ("a password", "DRIVER=x;SERVER=h;UID=u;PWD=hunter2"),
    ("a token", f"https://h/path?access_token={MIXED}"),
    ("a bearer token", f"curl -H 'Authorization: Bearer {MIXED}'"),
    ("a URL with a password", "postgresql://etl:hunter2@db.example.com:5432/sales"),
    ("a URL with a password", "redis://:hunter2@cache"),
    ("a URL with a password", "see https://me:pä#ss@host/x, please"),
    ("a URL with a password", "mongodb+srv://u:p%40ss@c.example.com/?retryWrites=true"),
    ("a URL with a password", "postgres://u:***@one/ postgres://u:hunter2@two/"),
]

NAMES = [
    ("a password", "password"),
    ("a password", "dbPassword"),
    ("a password", "db-password"),
    ("a password", "PGPASSWORD"),
    ("a password", "passwd"),
    ("a password", "MYSQL_PASSWD"),
    ("a password", "password2"),
    ("a secret", "secret"),
    ("a secret", "clientSecret"),
    ("a secret", "client-secret"),
    ("a secret", "CLIENT_SECRET"),
    ("a secret", "aws_secret_access_key"),
    ("a secret", "s3.secret-access-key"),
    ("a secret", "secretAccessKey"),
    ("a secret", "fs.s3a.secret.key"),
    ("a token", "token"),
    ("a token", "accessToken"),
    ("a token", "s3.session-token"),
    ("a token", "SLACK_TOKEN"),
    ("an API key", "api_key"),
    ("an API key", "apiKey"),
    ("an API key", "apikey"),
    ("an API key", "X-API-Key"),
    ("an API key", "OPENAI_API_KEY"),
    ("a private key", "private_key"),
    ("a private key", "privateKey"),
    ("a private key", "SSH_PRIVATE_KEY"),
    ("an authorization header", "Authorization"),
    ("an authorization header", "proxyAuthorization"),
    ("an authorization header", "proxy-authorization"),
    ("an authorization header", "HTTP_AUTHORIZATION"),
    ("an Azure storage account key", "spark.hadoop.fs.azure.account.key.acct.dfs.core.windows.net"),
]

HARMLESS_NAMES = [
    "token_count",
    "tokens",
    "tokenizer",
    "secret_ref",
    "secretName",
    "secrets",
    "password_file",
    "passwordless",
    "next_page_token",
    "nextPageToken",
    "pageToken",
    "continuation-token",
    "NEXT_TOKEN",
    "fencing_token",
    "private_key_id",
    "private_key_path",
    "api_key_id",
    "primary_key",
    "partition_key",
    "request_key",
    "public_key",
    "access_key_id",
    "preauthorization",
    "authorization_url",
    "to\u212aen",  # the Kelvin sign, which lower() makes a k
    "\u017fecret",  # the long s, which upper() makes an S
]

HARMLESS_VALUES = [
    "",
    "  ",
    "secret://env/DB_PASSWORD",
    "secret://gcp/projects/p/secrets/s/versions/3",
    "secret://vault/kv/db#password",
    "Bearer secret://env/TOKEN",
    "***",
    "********",
    "xxxxx",
    "${PASSWORD}",
    "${env:PASSWORD}",
    "$PASSWORD",
    "{password}",
    "{{ password }}",
    "<password>",
    "%(password)s",
    "[REDACTED]",
    "redacted",
    "none",
    "false",
]

SCHEMA = pa.schema([("password", pa.string()), ("token", pa.binary()), ("amount", pa.decimal128(38, 9))] * 20)
ORDINARY_TEXTS = [
    "postgres://{user}:{password}@{host}/db",
    "postgres://u:***@h/db",
    "postgres://u:${PASSWORD}@h/db",
    "01JCR4T8K3M9ZQ2XW5V7B6N0PE",
    hashlib.sha256(b"arco").hexdigest(),
    hashlib.sha512(b"arco").hexdigest(),
    base64.b64encode(SCHEMA.serialize().to_pybytes()).decode(),
    base64.b64encode(hashlib.sha512(b"arco").digest()).decode(),
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "data/01JCR4T8K3M9ZQ2XW5V7B6N0PE/date=2026-11-15/token=7/part-00000-c000.snappy.parquet",
    "s3://bucket/secret/password/part-0.parquet",
    "abfss://container@account.dfs.core.windows.net/table/part-0.parquet",
    "https://[::1]:8080/a@b",
    "http://host:8080?mail=me@example.com",
    "ssh://git@github.com:22/org/repo.git",
    "git@github.com:org/repo.git",
    "spark://one:7077,two:7077",
    "postgres://u:secret://env/PASSWORD@h/db",
    "me@example.com",
    "SELECT token, count(*) AS token_count FROM users WHERE password = 'x' AND secret IS NOT NULL GROUP BY token",
    "CREATE USER u; -- password is set elsewhere\nGRANT SELECT ON t TO u",
    "bearer of bad news, internationalization-of-things",
    "dapi",
    "dapi0123",
    "AKIA is a prefix",
    "-----BEGIN PUBLIC KEY-----\nMIIBIjANBg\n-----END PUBLIC KEY-----",
    "-----BEGIN CERTIFICATE-----",
    "glpat-short",
    "Signature=none&sig=0",
]
LOOKALIKES = [
    f"arco_acme_prod_{KEY_ID}",
    f"arco_acme_prod_{KEY_ID}_{MIXED}",
    f"arco_acme_prod_{KEY_ID.lower()}_{MIXED}-_abcdefghi",
    f"arco_acme_{KEY_ID}_{MIXED}-_abcdefghi",
    f"marco_acme_prod_{KEY_ID}_{MIXED}-_abcdefghi",
    base64.urlsafe_b64encode(b'{"page":2,"after":"01JCR4T8K3M9ZQ2XW5V7B6N0PE"}').decode(),
    "jdbc:sqlserver://h:1433;database=d;user=me@srv;password=${PASSWORD};",
    "jdbc:postgresql://h/db?user=u&password=***&ssl=true",
    "task_live_0123456789abcdefghij",
    "this risk_test_0123456789abcdef is a name",
    "my_npm_0123456789abcdefghijklmnopqrstuvwxyz",
    "Bearer authentication-is-required",
    "XAKIA" + "IOSFODNN7EXAMPLE",
    "aws_secret_access_key is read from the environment",
    "eyJhbGciOiJIUzI1NiJ9.json.gz",
]

EVENT: dict[str, Any] = {
    "id": "01JCR4T8K3M9ZQ2XW5V7B6N0PE",
    "type": "execution.materialized",
    "time": "2026-11-15T20:45:00.000000Z",
    "source": "arco",
    "actor": "me@example.com",
    "operation": "01JCR4T8K3M9ZQ2XW5V7B6N0PF",
    "data": {
        "asset": "01JCQ9A7D2F8H3K5M7P9R1T3V5",
        "key": {"date": "2026-11-14", "region": "eu"},
        "files": [
            {"path": f"s3://lake/data/01JCQ9A7D2F8H3K5M7P9R1T3V5/{n:05d}.parquet", "bytes": 1048576, "rows": 10000}
            for n in range(3)
        ],
        "schema": hashlib.sha256(b"schema").hexdigest(),
        "token_count": 17,
        "query": "SELECT token FROM secrets\nWHERE password IS NULL",
        "password": "",
    },
}


def escape_all(value: object) -> bytes:
    """JSON with every character of every text escaped."""
    if isinstance(value, str):
        units = value.encode("utf-16-be", "surrogatepass").hex()
        return b'"' + b"".join(b"\\u" + units[i : i + 4].encode() for i in range(0, len(units), 4)) + b'"'
    if isinstance(value, dict):
        return b"{" + b",".join(escape_all(key) + b":" + escape_all(child) for key, child in value.items()) + b"}"
    if isinstance(value, list):
        return b"[" + b",".join(escape_all(child) for child in value) + b"]"
    return json.dumps(value).encode()


ENCODERS: list[Callable[[Any], bytes]] = [
    msgspec.json.encode,
    lambda value: json.dumps(value).encode(),
    lambda value: json.dumps(value, indent=1).replace(": ", "\t:\r\n ").encode(),
    lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(),
    lambda value: json.dumps(value).replace("/", "\\/").encode(),
    lambda value: json.dumps(value).replace("&", "\\u0026").replace("=", "\\u003d").encode(),
    escape_all,
]


def refusal(value: object) -> Invalid:
    with pytest.raises(Invalid) as caught:
        check_no_secret("event test.happened", value)
    return caught.value


@pytest.mark.parametrize(("kind", "text"), SHAPES)
def test_a_secret_is_known_by_its_shape(kind: str, text: str) -> None:
    document = {"files": ["a", {"path": text}]}
    assert find_secret(document) == "$.files[1].path"
    assert refusal(document).message == (
        f"the event test.happened holds {kind} at $.files[1].path; store it in a secret provider and refer to it as a "
        "SecretRef such as secret://env/NAME"
    )


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_a_secret_is_known_by_the_name_of_its_field(kind: str, name: str) -> None:
    error = refusal({"options": [{name: "hunter2"}]})
    assert error.details["secret"] == kind
    assert error.details["path"] in (f"$.options[0].{name}", f'$.options[0]["{name}"]')


@pytest.mark.parametrize("name", HARMLESS_NAMES)
def test_a_name_that_only_contains_a_secret_word_is_harmless(name: str) -> None:
    assert find_secret({name: "hunter2"}) is None


@pytest.mark.parametrize("value", [*HARMLESS_VALUES, None, 7, True, ["users.password"], {"nulls": "3"}])
def test_references_masks_and_other_than_texts_are_no_secrets(value: object) -> None:
    assert [name for _, name in NAMES if find_secret({name: value})] == []


@pytest.mark.parametrize("value", ["secret://", "secret:hunter2", "secret://env/A B", "${PASSWORD:-hunter2}", "$ecret"])
def test_what_only_resembles_a_reference_or_mask_is_a_secret(value: str) -> None:
    assert find_secret({"password": value}) == "$.password"


@pytest.mark.parametrize("text", ORDINARY_TEXTS + LOOKALIKES)
def test_ordinary_texts_are_no_secrets(text: str) -> None:
    assert find_secret([text, {text: None}, {"name": text, "value": [f"x {text}\n"]}]) is None


def test_the_first_secret_in_reading_order_is_named() -> None:
    secret = SHAPES[0][1]
    assert find_secret([[1, {"a": None, "b": [secret]}], secret]) == "$[0][1].b[0]"
    assert find_secret({"a": {"token": "hunter2"}, "b": secret}) == "$.a.token"
    assert find_secret(secret) == "$"
    assert find_secret((0, secret)) == "$[1]"


@pytest.mark.parametrize("value", [None, 1, "", "value", {}])
def test_a_key_that_is_a_secret_is_found_and_not_repeated(value: object) -> None:
    for _, secret in SHAPES:
        assert find_secret({"options": {"a": 1, secret: value}}) == "$.options.<key 1>"
    assert find_secret({"a": {"x" * 65: {"token": "hunter2"}}}) == "$.a.<key 0>.token"


def test_keys_that_are_no_plain_words_are_quoted_in_the_path() -> None:
    assert find_secret({'a"\n.\u202e': {"s3.token": "hunter2"}}) == '$["a\\"\\n.\\u202e"]["s3.token"]'


def test_nesting_deeper_than_the_interpreter_recurses_is_searched() -> None:
    value: object = {"token": "hunter2"}
    for _ in range(5_000):
        value = [value]
    assert find_secret(value) == "$" + "[0]" * 5_000 + ".token"


def test_a_value_without_secrets_passes() -> None:
    check_no_secret("event test.happened", EVENT)


@pytest.mark.parametrize("text", ORDINARY_TEXTS)
def test_the_first_step_clears_ordinary_events(text: str) -> None:
    assert not may_hold_secret(msgspec.json.encode({**EVENT, "subject": text}))


@pytest.mark.parametrize("encode", ENCODERS)
def test_the_first_step_stops_every_sample_in_every_encoding(encode: Callable[[Any], bytes]) -> None:
    for _, text in SHAPES:
        for document in (text, [f"\n{text}\t"], {"a": text}, {text: 1}):
            assert may_hold_secret(encode(document)), text
    for _, name in NAMES:
        assert may_hold_secret(encode({name: "hunter2"})), name


def joined(*parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map("".join)


def from_mark(mark: _secrets._Mark) -> st.SearchStrategy[str]:
    return st.from_regex(f"(?a:{mark.before}{mark.at}{mark.after})", fullmatch=True)


NEIGHBOURS = st.text(st.sampled_from('aZ0-_.=:/@?&; \n\t"\\é\u2028😀'), max_size=4) | st.text(max_size=4)
SHAPE_TEXTS = joined(
    NEIGHBOURS,
    st.sampled_from([text for _, text in SHAPES]) | st.one_of(*map(from_mark, _secrets._ALL_SHAPES)),
    NEIGHBOURS,
)
SECRET_NAMES = joined(
    NEIGHBOURS,
    st.sampled_from([name for _, name in NAMES]) | st.one_of(*map(from_mark, _secrets._NAMES)),
    st.text("-_. 0", max_size=2),
)
ANY_TEXT = st.text(max_size=8) | st.sampled_from(ORDINARY_TEXTS + LOOKALIKES + HARMLESS_NAMES + HARMLESS_VALUES)
PLANTED = st.one_of(
    SHAPE_TEXTS,
    st.dictionaries(SECRET_NAMES, st.text(min_size=1, max_size=8), min_size=1, max_size=1),
    st.dictionaries(SHAPE_TEXTS, st.none() | st.text(max_size=3), min_size=1, max_size=1),
)
DOCUMENTS = st.recursive(
    PLANTED | ANY_TEXT | st.none() | st.integers(-9, 9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT | SECRET_NAMES, inner, max_size=3),
    max_leaves=4,
)


@given(DOCUMENTS, st.sampled_from(ENCODERS))
@example({"a": "\nAKIA" + "IOSFODNN7EXAMPLE\n"}, msgspec.json.encode)
@example('"postgres://é\\:"\x01é\\@h', ENCODERS[1])
def test_the_first_step_clears_nothing_that_the_second_finds(value: object, encode: Callable[[Any], bytes]) -> None:
    try:
        data = encode(value)
        decoded = msgspec.json.decode(data)
    except (UnicodeEncodeError, msgspec.DecodeError):
        assume(False)
    assert may_hold_secret(data) or find_secret(decoded) is None


WORDS = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", min_size=8, max_size=30)


@given(WORDS, st.sampled_from(NAMES), st.sampled_from(["", "a.", "\n"]))
def test_the_message_never_contains_a_value_known_by_its_name(secret: str, name: tuple[str, str], before: str) -> None:
    template = refusal({name[1]: "\0"})
    assume(secret not in f"{template.message} {template.details}")
    error = refusal([{f"{before}{secret}": [{name[1]: secret, "other": secret}]}, {secret: secret}])
    assert secret not in f"{error} {error.message} {error.details}"


@given(SHAPE_TEXTS, st.booleans())
def test_the_message_contains_no_part_of_a_shape(text: str, as_key: bool) -> None:
    assume(find_secret(text) is not None)
    error = refusal({"outer": [{text: text} if as_key else {"inner": text}]})
    at = "$.outer[0].<key 0>" if as_key else "$.outer[0].inner"
    kinds = {mark.kind for mark in _secrets._ALL_SHAPES}
    assert error.details["path"] == at
    assert error.details["secret"] in kinds
    assert error.message in {
        f"the event test.happened holds {kind} at {at}; store it in a secret provider and refer to it as a SecretRef "
        "such as secret://env/NAME"
        for kind in kinds
    }
