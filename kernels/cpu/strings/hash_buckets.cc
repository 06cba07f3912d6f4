// Strings as numbers of buckets, by the hashes that TensorFlow uses: models keep rows of embeddings under
// them.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "farmhash.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/strings/sip_hash.h"
#include "kernels/device_kernels.h"
#include "kernels/thread_pool.h"

namespace weir {
namespace {

constexpr double kNanosecondsOfString = 30;

// MurmurHash64A of Austin Appleby (github.com/aappleby/smhasher, public domain), with TensorFlow's seed.
uint64_t Murmur64(absl::string_view text) {
  constexpr uint64_t kSeed = 0xDECAFCAFFE, kFactor = 0xc6a4a7935bd1e995;
  constexpr int kShift = 47;
  uint64_t hash = kSeed ^ (text.size() * kFactor);
  for (size_t i = 0; i + 8 <= text.size(); i += 8) {
    uint64_t word = WordAt(text, i) * kFactor;
    word ^= word >> kShift;
    hash = (hash ^ word * kFactor) * kFactor;
  }
  if (text.size() % 8 != 0) hash = (hash ^ TailOf(text)) * kFactor;
  hash = (hash ^ hash >> kShift) * kFactor;
  return hash ^ hash >> kShift;
}

class HashBuckets : public Kernel {
 public:
  explicit HashBuckets(const KernelConstruction& construction)
      : num_buckets_(static_cast<uint64_t>(construction.attr<int64_t>("num_buckets"))) {}

  absl::Status Compute(KernelContext& context) final {
    const Tensor& input = context.input(0);
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, input.shape()));
    const auto strings = input.flat<std::string>();
    const auto buckets = output->flat<int64_t>();
    context.threads().ParallelFor(input.num_elements(), kNanosecondsOfString,
                                  [&](int64_t begin, int64_t end) {
                                    for (int64_t i = begin; i < end; ++i)
                                      buckets[i] = static_cast<int64_t>(Hash(strings[i]) % num_buckets_);
                                  });
    return absl::OkStatus();
  }

 private:
  virtual uint64_t Hash(absl::string_view text) const = 0;

  const uint64_t num_buckets_;
};

class FastBuckets final : public HashBuckets {
 public:
  using HashBuckets::HashBuckets;

 private:
  uint64_t Hash(absl::string_view text) const override {
    return util::Fingerprint64(text.data(), text.size());
  }
};

class OldBuckets final : public HashBuckets {
 public:
  using HashBuckets::HashBuckets;

 private:
  uint64_t Hash(absl::string_view text) const override { return Murmur64(text); }
};

class StrongBuckets final : public HashBuckets {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    const auto& key = construction.attr<std::vector<int64_t>>("key");
    if (key.size() != 2) {
      return absl::InvalidArgumentError(absl::StrCat("Key must have 2 elements, has ", key.size()));
    }
    return std::unique_ptr<Kernel>(new StrongBuckets(construction, key[0], key[1]));
  }

 private:
  StrongBuckets(const KernelConstruction& construction, int64_t key0, int64_t key1)
      : HashBuckets(construction), hash_(static_cast<uint64_t>(key0), static_cast<uint64_t>(key1)) {}

  uint64_t Hash(absl::string_view text) const override { return hash_.Of(text); }

  const SipHash hash_;
};

}  // namespace

void RegisterHashBucketsKernels(DeviceKernels& kernels) {
  kernels.Add<FastBuckets>("StringToHashBucketFast");
  kernels.Add<OldBuckets>("StringToHashBucket");
  kernels.Add<StrongBuckets>("StringToHashBucketStrong");
}

}  // namespace weir
