// Models whose numbers are compared with those that TensorFlow computed (recorded.json, written by
// record.py).
//
//   class HuberTest : public RecordedModelTest {};
//   TEST_F(HuberTest, ...) { ExpectRecorded("losses/huber", losses::HuberLoss(g_, ...)); }
//
// Not thread safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "graph/graph_builder.h"
#include "gtest/gtest.h"
#include "ops/standard_ops.h"
#include "session/local_worker.h"
#include "session/runtime.h"
#include "session/session.h"

namespace weir {

// The entry of recorded.json: float, int64, int32 or bool. Fails the test, and gives a float 0, where there
// is none.
Tensor Recorded(const std::string& name);
// An entry that is a list of strings.
std::vector<std::string> RecordedStrings(const std::string& name);

// Numbers from -1 to 1 in steps of 1/8, the same as pattern() of recorder.py makes.
Tensor Pattern(const Shape& shape, int seed);

// Equal shapes, and elements that differ by at most a few float roundings. NaN equals NaN.
void ExpectNear(const Tensor& wanted, const Tensor& found, const std::string& what, double tolerance = 2e-6);

// One graph and one session on this process, which has devices CPU:0 and CPU:1. Nodes may be added between
// runs.
class RecordedModelTest : public testing::Test {
 protected:
  Session& session() { return StartedSession(); }
  // One step, which must succeed.
  std::vector<Tensor> Run(const Feeds& feeds, const std::vector<TensorRef>& fetches,
                          const std::vector<TargetRef>& targets = {});
  Tensor Run(Output fetch, const Feeds& feeds = {});
  // A step's error, for steps that must fail.
  absl::Status RunStatus(const Feeds& feeds, const std::vector<TensorRef>& fetches,
                         const std::vector<TargetRef>& targets = {});
  // Gives every variable made so far its initial value.
  void Initialize();
  // Gives the variable a value.
  void Assign(const std::string& variable, const Tensor& value);

  void ExpectRecorded(const std::string& name, Output found, const Feeds& feeds = {});
  // An error with these words has stuck in the builder.
  void ExpectError(absl::string_view words);

  GraphBuilder g_{StandardOps()};

 private:
  Session& StartedSession();

  std::unique_ptr<Runtime> runtime_ = Runtime::Create({.num_cpus = 2}).value();
  LocalWorker worker_{*runtime_, runtime_->task()};
  std::unique_ptr<Session> session_;
};

}  // namespace weir
