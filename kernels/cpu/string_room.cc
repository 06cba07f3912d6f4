#include "kernels/cpu/string_room.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "graph/types/shape.h"

namespace weir {
namespace {

// Less than this is in no danger, and asking would cost more than the copies.
constexpr int64_t kNotWorthAsking = int64_t{1} << 20;

}  // namespace

int64_t BytesOutside(const Tensor& tensor, int64_t begin, int64_t end) {
  if (tensor.dtype() != DType::kString) return 0;
  static const size_t kInside = std::string().capacity();
  int64_t num_bytes = 0;
  for (const std::string& value : tensor.flat<std::string>().subspan(begin, end - begin)) {
    if (value.size() > kInside) num_bytes += static_cast<int64_t>(value.size()) + 1;
  }
  return num_bytes;
}

absl::Status CheckRoom(KernelContext& context, int64_t num_bytes, int64_t num_copies) {
  int64_t product = 0;
  const bool fits = MultiplyWithoutOverflow(num_bytes, num_copies, &product);
  if (fits && product <= kNotWorthAsking) return absl::OkStatus();
  if (fits && context.allocator().Allocate(static_cast<size_t>(product))) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("out of memory repeating strings of ", num_bytes, " bytes ", num_copies, " times"));
}

absl::Status CheckRoomForStrings(KernelContext& context, const Tensor& repeated, int64_t num_elements) {
  if (repeated.dtype() != DType::kString || repeated.num_elements() == 0) return absl::OkStatus();
  return CheckRoom(context, BytesOutside(repeated, 0, repeated.num_elements()),
                   num_elements / repeated.num_elements());
}

}  // namespace weir
