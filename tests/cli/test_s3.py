"""The commands on S3: options of the store come as flags or variables."""

from tests.cli.conftest import Cli
from tests.emulators.servers import Emulator


def text(value: str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else value


def test_a_workspace_on_s3_is_created_examined_and_compacted(cli: Cli, s3_server: Emulator) -> None:
    flags = ["--store", s3_server.url("cli")]
    for name, value in s3_server.options.items():
        flags += ["--store-option", f"{name}={text(value)}"]
    catalog = (["namespace", "create", "sales"], ["table", "create", "sales.t", "-c", "id:int"], ["table", "list"])
    for command in (["init"], *catalog, ["doctor"], ["compact"], ["rebuild", "--verify"], ["gc"], ["log", "verify"]):
        ran = cli(*command, *flags)
        assert ran.code == 0, ran.err
    assert cli("init", *flags).code == 3
    document = cli("policy", "compactor", *flags).document
    assert document["Statement"][0]["Resource"][0].startswith(
        f"arn:aws:s3:::{s3_server.url('cli')[5:]}/default/default/"
    )


def test_a_bucket_that_does_not_exist_is_refused(cli: Cli, s3_server: Emulator) -> None:
    environ = {f"ARCO_STORE_OPTIONS_{name.upper()}": text(value) for name, value in s3_server.options.items()}
    ran = cli("init", "--store", "s3://no-such-bucket-here", "--json", **environ)
    assert (ran.code, ran.error["name"]) == (6, "StoreRefused")
    assert "does not exist" in ran.error["message"]
    assert ran.out == ""
