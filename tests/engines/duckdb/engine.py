"""DuckDB with the Iceberg extension, in an environment of its own; see `tests.engines.environments`.

A question is `{"attach": {name: properties}}` or `{"sql": text}`, which is answered by the rows.
"""

import json
import sys
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extensions  # type: ignore[import-not-found]


def attach(connection: duckdb.DuckDBPyConnection, name: str, properties: dict[str, str]) -> None:
    if "s3.endpoint" in properties:
        scheme, _, host = properties["s3.endpoint"].partition("://")
        connection.execute(
            f"create or replace secret {name}_files (type s3, key_id '{properties['s3.access-key-id']}', "
            f"secret '{properties['s3.secret-access-key']}', region '{properties['s3.region']}', endpoint '{host}', "
            f"url_style 'path', use_ssl {scheme == 'https'})"
        )
    # Files are read with the secret above, or need none.
    warehouse, endpoint = properties.get("warehouse", ""), properties["uri"].rstrip("/")
    connection.execute(
        f"attach '{warehouse}' as {name} (type iceberg, endpoint '{endpoint}', "
        "authorization_type 'none', access_delegation_mode 'none')"
    )


def main() -> None:
    connection = duckdb.connect(config={"extension_directory": str(Path(sys.prefix) / "duckdb")})
    for name in ("avro", "httpfs", "iceberg"):
        duckdb_extensions.import_extension(name, con=connection)
        connection.execute(f"load {name}")
    for line in sys.stdin:
        question = json.loads(line)
        answer: dict[str, Any]
        try:
            for name, properties in question.get("attach", {}).items():
                attach(connection, name, properties)
            rows = connection.execute(question["sql"]).fetchall() if "sql" in question else []
            answer = {"result": rows}
        except duckdb.Error as error:
            answer = {"error": str(error)}
        print(json.dumps(answer, default=str), flush=True)


if __name__ == "__main__":
    main()
