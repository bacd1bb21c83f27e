// Runs the functions of a module on inputs from a file, in Node: LOADER INPUTS OUTPUTS RUNS.
import { openSync, readFileSync, writeSync } from "node:fs";

const [loader, inputs, outputs, runs] = process.argv.slice(2);
const arrays = { Float32Array, Float64Array, Int8Array, Uint8Array, Int16Array, Uint16Array, Int32Array,
  Uint32Array, BigInt64Array, BigUint64Array };
const net = await (await import(loader)).load();
const file = openSync(outputs, "w");
let rest = readFileSync(inputs);
for (const { tensors, run } of Object.values(net.functions)) {
  const given = {};
  for (const { name, kind, array, bytes } of tensors) {
    if (kind !== "input") continue;
    given[name] = new arrays[array](new Uint8Array(rest.subarray(0, bytes)).buffer);
    rest = rest.subarray(bytes);
  }
  for (let n = 0; n < runs; ++n) {
    for (const array of Object.values(run(given))) {
      writeSync(file, new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
    }
  }
}
