// How fast the filter's readers are in V8, the engine of Envoy: `make bench-read`.
//
// The functions are those of the filter, compiled and optimised like the module. Each runs on 1 MiB until a second is over;
// printed is the median. A text estimate below 300 MB/s as the filter takes it, or a body of 1 MiB above 5 ms, is a failure.

import { readFile } from "node:fs/promises";
import { performance } from "node:perf_hooks";

const MIB = 1 << 20;
const LEAST_MB_PER_SECOND = 300;
const MOST_MS = 5;
const root = new URL("../../", import.meta.url);

const anything = { get: () => () => 0 };
const { instance } = await WebAssembly.instantiate(await readFile(process.argv[2]), {
  env: new Proxy({}, anything),
  wasi_snapshot_preview1: new Proxy({}, anything),
});
const wasm = instance.exports;
wasm._initialize?.();

/** Median milliseconds of a call, after V8 has compiled it with care. */
function median(call) {
  const times = [];
  const end = performance.now() + 1000;
  while (performance.now() < end || times.length < 20) {
    const started = performance.now();
    call();
    times.push(performance.now() - started);
  }
  times.splice(0, Math.floor(times.length / 4));
  times.sort((a, b) => a - b);
  return times[Math.floor(times.length / 2)];
}

function put(bytes) {
  const at = wasm.room(bytes.length);
  new Uint8Array(wasm.memory.buffer, at, bytes.length).set(bytes);
}

/** A text repeated up to 1 MiB of whole lines. */
async function text(kind) {
  const sample = await readFile(new URL(`tests/accuracy/${kind}-0.txt`, root), "utf8");
  return sample.repeat(Math.ceil(MIB / Buffer.byteLength(sample)));
}

const bytes = (string) => Buffer.from(string).subarray(0, MIB);
const chat = (content) => Buffer.from(JSON.stringify({ model: "m", messages: [{ role: "user", content }] }));
const escaped = (string) => string.replace(/[^\0-\x7f]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
const speed = (length, ms) => length / 1e6 / (ms / 1e3);

let failed = false;
function verdict(bad) {
  failed ||= bad;
  return bad ? "  TOO SLOW" : "";
}

console.log("text of 1 MiB, MB/s        every byte     as the filter does");
for (const kind of ["en", "rust", "json", "zh", "ru", "emoji"]) {
  put(bytes(await text(kind)));
  const all = speed(MIB, median(wasm.count_all));
  const sampled = speed(MIB, median(wasm.count_sampled));
  console.log(kind.padEnd(24), all.toFixed(0).padStart(12), sampled.toFixed(0).padStart(22), verdict(sampled < LEAST_MB_PER_SECOND));
}

put(Buffer.alloc(MIB, "x"));
const copied = speed(MIB, median(wasm.copy));
console.log(`\nmemory copied: ${copied.toFixed(0)} MB/s\n\nbody of about 1 MiB                   ms     MB/s`);
const picture = `data:image/png;base64,${Buffer.concat([
  Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), Buffer.from(Uint8Array.from({ length: (3 * MIB) / 4 }, (_, i) => (i * 2654435761) >>> 24))])
  .toString("base64")}`;
const knot = { role: "user", content: "tie a knot and pass it on to the next one, please, before the tide turns" };
for (const [name, body] of [
  ["English prose", chat(bytes(await text("en")).toString())],
  ["Rust, escaped line ends", chat(bytes(await text("rust")).toString())],
  ["JSON in a string", chat(bytes(await text("json")).toString())],
  ["Chinese", chat(bytes(await text("zh")).toString())],
  ["Chinese as \\u escapes", Buffer.from(escaped(chat(bytes(await text("zh")).subarray(0, MIB / 2).toString()).toString()))],
  ["10 000 messages", Buffer.from(JSON.stringify({ model: "m", messages: Array(10_000).fill(knot) }))],
  ["picture as base64", chat([{ type: "image_url", image_url: { url: picture } }])],
]) {
  put(body);
  const ms = median(wasm.read_body);
  console.log(name.padEnd(32), ms.toFixed(3).padStart(7), speed(body.length, ms).toFixed(0).padStart(8), verdict(ms > MOST_MS));
}
process.exitCode = failed ? 1 : 0;
