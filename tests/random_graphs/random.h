// Random numbers that are the same on every platform and in every run: SplitMix64 (Steele, Lea, Flood: "Fast
// Splittable Pseudorandom Number Generators", OOPSLA 2014).
//
// A seed is enough to make a graph again, so nothing else in this room may decide by chance. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

namespace weir::random_graphs {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  // In [0, count). Precondition: count > 0.
  int64_t Below(int64_t count) { return static_cast<int64_t>(Next() % static_cast<uint64_t>(count)); }
  // In [low, high].
  int64_t Between(int64_t low, int64_t high) { return low + Below(high - low + 1); }
  bool Chance(int percent) { return Below(100) < percent; }
  // In [low, high).
  double Real(double low, double high) {
    return low + (high - low) * (static_cast<double>(Next() >> 11) / 9007199254740992.0);
  }
  // Precondition: not empty.
  template <typename T>
  const T& Pick(const std::vector<T>& choices) {
    return choices[Below(static_cast<int64_t>(choices.size()))];
  }
  // Each order is equally likely.
  template <typename T>
  void Shuffle(std::vector<T>* list) {
    for (size_t i = list->size(); i > 1; --i) std::swap((*list)[i - 1], (*list)[Below(i)]);
  }

 private:
  uint64_t state_;
};

}  // namespace weir::random_graphs
