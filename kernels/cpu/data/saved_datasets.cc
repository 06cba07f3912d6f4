// SaveDataset and LoadDataset: the elements of a dataset in a folder, as TensorFlow's ops of these names
// write and read them.
//
// Format (TensorFlow's core/data/snapshot_utils.h, version 2): PATH/snapshot.metadata is a serialized
// SnapshotMetadataRecord. PATH/RUN/SHARD.shard/00000000.snapshot, RUN being a number of that record and SHARD
// one of at least 8 digits, is a TFRecord file; a record is a serialized TensorProto with tensor_content, and
// the components of an element follow each other. Files 00000001.snapshot and so on go on where one ends.
//
// Memory: a save holds one element, and has a file open for each of at most kMaxShards shards; a load holds
// one record for each shard that is read, at most what it has bytes in the file. Files are those that the
// session may use (session_files.h), and may be anybody's. What there was in the folder stays; the metadata
// names the last run.
#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/interchange/serialized_tensor.h"
#include "kernels/cpu/data/captured_function.h"
#include "kernels/cpu/data/compression.h"
#include "kernels/cpu/data/list_dataset.h"
#include "kernels/cpu/session_files.h"
#include "kernels/device_kernels.h"
#include "kernels/formats/record_io.h"
#include "kernels/formats/snapshot_metadata.h"
#include "kernels/session_state.h"

namespace weir {
namespace {

constexpr size_t kMaxShards = 512;

absl::StatusOr<Compression> SavedCompression(const std::string& name) {
  if (name == "AUTO" || name == "NONE") return Compression::kNone;
  return CompressionCalled(name);
}

// The shards of one run that is written.
class RunWriter {
 public:
  RunWriter(FileSystem& files, std::string folder, Compression compression)
      : files_(files), folder_(std::move(folder)), compression_(compression) {}

  absl::Status Write(int64_t shard, const Element& element) {
    WEIR_ASSIGN_OR_RETURN(RecordWriter* const writer, WriterOf(shard));
    for (const Tensor& tensor : element) {
      WEIR_ASSIGN_OR_RETURN(const std::string bytes, SerializeTensorContent(tensor));
      WEIR_RETURN_IF_ERROR(writer->Write(bytes));
    }
    return absl::OkStatus();
  }
  absl::Status Close() {
    for (const auto& [shard, writer] : writers_) WEIR_RETURN_IF_ERROR(writer->Close());
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<RecordWriter*> WriterOf(int64_t shard) {
    std::unique_ptr<RecordWriter>& writer = writers_[shard];
    if (writer != nullptr) return writer.get();
    if (writers_.size() > kMaxShards) {
      return absl::ResourceExhaustedError(absl::StrCat("`shard_func` gives more than ", kMaxShards,
                                                       " shards, each of which is an open file"));
    }
    const std::string folder = JoinPath(folder_, absl::StrFormat("%08d.shard", shard));
    WEIR_RETURN_IF_ERROR(files_.CreateDirectories(folder));
    WEIR_ASSIGN_OR_RETURN(writer,
                          RecordWriter::Create(JoinPath(folder, "00000000.snapshot"), compression_, files_));
    return writer.get();
  }

  FileSystem& files_;
  const std::string folder_;
  const Compression compression_;
  std::map<int64_t, std::unique_ptr<RecordWriter>> writers_;
};

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
    for (const DType dtype : dataset->signature().types) {
      if (IsPlainBytes(dtype) || dtype == DType::kString) continue;
      return absl::UnimplementedError(
          absl::StrCat("elements of dtype ", DTypeName(dtype), " cannot be saved in files"));
    }
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
    RunWriter writer(*files_, JoinPath(path, metadata.run_id), *compression_);
    WEIR_RETURN_IF_ERROR(files_->CreateDirectories(JoinPath(path, metadata.run_id)));
    WEIR_RETURN_IF_ERROR(WriteSnapshotMetadata(*files_, path, metadata));
    WEIR_ASSIGN_OR_RETURN(const IteratorPtr iterator, dataset->MakeIterator(iteration));
    while (true) {
      if (context.cancellation().is_cancelled()) return context.cancellation().reason();
      Element element;
      WEIR_ASSIGN_OR_RETURN(const bool has_element, AskTop(*iterator, iteration, &element));
      if (!has_element) break;
      WEIR_ASSIGN_OR_RETURN(const int64_t shard, ShardOf(element, function, context.cancellation()));
      WEIR_RETURN_IF_ERROR(writer.Write(shard, element));
      ++metadata.num_elements;
    }
    WEIR_RETURN_IF_ERROR(writer.Close());
    metadata.is_finalized = true;
    return WriteSnapshotMetadata(*files_, path, metadata);
  }

 private:
  absl::StatusOr<int64_t> ShardOf(const Element& element, const PreparedFunction& function,
                                  Cancellation& cancellation) const {
    if (!uses_function_) return 0;
    WEIR_ASSIGN_OR_RETURN(const Element results, function.Run(element, cancellation));
    if (results.size() == 1 && results[0].dtype() == DType::kInt64 && results[0].num_elements() == 1) {
      return results[0].flat<int64_t>()[0];
    }
    return absl::InvalidArgumentError("`shard_func` must return a scalar int64.");
  }

  const FunctionOfNode function_;
  const bool uses_function_;
  const absl::StatusOr<Compression> compression_;
  const std::shared_ptr<FunctionCaller> functions_;
  const std::shared_ptr<FileSystem> files_;
};

// The elements of one shard.
class ShardDataset final : public Dataset {
 public:
  ShardDataset(Signature signature, std::string folder, Compression compression,
               std::shared_ptr<FileSystem> files)
      : Dataset(std::move(signature)),
        folder_(std::move(folder)),
        compression_(compression),
        files_(std::move(files)) {}

  absl::StatusOr<IteratorPtr> MakeIterator(IteratorContext&) const override {
    return IteratorPtr(new ShardIterator(RefPtr<const ShardDataset>::Share(this)));
  }

 private:
  class ShardIterator final : public Iterator {
   public:
    explicit ShardIterator(RefPtr<const ShardDataset> dataset) : dataset_(std::move(dataset)) {}

    absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override {
      WEIR_ASSIGN_OR_RETURN(const bool has_element, Read(context, element));
      num_read_ += has_element ? 1 : 0;
      return has_element;
    }
    absl::Status Save(IteratorContext&, PositionWriter& position) override {
      position.Add(num_read_);
      return absl::OkStatus();
    }
    absl::Status Restore(IteratorContext& context, PositionReader& position) override {
      WEIR_ASSIGN_OR_RETURN(const int64_t num_read, position.NextNumber(0, INT64_MAX));
      reader_ = nullptr;
      file_ = 0;
      for (num_read_ = 0; num_read_ < num_read; ++num_read_) {
        if (context.cancellation.is_cancelled()) return context.cancellation.reason();
        Element element;
        WEIR_ASSIGN_OR_RETURN(const bool has_element, Read(context, &element));
        if (has_element) continue;
        return absl::DataLossError(absl::StrCat(dataset_->folder_, " has ", num_read_,
                                                " elements; the saved position is behind ", num_read));
      }
      return absl::OkStatus();
    }

   private:
    absl::StatusOr<bool> Read(IteratorContext& context, Element* element) {
      const Signature& signature = dataset_->signature();
      element->clear();
      while (true) {
        if (context.cancellation.is_cancelled()) return context.cancellation.reason();
        if (reader_ == nullptr) {
          const std::string path = JoinPath(dataset_->folder_, absl::StrFormat("%08d.snapshot", file_));
          absl::StatusOr<std::unique_ptr<RecordReader>> reader =
              RecordReader::Open(path, dataset_->compression_, *dataset_->files_);
          if (absl::IsNotFound(reader.status()) && file_ > 0) return false;
          if (!reader.ok()) return reader.status();
          reader_ = *std::move(reader);
        }
        std::string record;
        WEIR_ASSIGN_OR_RETURN(const bool has_record, reader_->ReadNext(&record));
        if (!has_record) {
          if (!element->empty()) return BrokenOff(element->size());
          reader_ = nullptr;
          ++file_;
          continue;
        }
        WEIR_ASSIGN_OR_RETURN(Tensor tensor, ParseTensor(record, context.allocator()));
        element->push_back(std::move(tensor));
        if (element->size() < signature.types.size()) continue;
        WEIR_RETURN_IF_ERROR(CheckElement(signature, *element));
        return true;
      }
    }
    absl::Status BrokenOff(size_t num_components) const {
      return absl::DataLossError(absl::StrCat(dataset_->folder_, " ends with ", num_components,
                                              " tensors of an element of ",
                                              dataset_->signature().types.size()));
    }

    const RefPtr<const ShardDataset> dataset_;
    std::unique_ptr<RecordReader> reader_;
    int file_ = 0;
    int64_t num_read_ = 0;
  };

  const std::string folder_;
  const Compression compression_;
  const std::shared_ptr<FileSystem> files_;
};

// What reader_func makes of the datasets of all shards.
class LoadedDataset final : public Dataset {
 public:
  LoadedDataset(Signature signature, CapturedFunction reader, std::vector<std::string> folders,
                const SnapshotMetadata& metadata, Compression compression, std::shared_ptr<FileSystem> files)
      : Dataset(std::move(signature)),
        reader_(std::move(reader)),
        folders_(std::move(folders)),
        num_elements_(metadata.num_elements),
        compression_(compression),
        files_(std::move(files)) {}

  absl::StatusOr<IteratorPtr> MakeIterator(IteratorContext& context) const override {
    std::vector<Element> shards;
    for (const std::string& folder : folders_) {
      shards.push_back({VariantOf(MakeRef<ShardDataset>(signature(), folder, compression_, files_))});
    }
    WEIR_ASSIGN_OR_RETURN(
        Tensor all, ListDataset::Variant({{DType::kVariant}, {PartialShape::OfRank(0)}}, std::move(shards)));
    WEIR_ASSIGN_OR_RETURN(const PreparedFunction reader, reader_.Prepare(context));
    WEIR_ASSIGN_OR_RETURN(const Element results, reader.Run({std::move(all)}, context.cancellation));
    WEIR_ASSIGN_OR_RETURN(const DatasetPtr dataset, DatasetMadeFor(*this, "`reader_func`", results, context));
    IteratorContext below = Below(*this, context);
    WEIR_ASSIGN_OR_RETURN(IteratorPtr iterator, dataset->MakeIterator(below));
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
  const std::vector<std::string> folders_;
  const int64_t num_elements_;
  const Compression compression_;
  const std::shared_ptr<FileSystem> files_;
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
    const std::string folder = JoinPath(path, metadata.run_id);
    WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_->ListDirectory(folder));
    std::vector<std::string> shards;
    for (const std::string& name : names) {
      if (absl::EndsWith(name, ".shard")) shards.push_back(JoinPath(folder, name));
    }
    WEIR_ASSIGN_OR_RETURN(CapturedFunction reader,
                          CapturedFunction::Create(function_, context, 1, context.num_inputs() - 1));
    return SetDataset<LoadedDataset>(context, signature, std::move(reader), std::move(shards), metadata,
                                     *compression_, files_);
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
