#include "session/monitored/hooks/final_ops_hook.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

class FinalOps final : public Hook {
 public:
  explicit FinalOps(FinalOpsOptions options) : options_(std::move(options)) {}

  absl::string_view name() const override { return "FinalOpsHook"; }

  absl::Status End(Session& session) override {
    absl::StatusOr<std::vector<Tensor>> values =
        session.Run(options_.feeds, options_.fetches, options_.targets);
    if (absl::IsOutOfRange(values.status())) {
      // Callers take this code for the end of the input, which ends training well.
      return absl::FailedPreconditionError(
          absl::StrCat("FinalOpsHook reads input that is exhausted: ", values.status().message()));
    }
    if (values.ok() && options_.sink) options_.sink(*values);
    return values.status();
  }

 private:
  const FinalOpsOptions options_;
};

}  // namespace

HookPtr FinalOpsHook(FinalOpsOptions options) { return std::make_shared<FinalOps>(std::move(options)); }

}  // namespace weir
