// Stops the training of all workers when the loss on held-out examples no longer falls.
//
// The chief computes that loss now and then. When it has not fallen for some time, the chief sets a variable,
// which is on a parameter server: every worker, also the chief, reads it in each of its steps and stops at
// the first one in which it is true. So the checkpoint that the chief saves at the end has the variable set,
// and tells the evaluator that it is the last one.
#pragma once

#include <cstdio>
#include <limits>

#include "weir/weir.h"

struct EarlyStoppingOptions {
  bool is_chief = false;
  weir::Output loss;         // a float
  weir::Feeds held_out;      // what it is computed with
  int64_t every_steps = 50;  // of the global step: how often it is looked at
  // Stop when it was not this much lower for so many steps.
  float min_decrease = 0.002f;
  int64_t patience_steps = 200;
};

class EarlyStoppingHook : public weir::Hook {
 public:
  explicit EarlyStoppingHook(EarlyStoppingOptions options) : options_(std::move(options)) {}

  // Whether training has stopped early. The graph of an evaluator has it, too.
  static weir::ModelVariable MakeStopVariable(weir::GraphBuilder& g) {
    return weir::MakeVariable(g, "early_stopping/stop", weir::Tensor::Scalar(false), {.trainable = false});
  }

  absl::string_view name() const override { return "EarlyStoppingHook"; }

  // Called while the graph may still grow.
  absl::Status Begin(weir::GraphBuilder& g) override {
    const weir::ModelVariable stop = MakeStopVariable(g);
    stop_ = stop.value;
    set_stop_ = weir::AssignVariableOp(g, stop.handle, weir::Const(g, true));
    step_ = weir::GlobalStep(g).value;
    return g.status();
  }

  absl::StatusOr<weir::RunArgs> BeforeRun(weir::RunContext&) override {
    return weir::RunArgs{.fetches = {stop_, step_}};
  }

  absl::Status AfterRun(weir::RunContext& context, const weir::RunValues& values) override {
    if (values.results[0].scalar<bool>()) context.RequestStop();
    const int64_t step = values.results[1].scalar<int64_t>();
    if (!options_.is_chief || context.stop_requested() || step < next_step_) return absl::OkStatus();
    next_step_ = step + options_.every_steps;
    // A step without hooks, beside the training.
    WEIR_ASSIGN_OR_RETURN(const std::vector<weir::Tensor> results,
                          context.session().Run(options_.held_out, {options_.loss}));
    return Look(context, step, results[0].scalar<float>());
  }

 private:
  absl::Status Look(weir::RunContext& context, int64_t step, float loss) {
    if (loss < best_loss_ - options_.min_decrease) {
      best_loss_ = loss;
      best_step_ = step;
      return absl::OkStatus();
    }
    if (step - best_step_ < options_.patience_steps) return absl::OkStatus();
    std::fprintf(stderr,
                 "step %lld: the held-out loss has not fallen since step %lld, where it was %g: stopping\n",
                 static_cast<long long>(step), static_cast<long long>(best_step_), best_loss_);
    return context.session().Run({}, {}, {set_stop_}).status();
  }

  const EarlyStoppingOptions options_;
  weir::Output stop_, step_;
  weir::Node* set_stop_ = nullptr;
  float best_loss_ = std::numeric_limits<float>::infinity();
  int64_t best_step_ = 0;
  int64_t next_step_ = 0;
};
