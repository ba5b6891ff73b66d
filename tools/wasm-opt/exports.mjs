// Gives exports named `instead_of_NAME` the place of NAME: `exports.mjs IN OUT`.
//
// The SDK defines every callback of the ABI itself, and a second function of the same name does not link. A callback that
// the filter has to answer in a way that the SDK's types cannot say is therefore exported under another name, and
// takes its place here.
import { readFileSync, writeFileSync } from "node:fs";
import binaryen from "binaryen";

const MARK = "instead_of_";
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
writeFileSync(to, wasm.emitBinary());
