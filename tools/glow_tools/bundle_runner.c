/* Runs the functions of a bundle on inputs from a file: WEIGHTS INPUTS OUTPUTS RUNS. HEADER and BUNDLE say which. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include HEADER

static void require(int right, const char *what) {
  if (right) return;
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static void *reserve(size_t bytes) {
  char *all = calloc(bytes + 128, 1);
  require(all != NULL, "not enough memory");
  char *memory = all + 128 - (uintptr_t)all % 64;
  memcpy(memory - sizeof all, &all, sizeof all);
  return memory;
}

static void release(void *memory) {
  void *all;
  if (memory == NULL) return;
  memcpy(&all, (char *)memory - sizeof all, sizeof all);
  free(all);
}

static FILE *opened(const char *path, const char *mode) {
  FILE *file = fopen(path, mode);
  require(file != NULL, path);
  return file;
}

#ifdef THREADS
#include <pthread.h>

typedef struct {
  void (*work)(void *, int);
  void *job;
  int n;
} worker;

static void *begin(void *argument) {
  worker *w = argument;
  w->work(w->job, w->n);
  return NULL;
}

static void parallel(void *context, int workers, void (*work)(void *, int), void *job) {
  pthread_t threads[THREADS];
  worker state[THREADS];
  (void)context;
  for (int n = 1; n < workers; ++n) {
    state[n] = (worker){work, job, n};
    require(!pthread_create(&threads[n], NULL, begin, &state[n]), "no thread");
  }
  work(job, 0);
  for (int n = 1; n < workers; ++n) pthread_join(threads[n], NULL);
}
#define PARALLEL parallel
#else
#define PARALLEL NULL
#endif

static void run(const glow_function *f, const void *weights, FILE *inputs, FILE *outputs, int runs) {
  void **tensors = reserve((size_t)f->tensor_count * sizeof *tensors), *arena = reserve(f->arena_bytes);
  void **given = reserve((size_t)f->tensor_count * sizeof *given);
  for (int i = 0; i < f->tensor_count; ++i) {
    const glow_tensor *t = &f->tensors[i];
    if (!strcmp(t->kind, "unused")) continue;
    tensors[i] = reserve(t->bytes);
    if (t->initial >= 0) memcpy(tensors[i], (const char *)weights + t->initial, t->bytes);
    if (strcmp(t->kind, "input")) continue;
    given[i] = reserve(t->bytes);
    require(fread(given[i], 1, t->bytes, inputs) == t->bytes, "too few inputs");
  }
  for (int n = 0; n < runs; ++n) {
    glow_call call = {tensors, weights, arena, NULL, PARALLEL, NULL};
    for (int i = 0; i < f->tensor_count; ++i) {
      if (given[i] != NULL) memcpy(tensors[i], given[i], f->tensors[i].bytes);
    }
    require(!f->run(&call), "no code for these sizes");
    for (int i = 0; i < f->tensor_count; ++i) {
      const glow_tensor *t = &f->tensors[i];
      if (!strcmp(t->kind, "output")) {
        require(fwrite(tensors[i], 1, t->bytes, outputs) == t->bytes, "outputs cannot be written");
      }
    }
  }
  for (int i = 0; i < f->tensor_count; ++i) release(tensors[i]), release(given[i]);
  release(tensors);
  release(given);
  release(arena);
}

int main(int count, char **arguments) {
  require(count == 5, "WEIGHTS INPUTS OUTPUTS RUNS");
  const glow_bundle *bundle = &BUNDLE;
  const void *weights = bundle->weights;
  void *read = NULL;
  if (weights == NULL) {
    FILE *file = opened(arguments[1], "rb");
    read = reserve(bundle->weight_bytes);
    require(fread(read, 1, bundle->weight_bytes, file) == bundle->weight_bytes, "too few weights");
    fclose(file);
    weights = read;
  }
  require(glow_checksum(weights, bundle->weight_bytes) == bundle->weight_checksum, "other weights");
  FILE *inputs = opened(arguments[2], "rb"), *outputs = opened(arguments[3], "wb");
  for (int i = 0; i < bundle->function_count; ++i) {
    run(&bundle->functions[i], weights, inputs, outputs, atoi(arguments[4]));
  }
  fclose(inputs);
  require(!fclose(outputs), "outputs cannot be written");
  release(read);
  return 0;
}
