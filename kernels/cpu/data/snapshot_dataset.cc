// SnapshotDatasetV2: the elements of a first pass that comes to its end, kept in a folder for later ones,
// also of other programs (snapshot_runs.h).
//
// The folder is PATH/HASH, HASH being a number for what the input computes (graph_fingerprint.h), whatever is
// in the variables and tables that it reads: another pipeline under the same path has a snapshot of its own.
// As in TensorFlow a pass reads the run that the metadata there name if that is finished. If it is being
// written, or was left less than a day ago, the pass does without; otherwise it writes one. HASH is not
// TensorFlow's, and "AUTO" does not compress: the two do not read each other's snapshots.
//
// A pass in which an element was an error writes no snapshot.
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/data/over_input.h"
#include "kernels/cpu/data/pipeline.h"
#include "kernels/cpu/data/snapshot_runs.h"
#include "kernels/cpu/session_files.h"
#include "kernels/device_kernels.h"
#include "kernels/formats/snapshot_metadata.h"

namespace weir {
namespace {

constexpr absl::Duration kMayBeWritten = absl::Hours(24);  // a run that is not finished

class SnapshotDataset;

class SnapshotIterator final : public IteratorOverInput {
 public:
  SnapshotIterator(RefPtr<const SnapshotDataset> dataset, IteratorPtr input)
      : IteratorOverInput(std::move(input)), dataset_(std::move(dataset)) {}

  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override;
  absl::Status Save(IteratorContext& context, PositionWriter& position) override;
  absl::Status Restore(IteratorContext& context, PositionReader& position) override;

 private:
  // What it does with the folder is known when it is asked for its first element.
  enum class Mode : int64_t { kNotKnown, kWrites, kReads, kPassesOn };

  absl::Status Open(IteratorContext& context);
  absl::Status BeginRun(IteratorContext& context);
  absl::Status OpenRun(const SnapshotMetadata& metadata, IteratorContext& context);
  absl::StatusOr<bool> Write(IteratorContext& context, Element* element);

  const RefPtr<const SnapshotDataset> dataset_;
  Mode mode_ = Mode::kNotKnown;
  IteratorPtr run_;  // that is read
  // Of the run that is written.
  std::unique_ptr<SnapshotRunWriter> writer_;
  PreparedFunction shard_func_;
  SnapshotMetadata metadata_;
};

class SnapshotDataset final : public DatasetOverInput<SnapshotDataset, SnapshotIterator> {
 public:
  SnapshotDataset(Signature signature, DatasetPtr input, std::string folder, Compression compression,
                  CapturedFunction reader_func, CapturedFunction shard_func,
                  std::shared_ptr<FileSystem> files)
      : DatasetOverInput(std::move(signature), std::move(input)),
        folder_(std::move(folder)),
        compression_(compression),
        reader_func_(std::move(reader_func)),
        shard_func_(std::move(shard_func)),
        files_(std::move(files)) {}

  const std::string& folder() const { return folder_; }
  Compression compression() const { return compression_; }
  const CapturedFunction& reader_func() const { return reader_func_; }
  const CapturedFunction& shard_func() const { return shard_func_; }
  const std::shared_ptr<FileSystem>& files() const { return files_; }

 private:
  const std::string folder_;
  const Compression compression_;
  const CapturedFunction reader_func_, shard_func_;
  const std::shared_ptr<FileSystem> files_;
};

absl::Status SnapshotIterator::Open(IteratorContext& context) {
  if (mode_ != Mode::kNotKnown) return absl::OkStatus();
  const absl::StatusOr<SnapshotMetadata> found = ReadSnapshotMetadata(*dataset_->files(), dataset_->folder());
  if (absl::IsNotFound(found.status())) return BeginRun(context);
  if (!found.ok()) return found.status();
  if (found->is_finalized) return OpenRun(*found, context);
  const absl::Time begun = absl::FromUnixMicros(found->creation_microseconds);
  if (context.environment().TimeOfDay() - begun > kMayBeWritten) return BeginRun(context);
  mode_ = Mode::kPassesOn;
  return absl::OkStatus();
}

absl::Status SnapshotIterator::BeginRun(IteratorContext& context) {
  const std::vector<DType>& types = dataset_->signature().types;
  WEIR_RETURN_IF_ERROR(CheckCanBeSaved(types));
  WEIR_ASSIGN_OR_RETURN(shard_func_, dataset_->shard_func().Prepare(context));
  metadata_ = {.run_id = absl::StrCat(context.environment().Random()),
               .creation_microseconds = absl::ToUnixMicros(context.environment().TimeOfDay()),
               .dtypes = types};
  const std::string folder = JoinPath(dataset_->folder(), metadata_.run_id);
  WEIR_RETURN_IF_ERROR(dataset_->files()->CreateDirectories(folder));
  WEIR_RETURN_IF_ERROR(WriteSnapshotMetadata(*dataset_->files(), dataset_->folder(), metadata_));
  writer_ = std::make_unique<SnapshotRunWriter>(*dataset_->files(), folder, dataset_->compression());
  mode_ = Mode::kWrites;
  return absl::OkStatus();
}

absl::Status SnapshotIterator::OpenRun(const SnapshotMetadata& metadata, IteratorContext& context) {
  WEIR_RETURN_IF_ERROR(CheckTypes(dataset_->signature().types, metadata.dtypes));
  WEIR_ASSIGN_OR_RETURN(const SnapshotRun run,
                        SnapshotRun::Find(JoinPath(dataset_->folder(), metadata.run_id),
                                          dataset_->compression(), dataset_->files()));
  WEIR_ASSIGN_OR_RETURN(run_, IteratorOfRun(*dataset_, run, dataset_->reader_func(), context));
  mode_ = Mode::kReads;
  return absl::OkStatus();
}

absl::StatusOr<bool> SnapshotIterator::Next(IteratorContext& context, Element* element) {
  WEIR_RETURN_IF_ERROR(Open(context));
  if (mode_ == Mode::kReads) {
    IteratorContext below = Below(*dataset_, context);
    return run_->Next(below, element);
  }
  if (mode_ == Mode::kPassesOn || writer_ == nullptr) return input_->Next(context, element);
  absl::StatusOr<bool> has_element = Write(context, element);
  if (!has_element.ok()) writer_ = nullptr;
  return has_element;
}

absl::StatusOr<bool> SnapshotIterator::Write(IteratorContext& context, Element* element) {
  WEIR_ASSIGN_OR_RETURN(const bool has_element, input_->Next(context, element));
  if (has_element) {
    WEIR_ASSIGN_OR_RETURN(const int64_t shard, ShardOf(*element, shard_func_, context.cancellation));
    WEIR_RETURN_IF_ERROR(writer_->Write(shard, *element));
    ++metadata_.num_elements;
    return true;
  }
  WEIR_RETURN_IF_ERROR(writer_->Close());
  writer_ = nullptr;
  metadata_.is_finalized = true;
  WEIR_RETURN_IF_ERROR(WriteSnapshotMetadata(*dataset_->files(), dataset_->folder(), metadata_));
  return false;
}

absl::Status SnapshotIterator::Save(IteratorContext& context, PositionWriter& position) {
  if (mode_ == Mode::kWrites && metadata_.num_elements > 0) {
    return absl::UnimplementedError(absl::StrCat("the position of a pass that writes the snapshot '",
                                                 dataset_->folder(), "' cannot be saved"));
  }
  const Mode saved = mode_ == Mode::kWrites ? Mode::kNotKnown : mode_;
  position.Add(static_cast<int64_t>(saved));
  if (saved != Mode::kReads) return IteratorOverInput::Save(context, position);
  IteratorContext below = Below(*dataset_, context);
  return run_->Save(below, position);
}

absl::Status SnapshotIterator::Restore(IteratorContext& context, PositionReader& position) {
  WEIR_ASSIGN_OR_RETURN(const int64_t saved, position.NextNumber(0, static_cast<int64_t>(Mode::kPassesOn)));
  mode_ = static_cast<Mode>(saved);
  writer_ = nullptr;
  if (mode_ != Mode::kReads) return IteratorOverInput::Restore(context, position);
  WEIR_ASSIGN_OR_RETURN(const SnapshotMetadata metadata,
                        ReadSnapshotMetadata(*dataset_->files(), dataset_->folder()));
  WEIR_RETURN_IF_ERROR(OpenRun(metadata, context));
  IteratorContext below = Below(*dataset_, context);
  return run_->Restore(below, position);
}

// Inputs: dataset, path, what reader_func and shard_func capture.
class Snapshot final : public DatasetKernel {
 public:
  explicit Snapshot(const KernelConstruction& construction)
      : DatasetKernel(construction),
        reader_func_(construction, "reader_func"),
        shard_func_(construction, "shard_func"),
        num_captured_by_reader_(
            static_cast<int>(construction.attr<std::vector<DType>>("Treader_func_args").size())),
        compression_(construction.attr<std::string>("compression")),
        files_(FilesOf(construction)) {
    if (construction.attr<bool>("hash_valid")) hash_ = construction.attr<int64_t>("hash");
  }

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0, signature.types));
    if (context.input(1).num_elements() != 1) return absl::InvalidArgumentError("path must be a scalar");
    const std::string& path = context.input(1).flat<std::string>()[0];
    WEIR_ASSIGN_OR_RETURN(const Compression compression,
                          CompressionCalled(compression_ == "AUTO" ? "" : compression_));
    uint64_t hash = static_cast<uint64_t>(hash_.value_or(0));
    if (!hash_.has_value()) {
      WEIR_ASSIGN_OR_RETURN(hash, FingerprintOf(input, Pipeline::Handles::kByName));
    }
    const int shard_begin = 2 + num_captured_by_reader_;
    WEIR_ASSIGN_OR_RETURN(CapturedFunction reader_func,
                          CapturedFunction::Create(reader_func_, context, 2, num_captured_by_reader_));
    WEIR_ASSIGN_OR_RETURN(
        CapturedFunction shard_func,
        CapturedFunction::Create(shard_func_, context, shard_begin, context.num_inputs() - shard_begin));
    return SetDataset<SnapshotDataset>(context, signature, std::move(input),
                                       JoinPath(path, absl::StrCat(hash)), compression,
                                       std::move(reader_func), std::move(shard_func), files_);
  }

  const FunctionOfNode reader_func_, shard_func_;
  const int num_captured_by_reader_;
  const std::string compression_;
  const std::shared_ptr<FileSystem> files_;
  std::optional<int64_t> hash_;
};

}  // namespace

void RegisterSnapshotDatasetKernels(DeviceKernels& kernels) { kernels.Add<Snapshot>("SnapshotDatasetV2"); }

}  // namespace weir
