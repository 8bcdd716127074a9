// Checks keys.json with an implementation of its own, so that Python is not its own judge.
// Usage: node keys.mjs [vectors.json]. Prints `N passed, 0 failed`, or each mismatch and exits with 1.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

const refuse = (why) => {
  throw new RangeError(why);
};
const sha256 = (text) => createHash("sha256").update(text, "utf8").digest("hex");

// Canonical JSON, RFC 8785.

const quoted = (text) => (text.isWellFormed() ? JSON.stringify(text) : refuse("lone surrogate"));

const canonical = (value) => {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "number") return Number.isFinite(value) ? String(value === 0 ? 0 : value) : refuse("not finite");
  if (typeof value === "string") return quoted(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  // Array.sort without a comparator compares UTF-16 code units, which is the order RFC 8785 asks for.
  const members = Object.keys(value).sort().map((key) => `${quoted(key)}:${canonical(value[key])}`);
  return `{${members.join(",")}}`;
};

const canonicalText = (json) => {
  const value = JSON.parse(json);
  // JSON.parse rounds large integers silently, so the literals are looked at in the text, outside of strings.
  const literals = json.replace(/"(?:[^"\\]|\\.)*"/g, '""').match(/-?\d[\d.eE+-]*/g) ?? [];
  for (const literal of literals)
    if (/^-?\d+$/.test(literal) && !Number.isSafeInteger(Number(literal))) refuse("integer beyond 2^53 - 1");
  return canonical(value);
};

const doubleOf = (hex) => Buffer.from(hex, "hex").readDoubleBE(0);

// Keys.

const NAME = /^[a-z][a-z0-9_]{0,127}$/;
const checkName = (text) => (NAME.test(text) ? text : refuse("not a name"));

const assetKey = (text) => {
  const parts = text.split(".");
  if (parts.length !== 2) refuse("not namespace.name");
  return parts.map(checkName).join(".");
};

const pad = (number, width) => String(number).padStart(width, "0");

const dateOf = (text) => {
  const match = /^(\d{4})-(\d{2})-(\d{2})$/.exec(text) ?? refuse("not a date");
  const [year, month, day] = match.slice(1).map(Number);
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  if (year < 1 || date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) refuse("no such day");
  return date;
};

const timestamp = (text) => {
  const pattern = /^(\d{4}-\d{2}-\d{2})T(\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,6}))?(Z|[+-]\d{2}:\d{2})$/;
  const [, day, hour, minute, second, fraction = "", offset] = pattern.exec(text) ?? refuse("not a time with offset");
  if (hour > 23 || minute > 59 || second > 59) refuse("no such time of day");
  const sign = offset.startsWith("-") ? -1 : 1;
  const shift = offset === "Z" ? 0 : sign * (Number(offset.slice(1, 3)) * 60 + Number(offset.slice(4, 6)));
  const moment = new Date(dateOf(day).getTime() + (hour * 3600 + minute * 60 + Number(second) - shift * 60) * 1000);
  const year = moment.getUTCFullYear();
  if (year < 1 || year > 9999) refuse("outside the years 1 to 9999");
  const date = `${pad(year, 4)}-${pad(moment.getUTCMonth() + 1, 2)}-${pad(moment.getUTCDate(), 2)}`;
  const time = [moment.getUTCHours(), moment.getUTCMinutes(), moment.getUTCSeconds()].map((n) => pad(n, 2)).join(":");
  return `${date}T${time}.${fraction.padEnd(6, "0")}Z`;
};

const integer = (text) => {
  if (!/^-?\d+$/.test(text)) refuse("not an integer");
  const number = BigInt(text);
  return BigInt.asIntN(64, number) === number ? String(number) : refuse("not 64 bits");
};

const ENCODERS = {
  string: (value) => `s:${quoted(value).slice(1, -1).replaceAll(",", "\\u002c").replaceAll("=", "\\u003d")}`,
  int: (value) => `i:${integer(value)}`,
  bool: (value) => `b:${value}`,
  date: (value) => `d:${dateOf(value) && value}`,
  timestamp: (value) => `t:${timestamp(value)}`,
  null: () => "n:null",
};

const partitionKey = (dimensions) => {
  const names = dimensions.map(({ name }) => checkName(name));
  if (new Set(names).size !== names.length) refuse("a dimension twice");
  const encode = ({ name, type, value }) => `${name}=${(ENCODERS[type] ?? refuse("type not allowed"))(value)}`;
  const byName = (a, b) => (a.name < b.name ? -1 : 1);
  return [...dimensions].sort(byName).map(encode).join(",");
};

const DECODERS = {
  s: (text) => ({ type: "string", value: JSON.parse(`"${text}"`) }),
  i: (text) => ({ type: "int", value: text }),
  b: (text) => ({ type: "bool", value: text === "true" || (text === "false" ? false : refuse("not a boolean")) }),
  d: (text) => ({ type: "date", value: text }),
  t: (text) => ({ type: "timestamp", value: text }),
  n: () => ({ type: "null", value: null }),
};

const parsePartitionKey = (text) => {
  const dimensions = (text === "" ? [] : text.split(",")).map((part) => {
    const [, name, tag, value] = /^([^=]*)=([a-z]):([^]*)$/.exec(part) ?? refuse("not name=tag:value");
    return { name, ...(DECODERS[tag] ?? refuse("unknown tag"))(value) };
  });
  if (partitionKey(dimensions) !== text) refuse("not canonical");
  return dimensions;
};

const partitionId = (asset, key) => `part_${sha256(`${asset}:${key}`).slice(0, 32)}`;
const edgeId = (parts) => `edge_${sha256(canonical(parts)).slice(0, 32)}`;

// Ids.

const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const ulidNumber = (text) => {
  if (!/^[0-7][0-9A-HJKMNP-TV-Z]{25}$/.test(text)) refuse("not a ULID");
  return [...text].reduce((number, character) => number * 32n + BigInt(ALPHABET.indexOf(character)), 0n);
};
const uuidNumber = (text) => {
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)) refuse("not a UUID");
  return BigInt(`0x${text.replaceAll("-", "")}`);
};
const ulidText = (number) =>
  Array.from({ length: 26 }, (_, i) => ALPHABET[(number >> BigInt(125 - 5 * i)) & 31n]).join("");
const uuidText = (number) => number.toString(16).padStart(32, "0").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
const micros = (number) => String((number >> 80n) * 1000n);

const requestKey = (text) => {
  const [, head, suffix] = /^([^:]*)(:[A-Za-z0-9._-]{1,64})?$/.exec(text) ?? refuse("bad suffix");
  if (/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab]/i.test(head))
    return { key: head.toLowerCase() + (suffix ?? ""), time_us: micros(uuidNumber(head)) };
  return { key: text, time_us: micros(ulidNumber(head)) };
};

// The checks, one per section of the file.

const same = (actual, expected) => {
  if (actual !== expected) throw new Error(`got ${JSON.stringify(actual)}, expected ${JSON.stringify(expected)}`);
};
const refused = (attempt) => {
  let result;
  try {
    result = attempt();
  } catch (error) {
    // JSON.parse throws SyntaxError; anything else is a mistake in this file.
    if (error instanceof RangeError || error instanceof SyntaxError) return;
    throw error;
  }
  throw new Error(`accepted as ${JSON.stringify(result)}, expected a refusal`);
};

const CHECKS = {
  numbers: (v) =>
    v.canonical === null
      ? refused(() => canonical(doubleOf(v.ieee)))
      : same(canonical(doubleOf(v.ieee)), v.canonical),
  canonical_json: (v) => {
    same(canonicalText(v.json), v.canonical);
    same(sha256(v.canonical), v.sha256);
  },
  refused_json: (v) => refused(() => canonicalText(v.json)),
  asset_keys: (v) => {
    same(assetKey(`${v.namespace}.${v.name}`), v.canonical);
  },
  refused_asset_keys: (v) => refused(() => assetKey(v)),
  partition_keys: (v) => {
    same(partitionKey(v.dimensions), v.canonical);
    same(partitionKey(parsePartitionKey(v.canonical)), v.canonical);
    same(partitionId(v.asset_id, v.canonical), v.partition_id);
  },
  refused_partition_keys: (v) => refused(() => partitionKey(v.dimensions)),
  refused_partition_texts: (v) => refused(() => parsePartitionKey(v)),
  dependency_fingerprints: (v) =>
    same(sha256(canonical([v.source, v.target, v.partition_mapping, v.transform, v.parameter])), v.fingerprint),
  edge_ids: (v) => same(edgeId([v.source, v.target, v.dependency]), v.edge_id),
  ulids: (v) => {
    same(uuidText(ulidNumber(v.ulid)), v.uuid);
    same(ulidText(uuidNumber(v.uuid)), v.ulid);
    same(micros(ulidNumber(v.ulid)), v.time_us);
  },
  refused_ulids: (v) => refused(() => ulidText(ulidNumber(v))),
  refused_uuids: (v) => refused(() => uuidText(uuidNumber(v))),
  request_keys: (v) => {
    same(requestKey(v.text).key, v.key);
    same(requestKey(v.text).time_us, v.time_us);
  },
  refused_request_keys: (v) => refused(() => requestKey(v)),
};

const vectors = JSON.parse(readFileSync(process.argv[2] ?? new URL("keys.json", import.meta.url), "utf8"));
let passed = 0;
let failed = 0;
const fail = (where, why) => {
  failed += 1;
  console.error(`${where}: ${why}`);
};
for (const section of Object.keys({ ...CHECKS, ...vectors })) {
  if (!CHECKS[section]) fail(section, "no check for this section");
  else if (!vectors[section]?.length) fail(section, "no vectors");
  else
    vectors[section].forEach((vector, index) => {
      try {
        CHECKS[section](vector);
        passed += 1;
      } catch (error) {
        fail(`${section}[${index}]`, error.message);
      }
    });
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
