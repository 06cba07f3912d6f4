// MatchingFilesDataset: the files whose paths match patterns, sorted within a pattern.
//
// An iterator holds the paths of one pattern that it has not given. The files are those that the session may
// use (session_files.h).
#include <deque>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/data/dataset.h"
#include "kernels/cpu/io/matching_paths.h"
#include "kernels/cpu/session_files.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

class MatchingFilesDataset final : public Dataset {
 public:
  MatchingFilesDataset(std::vector<std::string> patterns, std::shared_ptr<FileSystem> files)
      : Dataset({{DType::kString}, {PartialShape::OfRank(0)}}),
        patterns_(std::move(patterns)),
        files_(std::move(files)) {}

  absl::StatusOr<IteratorPtr> MakeIterator(IteratorContext&) const override {
    return IteratorPtr(new MatchingFilesIterator(RefPtr<const MatchingFilesDataset>::Share(this)));
  }

 private:
  class MatchingFilesIterator final : public Iterator {
   public:
    explicit MatchingFilesIterator(RefPtr<const MatchingFilesDataset> dataset)
        : dataset_(std::move(dataset)) {}

    absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override {
      while (paths_.empty() && next_pattern_ < dataset_->patterns_.size()) {
        int64_t num_bytes_left = kMostBytesOfPaths;
        WEIR_ASSIGN_OR_RETURN(std::vector<std::string> paths,
                              MatchingPaths(*dataset_->files_, dataset_->patterns_[next_pattern_],
                                            PathKinds::kFiles, &num_bytes_left, context.cancellation));
        ++next_pattern_;
        paths_.assign(std::move_iterator(paths.begin()), std::move_iterator(paths.end()));
      }
      if (paths_.empty()) {
        if (has_match_) return false;
        return absl::NotFoundError("Don't find any matched files");
      }
      has_match_ = true;
      *element = {Tensor::Scalar(std::move(paths_.front()))};
      paths_.pop_front();
      return true;
    }
    absl::Status Save(IteratorContext&, PositionWriter& position) override {
      position.Add(static_cast<int64_t>(next_pattern_));
      position.Add(int64_t{has_match_});
      Tensor paths(DType::kString, Shape({static_cast<int64_t>(paths_.size())}));
      std::copy(paths_.begin(), paths_.end(), paths.flat<std::string>().begin());
      position.Add(std::move(paths));
      return absl::OkStatus();
    }
    absl::Status Restore(IteratorContext&, PositionReader& position) override {
      WEIR_ASSIGN_OR_RETURN(next_pattern_,
                            position.NextNumber(0, static_cast<int64_t>(dataset_->patterns_.size())));
      WEIR_ASSIGN_OR_RETURN(has_match_, position.NextNumber(0, 1));
      WEIR_ASSIGN_OR_RETURN(const Tensor paths, position.Next());
      if (paths.dtype() != DType::kString) {
        return absl::InvalidArgumentError("the saved position is not one of this iterator's dataset");
      }
      paths_.assign(paths.flat<std::string>().begin(), paths.flat<std::string>().end());
      return absl::OkStatus();
    }

   private:
    const RefPtr<const MatchingFilesDataset> dataset_;
    size_t next_pattern_ = 0;
    bool has_match_ = false;
    std::deque<std::string> paths_;  // of the pattern before the next one
  };

  const std::vector<std::string> patterns_;
  const std::shared_ptr<FileSystem> files_;
};

class MatchingFiles final : public Kernel {
 public:
  explicit MatchingFiles(const KernelConstruction& construction) : files_(FilesOf(construction)) {}

  absl::Status Compute(KernelContext& context) override {
    const absl::Span<const std::string> patterns = context.input(0).flat<std::string>();
    return SetDataset<MatchingFilesDataset>(
        context, std::vector<std::string>(patterns.begin(), patterns.end()), files_);
  }

 private:
  const std::shared_ptr<FileSystem> files_;
};

}  // namespace

void RegisterMatchingFilesKernels(DeviceKernels& kernels) {
  for (const char* op : {"MatchingFilesDataset", "ExperimentalMatchingFilesDataset"}) {
    kernels.Add<MatchingFiles>(op);
  }
}

}  // namespace weir
