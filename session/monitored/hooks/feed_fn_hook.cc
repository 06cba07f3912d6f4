#include "session/monitored/hooks/feed_fn_hook.h"

#include <utility>

#include "graph/types/status_macros.h"

namespace weir {
namespace {

class FeedFn final : public Hook {
 public:
  explicit FeedFn(std::function<absl::StatusOr<Feeds>()> feed) : feed_(std::move(feed)) {}

  absl::string_view name() const override { return "FeedFnHook"; }

  absl::Status Begin(GraphBuilder&) override {
    return feed_ ? absl::OkStatus() : absl::InvalidArgumentError("FeedFnHook needs a function");
  }

  absl::StatusOr<RunArgs> BeforeRun(RunContext&) override {
    WEIR_ASSIGN_OR_RETURN(Feeds feeds, feed_());
    return RunArgs{.feeds = std::move(feeds)};
  }

 private:
  const std::function<absl::StatusOr<Feeds>()> feed_;
};

}  // namespace

HookPtr FeedFnHook(std::function<absl::StatusOr<Feeds>()> feed) {
  return std::make_shared<FeedFn>(std::move(feed));
}

}  // namespace weir
