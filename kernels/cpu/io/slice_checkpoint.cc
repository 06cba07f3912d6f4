#include "kernels/cpu/io/slice_checkpoint.h"

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/io/matching_paths.h"

namespace weir {

absl::StatusOr<std::unique_ptr<SliceFileReader>> OpenSliceCheckpoint(KernelContext& context,
                                                                     FileSystem& files,
                                                                     const std::string& pattern) {
  int64_t bytes_left = kMostBytesOfPaths;
  WEIR_ASSIGN_OR_RETURN(
      const std::vector<std::string> paths,
      MatchingPaths(files, pattern, PathKinds::kFiles, &bytes_left, context.cancellation()));
  if (!paths.empty()) return SliceFileReader::Open(files, paths);
  return absl::NotFoundError(absl::StrCat(
      "Unsuccessful TensorSliceReader constructor: Failed to find any matching files for ", pattern));
}

absl::StatusOr<Tensor> ReadFromSlices(const SliceFileReader& reader, const std::string& name,
                                      const std::string& part, DType dtype, Allocator& allocator) {
  const SliceFileReader::Entry* const entry = reader.Find(name);
  TensorSlice slice;
  if (entry != nullptr) {
    if (entry->dtype != dtype) {
      return absl::InvalidArgumentError(
          absl::StrCat("Expected to restore a tensor of type ", DTypeName(dtype), ", got a tensor of type ",
                       DTypeName(entry->dtype), " instead: tensor_name = ", name));
    }
    slice = TensorSlice::WholeOf(entry->shape);
  }
  if (!part.empty()) {
    WEIR_ASSIGN_OR_RETURN(const ShapeAndSlice parsed, ParseShapeAndSlice(part));
    if (entry != nullptr && parsed.full_shape != entry->shape) {
      return absl::InvalidArgumentError(
          absl::StrCat("Shape in shape_and_slice spec ", parsed.full_shape.ToString(),
                       " does not match the shape stored in checkpoint: ", entry->shape.ToString()));
    }
    slice = parsed.slice;
  }
  return reader.Read(name, slice, allocator);
}

}  // namespace weir
