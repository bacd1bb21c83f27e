// Loads a model compiled by glow-compile, in Node and in browsers:
//   import { load } from "./NAME.mjs";
//   const net = await load();
//   const { output } = net.run({ input: new Float32Array(...) });

const PROGRAM = __PROGRAM__;
const PAGE = 65536;
// Numbers that threads share: of runs, of workers that are not done, and what the run calls.
const RUNS = 0, LEFT = 1, WORK = 2, JOB = 3, IDLE = 4;
const MATH = {
  exp2: (x) => 2 ** x,
  fmod: (x, y) => x % y,
  // The series of e^(-x^2) times powers, whose terms are all of one sign; beyond 6 it is 1 in double precision.
  erf(x) {
    if (!(Math.abs(x) < 6)) return Number.isNaN(x) ? x : Math.sign(x);
    let term = x, sum = x;
    for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); ++n) sum += term *= (2 * x * x) / (2 * n + 1);
    return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
  },
  // From 2 on the continued fraction.
  erfc(x) {
    if (!(x >= 2)) return 1 - MATH.erf(x);
    let rest = 0;
    for (let n = 60; n > 0; --n) rest = n / 2 / (x + rest);
    return Math.exp(-x * x) / Math.sqrt(Math.PI) / (x + rest);
  },
};

// What a module imports: of `given`, else of the mathematical library, where floats of 32 bits end with f.
function imports(module, given = {}) {
  const known = { ...given };
  for (const { name } of WebAssembly.Module.imports(module)) {
    const plain = name.replace(/f$/, "");
    known[name] ??= MATH[name] ?? Math[name] ?? MATH[plain] ?? Math[plain];
  }
  return { env: known };
}
const ARRAYS = {
  Float32Array, Float64Array, Int8Array, Uint8Array, Int16Array, Uint16Array, Int32Array, Uint32Array,
  BigInt64Array, BigUint64Array,
};

// What is to be read: bytes, a file that is open, or an answer of a server.
async function begin(source, key) {
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  const url = new URL(source, import.meta.url);
  if (url.protocol === "file:") return (await import("node:fs/promises")).open(url);
  url.searchParams.set("v", key); // what the browser has under this name need not be fetched again
  const response = await fetch(url, { cache: "force-cache" });
  if (!response.ok) throw new Error(`${url}: HTTP status ${response.status}`);
  return response;
}

// Reads all of it into memory; whether it has as many bytes as that.
async function fill(begun, view) {
  if (begun.stat) {
    const { bytesRead } = await begun.read(view, 0, view.length, 0);
    const { size } = await begun.stat();
    await begun.close();
    return bytesRead === view.length && size === view.length;
  }
  let at = 0;
  const take = (part) => {
    if (at + part.length <= view.length) view.set(part, at);
    at += part.length;
  };
  if (begun instanceof Uint8Array) {
    take(begun);
  } else {
    const reader = begun.body.getReader();
    for (let next = await reader.read(); !next.done; next = await reader.read()) take(next.value);
  }
  return at === view.length;
}

async function compiled(begun) {
  if (!begun.stat) return WebAssembly.compile(begun.arrayBuffer ? await begun.arrayBuffer() : begun);
  const data = await begun.readFile();
  await begun.close();
  return WebAssembly.compile(data);
}

class Memory {
  constructor(memory, start) {
    this.memory = memory;
    this.next = start;
  }

  reserve(bytes) {
    const place = Math.ceil(this.next / 64) * 64;
    this.next = place + bytes;
    const missing = Math.ceil(this.next / PAGE) - this.memory.buffer.byteLength / PAGE;
    if (missing > 0) this.memory.grow(missing);
    return place;
  }
}

// The other threads of a module that has some; each has an instance and a stack of its own.
class Workers {
  constructor(count) {
    this.count = count;
    this.all = [];
  }

  // What the module calls.
  given(memory) {
    const pause = () => (this.waits && Atomics.wait(this.words, IDLE, 0, 0.01), 0);
    const glow_parallel = (context, workers, work, job) => {
      this.words[WORK] = work;
      this.words[JOB] = job;
      Atomics.store(this.words, LEFT, workers - 1);
      Atomics.add(this.words, RUNS, 1);
      Atomics.notify(this.words, RUNS);
      this.table.get(work)(job, 0);
      while (Atomics.load(this.words, LEFT)) pause();
    };
    return { memory, sched_yield: pause, glow_parallel };
  }

  async start(module, instance, memory) {
    const place = memory.reserve(64);
    this.table = instance.exports.__indirect_function_table;
    this.words = new Int32Array(memory.memory.buffer, place, 5);
    try {
      Atomics.wait(this.words, IDLE, 0, 0);
      this.waits = true;
    } catch {
      this.waits = false; // in the window of a browser
    }
    const node = globalThis.Worker ? null : await import("node:worker_threads");
    const Kind = node?.Worker ?? Worker;
    const begun = Array.from({ length: this.count - 1 }, (_, i) => {
      const worker = new Kind(new URL(`./${PROGRAM.name}.worker.mjs`, import.meta.url), { type: "module" });
      this.all.push(worker);
      const stack = memory.reserve(PROGRAM.threads.stack) + PROGRAM.threads.stack;
      worker.postMessage({ module, memory: memory.memory, place, stack, number: i + 1 });
      return new Promise((resolve, reject) => {
        const failed = (event) => reject(new Error(`${PROGRAM.name}: a worker does not start: ${event.message ?? event}`));
        if (node) worker.once("message", () => resolve(worker.unref())).once("error", failed);
        else Object.assign(worker, { onmessage: resolve, onerror: failed });
      });
    });
    await Promise.all(begun);
  }

  close() {
    this.all.splice(0).forEach((worker) => worker.terminate());
  }
}

// What a worker does: it takes part in every run.
export async function serve(port, { module, memory, place, stack, number }) {
  const words = new Int32Array(memory.buffer, place, 5);
  const given = { memory, sched_yield: () => (Atomics.wait(words, IDLE, 0, 0.01), 0), glow_parallel() {} };
  const { exports } = await WebAssembly.instantiate(module, imports(module, given));
  exports.__stack_pointer.value = stack;
  port.postMessage("ready");
  for (let seen = 0; ; seen = (seen + 1) | 0) {
    Atomics.wait(words, RUNS, seen);
    exports.__indirect_function_table.get(words[WORK])(words[JOB], number);
    Atomics.sub(words, LEFT, 1);
  }
}

class Net {
  #workers;

  constructor(instance, memory, weights, workers) {
    this.instance = instance;
    this.memory = memory.memory;
    this.weights = weights;
    this.functions = {};
    this.threads = workers?.count ?? 1;
    this.#workers = workers;
    const states = {};
    const arena = memory.reserve(PROGRAM[workers ? "threads" : "single"].arena);
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
    return new array(this.memory.buffer, place, length);
  }

  // The shapes of all tensors.
  #shapes(name, given) {
    const { tensors, sizes, numbers } = this.functions[name];
    if (!sizes.length) return tensors.map((t) => t.shape);
    const { buffer } = this.memory;
    const wanted = sizes.map((size) => {
      if (!Number.isInteger(given[size.name])) throw new TypeError(`size '${size.name}' must be an integer`);
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
    if (this.threads > 1 && !this.#workers.all.length) throw new Error(`${PROGRAM.name}: it is closed`);
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

  close() {
    this.#workers?.close();
  }
}

function describe({ name, shape, dtype, array }) {
  return { name, shape, dtype, array };
}

// Whether memory can be shared with workers, and each gets a processor.
function canShare() {
  const cores = globalThis.navigator?.hardwareConcurrency ?? Infinity;
  return (globalThis.crossOriginIsolated ?? true) && cores >= PROGRAM.threads.workers;
}

export async function load(options = {}) {
  const threaded = PROGRAM.threads !== null && (options.threads ?? canShare());
  const { file, key, pages, workers: count } = PROGRAM[threaded ? "threads" : "single"];
  const [code, weights] = await Promise.all([
    begin(options.module ?? `./${file}`, key),
    PROGRAM.embedded ? null : begin(options.weights ?? `./${PROGRAM.name}.weights`, PROGRAM.weightChecksum),
  ]);
  const module = await compiled(code);
  const workers = threaded ? new Workers(count) : null;
  const shared = threaded ? new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true }) : null;
  const instance = await WebAssembly.instantiate(module, imports(module, workers?.given(shared)));
  const { exports } = instance;
  const memory = new Memory(shared ?? exports.memory, exports.__heap_base.value);
  let place = exports[`${PROGRAM.name}_weights`]?.value;
  if (!PROGRAM.embedded) {
    const bytes = PROGRAM.weightBytes;
    place = memory.reserve(bytes);
    const whole = await fill(weights, new Uint8Array(memory.memory.buffer, place, bytes));
    if (!whole || BigInt.asUintN(64, exports.glow_checksum(place, bytes)) !== BigInt(PROGRAM.weightChecksum)) {
      throw new Error(`${PROGRAM.name}: not the weights that this module was compiled with`);
    }
  }
  await workers?.start(module, instance, memory);
  return new Net(instance, memory, place, workers);
}
