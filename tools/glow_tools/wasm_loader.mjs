// Loads a model compiled by glow-compile, in Node and in browsers:
//   import { load } from "./NAME.mjs";
//   const net = await load();
//   const { output } = net.run({ input: new Float32Array(...) });

const PROGRAM = __PROGRAM__;
const PAGE = 65536;
const ARRAYS = {
  Float32Array, Float64Array, Int8Array, Uint8Array, Int16Array, Uint16Array, Int32Array, Uint32Array,
  BigInt64Array, BigUint64Array,
};

async function bytesOf(source, key) {
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  const url = new URL(source, import.meta.url);
  if (url.protocol === "file:") {
    const { readFile } = await import("node:fs/promises");
    return readFile(url);
  }
  url.searchParams.set("v", key); // what the browser has under this name need not be fetched again
  const response = await fetch(url, { cache: "force-cache" });
  if (!response.ok) throw new Error(`${url}: HTTP status ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}

// Fletcher's two sums of 32-bit words.
function checksum(data) {
  const whole = data.byteOffset % 4 === 0 ? data : data.slice();
  const words = new Uint32Array(whole.buffer, whole.byteOffset, whole.byteLength >>> 2);
  let first = 0;
  let second = 0;
  for (let i = 0; i < words.length; ++i) {
    first = (first + words[i]) | 0;
    second = (second + first) | 0;
  }
  return [second, first].map((sum) => (sum >>> 0).toString(16).padStart(8, "0")).join("");
}

class Memory {
  constructor(instance) {
    this.memory = instance.exports.memory;
    this.next = instance.exports.__heap_base.value;
  }

  reserve(bytes) {
    const place = Math.ceil(this.next / 64) * 64;
    this.next = place + bytes;
    const missing = Math.ceil(this.next / PAGE) - this.memory.buffer.byteLength / PAGE;
    if (missing > 0) this.memory.grow(missing);
    return place;
  }
}

class Net {
  constructor(instance, memory, weights, states) {
    this.instance = instance;
    this.weights = weights;
    this.functions = {};
    const arena = memory.reserve(Math.max(...Object.values(PROGRAM.functions).map((f) => f.arena)));
    for (const [name, fn] of Object.entries(PROGRAM.functions)) {
      const places = fn.tensors.map((t) => {
        if (t.initial === null) return memory.reserve(t.bytes);
        if (!(t.name in states)) {
          states[t.name] = memory.reserve(t.bytes);
          new Uint8Array(memory.memory.buffer).copyWithin(states[t.name], weights + t.initial, weights + t.initial + t.bytes);
        }
        return states[t.name];
      });
      const table = memory.reserve(4 * places.length);
      new Uint32Array(memory.memory.buffer, table, places.length).set(places);
      const rank = fn.tensors.reduce((sum, t) => sum + t.shape.length, 0);
      const numbers = memory.reserve(8 * (fn.sizes.length + rank + 1)); // sizes, all shapes, bytes of the arena
      const run = (inputs, sizes = {}) => this.#run(name, inputs, sizes);
      this.functions[name] = { tensors: fn.tensors, sizes: fn.sizes, places, table, numbers, arena, run };
    }
    const first = Object.values(this.functions)[0];
    this.run = first.run;
    this.inputs = first.tensors.filter((t) => t.kind === "input").map(describe);
    this.outputs = first.tensors.filter((t) => t.kind === "output").map(describe);
  }

  #view(tensor, place, shape) {
    const array = ARRAYS[tensor.array];
    const length = shape.reduce((product, extent) => product * extent, 1);
    return new array(this.instance.exports.memory.buffer, place, length);
  }

  // The shapes of all tensors.
  #shapes(name, given) {
    const { tensors, sizes, numbers } = this.functions[name];
    if (!sizes.length) return tensors.map((t) => t.shape);
    const { buffer } = this.instance.exports.memory;
    const wanted = sizes.map((size) => {
      if (!Number.isInteger(given[size.name])) throw new TypeError(`size '${size.name}' must be a whole number`);
      return BigInt(given[size.name]);
    });
    new BigInt64Array(buffer, numbers, sizes.length).set(wanted);
    const rank = tensors.reduce((sum, t) => sum + t.shape.length, 0);
    const shapes = numbers + 8 * sizes.length;
    if (this.instance.exports[`${name}_plan`](numbers, shapes, shapes + 8 * rank)) {
      const bounds = sizes.map((s) => `${s.name}=${given[s.name]} (${s.least} to ${s.most})`).join(", ");
      throw new RangeError(`no code for sizes ${bounds}`);
    }
    const all = Array.from(new BigInt64Array(buffer, shapes, rank), Number);
    return tensors.map((t) => all.splice(0, t.shape.length));
  }

  #run(name, inputs, sizes) {
    const { tensors, places, table, numbers, arena } = this.functions[name];
    const shapes = this.#shapes(name, sizes);
    const known = tensors.filter((t) => t.kind === "input").map((t) => t.name);
    for (const given of Object.keys(inputs)) {
      if (!known.includes(given)) throw new TypeError(`no input '${given}'; there are: ${known.join(", ")}`);
    }
    tensors.forEach((tensor, i) => {
      if (tensor.kind !== "input") return;
      const array = inputs[tensor.name];
      const view = this.#view(tensor, places[i], shapes[i]);
      if (!(array instanceof ARRAYS[tensor.array]) || array.length !== view.length) {
        throw new TypeError(`input '${tensor.name}' must be a ${tensor.array} of ${view.length} (${shapes[i].join("x")})`);
      }
      view.set(array);
    });
    this.instance.exports[name](table, this.weights, arena, numbers);
    const outputs = {};
    tensors.forEach((tensor, i) => {
      if (tensor.kind === "output") outputs[tensor.name] = this.#view(tensor, places[i], shapes[i]).slice();
    });
    return outputs;
  }
}

function describe({ name, shape, dtype, array }) {
  return { name, shape, dtype, array };
}

export async function load(options = {}) {
  const [code, weights] = await Promise.all([
    bytesOf(options.module ?? `./${PROGRAM.name}.wasm`, PROGRAM.moduleKey),
    PROGRAM.embedded ? null : bytesOf(options.weights ?? `./${PROGRAM.name}.weights`, PROGRAM.weightChecksum),
  ]);
  const { instance } = await WebAssembly.instantiate(code, {});
  const memory = new Memory(instance);
  let place;
  if (PROGRAM.embedded) {
    place = instance.exports[`${PROGRAM.name}_weights`].value;
  } else {
    if (weights.length !== PROGRAM.weightBytes || checksum(weights) !== PROGRAM.weightChecksum) {
      throw new Error(`${PROGRAM.name}: not the weights that this module was compiled with`);
    }
    place = memory.reserve(weights.length);
    new Uint8Array(instance.exports.memory.buffer, place, weights.length).set(weights);
  }
  return new Net(instance, memory, place, {});
}
