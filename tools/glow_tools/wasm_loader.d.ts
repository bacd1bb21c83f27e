export interface TensorInfo {
  name: string;
  /** null where the sizes of a call say. */
  shape: (number | null)[];
  dtype: string;
  /** The JavaScript array that holds it; numbers that JavaScript does not have are their bits. */
  array: string;
}

export interface Fn<I, O, S = never> {
  /** Throws a TypeError for a wrong name, array or length, a RangeError for sizes that there is no code for. */
  run(inputs: I, ...sizes: [S] extends [never] ? [] : [S]): O;
}

export interface Net {
  /** Of the first function. */
  run: __FIRST__["run"];
  /** Of a run: more than 1 where a module with threads could be taken. */
  threads: number;
  /** Ends the other threads. */
  close(): void;
  inputs: TensorInfo[];
  outputs: TensorInfo[];
  functions: {
__FUNCTIONS__
  };
}

export interface LoadOptions {
  /** Where the module is, or its bytes. */
  module?: string | URL | ArrayBuffer | ArrayBufferView;
  /** Where the weights are, or their bytes. */
  weights?: string | URL | ArrayBuffer | ArrayBufferView;
  /** Whether to take the module with threads, if there is one; else where memory can be shared (Node, pages that
   * are isolated from other origins) and there are as many processors. */
  threads?: boolean;
}

/** Fetches the module and its weights (which browsers keep) and makes room for its tensors. */
export function load(options?: LoadOptions): Promise<Net>;
