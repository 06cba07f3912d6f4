// Regular expressions, by RE2: it takes time linear in the text, and limits the memory of a pattern.
#include <re2/re2.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/string_room.h"
#include "kernels/cpu/timely_loop.h"
#include "kernels/device_kernels.h"
#include "kernels/thread_pool.h"

namespace weir {
namespace {

using Pattern = std::shared_ptr<const RE2>;

constexpr double kNanosecondsOfString = 300;

absl::StatusOr<Pattern> Compile(const std::string& text) {
  RE2::Options options;
  options.set_log_errors(false);
  auto pattern = std::make_shared<const RE2>(text, options);
  if (!pattern->ok()) {
    return absl::InvalidArgumentError(absl::StrCat("Invalid pattern: ", text, ", error: ", pattern->error()));
  }
  return pattern;
}

// The pattern of the last step, which is nearly always that of the next.
class CompiledPattern {
 public:
  absl::StatusOr<Pattern> Of(const Tensor& text) {
    if (!text.shape().is_scalar()) {
      return absl::InvalidArgumentError(
          absl::StrCat("Pattern must be scalar, but received ", text.shape().ToString()));
    }
    {
      absl::MutexLock lock(&mutex_);
      if (last_ != nullptr && last_->pattern() == text.scalar<std::string>()) return last_;
    }
    WEIR_ASSIGN_OR_RETURN(Pattern compiled, Compile(text.scalar<std::string>()));
    absl::MutexLock lock(&mutex_);
    last_ = compiled;
    return compiled;
  }

 private:
  absl::Mutex mutex_;
  Pattern last_ ABSL_GUARDED_BY(mutex_);
};

absl::Status MatchAll(KernelContext& context, const RE2& pattern) {
  const Tensor& input = context.input(0);
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, input.shape()));
  const auto strings = input.flat<std::string>();
  const auto matches = output->flat<bool>();
  const TimelyThreads threads(context);  // it is asked for each text, which may be long
  context.threads().ParallelFor(input.num_elements(), kNanosecondsOfString, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end && !threads.is_over(); ++i)
      matches[i] = RE2::FullMatch(strings[i], pattern);
  });
  return threads.status();
}

// The most that a replaced string can be: a match may be at each byte, and between them, and each reference
// of the rewrite repeats the text of one match.
absl::Status CheckRoomForReplaced(KernelContext& context, absl::Span<const std::string> strings,
                                  const std::string& rewrite, bool is_global) {
  int64_t num_bytes = 0, longest = 0;
  for (const std::string& text : strings) {
    num_bytes += static_cast<int64_t>(text.size());
    longest += is_global ? static_cast<int64_t>(text.size()) + 1 : 1;
  }
  int64_t num_references = 1;
  for (const char c : rewrite) num_references += c == '\\';
  constexpr int64_t kMost = int64_t{1} << 20;  // of both together: less is in no danger
  int64_t literal = 0, referred = 0;
  if (MultiplyWithoutOverflow(longest, static_cast<int64_t>(rewrite.size()), &literal) &&
      MultiplyWithoutOverflow(num_bytes, num_references, &referred) && literal <= kMost &&
      referred <= kMost) {
    return absl::OkStatus();
  }
  WEIR_RETURN_IF_ERROR(CheckRoom(context, num_bytes, num_references));
  return CheckRoom(context, static_cast<int64_t>(rewrite.size()), longest);
}

absl::Status ReplaceAll(KernelContext& context, const RE2& pattern, const std::string& rewrite,
                        bool is_global) {
  const Tensor& input = context.input(0);
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, input.shape()));
  const auto strings = input.flat<std::string>();
  const auto replaced = output->flat<std::string>();
  WEIR_RETURN_IF_ERROR(CheckRoomForReplaced(context, strings, rewrite, is_global));
  const TimelyThreads threads(context);
  // A rewrite that refers to a group that the pattern does not have replaces nothing.
  const bool has_groups = RE2::MaxSubmatch(rewrite) <= pattern.NumberOfCapturingGroups();
  context.threads().ParallelFor(input.num_elements(), kNanosecondsOfString, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end && !threads.is_over(); ++i) {
      replaced[i] = strings[i];
      if (!has_groups) continue;
      if (is_global) {
        RE2::GlobalReplace(&replaced[i], pattern, rewrite);
      } else {
        RE2::Replace(&replaced[i], pattern, rewrite);
      }
    }
  });
  return threads.status();
}

class RegexFullMatch final : public Kernel {
 public:
  explicit RegexFullMatch(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Pattern pattern, pattern_.Of(context.input(1)));
    return MatchAll(context, *pattern);
  }

 private:
  CompiledPattern pattern_;
};

class RegexReplace final : public Kernel {
 public:
  explicit RegexReplace(const KernelConstruction& construction)
      : is_global_(construction.attr<bool>("replace_global")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Pattern pattern, pattern_.Of(context.input(1)));
    const Tensor& rewrite = context.input(2);
    if (!rewrite.shape().is_scalar()) {
      return absl::InvalidArgumentError(
          absl::StrCat("Rewrite must be scalar, but received ", rewrite.shape().ToString()));
    }
    return ReplaceAll(context, *pattern, rewrite.scalar<std::string>(), is_global_);
  }

 private:
  const bool is_global_;
  CompiledPattern pattern_;
};

class StaticRegexFullMatch final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(Pattern pattern, Compile(construction.attr<std::string>("pattern")));
    return std::unique_ptr<Kernel>(new StaticRegexFullMatch(std::move(pattern)));
  }

  absl::Status Compute(KernelContext& context) override { return MatchAll(context, *pattern_); }

 private:
  explicit StaticRegexFullMatch(Pattern pattern) : pattern_(std::move(pattern)) {}

  const Pattern pattern_;
};

class StaticRegexReplace final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(Pattern pattern, Compile(construction.attr<std::string>("pattern")));
    return std::unique_ptr<Kernel>(new StaticRegexReplace(construction, std::move(pattern)));
  }

  absl::Status Compute(KernelContext& context) override {
    return ReplaceAll(context, *pattern_, rewrite_, is_global_);
  }

 private:
  StaticRegexReplace(const KernelConstruction& construction, Pattern pattern)
      : pattern_(std::move(pattern)),
        rewrite_(construction.attr<std::string>("rewrite")),
        is_global_(construction.attr<bool>("replace_global")) {}

  const Pattern pattern_;
  const std::string rewrite_;
  const bool is_global_;
};

}  // namespace

void RegisterRegularExpressionsKernels(DeviceKernels& kernels) {
  kernels.Add<RegexFullMatch>("RegexFullMatch");
  kernels.Add<StaticRegexFullMatch>("StaticRegexFullMatch");
  kernels.Add<RegexReplace>("RegexReplace");
  kernels.Add<StaticRegexReplace>("StaticRegexReplace");
}

}  // namespace weir
