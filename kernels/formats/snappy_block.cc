#include "kernels/formats/snappy_block.h"

#include "absl/strings/str_cat.h"
#include "snappy.h"

namespace weir {

std::string SnappyCompressed(absl::string_view bytes) {
  std::string block;
  snappy::Compress(bytes.data(), bytes.size(), &block);
  return block;
}

absl::Status SnappyUncompress(absl::string_view block, absl::Span<char> to) {
  size_t size = 0;
  if (!snappy::GetUncompressedLength(block.data(), block.size(), &size) || size != to.size() ||
      !snappy::RawUncompress(block.data(), block.size(), to.data())) {
    return absl::DataLossError(
        absl::StrCat("a Snappy block of ", block.size(), " bytes is damaged, or not one of ", to.size()));
  }
  return absl::OkStatus();
}

}  // namespace weir
