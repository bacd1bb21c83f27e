// A thread of the module of __NAME__.mjs.
import { serve } from "./__NAME__.mjs";

if (globalThis.self?.postMessage) {
  self.onmessage = ({ data }) => serve(self, data);
} else {
  const { parentPort } = await import("node:worker_threads");
  parentPort.once("message", (told) => serve(parentPort, told));
}
