// A Parquet file, by its path or by a URL, read as browsers read it, as an Arrow stream on standard output.
import { readFileSync, writeSync } from "node:fs";
import { readParquet } from "parquet-wasm/node";

async function download(url) {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
  return await answer.arrayBuffer();
}

const source = process.argv[2];
const data = /^https?:/.test(source) ? await download(source) : readFileSync(source);
const stream = readParquet(new Uint8Array(data)).intoIPCStream();
for (let at = 0; at < stream.length; ) at += writeSync(1, stream, at);
