// A Parquet file, read as browsers read it, as an Arrow stream on standard output.
import { readFileSync, writeSync } from "node:fs";
import { readParquet } from "parquet-wasm/node";

const stream = readParquet(new Uint8Array(readFileSync(process.argv[2]))).intoIPCStream();
for (let at = 0; at < stream.length; ) at += writeSync(1, stream, at);
