// Whole files: ReadFile, WriteFile; the names of files: MatchingFiles. The files are those that the session
// may use (session_files.h).
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/io/matching_paths.h"
#include "kernels/cpu/session_files.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

absl::StatusOr<std::string> ScalarString(const Tensor& tensor, absl::string_view what) {
  if (tensor.shape().is_scalar()) return tensor.scalar<std::string>();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " tensor must be scalar, but had shape: ", tensor.shape().ToString()));
}

class FilesKernel : public Kernel {
 public:
  explicit FilesKernel(const KernelConstruction& construction) : files_(FilesOf(construction)) {}
  bool may_block() const override { return true; }

 protected:
  FileSystem& files() const { return *files_; }

 private:
  const std::shared_ptr<FileSystem> files_;
};

class ReadFile final : public FilesKernel {
 public:
  using FilesKernel::FilesKernel;

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const std::string path, ScalarString(context.input(0), "Input filename"));
    WEIR_ASSIGN_OR_RETURN(std::string content, ReadWholeFile(files(), path));
    context.set_output(0, Tensor::Scalar(std::move(content)));
    return absl::OkStatus();
  }
};

class WriteFile final : public FilesKernel {
 public:
  using FilesKernel::FilesKernel;

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const std::string path, ScalarString(context.input(0), "Input filename"));
    WEIR_ASSIGN_OR_RETURN(const std::string content, ScalarString(context.input(1), "Contents"));
    WEIR_RETURN_IF_ERROR(files().CreateDirectories(DirectoryOf(path)));
    WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files().Create(path));
    WEIR_RETURN_IF_ERROR(file->Append(content));
    return file->Close();
  }
};

class MatchingFiles final : public FilesKernel {
 public:
  using FilesKernel::FilesKernel;

  absl::Status Compute(KernelContext& context) override {
    const Tensor& patterns = context.input(0);
    if (patterns.shape().rank() > 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Input patterns tensor must be scalar or vector, but had shape: ", patterns.shape().ToString()));
    }
    std::vector<std::string> all;
    for (const std::string& pattern : patterns.flat<std::string>()) {
      WEIR_ASSIGN_OR_RETURN(
          const std::vector<std::string> paths,
          MatchingPaths(files(), pattern, PathKinds::kFilesAndDirectories, context.cancellation()));
      all.insert(all.end(), paths.begin(), paths.end());
    }
    std::sort(all.begin(), all.end());
    WEIR_ASSIGN_OR_RETURN(Tensor * output,
                          context.AllocateOutput(0, Shape({static_cast<int64_t>(all.size())})));
    std::move(all.begin(), all.end(), output->flat<std::string>().begin());
    return absl::OkStatus();
  }
};

}  // namespace

void RegisterFilesKernels(DeviceKernels& kernels) {
  kernels.Add<ReadFile>("ReadFile");
  kernels.Add<WriteFile>("WriteFile");
  kernels.Add<MatchingFiles>("MatchingFiles");
}

}  // namespace weir
