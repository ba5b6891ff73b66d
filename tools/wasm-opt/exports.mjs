// Gives exports named `instead_of_NAME` the place of NAME: `exports.mjs IN OUT`.
//
// The SDK defines every callback of the ABI itself, and a second function of the same name does not link. A callback that
// the filter has to answer in a way that the SDK's types cannot say is therefore exported under another name, and
// takes its place here.
//
// What the SDK exports for other kinds of filter is never called in one of HTTP, where a missing callback means that there is
// nothing to do. Without them the optimiser drops what only they use, and the host need not compile it.
import { readFileSync, writeFileSync } from "node:fs";
import binaryen from "binaryen";

const MARK = "instead_of_";
const UNUSED = [
  "proxy_on_new_connection",
  "proxy_on_downstream_data",
  "proxy_on_downstream_connection_close",
  "proxy_on_upstream_data",
  "proxy_on_upstream_connection_close",
  "proxy_on_grpc_receive_initial_metadata",
  "proxy_on_grpc_receive",
  "proxy_on_grpc_receive_trailing_metadata",
  "proxy_on_grpc_close",
  "proxy_on_foreign_function",
];
const [from, to] = process.argv.slice(2);
const wasm = binaryen.readBinary(new Uint8Array(readFileSync(from)));
const found = [];
for (let index = 0; index < wasm.getNumExports(); index++) {
  const { name, value } = binaryen.getExportInfo(wasm.getExportByIndex(index));
  if (name.startsWith(MARK)) found.push({ name, value });
}
if (found.length === 0) throw new Error(`${from} exports nothing whose name begins with ${MARK}`);
for (const { name, value } of found) {
  const callback = name.slice(MARK.length);
  if (!wasm.getExport(callback)) throw new Error(`${from} does not export ${callback}`);
  wasm.removeExport(name);
  wasm.removeExport(callback);
  wasm.addFunctionExport(value, callback);
}
for (const name of UNUSED) {
  if (!wasm.getExport(name)) throw new Error(`${from} does not export ${name}`);
  wasm.removeExport(name);
}
writeFileSync(to, wasm.emitBinary());
