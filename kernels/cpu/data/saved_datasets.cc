// SaveDataset and LoadDataset: the elements of a dataset in a folder (snapshot_runs.h), as TensorFlow's ops
// of these names write and read them.
//
// Memory: a save holds one element. Files are those that the session may use (session_files.h). What there
// was in the folder stays; the metadata names the last run.
#include "absl/strings/str_cat.h"
#include "kernels/cpu/data/captured_function.h"
#include "kernels/cpu/data/snapshot_runs.h"
#include "kernels/cpu/session_files.h"
#include "kernels/device_kernels.h"
#include "kernels/formats/snapshot_metadata.h"
#include "kernels/session_state.h"

namespace weir {
namespace {

absl::StatusOr<Compression> SavedCompression(const std::string& name) {
  if (name == "AUTO" || name == "NONE") return Compression::kNone;
  return CompressionCalled(name);
}

// Inputs: dataset, path, what shard_func captures.
class SaveDataset final : public Kernel {
 public:
  explicit SaveDataset(const KernelConstruction& construction)
      : function_(construction, "shard_func"),
        uses_function_(construction.attr<bool>("use_shard_func")),
        compression_(SavedCompression(construction.attr<std::string>("compression"))),
        functions_(construction.session() == nullptr ? nullptr : construction.session()->functions()),
        files_(FilesOf(construction)) {}

  bool may_block() const override { return true; }

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const DatasetPtr dataset, DatasetInput(context, 0));
    if (context.input(1).num_elements() != 1) return absl::InvalidArgumentError("path must be a scalar");
    if (!compression_.ok()) return compression_.status();
    WEIR_RETURN_IF_ERROR(CheckCanBeSaved(dataset->signature().types));
    const std::string& path = context.input(1).flat<std::string>()[0];
    const auto run = std::make_shared<IteratorRun>(context.device(), functions_);
    IteratorContext iteration = {*run, context.cancellation(), context.step_threads()};
    CapturedFunction captured;
    PreparedFunction function;
    if (uses_function_) {
      WEIR_ASSIGN_OR_RETURN(captured,
                            CapturedFunction::Create(function_, context, 2, context.num_inputs() - 2));
      WEIR_ASSIGN_OR_RETURN(function, captured.Prepare(iteration));
    }
    SnapshotMetadata metadata = {
        .run_id = absl::StrCat(iteration.environment().Random()),
        .creation_microseconds = absl::ToUnixMicros(iteration.environment().TimeOfDay()),
        .dtypes = dataset->signature().types};
    SnapshotRunWriter writer(*files_, JoinPath(path, metadata.run_id), *compression_);
    WEIR_RETURN_IF_ERROR(files_->CreateDirectories(JoinPath(path, metadata.run_id)));
    WEIR_RETURN_IF_ERROR(WriteSnapshotMetadata(*files_, path, metadata));
    WEIR_ASSIGN_OR_RETURN(const IteratorPtr iterator, dataset->MakeIterator(iteration));
    while (true) {
      if (context.cancellation().is_cancelled()) return context.cancellation().reason();
      Element element;
      WEIR_ASSIGN_OR_RETURN(const bool has_element, AskTop(*iterator, iteration, &element));
      if (!has_element) break;
      int64_t shard = 0;
      if (uses_function_) {
        WEIR_ASSIGN_OR_RETURN(shard, ShardOf(element, function, context.cancellation()));
      }
      WEIR_RETURN_IF_ERROR(writer.Write(shard, element));
      ++metadata.num_elements;
    }
    WEIR_RETURN_IF_ERROR(writer.Close());
    metadata.is_finalized = true;
    return WriteSnapshotMetadata(*files_, path, metadata);
  }

 private:
  const FunctionOfNode function_;
  const bool uses_function_;
  const absl::StatusOr<Compression> compression_;
  const std::shared_ptr<FunctionCaller> functions_;
  const std::shared_ptr<FileSystem> files_;
};

// What reader_func makes of the datasets of all shards.
class LoadedDataset final : public Dataset {
 public:
  LoadedDataset(Signature signature, CapturedFunction reader, SnapshotRun run, int64_t num_elements)
      : Dataset(std::move(signature)),
        reader_(std::move(reader)),
        run_(std::move(run)),
        num_elements_(std::max(num_elements, kUnknown)) {}

  absl::StatusOr<IteratorPtr> MakeIterator(IteratorContext& context) const override {
    WEIR_ASSIGN_OR_RETURN(IteratorPtr iterator, IteratorOfRun(*this, run_, reader_, context));
    return IteratorPtr(new LoadedIterator(RefPtr<const LoadedDataset>::Share(this), std::move(iterator)));
  }
  int64_t cardinality() const override { return num_elements_; }

 private:
  class LoadedIterator final : public IteratorOverInput {
   public:
    LoadedIterator(RefPtr<const LoadedDataset> dataset, IteratorPtr input)
        : IteratorOverInput(std::move(input)), dataset_(std::move(dataset)) {}

    absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override {
      IteratorContext below = Below(*dataset_, context);
      return input_->Next(below, element);
    }

   private:
    const RefPtr<const LoadedDataset> dataset_;
  };

  const CapturedFunction reader_;
  const SnapshotRun run_;
  const int64_t num_elements_;
};

// Inputs: path, what reader_func captures.
class LoadDataset final : public DatasetKernel {
 public:
  explicit LoadDataset(const KernelConstruction& construction)
      : DatasetKernel(construction),
        function_(construction, "reader_func"),
        compression_(SavedCompression(construction.attr<std::string>("compression"))),
        files_(FilesOf(construction)) {}

  bool may_block() const override { return true; }

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    if (context.input(0).num_elements() != 1) return absl::InvalidArgumentError("path must be a scalar");
    if (!compression_.ok()) return compression_.status();
    const std::string& path = context.input(0).flat<std::string>()[0];
    WEIR_ASSIGN_OR_RETURN(const SnapshotMetadata metadata, ReadSnapshotMetadata(*files_, path));
    WEIR_RETURN_IF_ERROR(CheckTypes(signature.types, metadata.dtypes));
    WEIR_ASSIGN_OR_RETURN(SnapshotRun run,
                          SnapshotRun::Find(JoinPath(path, metadata.run_id), *compression_, files_));
    WEIR_ASSIGN_OR_RETURN(CapturedFunction reader,
                          CapturedFunction::Create(function_, context, 1, context.num_inputs() - 1));
    return SetDataset<LoadedDataset>(context, signature, std::move(reader), std::move(run),
                                     metadata.num_elements);
  }

  const FunctionOfNode function_;
  const absl::StatusOr<Compression> compression_;
  const std::shared_ptr<FileSystem> files_;
};

}  // namespace

void RegisterSavedDatasetsKernels(DeviceKernels& kernels) {
  kernels.Add<SaveDataset>("SaveDataset");
  kernels.Add<LoadDataset>("LoadDataset");
}

}  // namespace weir
