#include "session/function_runner.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "graph/interchange/graph_def.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"
#include "kernels/session_state.h"
#include "session/executor/activation.h"
#include "session/executor/dataflow_executor.h"
#include "session/executor/overlap.h"
#include "session/executor/program.h"
#include "session/executor/static_schedule.h"

namespace weir {
namespace {

class CompiledFunction final : public Function, public std::enable_shared_from_this<CompiledFunction> {
 public:
  CompiledFunction(std::unique_ptr<const Program> program, std::shared_ptr<FunctionCaller> caller,
                   const OverlapOptions& overlap)
      : program_(std::move(program)), caller_(std::move(caller)), overlap_(*program_, overlap) {}

  // The types of arguments and results, by index. InvalidArgument unless the indices are 0, 1, 2...
  absl::Status ReadSignature(const Graph& graph) {
    std::vector<std::optional<DType>> arguments, results;
    for (const auto& node : graph.nodes()) {
      const bool is_argument = node->op_name() == kArgOp;
      if (!is_argument && node->op_name() != kRetvalOp) continue;
      std::vector<std::optional<DType>>& types = is_argument ? arguments : results;
      const int64_t index = node->attr<int64_t>("index");
      if (index >= graph.num_nodes()) return WrongIndex(*node);
      types.resize(std::max<size_t>(types.size(), index + 1));
      if (types[index].has_value()) return WrongIndex(*node);
      types[index] = node->attr<DType>("T");
    }
    for (const auto& [from, to] :
         {std::make_pair(&arguments, &argument_types_), std::make_pair(&results, &result_types_)}) {
      for (const std::optional<DType>& type : *from) {
        if (!type.has_value())
          return absl::InvalidArgumentError("a function lacks one of its arguments or results");
        to->push_back(*type);
      }
    }
    if (program_->results().size() == results.size()) return absl::OkStatus();
    return absl::InvalidArgumentError("a function has a result that nothing gives");
  }

  const std::vector<DType>& argument_types() const override { return argument_types_; }
  const std::vector<DType>& result_types() const override { return result_types_; }

  Results Run(std::vector<Tensor> arguments, Cancellation& cancellation) override {
    WEIR_RETURN_IF_ERROR(CheckArguments(arguments));
    if (!program_->is_static()) return RunElsewhere(std::move(arguments), cancellation);
    std::unique_ptr<Call> call = NewCall(std::move(arguments), cancellation);
    const absl::Status status =
        RunStaticSchedule(*program_, call->frame, call->context, absl::InfiniteFuture());
    return Finish(std::move(call), status);
  }

  void Start(std::vector<Tensor> arguments, Cancellation& cancellation, Done done) override {
    if (absl::Status fit = CheckArguments(arguments); !fit.ok()) return done(std::move(fit));
    std::unique_ptr<Call> call = NewCall(std::move(arguments), cancellation);
    if (call->activation == nullptr) call->activation = MakeActivation(*call);
    Call* const running = call.release();
    running->keep_alive = shared_from_this();
    running->activation->Start(
        absl::InfiniteFuture(), [this, running, done = std::move(done)](const absl::Status& status) {
          const std::shared_ptr<CompiledFunction> keep_alive = std::move(running->keep_alive);
          done(Finish(std::unique_ptr<Call>(running), status));
        });
  }

 private:
  static constexpr size_t kMaxIdleCalls = 16;

  struct Call {
    explicit Call(const Program& program) : frame(program) {}
    ProgramFrame frame;
    StepContext context;
    std::unique_ptr<Activation> activation;  // when one has been needed
    std::shared_ptr<CompiledFunction> keep_alive;
  };

  static absl::Status WrongIndex(const Node& node) {
    return absl::InvalidArgumentError(absl::StrCat(node.Describe(), " has index ",
                                                   node.attr<int64_t>("index"),
                                                   ", which a function has twice or is too large"));
  }

  absl::Status CheckArguments(const std::vector<Tensor>& arguments) const {
    bool fit = arguments.size() == argument_types_.size();
    for (size_t i = 0; fit && i < arguments.size(); ++i) fit = arguments[i].dtype() == argument_types_[i];
    if (fit) return absl::OkStatus();
    std::string given, taken;
    for (const Tensor& argument : arguments) absl::StrAppend(&given, " ", DTypeName(argument.dtype()));
    for (const DType type : argument_types_) absl::StrAppend(&taken, " ", DTypeName(type));
    return absl::InvalidArgumentError(
        absl::StrCat("a function that takes (", taken, " ) is called with (", given, " )"));
  }

  std::unique_ptr<Call> NewCall(std::vector<Tensor> arguments, Cancellation& cancellation) {
    std::unique_ptr<Call> call;
    {
      absl::MutexLock lock(&mutex_);
      if (!idle_.empty()) {
        call = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    if (call == nullptr) call = std::make_unique<Call>(*program_);
    call->context.cancellation = &cancellation;
    call->context.threads = &caller_->threads();
    for (const Program::Binding& argument : program_->args()) {
      call->frame.slots[argument.slot] = std::move(arguments[argument.index]);
    }
    return call;
  }

  std::unique_ptr<Activation> MakeActivation(Call& call) {
    if (program_->is_static()) {
      return std::make_unique<StaticActivation>(*program_, call.frame, call.context, cost_, overlap_);
    }
    return std::make_unique<DataflowExecutor>(*program_, call.frame, call.context, cost_, overlap_, [] {});
  }

  // The results of a call that is over; it is kept for another.
  Results Finish(std::unique_ptr<Call> call, const absl::Status& status) {
    std::vector<Tensor> results(status.ok() ? result_types_.size() : 0);
    if (status.ok()) {
      for (const Program::Binding& result : program_->results()) {
        results[result.index] = call->frame.slots[result.slot];
      }
    }
    ClearFrame(*program_, call->frame);
    if (call->activation != nullptr) call->activation->Reset();
    call->context.cancellation = nullptr;
    {
      absl::MutexLock lock(&mutex_);
      if (idle_.size() < kMaxIdleCalls) idle_.push_back(std::move(call));
    }
    if (!status.ok()) return status;
    return results;
  }

  Results RunElsewhere(std::vector<Tensor> arguments, Cancellation& cancellation) {
    struct Outcome {
      absl::Mutex mutex;
      std::optional<Results> results ABSL_GUARDED_BY(mutex);
    };
    // Shared: the other thread may still be unlocking when this one goes on.
    const auto outcome = std::make_shared<Outcome>();
    Start(std::move(arguments), cancellation, [outcome](Results results) {
      absl::MutexLock lock(&outcome->mutex);
      outcome->results = std::move(results);
    });
    absl::MutexLock lock(&outcome->mutex);
    const auto is_over = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return outcome->results.has_value(); };
    caller_->environment().Await(outcome->mutex, absl::Condition(&is_over));
    return *std::move(outcome->results);
  }

  const std::unique_ptr<const Program> program_;
  const std::shared_ptr<FunctionCaller> caller_;
  std::vector<DType> argument_types_;
  std::vector<DType> result_types_;
  ProgramCost cost_;
  Overlap overlap_;
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<Call>> idle_ ABSL_GUARDED_BY(mutex_);
};

// Bodies have no calls left, and room for their constants that does not depend on what few bytes stand for.
ImportOptions BodyOptions(int64_t* num_bytes) {
  ImportOptions options;
  options.max_call_nodes = 0;
  options.max_call_bytes = 0;
  options.lets_runtime_ops_in = true;
  options.admit_tensors = [num_bytes](int64_t more) {
    if (more <= FunctionCaller::kMaxConstantBytes - *num_bytes) {
      *num_bytes += more;
      return absl::OkStatus();
    }
    return absl::ResourceExhaustedError(absl::StrCat("the constants of a function take more than ",
                                                     FunctionCaller::kMaxConstantBytes, " bytes"));
  };
  return options;
}

// A client may have sent a body of its own (function_bodies.h).
absl::Status CheckBody(const Graph& graph) {
  for (const auto& node : graph.nodes()) {
    const std::string& op = node->op_name();
    const bool is_bound = (op == kArgOp || op == kRetvalOp) && node->FindAttr(kEdgeAttr) == nullptr;
    if (is_bound || !IsRuntimeOp(op)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(node->Describe(), " of a function is a part of steps, which functions have not"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<Function>> FunctionRunner::Prepare(const std::string& body, Device& device,
                                                                  std::shared_ptr<FileSystem> files) {
  int64_t num_bytes = 0;
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<Graph> graph,
                        GraphFromGraphDefBytes(body, runtime_.ops(), BodyOptions(&num_bytes)));
  WEIR_RETURN_IF_ERROR(CheckBody(*graph));
  SessionState state(std::move(files), shared_from_this());
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<const Program> program,
                        Program::Compile(*graph, device, runtime_.kernels(), &state));
  auto function =
      std::make_shared<CompiledFunction>(std::move(program), shared_from_this(), runtime_.overlap());
  WEIR_RETURN_IF_ERROR(function->ReadSignature(*graph));
  return function;
}

}  // namespace weir
