// What tests of single ops begin with: constants, steps of a graph that grows, and what they gave or said.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "session/test_session.h"

namespace weir {

class TestOpSession : public TestSession {
 protected:
  // One step of the graph as it is now, in a session of its own.
  absl::StatusOr<std::vector<Tensor>> RunAnew(const std::vector<TensorRef>& fetches) {
    session_.reset();
    return session().Run({}, fetches);
  }
  std::string ErrorOf(const std::vector<TensorRef>& fetches) {
    const auto result = RunAnew(fetches);
    return result.ok() ? "no error" : std::string(result.status().message());
  }
  std::string ErrorOf(Output fetch) { return ErrorOf(std::vector<TensorRef>{fetch}); }
  Output Const(Tensor value) {
    const DType dtype = value.dtype();
    return g_.AddOp("Const", {}, {{"value", std::move(value)}, {"dtype", dtype}});
  }
  static std::vector<float> Floats(const Tensor& tensor) {
    return {tensor.flat<float>().begin(), tensor.flat<float>().end()};
  }
};

}  // namespace weir
