// Print, PrintV2: what a graph says to whoever watches the server, or to a file.
#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "graph/types/printable_text.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/session_files.h"
#include "kernels/cpu/value_text.h"
#include "kernels/device_kernels.h"
#include "kernels/notice.h"
#include "kernels/session_state.h"

namespace weir {
namespace {

struct PrintedTimes final : public NodeState {
  std::atomic<int64_t> count = 0;
};

class Print final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    const auto create = [] { return std::make_shared<PrintedTimes>(); };
    std::shared_ptr<PrintedTimes> times;
    if (construction.session() == nullptr) {
      times = create();
    } else {
      WEIR_ASSIGN_OR_RETURN(
          times, construction.session()->FindOrCreate<PrintedTimes>(construction.device().name().ToString(),
                                                                    construction.node().name(), create));
    }
    return std::make_unique<Print>(construction, std::move(times));
  }

  Print(const KernelConstruction& construction, std::shared_ptr<PrintedTimes> times)
      : message_(construction.attr<std::string>("message")),
        first_n_(construction.attr<int64_t>("first_n")),
        shown_(construction.attr<int64_t>("summarize")),
        times_(std::move(times)) {}

  absl::Status Compute(KernelContext& context) override {
    context.set_output(0, context.input(0));
    if (first_n_ >= 0 && times_->count.fetch_add(1) >= first_n_) return absl::OkStatus();
    std::string line = message_;
    for (int i = 1; i < context.num_inputs(); ++i) {
      line += ValueText(context.input(i), shown_);
    }
    PrintNotice(line);
    return absl::OkStatus();
  }

 private:
  const std::string message_;
  const int64_t first_n_;
  const int64_t shown_;
  const std::shared_ptr<PrintedTimes> times_;
};

// A text as lines on stderr or stdout, each with what a notice begins with: a graph of somebody else's must
// not print what looks like another program's. A file gets the text as it is.
class PrintV2 final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    const auto& stream = construction.attr<std::string>("output_stream");
    if (absl::StartsWith(stream, kFile)) return std::make_unique<PrintV2>(construction);
    for (const char* known : {"stdout", "stderr", "log(info)", "log(warning)", "log(error)"}) {
      if (stream == known) return std::make_unique<PrintV2>(construction);
    }
    return absl::InvalidArgumentError(
        absl::StrCat("Unknown output stream: ", stream,
                     "; known are stdout, stderr, log(info), log(warning), log(error) and file://PATH"));
  }

  explicit PrintV2(const KernelConstruction& construction)
      : stream_(construction.attr<std::string>("output_stream")),
        end_(construction.attr<std::string>("end")),
        files_(FilesOf(construction)) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    if (!input.shape().is_scalar()) {
      return absl::InvalidArgumentError(
          absl::StrCat("Input is expected to be scalar, but got ", input.shape().ToString()));
    }
    const std::string text = absl::StrCat(input.scalar<std::string>(), end_);
    absl::string_view path = stream_;
    if (absl::ConsumePrefix(&path, kFile)) return AppendToFile(std::string(path), text);
    absl::string_view lines = text;
    absl::ConsumeSuffix(&lines, "\n");
    for (const absl::string_view line : absl::StrSplit(lines, '\n')) {
      if (stream_ == "stdout") {
        std::printf("weir: %s\n", PrintableText(line).c_str());
      } else {
        PrintNotice(line);
      }
    }
    if (stream_ == "stdout") std::fflush(stdout);
    return absl::OkStatus();
  }

 private:
  static constexpr absl::string_view kFile = "file://";

  absl::Status AppendToFile(const std::string& path, absl::string_view text) const {
    WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files_->OpenForAppending(path));
    WEIR_RETURN_IF_ERROR(file->Append(text));
    return file->Close();
  }

  const std::string stream_, end_;
  const std::shared_ptr<FileSystem> files_;
};

}  // namespace

void RegisterPrintingKernels(DeviceKernels& kernels) {
  kernels.Add<Print>("Print");
  kernels.Add<PrintV2>("PrintV2");
}

}  // namespace weir
