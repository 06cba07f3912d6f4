// TensorFlow's checkpoints of the first format ("V1"): what SaveSlices writes, and models of old programs
// have.
//
// Format: a sorted table (sorted_table.h). The empty key has the names, dtypes, shapes and slices of all
// tensors; the key of a slice (TensorSlice::KeyFor) has its values, as a typed list of a TensorProto. A
// checkpoint is one such file, or several that hold different slices.
//
// Memory: a reader holds the files as a whole, and each op that restores has a reader of its own, so this is
// no format for large models. A tensor that is read comes from the given allocator, as do, for a moment, the
// slices that it is put together from. Thread safety: a SliceFileReader may be read from any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "graph/types/allocator.h"
#include "graph/types/tensor.h"
#include "kernels/formats/file_system.h"
#include "kernels/formats/sorted_table.h"
#include "kernels/formats/tensor_slice.h"

namespace weir {

// A tensor, or a part of one.
struct SavedSlice {
  std::string name;
  Shape full_shape;
  TensorSlice slice;
  Tensor tensor;
};

// The file is there as a whole or not at all. InvalidArgument for two slices of one name that overlap or are
// of different tensors, a tensor that is not of its slice's shape, one of more than 2 GiB, and dtypes that
// the format lacks.
absl::Status WriteSliceFile(FileSystem& files, const std::string& path, absl::Span<const SavedSlice> slices);

class SliceFileReader {
 public:
  struct SavedBox {
    TensorSlice slice;  // as its key has it
    TensorSlice box;    // the same, spelled out
  };
  struct Entry {
    DType dtype = DType::kInvalid;
    Shape shape;
    std::vector<SavedBox> slices;  // no two overlap
    int64_t num_announced = 0;     // by all files
  };

  // All files of a checkpoint. A slice that several have is taken from one of them. Errors of the files;
  // DataLoss, naming the file, for one that is damaged, where two files differ about a tensor, for slices
  // that overlap, and for more than 4096 slices of a tensor.
  static absl::StatusOr<std::unique_ptr<SliceFileReader>> Open(FileSystem& files,
                                                               absl::Span<const std::string> paths);

  // Null when there is no such tensor.
  const Entry* Find(const std::string& name) const;
  // NotFound when there is no such tensor, or slices that hold some of the elements; InvalidArgument for a
  // slice that is outside of the tensor; DataLoss for values that do not fit; ResourceExhausted when the
  // allocator has no more. Nothing is allocated for elements that are not there.
  absl::StatusOr<Tensor> Read(const std::string& name, const TensorSlice& slice, Allocator& allocator) const;

 private:
  // Null when no file has the values of that slice.
  const std::string* FindRecord(const std::string& name, const TensorSlice& slice) const;
  absl::Status Damaged(const std::string& name, const SavedBox& saved) const;
  absl::StatusOr<Tensor> ReadSaved(const std::string& name, const Entry& entry, const SavedBox& saved,
                                   Allocator& allocator) const;

  std::string path_;  // of the first file, for errors
  std::vector<SortedTable> tables_;
  absl::flat_hash_map<std::string, Entry> entries_;
};

}  // namespace weir
