// Runs a bundle of glow-compile from C++: finds its tensors by name, keeps its memory in vectors.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "net.h"

class Memory {  // bytes at a multiple of the bundle's alignment
 public:
  explicit Memory(std::size_t bytes) : bytes_(bytes + NET_ALIGNMENT) {}
  char *data() {
    auto place = reinterpret_cast<std::uintptr_t>(bytes_.data());
    return bytes_.data() + (NET_ALIGNMENT - place % NET_ALIGNMENT) % NET_ALIGNMENT;
  }

 private:
  std::vector<char> bytes_;
};

class Net {
 public:
  explicit Net(const std::string &weights) : weights_(NET_WEIGHT_BYTES), arena_(NET_ARENA_BYTES) {
    std::ifstream file(weights, std::ios::binary);
    if (!file.read(weights_.data(), NET_WEIGHT_BYTES) || !net_weights_right(weights_.data()))
      throw std::runtime_error(weights + ": not the weights of this program");
    for (int i = 0; i < NET_TENSORS; ++i) {
      tensors_.emplace_back(net_tensors[i].bytes);
      table_[i] = tensors_[i].data();
      if (net_tensors[i].initial >= 0)
        std::memcpy(table_[i], weights_.data() + net_tensors[i].initial, net_tensors[i].bytes);
    }
  }

  float *tensor(const std::string &name) {
    for (int i = 0; i < NET_TENSORS; ++i)
      if (name == net_tensors[i].name) return static_cast<float *>(table_[i]);
    throw std::runtime_error("no tensor " + name);
  }

  void run() { net(table_, weights_.data(), arena_.data()); }

 private:
  Memory weights_, arena_;
  std::vector<Memory> tensors_;
  void *table_[NET_TENSORS];
};

int main() try {
  Net network(WEIGHTS);
  for (const glow_tensor &t : net_tensors) {
    if (std::string(t.kind) != "input") continue;
    for (std::size_t i = 0; i < t.bytes / sizeof(float); ++i) network.tensor(t.name)[i] = 1;
  }
  network.run();
  for (const glow_tensor &t : net_tensors) {
    if (std::string(t.kind) != "output") continue;
    std::printf("%s:", t.name);
    for (std::size_t i = 0; i < t.bytes / sizeof(float) && i < 10; ++i) std::printf(" %g", network.tensor(t.name)[i]);
    std::printf("\n");
  }
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
