// Damages byte strings in the ways that files and messages get damaged, and in the ways attackers choose.
//
// Deterministic: the same seed gives the same mutations, so that a failure can be repeated by its round.
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace weir {

class Mutator {
 public:
  // `samples` are good inputs; all mutations start from them. Precondition: at least one.
  Mutator(std::vector<std::string> samples, uint64_t seed) : samples_(std::move(samples)), random_(seed) {}

  // One of the samples with one to four changes.
  std::string Next() { return NextOf(samples_[Below(samples_.size())]); }

  // The same starting from `bytes`.
  std::string NextOf(std::string bytes) {
    for (uint64_t i = 0, count = 1 + Below(4); i < count; ++i) Change(&bytes);
    return bytes;
  }

  uint64_t Below(uint64_t limit) { return limit == 0 ? 0 : random_() % limit; }

 private:
  void Change(std::string* bytes) {
    const size_t at = Below(bytes->size() + 1);
    const size_t length = 1 + Below(1 + Below(64));
    switch (Below(8)) {
      case 0:  // a flipped bit
        if (at < bytes->size()) (*bytes)[at] ^= static_cast<char>(1 << Below(8));
        break;
      case 1:  // an extreme byte: lengths, counts, signs and varints react to these
        if (at < bytes->size()) (*bytes)[at] = "\x00\x01\x7f\x80\xff\xfe\x20\x10"[Below(8)];
        break;
      case 2:
        bytes->erase(at, length);
        break;
      case 3:
        bytes->insert(at, length, static_cast<char>(Below(256)));
        break;
      case 4:
        bytes->resize(at);
        break;
      case 5:  // a piece of itself once more
        bytes->insert(at, bytes->substr(Below(bytes->size() + 1), length));
        break;
      case 6: {  // a piece of another sample
        const std::string& other = samples_[Below(samples_.size())];
        bytes->replace(at, length, other.substr(Below(other.size() + 1), length));
        break;
      }
      case 7: {  // a huge number where one may stand
        const std::string huge =
            Below(2) == 0 ? std::string(4, '\xff') : std::string("\xff\xff\xff\xff\xff\xff\xff\xff\x7f");
        bytes->replace(at, huge.size(), huge);
        break;
      }
    }
  }

  const std::vector<std::string> samples_;
  std::mt19937_64 random_;
};

}  // namespace weir
