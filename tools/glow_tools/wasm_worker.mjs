// A worker of a module with threads: takes part in every run. In `words`, 32-bit numbers of the shared
// memory, are the number of runs, the workers that are not done, and what the run calls.
const RUNS = 0, LEFT = 1, WORK = 2, JOB = 3, IDLE = 4;
const inNode = typeof process === "object" && process.versions?.node;

async function serve(port, { module, memory, place, stack, number }) {
  const words = new Int32Array(memory.buffer, place, 5);
  const sched_yield = () => (Atomics.wait(words, IDLE, 0, 0.01), 0);
  const { exports } = await WebAssembly.instantiate(module, { env: { memory, sched_yield, glow_parallel() {} } });
  exports.__stack_pointer.value = stack;
  port.postMessage("ready");
  for (let seen = 0; ; seen = (seen + 1) | 0) {
    Atomics.wait(words, RUNS, seen);
    exports.__indirect_function_table.get(words[WORK])(words[JOB], number);
    Atomics.sub(words, LEFT, 1);
  }
}

if (inNode) {
  const { parentPort } = await import("node:worker_threads");
  parentPort.once("message", (told) => serve(parentPort, told));
} else {
  self.onmessage = ({ data }) => serve(self, data);
}
