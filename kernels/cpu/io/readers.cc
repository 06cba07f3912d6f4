// Readers: their handles, what they read, and what steps ask of them.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/io/reader.h"
#include "kernels/cpu/session_files.h"
#include "kernels/device_kernels.h"
#include "kernels/formats/record_io.h"
#include "kernels/session_state.h"

namespace weir {
namespace {

// ---- Units of work ----

// The string is its own record.
class Identity final : public RecordSource {
 public:
  explicit Identity(Record record) : record_(std::move(record)) {}
  absl::StatusOr<bool> Next(Record& record, Cancellation&) override {
    record = std::move(record_);
    return true;
  }
  bool is_at_end() const override { return true; }

 private:
  Record record_;
};

// Lines without their ends, "\n" or "\r\n"; keys are FILE:NUMBER, counted from 1.
class TextLines final : public RecordSource {
 public:
  TextLines(std::unique_ptr<ReadableFile> file, int64_t num_skipped)
      : file_(std::move(file)), num_skipped_(num_skipped) {}

  absl::StatusOr<bool> Next(Record& record, Cancellation& cancellation) override {
    while (true) {
      if (line_ % kLinesBetweenQuestions == 0 && cancellation.is_cancelled()) return cancellation.reason();
      record.value.clear();
      WEIR_ASSIGN_OR_RETURN(const bool has_line, ReadLine(record.value));
      if (!has_line) return false;
      if (++line_ <= num_skipped_) continue;
      record.key = absl::StrCat(file_->path(), ":", line_);
      return true;
    }
  }

 private:
  static constexpr int64_t kLinesBetweenQuestions = 1024;
  static constexpr size_t kChunk = 64 << 10;
  static constexpr size_t kLongest = size_t{1} << 30;

  absl::StatusOr<bool> ReadLine(std::string& line) {
    bool has_any = false;
    while (true) {
      if (at_ == chunk_.size()) {
        chunk_.resize(kChunk);
        WEIR_ASSIGN_OR_RETURN(const size_t count, file_->Read(offset_, kChunk, chunk_.data()));
        chunk_.resize(count);
        at_ = 0;
        offset_ += count;
        if (count == 0) return has_any;
      }
      has_any = true;
      const char next = chunk_[at_++];
      if (next == '\n') return true;
      if (next != '\r') line.push_back(next);
      if (line.size() > kLongest) {
        return absl::ResourceExhaustedError(
            absl::StrCat("line ", line_ + 1, " of ", file_->path(), " is longer than ", kLongest, " bytes"));
      }
    }
  }

  const std::unique_ptr<ReadableFile> file_;
  const int64_t num_skipped_;
  int64_t line_ = 0;
  std::string chunk_;
  size_t at_ = 0;
  uint64_t offset_ = 0;
};

// Keys are FILE:OFFSET.
class TfRecords final : public RecordSource {
 public:
  TfRecords(std::string path, std::unique_ptr<RecordReader> reader)
      : path_(std::move(path)), reader_(std::move(reader)) {}
  absl::StatusOr<bool> Next(Record& record, Cancellation&) override {
    record.key = absl::StrCat(path_, ":", reader_->offset());
    return reader_->ReadNext(&record.value);
  }

 private:
  const std::string path_;
  const std::unique_ptr<RecordReader> reader_;
};

struct RecordLayout {
  int64_t header = 0, record = 0, footer = 0, hop = 0;
};

// Keys are FILE:NUMBER, counted from 0.
class FixedLengthRecords final : public RecordSource {
 public:
  FixedLengthRecords(std::unique_ptr<ReadableFile> file, RecordLayout layout)
      : file_(std::move(file)), layout_(layout), position_(layout.header) {}
  absl::StatusOr<bool> Next(Record& record, Cancellation&) override {
    const auto end = static_cast<int64_t>(file_->num_bytes()) - layout_.footer;
    if (position_ > end || end - position_ < layout_.record) return false;
    record.key = absl::StrCat(file_->path(), ":", number_++);
    record.value.resize(layout_.record);
    WEIR_RETURN_IF_ERROR(
        file_->ReadExactly(static_cast<uint64_t>(position_), record.value.size(), record.value.data()));
    position_ += std::min(layout_.hop, end - position_ + 1);
    return true;
  }

 private:
  const std::unique_ptr<ReadableFile> file_;
  const RecordLayout layout_;
  int64_t position_, number_ = 0;
};

// ---- Handles ----

template <typename T>
absl::StatusOr<std::unique_ptr<RecordSource>> FromFile(const std::string& path, FileSystem& files, T layout) {
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files.OpenForReading(path));
  if constexpr (std::is_same_v<T, RecordLayout>) {
    return std::make_unique<FixedLengthRecords>(std::move(file), layout);
  } else {
    return std::make_unique<TextLines>(std::move(file), layout);
  }
}

absl::StatusOr<RecordLayout> LayoutOf(const KernelConstruction& construction) {
  const auto& encoding = construction.attr<std::string>("encoding");
  if (!encoding.empty()) {
    return absl::UnimplementedError(absl::StrCat(
        "FixedLengthRecordReaderV2 reads files that are not compressed, encoding is '", encoding, "'"));
  }
  RecordLayout layout;
  const auto read = [&construction](const char* name, int64_t least, int64_t& value) -> absl::Status {
    value = construction.attr<int64_t>(name);
    if (value >= least) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(name, " must be >= ", least, " not ", value));
  };
  WEIR_RETURN_IF_ERROR(read("header_bytes", 0, layout.header));
  WEIR_RETURN_IF_ERROR(read("record_bytes", 1, layout.record));
  WEIR_RETURN_IF_ERROR(read("footer_bytes", 0, layout.footer));
  WEIR_RETURN_IF_ERROR(read("hop_bytes", 0, layout.hop));
  if (layout.hop == 0) layout.hop = layout.record;
  return layout;
}

// How units are opened, and what makes two readers of one name the same.
struct Form {
  std::string kind;
  Reader::Open open;
};

absl::StatusOr<Form> FormOf(const KernelConstruction& construction) {
  const std::string& op = construction.node().op_name();
  using Source = std::unique_ptr<RecordSource>;
  if (op == "TextLineReaderV2") {
    const auto skipped = construction.attr<int64_t>("skip_header_lines");
    return Form{
        absl::StrCat("TextLineReader without ", skipped, " lines"),
        [skipped](const std::string& path, FileSystem& files) { return FromFile(path, files, skipped); }};
  }
  if (op == "TFRecordReaderV2") {
    const auto& name = construction.attr<std::string>("compression_type");
    WEIR_ASSIGN_OR_RETURN(const Compression compression, CompressionOfReader(name));
    return Form{absl::StrCat("TFRecordReader '", name, "'"),
                [compression](const std::string& path, FileSystem& files) -> absl::StatusOr<Source> {
                  WEIR_ASSIGN_OR_RETURN(auto reader, RecordReader::Open(path, compression, files));
                  return std::make_unique<TfRecords>(path, std::move(reader));
                }};
  }
  if (op == "FixedLengthRecordReaderV2") {
    WEIR_ASSIGN_OR_RETURN(const RecordLayout layout, LayoutOf(construction));
    return Form{
        absl::StrCat("FixedLengthRecordReader ", layout.header, " ", layout.record, " ", layout.footer, " ",
                     layout.hop),
        [layout](const std::string& path, FileSystem& files) { return FromFile(path, files, layout); }};
  }
  if (op == "WholeFileReaderV2") {
    return Form{"WholeFileReader", [](const std::string& path, FileSystem& files) -> absl::StatusOr<Source> {
                  WEIR_ASSIGN_OR_RETURN(std::string content, ReadWholeFile(files, path));
                  return std::make_unique<Identity>(Record{path, std::move(content)});
                }};
  }
  return Form{"IdentityReader", [](const std::string& work, FileSystem&) -> absl::StatusOr<Source> {
                return std::make_unique<Identity>(Record{work, work});
              }};
}

// A reader without shared_name belongs to one node of one session.
struct PrivateReader final : public NodeState {
  explicit PrivateReader(RefPtr<Reader> reader) : reader(std::move(reader)) {}
  const RefPtr<Reader> reader;
};

absl::StatusOr<RefPtr<Reader>> FindOrCreate(const KernelConstruction& construction, const std::string& name,
                                            const Form& form) {
  const bool can_be_saved = construction.node().op_name() == "IdentityReaderV2";
  const auto create = [&] { return MakeRef<Reader>(form.kind, name, form.open, can_be_saved); };
  if (!construction.attr<std::string>("shared_name").empty()) {
    return construction.device().resources().LookupOrCreate<Reader>(
        construction.attr<std::string>("container"), name, create);
  }
  if (construction.session() == nullptr) return create();
  WEIR_ASSIGN_OR_RETURN(const auto state,
                        construction.session()->FindOrCreate<PrivateReader>(
                            construction.device().name().ToString(), construction.node().name(),
                            [&create] { return std::make_shared<PrivateReader>(create()); }));
  return state->reader;
}

class ReaderHandle final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    const auto& shared_name = construction.attr<std::string>("shared_name");
    const std::string name = shared_name.empty() ? construction.node().name() : shared_name;
    WEIR_ASSIGN_OR_RETURN(const Form form, FormOf(construction));
    WEIR_ASSIGN_OR_RETURN(RefPtr<Reader> reader, FindOrCreate(construction, name, form));
    if (reader->kind() != form.kind) {
      return absl::InvalidArgumentError(
          absl::StrCat("reader '", name, "' is a ", reader->kind(), ", a ", form.kind, " was asked for"));
    }
    ResourceHandle handle;
    handle.device = construction.device().name().ToString();
    handle.container = construction.attr<std::string>("container");
    handle.name = name;
    handle.type_name = Reader::kTypeName;
    handle.resource = std::move(reader);
    return std::make_unique<ReaderHandle>(std::move(handle));
  }

  explicit ReaderHandle(ResourceHandle handle) : handle_(Tensor::Scalar(std::move(handle))) {}

  absl::Status Compute(KernelContext& context) override {
    context.set_output(0, handle_);
    return absl::OkStatus();
  }

 private:
  const Tensor handle_;
};

// ---- Reading ----

absl::Status SetOutputs(KernelContext& context, absl::Span<Record> records, bool are_vectors) {
  const Shape shape = are_vectors ? Shape({static_cast<int64_t>(records.size())}) : Shape();
  WEIR_ASSIGN_OR_RETURN(Tensor * keys, context.AllocateOutput(0, shape));
  WEIR_ASSIGN_OR_RETURN(Tensor * values, context.AllocateOutput(1, shape));
  for (size_t i = 0; i < records.size(); ++i) {
    keys->flat<std::string>()[i] = std::move(records[i].key);
    values->flat<std::string>()[i] = std::move(records[i].value);
  }
  return absl::OkStatus();
}

// One record, or with input 2 up to that many.
template <bool reads_many>
class ReaderRead final : public AsyncKernel {
 public:
  explicit ReaderRead(const KernelConstruction& construction) : files_(FilesOf(construction)) {}

  void ComputeAsync(KernelContext& context, Done done) override {
    absl::StatusOr<RefPtr<Reader>> reader = LookupResource<Reader>(context, 0);
    if (!reader.ok()) return done(reader.status());
    absl::StatusOr<RefPtr<Queue>> queue = LookupResource<Queue>(context, 1);
    if (!queue.ok()) return done(queue.status());
    int64_t count = 1;
    if (reads_many) {
      const absl::StatusOr<int64_t> asked = ReadInteger(context.input(2), "num_records");
      if (!asked.ok()) return done(asked.status());
      count = *asked;
    }
    const Queue::Caller caller = {context.cancellation(), context.allocator(), context.threads(),
                                  context.step_threads()};
    (*reader)->Read(*std::move(queue), caller, files_, count,
                    [&context, done = std::move(done)](absl::StatusOr<std::vector<Record>> records) {
                      if (!records.ok()) return done(records.status());
                      done(SetOutputs(context, absl::MakeSpan(*records), reads_many));
                    });
  }

 private:
  const std::shared_ptr<FileSystem> files_;
};

template <int64_t (Reader::*count)() const>
absl::Status ComputeCount(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const RefPtr<Reader> reader, LookupResource<Reader>(context, 0));
  context.set_output(0, Tensor::Scalar<int64_t>((*reader.*count)()));
  return absl::OkStatus();
}

absl::Status ComputeState(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const RefPtr<Reader> reader, LookupResource<Reader>(context, 0));
  WEIR_ASSIGN_OR_RETURN(std::string state, reader->Serialize());
  context.set_output(0, Tensor::Scalar(std::move(state)));
  return absl::OkStatus();
}

absl::Status ComputeRestore(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const RefPtr<Reader> reader, LookupResource<Reader>(context, 0));
  const Tensor& state = context.input(1);
  if (!state.shape().is_scalar()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Reader state must be scalar, but had shape: ", state.shape().ToString()));
  }
  return reader->Restore(state.scalar<std::string>());
}

absl::Status ComputeReset(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const RefPtr<Reader> reader, LookupResource<Reader>(context, 0));
  reader->Reset();
  return absl::OkStatus();
}

}  // namespace

void RegisterReadersKernels(DeviceKernels& kernels) {
  for (const char* op : {"TextLineReaderV2", "TFRecordReaderV2", "FixedLengthRecordReaderV2",
                         "IdentityReaderV2", "WholeFileReaderV2"}) {
    kernels.Add<ReaderHandle>(op);
  }
  kernels.Add<ReaderRead</*reads_many=*/false>>("ReaderReadV2");
  kernels.Add<ReaderRead</*reads_many=*/true>>("ReaderReadUpToV2");
  kernels.Add<&ComputeCount<&Reader::num_records_produced>>("ReaderNumRecordsProducedV2");
  kernels.Add<&ComputeCount<&Reader::num_units_completed>>("ReaderNumWorkUnitsCompletedV2");
  kernels.Add<&ComputeReset>("ReaderResetV2");
  kernels.Add<&ComputeState>("ReaderSerializeStateV2");
  kernels.Add<&ComputeRestore>("ReaderRestoreStateV2");
}

}  // namespace weir
