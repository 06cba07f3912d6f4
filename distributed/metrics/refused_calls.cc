#include "distributed/metrics/refused_calls.h"

#include "absl/strings/str_cat.h"
#include "kernels/notice.h"

namespace weir {
namespace {

constexpr size_t kMaxShown = 300;  // of what a caller may have made up

const char* NameOf(size_t kind) {
  switch (static_cast<Refusal>(kind)) {
    case Refusal::kToken:
      return "token";
    case Refusal::kCertificate:
      return "certificate";
    case Refusal::kProtocol:
      return "protocol";
    default:
      return "cluster";
  }
}

}  // namespace

void RefusedCalls::Count(Refusal kind, absl::string_view caller, absl::string_view why) {
  int64_t num_untold = 0;
  {
    absl::MutexLock lock(&mutex_);
    Counts& counts = counts_[static_cast<size_t>(kind)];
    ++counts.total;
    const absl::Time now = environment_.SteadyNow();
    if (now < counts.next_line) return;
    counts.next_line = now + kQuiet;
    num_untold = counts.total - counts.told - 1;
    counts.told = counts.total;
  }
  PrintNotice(
      absl::StrCat(self_, " refuses ", caller.substr(0, kMaxShown), ": ", why.substr(0, kMaxShown),
                   num_untold == 0 ? "" : absl::StrCat(" (and ", num_untold, " more since it said so)")));
}

void RefusedCalls::AppendTo(MetricsText* text) const {
  text->Begin("weir_refused_calls_total", "counter", "Calls and connections refused because of who asks.");
  absl::MutexLock lock(&mutex_);
  for (size_t kind = 0; kind < counts_.size(); ++kind) {
    text->Sample({{"kind", NameOf(kind)}}, static_cast<double>(counts_[kind].total));
  }
}

}  // namespace weir
