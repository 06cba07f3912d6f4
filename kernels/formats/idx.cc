#include "kernels/formats/idx.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/input_stream.h"

namespace weir {
namespace {

constexpr int kUnsignedByte = 0x08;
constexpr int kMaxRank = 8;

class IdxReader {
 public:
  explicit IdxReader(InputStream& stream) : stream_(stream) {}

  absl::StatusOr<Tensor> Read() {
    unsigned char magic[4];
    WEIR_RETURN_IF_ERROR(ReadHeader(sizeof(magic), magic));
    if (magic[0] != 0 || magic[1] != 0)
      return Malformed("is no idx file: it does not begin with two zero bytes");
    if (magic[2] != kUnsignedByte) {
      return absl::UnimplementedError(absl::StrCat(stream_.path(), ": elements of idx type ", magic[2],
                                                   " are not supported, only unsigned bytes (8)"));
    }
    if (magic[3] == 0 || magic[3] > kMaxRank) {
      return Malformed(absl::StrCat("is no idx file of images or labels: its rank is ", magic[3]));
    }
    WEIR_ASSIGN_OR_RETURN(const Shape shape, ReadShape(magic[3]));
    return ReadElements(shape);
  }

 private:
  absl::Status Malformed(absl::string_view problem) const {
    return absl::DataLossError(absl::StrCat(stream_.path(), " ", problem));
  }

  absl::Status ReadHeader(size_t num_bytes, unsigned char* bytes) {
    WEIR_ASSIGN_OR_RETURN(const size_t found, stream_.Read(num_bytes, reinterpret_cast<char*>(bytes)));
    return found == num_bytes ? absl::OkStatus() : Malformed("is truncated in its header");
  }

  absl::StatusOr<Shape> ReadShape(int rank) {
    Dims dims;
    for (int i = 0; i < rank; ++i) {
      unsigned char bytes[4];
      WEIR_RETURN_IF_ERROR(ReadHeader(sizeof(bytes), bytes));
      dims.push_back((int64_t{bytes[0]} << 24) | (bytes[1] << 16) | (bytes[2] << 8) | bytes[3]);
    }
    absl::StatusOr<Shape> shape = Shape::FromDims(dims);
    if (!shape.ok()) return Malformed(absl::StrCat("has a malformed header: ", shape.status().message()));
    return shape;
  }

  // A damaged header must not allocate what the file cannot hold.
  absl::StatusOr<Tensor> ReadElements(const Shape& shape) {
    const uint64_t num_bytes = shape.num_elements();
    if (num_bytes > stream_.max_bytes()) {
      return Malformed(absl::StrCat("is truncated: its header says ", shape.ToString(), ", ", num_bytes,
                                    " bytes, more than ", stream_.Describe(), " can hold"));
    }
    absl::StatusOr<Tensor> tensor = Tensor::Allocate(DType::kUint8, shape);
    if (!tensor.ok()) {
      return absl::Status(tensor.status().code(), absl::StrCat(stream_.path(), ", ", stream_.Describe(), ": ",
                                                               tensor.status().message()));
    }
    WEIR_ASSIGN_OR_RETURN(const size_t found, stream_.Read(num_bytes, static_cast<char*>(tensor->data())));
    if (found < num_bytes) {
      return Malformed(absl::StrCat("is truncated: its header says ", shape.ToString(), ", ", num_bytes,
                                    " bytes, and ", found, " follow"));
    }
    char extra;
    WEIR_ASSIGN_OR_RETURN(const size_t num_extra, stream_.Read(1, &extra));
    if (num_extra != 0) return Malformed(absl::StrCat("is longer than its header says: ", shape.ToString()));
    return tensor;
  }

  InputStream& stream_;
};

}  // namespace

absl::StatusOr<Tensor> ReadIdx(const std::string& path, FileSystem& file_system) {
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, file_system.OpenForReading(path));
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<InputStream> stream,
                        NewInputStream(std::move(file), Compression::kAuto));
  return IdxReader(*stream).Read();
}

}  // namespace weir
