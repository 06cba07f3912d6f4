// Writers of summaries: SummaryWriter gives the handle, CreateSummaryFileWriter the file, and others write.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data_flow/named_resource.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/session_files.h"
#include "kernels/cpu/with_dtype.h"
#include "kernels/device_kernels.h"
#include "kernels/formats/event_file.h"
#include "kernels/formats/summary.h"

namespace weir {
namespace {

// Thread safety: all of it. What waits for the file waits in turn.
class SummaryFile final : public Resource {
 public:
  static constexpr char kTypeName[] = "SummaryWriter";

  struct Spec {
    std::string name;
  };
  struct Limits {
    int64_t queue = 10;  // events; with one more they are flushed
    absl::Duration wait = absl::Minutes(2);
  };

  explicit SummaryFile(Spec spec) : spec_(std::move(spec)) {}

  std::string ToString() const override { return absl::StrCat("SummaryWriter '", spec_.name, "'"); }
  absl::Status CheckIsA(const Spec&) const { return absl::OkStatus(); }

  absl::Status Open(const std::string& directory, const std::string& suffix, Limits limits,
                    std::shared_ptr<FileSystem> files) {
    const absl::MutexLock lock(&mutex_);
    if (writer_ != nullptr) return absl::OkStatus();
    const EventWriter::Options options = {
        .file_system = files.get(), .flush_interval = limits.wait, .file_name_suffix = suffix};
    WEIR_ASSIGN_OR_RETURN(writer_, EventWriter::Create(directory, options));
    files_ = std::move(files);
    limits_ = limits;
    num_waiting_ = 0;
    return absl::OkStatus();
  }

  // `add` writes one event.
  absl::Status Write(absl::FunctionRef<absl::Status(EventWriter&)> add) {
    const absl::MutexLock lock(&mutex_);
    WEIR_RETURN_IF_ERROR(CheckIsOpen());
    WEIR_RETURN_IF_ERROR(add(*writer_));
    if (++num_waiting_ <= limits_.queue) return absl::OkStatus();
    num_waiting_ = 0;
    return writer_->Flush();
  }
  absl::Status Write(int64_t step, absl::string_view summary) {
    return Write([&](EventWriter& writer) { return writer.AddSummary(step, summary); });
  }

  absl::Status Flush() {
    const absl::MutexLock lock(&mutex_);
    WEIR_RETURN_IF_ERROR(CheckIsOpen());
    num_waiting_ = 0;
    return writer_->Flush();
  }

  absl::Status Close() {
    const absl::MutexLock lock(&mutex_);
    WEIR_RETURN_IF_ERROR(CheckIsOpen());
    const std::unique_ptr<EventWriter> writer = std::move(writer_);
    return writer->Close();
  }

 private:
  absl::Status CheckIsOpen() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writer_ != nullptr) return absl::OkStatus();
    return absl::NotFoundError(
        absl::StrCat(ToString(), " has no file: CreateSummaryFileWriter has not run, or it was closed"));
  }

  const Spec spec_;
  absl::Mutex mutex_;
  std::shared_ptr<FileSystem> files_ ABSL_GUARDED_BY(mutex_);  // outlives the writer
  std::unique_ptr<EventWriter> writer_ ABSL_GUARDED_BY(mutex_);
  Limits limits_ ABSL_GUARDED_BY(mutex_);
  int64_t num_waiting_ ABSL_GUARDED_BY(mutex_) = 0;
};

absl::StatusOr<std::unique_ptr<Kernel>> CreateHandle(const KernelConstruction& construction) {
  const std::string& shared = construction.attr<std::string>("shared_name");
  return NamedResourceHandle<SummaryFile>::Create(construction,
                                                  {shared.empty() ? construction.node().name() : shared});
}

absl::StatusOr<std::string> OneString(const KernelContext& context, int input, absl::string_view name) {
  const Tensor& tensor = context.input(input);
  if (tensor.num_elements() == 1) return tensor.flat<std::string>()[0];
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must be one string, is a tensor ", tensor.shape().ToString()));
}

class CreateFile final : public Kernel {
 public:
  explicit CreateFile(const KernelConstruction& construction) : files_(FilesOf(construction)) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const RefPtr<SummaryFile> file, LookupResource<SummaryFile>(context, 0));
    WEIR_ASSIGN_OR_RETURN(const std::string directory, OneString(context, 1, "logdir"));
    WEIR_ASSIGN_OR_RETURN(const int64_t queue, ReadInteger(context.input(2), "max_queue"));
    WEIR_ASSIGN_OR_RETURN(const int64_t wait, ReadInteger(context.input(3), "flush_millis"));
    WEIR_ASSIGN_OR_RETURN(const std::string suffix, OneString(context, 4, "filename_suffix"));
    return file->Open(directory, suffix,
                      {.queue = queue, .wait = absl::Milliseconds(std::max<int64_t>(wait, 0))}, files_);
  }

 private:
  const std::shared_ptr<FileSystem> files_;
};

// What most of these ops begin with: the writer, the step, and a string.
struct Written {
  RefPtr<SummaryFile> file;
  int64_t step = 0;
  std::string text;
};

absl::StatusOr<Written> ReadWritten(const KernelContext& context, int text_input, absl::string_view name) {
  Written written;
  WEIR_ASSIGN_OR_RETURN(written.file, LookupResource<SummaryFile>(context, 0));
  WEIR_ASSIGN_OR_RETURN(written.step, ReadInteger(context.input(1), "step"));
  WEIR_ASSIGN_OR_RETURN(written.text, OneString(context, text_input, name));
  return written;
}

absl::Status WriteTensor(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const Written to, ReadWritten(context, 3, "tag"));
  WEIR_ASSIGN_OR_RETURN(const std::string metadata, OneString(context, 4, "summary_metadata"));
  WEIR_ASSIGN_OR_RETURN(const std::string summary, TensorSummary(to.text, context.input(2), metadata));
  return to.file->Write(to.step, summary);
}

absl::Status WriteScalar(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const Written to, ReadWritten(context, 2, "tag"));
  const Tensor& value = context.input(3);
  if (value.num_elements() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("value must be one number, is a tensor ", value.shape().ToString()));
  }
  float number = 0;
  WithNumericType(value.dtype(), [&](auto tag_of_type) {
    using T = typename decltype(tag_of_type)::Type;
    if constexpr (std::is_convertible_v<T, float>) number = static_cast<float>(value.flat<T>()[0]);
  });
  return to.file->Write(to.step, ScalarSummary(to.text, number));
}

absl::Status WriteHistogram(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const Written to, ReadWritten(context, 2, "tag"));
  WEIR_ASSIGN_OR_RETURN(const std::string summary, HistogramSummary(to.text, context.input(3)));
  return to.file->Write(to.step, summary);
}

class WriteImage final : public Kernel {
 public:
  explicit WriteImage(const KernelConstruction& construction)
      : max_images_(construction.attr<int64_t>("max_images")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Written to, ReadWritten(context, 2, "tag"));
    WEIR_ASSIGN_OR_RETURN(const std::string summary,
                          ImageSummary(to.text, context.input(3), max_images_, context.input(4)));
    return to.file->Write(to.step, summary);
  }

 private:
  const int64_t max_images_;
};

class WriteAudio final : public Kernel {
 public:
  explicit WriteAudio(const KernelConstruction& construction)
      : max_outputs_(construction.attr<int64_t>("max_outputs")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Written to, ReadWritten(context, 2, "tag"));
    const Tensor& rate = context.input(4);
    if (!rate.shape().is_scalar()) {
      return absl::InvalidArgumentError(
          absl::StrCat("sample_rate must be a scalar, is ", rate.shape().ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(const std::string summary,
                          AudioSummary(to.text, context.input(3), rate.scalar<float>(), max_outputs_));
    return to.file->Write(to.step, summary);
  }

 private:
  const int64_t max_outputs_;
};

absl::Status WriteGraph(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const Written to, ReadWritten(context, 2, "tensor"));
  return to.file->Write([&](EventWriter& writer) { return writer.AddGraph(to.step, to.text); });
}

// Any number of messages, whose values stand in one event: the bytes of one after another are those of all.
absl::Status WriteRawProto(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const RefPtr<SummaryFile> file, LookupResource<SummaryFile>(context, 0));
  WEIR_ASSIGN_OR_RETURN(const int64_t step, ReadInteger(context.input(1), "step"));
  const absl::Status written = file->Write(step, absl::StrJoin(context.input(2).flat<std::string>(), ""));
  return absl::IsInvalidArgument(written) ? absl::DataLossError(written.message()) : written;
}

absl::Status ImportEvent(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const RefPtr<SummaryFile> file, LookupResource<SummaryFile>(context, 0));
  WEIR_ASSIGN_OR_RETURN(const std::string event, OneString(context, 1, "event"));
  return file->Write([&](EventWriter& writer) { return writer.AddSerializedEvent(event); });
}

template <absl::Status (SummaryFile::*end)()>
absl::Status End(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const RefPtr<SummaryFile> file, LookupResource<SummaryFile>(context, 0));
  return (file.get()->*end)();
}

}  // namespace

void RegisterSummaryWritersKernels(DeviceKernels& kernels) {
  kernels.Register("SummaryWriter", {}, &CreateHandle);
  kernels.Add<CreateFile>("CreateSummaryFileWriter");
  kernels.Add<&WriteTensor>("WriteSummary");
  kernels.Add<&WriteScalar>("WriteScalarSummary");
  kernels.Add<&WriteHistogram>("WriteHistogramSummary");
  kernels.Add<WriteImage>("WriteImageSummary");
  kernels.Add<WriteAudio>("WriteAudioSummary");
  kernels.Add<&WriteGraph>("WriteGraphSummary");
  kernels.Add<&WriteRawProto>("WriteRawProtoSummary");
  kernels.Add<&ImportEvent>("ImportEvent");
  kernels.Add<&End<&SummaryFile::Flush>>("FlushSummaryWriter");
  kernels.Add<&End<&SummaryFile::Close>>("CloseSummaryWriter");
}

}  // namespace weir
