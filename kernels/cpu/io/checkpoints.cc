// SaveV2, RestoreV2 and MergeV2Checkpoints: checkpoints in TensorFlow's format.
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data/saved_position.h"
#include "kernels/cpu/io/matching_paths.h"
#include "kernels/cpu/io/slice_checkpoint.h"
#include "kernels/cpu/session_files.h"
#include "kernels/device_kernels.h"
#include "kernels/formats/bundle_reader.h"
#include "kernels/formats/bundle_writer.h"
#include "kernels/formats/file_system.h"
#include "kernels/kernel_registry.h"

namespace weir {
namespace {

// What inputs 0 to 2 of both ops say: a checkpoint and, for each tensor, its name and the part of it.
struct CheckpointRequest {
  std::string prefix;
  absl::Span<const std::string> names;
  absl::Span<const std::string> parts;  // "" for the whole tensor, else "FULL SHAPE SLICE"
};

absl::StatusOr<CheckpointRequest> ReadRequest(KernelContext& context, int num_tensors) {
  const Tensor& prefix = context.input(0);
  if (prefix.num_elements() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("prefix must be one string, is ", prefix.ToString()));
  }
  for (int i : {1, 2}) {
    if (context.input(i).shape() == Shape({num_tensors})) continue;
    return absl::InvalidArgumentError(absl::StrCat(i == 1 ? "tensor_names" : "shape_and_slices", " must be [",
                                                   num_tensors, "], one for each tensor, is ",
                                                   context.input(i).shape().ToString()));
  }
  return CheckpointRequest{prefix.scalar<std::string>(), context.input(1).flat<std::string>(),
                           context.input(2).flat<std::string>()};
}

// Errors of the formats name file and tensor already where they can; this adds the tensor to those of its
// part.
absl::Status InTensor(const std::string& name, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("tensor '", name, "': ", status.message()));
}

absl::StatusOr<ShapeAndSlice> ParsePart(const std::string& name, const std::string& text) {
  absl::StatusOr<ShapeAndSlice> part = ParseShapeAndSlice(text);
  if (!part.ok()) return InTensor(name, part.status());
  absl::StatusOr<TensorSlice> slice = part->slice.WithinShape(part->full_shape);
  if (!slice.ok()) return InTensor(name, slice.status());
  part->slice = *std::move(slice);
  return part;
}

class SaveV2 final : public Kernel {
 public:
  explicit SaveV2(const KernelConstruction& construction) : files_(FilesOf(construction)) {}

  absl::Status Compute(KernelContext& context) override {
    constexpr int kFirstTensor = 3;
    const int num_tensors = context.num_inputs() - kFirstTensor;
    WEIR_ASSIGN_OR_RETURN(const CheckpointRequest request, ReadRequest(context, num_tensors));
    WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<BundleWriter> writer,
                          BundleWriter::Create(request.prefix, {.file_system = files_.get()}));
    for (int i = 0; i < num_tensors; ++i) {
      WEIR_RETURN_IF_ERROR(Add(*writer, request.names[i], request.parts[i], context.input(kFirstTensor + i)));
    }
    return writer->Finish();
  }

 private:
  static absl::Status Add(BundleWriter& writer, const std::string& name, const std::string& part,
                          const Tensor& tensor) {
    if (tensor.dtype() == DType::kVariant) {
      absl::StatusOr<Tensor> strings = StringsOfPositions(tensor);
      return strings.ok() ? Add(writer, name, part, *strings) : InTensor(name, strings.status());
    }
    if (part.empty()) return writer.Add(name, tensor);
    WEIR_ASSIGN_OR_RETURN(const ShapeAndSlice parsed, ParsePart(name, part));
    return writer.AddSlice(name, parsed.full_shape, parsed.slice, tensor);
  }

  const std::shared_ptr<FileSystem> files_;
};

class RestoreV2 final : public Kernel {
 public:
  explicit RestoreV2(const KernelConstruction& construction) : files_(FilesOf(construction)) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const CheckpointRequest request, ReadRequest(context, context.num_outputs()));
    WEIR_ASSIGN_OR_RETURN(const bool is_old, IsOfFirstFormat(context, request.prefix));
    if (is_old) return RestoreFirstFormat(context, request);
    WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<BundleReader> reader,
                          BundleReader::Open(request.prefix, *files_));
    std::vector<BundleReader::Wanted> wanted(context.num_outputs());
    for (int i = 0; i < context.num_outputs(); ++i) {
      WEIR_RETURN_IF_ERROR(CheckDType(*reader, request.names[i], context.output_type(i)));
      wanted[i].name = request.names[i];
      if (request.parts[i].empty()) continue;
      WEIR_ASSIGN_OR_RETURN(wanted[i].slice, CheckPart(*reader, request.names[i], request.parts[i]));
    }
    constexpr double kNanosecondsOfPiece = 1e6;
    WEIR_RETURN_IF_ERROR(reader->ReadAll(
        absl::MakeSpan(wanted),
        [&](int64_t count, absl::FunctionRef<void(int64_t, int64_t)> body) {
          context.threads().ParallelFor(count, kNanosecondsOfPiece, body);
        },
        context.allocator()));
    for (int i = 0; i < context.num_outputs(); ++i) {
      absl::StatusOr<Tensor> tensor = std::move(wanted[i].tensor);
      if (context.output_type(i) == DType::kVariant) tensor = PositionsOfStrings(*tensor);
      if (!tensor.ok()) return InTensor(request.names[i], tensor.status());
      context.set_output(i, *std::move(tensor));
    }
    return absl::OkStatus();
  }

 private:
  // As TensorFlow's, the op reads checkpoints of the first format where there is none of the second.
  absl::StatusOr<bool> IsOfFirstFormat(KernelContext& context, const std::string& prefix) const {
    if (!absl::IsNotFound(files_->FileSize(BundleIndexPath(prefix)).status())) return false;
    if (prefix.find_first_of("*?[") == std::string::npos) return files_->FileSize(prefix).ok();
    int64_t bytes_left = kMostBytesOfPaths;
    const auto paths = MatchingPaths(*files_, prefix, PathKinds::kFiles, &bytes_left, context.cancellation());
    return paths.ok() && !paths->empty();
  }

  absl::Status RestoreFirstFormat(KernelContext& context, const CheckpointRequest& request) const {
    WEIR_ASSIGN_OR_RETURN(const auto reader, OpenSliceCheckpoint(context, *files_, request.prefix));
    for (int i = 0; i < context.num_outputs(); ++i) {
      WEIR_ASSIGN_OR_RETURN(Tensor tensor, ReadFromSlices(*reader, request.names[i], request.parts[i],
                                                          context.output_type(i), context.allocator()));
      context.set_output(i, std::move(tensor));
    }
    return absl::OkStatus();
  }

  // Before the bytes are read: they may be many. A name that is missing is left to the read, which lists
  // similar ones.
  static absl::Status CheckDType(const BundleReader& reader, const std::string& name, DType asked) {
    const BundleEntry* entry = reader.Find(name);
    if (entry == nullptr || entry->dtype == DType::kInvalid) return absl::OkStatus();
    // Positions of iterators are variants of a process, and strings in a checkpoint.
    if (entry->dtype == (asked == DType::kVariant ? DType::kString : asked)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' of checkpoint ", reader.prefix(),
                                                   " is ", TypeString(entry->dtype, entry->shape),
                                                   ", asked for as ", DTypeName(asked)));
  }

  static absl::StatusOr<TensorSlice> CheckPart(const BundleReader& reader, const std::string& name,
                                               const std::string& part) {
    WEIR_ASSIGN_OR_RETURN(ShapeAndSlice parsed, ParsePart(name, part));
    const BundleEntry* entry = reader.Find(name);
    if (entry != nullptr && entry->shape != parsed.full_shape) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' of checkpoint ", reader.prefix(),
                                                     " is ", TypeString(entry->dtype, entry->shape),
                                                     ", a slice of ", parsed.full_shape.ToString(),
                                                     " is asked for"));
    }
    return std::move(parsed.slice);
  }

  const std::shared_ptr<FileSystem> files_;
};

absl::StatusOr<std::string> OnlyString(const Tensor& tensor, absl::string_view what) {
  if (tensor.num_elements() == 1) return tensor.scalar<std::string>();
  return absl::InvalidArgumentError(absl::StrCat(what, " must be one string, is ", tensor.ToString()));
}

absl::Status ShardedFilename(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const std::string basename, OnlyString(context.input(0), "basename"));
  for (int i : {1, 2}) {
    if (context.input(i).shape().is_scalar()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(i == 1 ? "shard" : "num_shards", " must be a scalar, is ", context.input(i).ToString()));
  }
  context.set_output(
      0, Tensor::Scalar(absl::StrFormat("%s-%05d-of-%05d", basename, context.input(1).scalar<int32_t>(),
                                        context.input(2).scalar<int32_t>())));
  return absl::OkStatus();
}

absl::Status ShardedFilespec(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const std::string basename, OnlyString(context.input(0), "basename"));
  if (!context.input(1).shape().is_scalar()) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_shards must be a scalar, got shape ", context.input(1).shape().ToString()));
  }
  context.set_output(0, Tensor::Scalar(absl::StrFormat("%s-%s-of-%05d", basename, std::string(5, '?'),
                                                       context.input(1).scalar<int32_t>())));
  return absl::OkStatus();
}

class MergeV2Checkpoints final : public Kernel {
 public:
  explicit MergeV2Checkpoints(const KernelConstruction& construction)
      : files_(FilesOf(construction)),
        deletes_old_folders_(construction.attr<bool>("delete_old_dirs")),
        allows_missing_(construction.attr<bool>("allow_missing_files")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const std::string destination, OnlyString(context.input(1), "destination_prefix"));
    const absl::Span<const std::string> sources = context.input(0).flat<std::string>();
    std::vector<std::string> prefixes;
    for (const std::string& prefix : sources) {
      if (!allows_missing_) {
        prefixes.push_back(prefix);
        continue;
      }
      // What may not be looked at is not missing.
      const absl::Status found = files_->FileSize(BundleIndexPath(prefix)).status();
      if (absl::IsPermissionDenied(found)) return found;
      if (found.ok()) prefixes.push_back(prefix);
    }
    const std::set<std::string> old_folders = OldFolders(sources, destination);
    for (const std::string& folder : old_folders) {
      const absl::Status found = files_->FileSize(folder).status();
      if (absl::IsPermissionDenied(found)) return found;
    }
    WEIR_RETURN_IF_ERROR(MergeBundles(prefixes, destination, *files_));
    // The checkpoint is complete: a folder that is not empty, or cannot be removed, stays.
    for (const std::string& folder : old_folders) files_->RemoveEmptyDirectory(folder).IgnoreError();
    return absl::OkStatus();
  }

 private:
  // The folders of the parts, where they are to be removed.
  std::set<std::string> OldFolders(absl::Span<const std::string> sources,
                                   const std::string& destination) const {
    std::set<std::string> folders;
    if (!deletes_old_folders_) return folders;
    for (const std::string& prefix : sources) folders.insert(DirectoryOf(prefix));
    folders.erase(DirectoryOf(destination));
    return folders;
  }

  const std::shared_ptr<FileSystem> files_;
  const bool deletes_old_folders_;
  const bool allows_missing_;
};

}  // namespace

void RegisterCheckpointsKernels(DeviceKernels& kernels) {
  kernels.Add<SaveV2>("SaveV2");
  kernels.Add<RestoreV2>("RestoreV2");
  kernels.Add<&ShardedFilename>("ShardedFilename");
  kernels.Add<&ShardedFilespec>("ShardedFilespec");
  kernels.Add<MergeV2Checkpoints>("MergeV2Checkpoints");
}

}  // namespace weir
