#include "kernels/cpu/data/snapshot_runs.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/interchange/serialized_tensor.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data/list_dataset.h"

namespace weir {
namespace {

constexpr size_t kMaxShards = 512;

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

}  // namespace

absl::Status CheckCanBeSaved(absl::Span<const DType> types) {
  for (const DType dtype : types) {
    if (IsPlainBytes(dtype) || dtype == DType::kString) continue;
    return absl::UnimplementedError(
        absl::StrCat("elements of dtype ", DTypeName(dtype), " cannot be saved in files"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ShardOf(const Element& element, const PreparedFunction& shard_func,
                                Cancellation& cancellation) {
  WEIR_ASSIGN_OR_RETURN(const Element results, shard_func.Run(element, cancellation));
  if (results.size() == 1 && results[0].dtype() == DType::kInt64 && results[0].num_elements() == 1) {
    return results[0].flat<int64_t>()[0];
  }
  return absl::InvalidArgumentError("`shard_func` must return a scalar int64.");
}

absl::Status SnapshotRunWriter::Write(int64_t shard, const Element& element) {
  WEIR_ASSIGN_OR_RETURN(RecordWriter* const writer, WriterOf(shard));
  for (const Tensor& tensor : element) {
    WEIR_ASSIGN_OR_RETURN(const std::string bytes, SerializeTensorContent(tensor));
    WEIR_RETURN_IF_ERROR(writer->Write(bytes));
  }
  return absl::OkStatus();
}

absl::Status SnapshotRunWriter::Close() {
  for (const auto& [shard, writer] : writers_) WEIR_RETURN_IF_ERROR(writer->Close());
  return absl::OkStatus();
}

absl::StatusOr<RecordWriter*> SnapshotRunWriter::WriterOf(int64_t shard) {
  std::unique_ptr<RecordWriter>& writer = writers_[shard];
  if (writer != nullptr) return writer.get();
  if (writers_.size() > kMaxShards) {
    return absl::ResourceExhaustedError(
        absl::StrCat("`shard_func` gives more than ", kMaxShards, " shards, each of which is an open file"));
  }
  const std::string folder = JoinPath(folder_, absl::StrFormat("%08d.shard", shard));
  WEIR_RETURN_IF_ERROR(files_.CreateDirectories(folder));
  WEIR_ASSIGN_OR_RETURN(writer,
                        RecordWriter::Create(JoinPath(folder, "00000000.snapshot"), compression_, files_));
  return writer.get();
}

absl::StatusOr<SnapshotRun> SnapshotRun::Find(const std::string& folder, Compression compression,
                                              std::shared_ptr<FileSystem> files) {
  WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> names, files->ListDirectory(folder));
  SnapshotRun run;
  for (const std::string& name : names) {
    if (absl::EndsWith(name, ".shard")) run.shards.push_back(JoinPath(folder, name));
  }
  run.compression = compression;
  run.files = std::move(files);
  return run;
}

absl::StatusOr<IteratorPtr> IteratorOfRun(const Dataset& above, const SnapshotRun& run,
                                          const CapturedFunction& reader_func, IteratorContext& context) {
  HeldElements shards(1, "the shards of a snapshot");
  for (const std::string& folder : run.shards) {
    Tensor shard = VariantOf(MakeRef<ShardDataset>(above.signature(), folder, run.compression, run.files));
    WEIR_RETURN_IF_ERROR(shards.Add({std::move(shard)}, context.allocator()));
  }
  WEIR_ASSIGN_OR_RETURN(
      Tensor all, ListDataset::Variant({{DType::kVariant}, {PartialShape::OfRank(0)}}, std::move(shards)));
  WEIR_ASSIGN_OR_RETURN(const PreparedFunction reader, reader_func.Prepare(context));
  WEIR_ASSIGN_OR_RETURN(const Element results, reader.Run({std::move(all)}, context.cancellation));
  WEIR_ASSIGN_OR_RETURN(const DatasetPtr dataset, DatasetMadeFor(above, "`reader_func`", results, context));
  IteratorContext below = Below(above, context);
  return dataset->MakeIterator(below);
}

}  // namespace weir
