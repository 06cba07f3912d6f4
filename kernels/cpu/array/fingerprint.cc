// Fingerprint: hashes of rows. The numbers are TensorFlow's.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "farmhash.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/dtype_lists.h"
#include "kernels/device_kernels.h"
#include "kernels/thread_pool.h"

namespace weir {
namespace {

constexpr int64_t kHashSize = 8;
constexpr double kNanosecondsOfHash = 10, kNanosecondsOfByte = 0.1, kNanosecondsOfString = 30;

// Processors that Weir runs on are little-endian.
void WriteHash(const char* bytes, size_t size, uint8_t* hash) {
  const uint64_t number = util::Fingerprint64(bytes, size);
  std::memcpy(hash, &number, kHashSize);
}

// `bytes` are as many rows as `hashes` has room for, all of one size.
void HashRows(ThreadPool& threads, const char* bytes, int64_t row_size, absl::Span<uint8_t> hashes) {
  const auto rows = static_cast<int64_t>(hashes.size()) / kHashSize;
  const double cost = kNanosecondsOfHash + kNanosecondsOfByte * static_cast<double>(row_size);
  threads.ParallelFor(rows, cost, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) WriteHash(bytes + i * row_size, row_size, &hashes[i * kHashSize]);
  });
}

void HashStrings(ThreadPool& threads, absl::Span<const std::string> strings, absl::Span<uint8_t> hashes) {
  threads.ParallelFor(static_cast<int64_t>(strings.size()), kNanosecondsOfString,
                      [&](int64_t begin, int64_t end) {
                        for (int64_t i = begin; i < end; ++i)
                          WriteHash(strings[i].data(), strings[i].size(), &hashes[i * kHashSize]);
                      });
}

absl::Status Fingerprint(KernelContext& context) {
  const Tensor& data = context.input(0);
  const Tensor& method = context.input(1);
  if (data.shape().rank() == 0) {
    return absl::InvalidArgumentError("`data` should have at least one dimension: []");
  }
  if (!method.shape().is_scalar()) {
    return absl::InvalidArgumentError(
        absl::StrCat("`method` should be a scalar string: ", method.shape().ToString()));
  }
  if (method.scalar<std::string>() != "farmhash64") {
    return absl::InvalidArgumentError(
        absl::StrCat("Unsupported fingerprint method: ", method.scalar<std::string>()));
  }
  const int64_t rows = data.shape().dim(0);
  WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims({rows, kHashSize}));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
  if (rows == 0) return absl::OkStatus();
  const absl::Span<uint8_t> hashes = output->flat<uint8_t>();
  if (data.dtype() != DType::kString) {
    HashRows(context.threads(), static_cast<const char*>(data.data()),
             static_cast<int64_t>(data.num_bytes()) / rows, hashes);
    return absl::OkStatus();
  }
  const absl::Span<const std::string> strings = data.flat<std::string>();
  if (data.num_elements() == rows) {
    HashStrings(context.threads(), strings, hashes);
    return absl::OkStatus();
  }
  // Of several strings in a row their hashes are hashed.
  WEIR_ASSIGN_OR_RETURN(const Shape all, Shape::FromDims({data.num_elements(), kHashSize}));
  WEIR_ASSIGN_OR_RETURN(Tensor of_strings, context.AllocateTemporary(DType::kUint8, all));
  HashStrings(context.threads(), strings, of_strings.flat<uint8_t>());
  HashRows(context.threads(), static_cast<const char*>(of_strings.data()),
           data.num_elements() / rows * kHashSize, hashes);
  return absl::OkStatus();
}

}  // namespace

void RegisterFingerprintKernels(DeviceKernels& kernels) {
  std::vector<DType> dtypes = StoredNumbers();
  dtypes.insert(dtypes.end(), {DType::kBool, DType::kString});
  kernels.Add<&Fingerprint>("Fingerprint", {{"T", dtypes}});
}

}  // namespace weir
