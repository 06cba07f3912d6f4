#include "session/monitored/hooked_step.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "session/monitored/exit_code.h"

namespace weir {
namespace {

// The arguments of a step, put together from those of its caller and of the hooks.
class StepArgs {
 public:
  StepArgs(const Graph& graph, const RunArgs& caller) : graph_(graph), merged_(caller) {}

  absl::Status Add(RunArgs args, absl::Span<const HookPtr> hooks, size_t hook) {
    for (std::pair<TensorRef, Tensor>& feed : args.feeds) {
      WEIR_RETURN_IF_ERROR(CheckFedOnce(feed.first, hooks, hook));
      merged_.feeds.push_back(std::move(feed));
    }
    std::move(args.fetches.begin(), args.fetches.end(), std::back_inserter(merged_.fetches));
    std::move(args.targets.begin(), args.targets.end(), std::back_inserter(merged_.targets));
    merged_.options.timeout = std::max(merged_.options.timeout, args.options.timeout);
    merged_.options.trace |= args.options.trace;
    return absl::OkStatus();
  }

  RunArgs& merged() { return merged_; }

 private:
  using Key = std::pair<const Node*, int>;
  static constexpr int kCaller = -1;

  absl::Status CheckFedOnce(const TensorRef& feed, absl::Span<const HookPtr> hooks, size_t hook) {
    if (!std::exchange(knows_caller_, true)) {
      for (const auto& [fed, value] : merged_.feeds) {
        // The step names the feeds of the caller that do not exist.
        if (absl::StatusOr<Output> output = fed.Resolve(graph_); output.ok())
          fed_by_[KeyOf(*output)] = kCaller;
      }
    }
    WEIR_ASSIGN_OR_RETURN(const Output output, feed.Resolve(graph_));
    const auto [place, is_new] = fed_by_.emplace(KeyOf(output), static_cast<int>(hook));
    if (is_new) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("'", output.name(), "' is fed both by ",
                                                   NameOf(place->second, hooks), " and by ",
                                                   NameOf(static_cast<int>(hook), hooks)));
  }

  static Key KeyOf(const Output& output) { return {output.node, output.index}; }
  static std::string NameOf(int giver, absl::Span<const HookPtr> hooks) {
    if (giver == kCaller) return "the caller of Run";
    return absl::StrCat("hook ", giver, " (", hooks[giver]->name(), ")");
  }

  const Graph& graph_;
  RunArgs merged_;
  bool knows_caller_ = false;
  std::map<Key, int> fed_by_;  // filled once a hook feeds something
};

}  // namespace

absl::StatusOr<HookedStepResult> RunWithHooks(Session& session, absl::Span<const HookPtr> hooks,
                                              const RunArgs& caller, const Coordinator& session_stop,
                                              absl::FunctionRef<absl::Status(RunArgs& all)> adjust) {
  RunContext context(caller, session, session_stop);
  StepArgs args(session.graph(), caller);
  std::vector<size_t> begins;  // of each hook's fetches
  for (size_t i = 0; i < hooks.size(); ++i) {
    begins.push_back(args.merged().fetches.size());
    WEIR_ASSIGN_OR_RETURN(RunArgs asked, hooks[i]->BeforeRun(context));
    WEIR_RETURN_IF_ERROR(args.Add(std::move(asked), hooks, i));
  }
  RunArgs& all = args.merged();
  WEIR_RETURN_IF_ERROR(adjust(all));
  begins.push_back(all.fetches.size());
  HookedStepResult result;
  RunMetadata metadata;
  WEIR_ASSIGN_OR_RETURN(result.fetches,
                        session.Run(all.feeds, all.fetches, all.targets, all.options, &metadata));
  for (size_t i = 0; i < hooks.size(); ++i) {
    const RunValues values = {
        absl::MakeConstSpan(result.fetches).subspan(begins[i], begins[i + 1] - begins[i]), all.options,
        &metadata};
    const absl::Status status = hooks[i]->AfterRun(context, values);
    if (IsRecoverable(status)) {
      result.lost_under_hook = status;
      break;
    }
    WEIR_RETURN_IF_ERROR(status);
  }
  result.stop_requested = context.stop_requested();
  result.fetches.resize(caller.fetches.size());
  return result;
}

}  // namespace weir
