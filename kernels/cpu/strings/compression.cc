// DecodeCompressed. As in TensorFlow, bytes behind a zlib stream do not count, and gzip members follow one
// another; but a stream that breaks off is an error, where TensorFlow gives what comes before.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/strings/string_budget.h"
#include "kernels/device_kernels.h"
#include "kernels/formats/input_stream.h"

namespace weir {
namespace {

// A string as a file. Borrows the string.
class StringFile final : public ReadableFile {
 public:
  StringFile(std::string name, absl::string_view content) : name_(std::move(name)), content_(content) {}

  const std::string& path() const override { return name_; }
  uint64_t num_bytes() const override { return content_.size(); }
  absl::StatusOr<size_t> Read(uint64_t offset, size_t num_bytes, void* destination) const override {
    const absl::string_view rest = content_.substr(std::min<uint64_t>(offset, content_.size()));
    const size_t count = std::min(num_bytes, rest.size());
    std::memcpy(destination, rest.data(), count);
    return count;
  }

 private:
  const std::string name_;
  const absl::string_view content_;
};

// A few bytes may stand for a thousand times as many: each growth of the string asks for room, and a step
// that was cancelled ends soon.
absl::StatusOr<std::string> ReadAll(InputStream& stream, size_t expected_bytes, StringBudget& budget,
                                    const Cancellation& cancellation) {
  constexpr size_t kPiece = 1 << 20;
  std::string bytes;
  size_t num_read = 0, room = std::max<size_t>(expected_bytes, 64);
  for (;;) {
    WEIR_RETURN_IF_ERROR(budget.Take(static_cast<int64_t>(room)));
    bytes.resize(room);
    while (num_read < room) {
      if (cancellation.is_cancelled()) return cancellation.reason();
      const size_t asked = std::min(kPiece, room - num_read);
      WEIR_ASSIGN_OR_RETURN(const size_t found, stream.Read(asked, bytes.data() + num_read));
      num_read += found;
      if (found == asked) continue;
      bytes.resize(num_read);
      bytes.shrink_to_fit();
      return bytes;
    }
    room *= 2;
  }
}

class DecodeCompressed final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    const auto& type = construction.attr<std::string>("compression_type");
    if (type.empty()) return std::make_unique<DecodeCompressed>(Compression::kNone);
    if (type == "ZLIB") return std::make_unique<DecodeCompressed>(Compression::kZlib);
    if (type == "GZIP") return std::make_unique<DecodeCompressed>(Compression::kGzip);
    return absl::InvalidArgumentError(
        absl::StrCat("Only ZLIB, GZIP or NONE are supported compressions, not '", type, "'"));
  }

  explicit DecodeCompressed(Compression compression) : compression_(compression) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    if (compression_ == Compression::kNone) {
      context.set_output(0, input);
      return absl::OkStatus();
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, input.shape()));
    StringBudget budget(context);
    for (int64_t i = 0; i < input.num_elements(); ++i) {
      const std::string& bytes = input.flat<std::string>()[i];
      auto file = std::make_unique<StringFile>(absl::StrCat("element ", i), bytes);
      WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<InputStream> stream,
                            NewInputStream(std::move(file), compression_, BytesBehind::kIgnored));
      WEIR_ASSIGN_OR_RETURN(output->flat<std::string>()[i],
                            ReadAll(*stream, 4 * bytes.size(), budget, context.cancellation()));
    }
    return absl::OkStatus();
  }

 private:
  const Compression compression_;
};

}  // namespace

void RegisterCompressionKernels(DeviceKernels& kernels) { kernels.Add<DecodeCompressed>("DecodeCompressed"); }

}  // namespace weir
