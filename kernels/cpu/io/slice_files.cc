// Save, SaveSlices, Restore and RestoreSlice: checkpoints of TensorFlow's first format.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/io/slice_checkpoint.h"
#include "kernels/cpu/session_files.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

absl::StatusOr<std::string> OneString(const KernelContext& context, int input, absl::string_view name) {
  const Tensor& tensor = context.input(input);
  if (tensor.num_elements() == 1) return tensor.flat<std::string>()[0];
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must be one string, is a tensor ", tensor.shape().ToString()));
}

// With shapes_and_slices as input 2, or without it.
template <bool has_slices>
class SaveSlices final : public Kernel {
 public:
  explicit SaveSlices(const KernelConstruction& construction) : files_(FilesOf(construction)) {}
  bool may_block() const override { return true; }

  absl::Status Compute(KernelContext& context) override {
    constexpr int kFirst = has_slices ? 3 : 2;
    const int count = context.num_inputs() - kFirst;
    WEIR_ASSIGN_OR_RETURN(const std::string path, OneString(context, 0, "filename"));
    for (int i = 1; i < kFirst; ++i) {
      if (context.input(i).shape() == Shape({count})) continue;
      return absl::InvalidArgumentError(absl::StrCat(i == 1 ? "tensor_names" : "shapes_and_slices",
                                                     " must be [", count, "], one for each tensor, is ",
                                                     context.input(i).shape().ToString()));
    }
    std::vector<SavedSlice> slices;
    for (int i = 0; i < count; ++i) {
      const Tensor& tensor = context.input(kFirst + i);
      SavedSlice slice{context.input(1).flat<std::string>()[i], tensor.shape(),
                       TensorSlice::WholeOf(tensor.shape()), tensor};
      const std::string part = has_slices ? context.input(2).flat<std::string>()[i] : "";
      if (!part.empty()) {
        WEIR_ASSIGN_OR_RETURN(const ShapeAndSlice parsed, ParseShapeAndSlice(part));
        slice.full_shape = parsed.full_shape;
        slice.slice = parsed.slice;
      }
      slices.push_back(std::move(slice));
    }
    return WriteSliceFile(*files_, path, slices);
  }

 private:
  const std::shared_ptr<FileSystem> files_;
};

template <bool has_slice>
class RestoreSlice final : public Kernel {
 public:
  explicit RestoreSlice(const KernelConstruction& construction) : files_(FilesOf(construction)) {}
  bool may_block() const override { return true; }

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const std::string pattern, OneString(context, 0, "file_pattern"));
    WEIR_ASSIGN_OR_RETURN(const std::string name, OneString(context, 1, "tensor_name"));
    std::string part;
    if (has_slice) {
      WEIR_ASSIGN_OR_RETURN(part, OneString(context, 2, "shape_and_slice"));
    }
    WEIR_ASSIGN_OR_RETURN(const auto reader, OpenSliceCheckpoint(context, *files_, pattern));
    WEIR_ASSIGN_OR_RETURN(Tensor tensor,
                          ReadFromSlices(*reader, name, part, context.output_type(0), context.allocator()));
    context.set_output(0, std::move(tensor));
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<FileSystem> files_;
};

}  // namespace

void RegisterSliceFilesKernels(DeviceKernels& kernels) {
  kernels.Add<SaveSlices</*has_slices=*/false>>("Save");
  kernels.Add<SaveSlices</*has_slices=*/true>>("SaveSlices");
  kernels.Add<RestoreSlice</*has_slice=*/false>>("Restore");
  kernels.Add<RestoreSlice</*has_slice=*/true>>("RestoreSlice");
}

}  // namespace weir
