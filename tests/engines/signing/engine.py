"""PyIceberg whose requests to S3 are signed by the catalog, in an environment of its own; see
`tests.engines.environments`.

Questions: `open` with properties, `create` a table, `append` rows to one, `read` one, `location` of one, and `touch`,
which reads a file elsewhere with the access that was granted for a table.
"""

import json
import os
import sys
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))


def answer(catalog: Catalog, question: dict[str, Any]) -> Any:
    name = question.get("table", "")
    match question["do"]:
        case "create":
            catalog.create_namespace_if_not_exists(name.partition(".")[0])
            return catalog.create_table(name, SCHEMA).location()
        case "append":
            rows = pa.table({"id": pa.array(question["ids"], pa.int64())})
            return catalog.load_table(name).append(rows)
        case "read":
            return sorted(catalog.load_table(name).scan().to_arrow()["id"].to_pylist())
        case "location":
            return catalog.load_table(name).metadata_location
        case "touch":
            with catalog.load_table(name).io.new_input(question["location"]).open() as file:
                return len(file.read())
    raise ValueError(question["do"])


def main() -> None:
    # Threads of PyIceberg share one s3fs, and each takes the signer away for a moment when it begins: what another one
    # asks for then goes out without a signature.
    os.environ["PYICEBERG_MAX_WORKERS"] = "1"
    catalog: Catalog | None = None
    for line in sys.stdin:
        question = json.loads(line)
        told: dict[str, Any]
        try:
            if question["do"] == "open":
                catalog, found = load_catalog("arco", type="rest", **question["properties"]), None
            else:
                assert catalog is not None
                found = answer(catalog, question)
            told = {"result": found}
        except Exception as error:  # noqa: BLE001  whatever it is, the test wants to see it
            told = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(told), flush=True)


main()
