// Whole files: ReadFile, WriteFile; the names of files: MatchingFiles. The files are those that the session
// may use (session_files.h).
#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/io/matching_paths.h"
#include "kernels/cpu/session_files.h"
#include "kernels/cpu/string_room.h"
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

// What is longer is no one value of a step, but a dataset's: it would be in memory some times over.
constexpr uint64_t kLongestFile = uint64_t{1} << 30;

class ReadFile final : public FilesKernel {
 public:
  using FilesKernel::FilesKernel;

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const std::string path, ScalarString(context.input(0), "Input filename"));
    WEIR_ASSIGN_OR_RETURN(const uint64_t num_bytes, files().FileSize(path));
    if (num_bytes > kLongestFile) {
      return absl::ResourceExhaustedError(absl::StrCat(
          path, " has ", num_bytes, " bytes; a string of at most ", kLongestFile, " is read of a file"));
    }
    WEIR_RETURN_IF_ERROR(CheckRoom(context, static_cast<int64_t>(num_bytes), 1));
    WEIR_ASSIGN_OR_RETURN(std::string content, ReadWholeFile(files(), path, kLongestFile));
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
    int64_t num_bytes_left = kMostBytesOfPaths;  // of all patterns: one may be there many times
    for (const std::string& pattern : patterns.flat<std::string>()) {
      WEIR_ASSIGN_OR_RETURN(std::vector<std::string> paths,
                            MatchingPaths(files(), pattern, PathKinds::kFilesAndDirectories, &num_bytes_left,
                                          context.cancellation()));
      std::move(paths.begin(), paths.end(), std::back_inserter(all));
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
