// Single kernels whose shapes are hard to divide among threads: short rows, tall matrices.
#include <functional>
#include <utility>
#include <vector>

#include "ops/standard_ops.h"
#include "tests/benchmarks/benchmarks.h"
#include "tests/benchmarks/local_session.h"

namespace weir::bench {
namespace {

Tensor Ramp(DType dtype, const Shape& shape) {
  Tensor wide(DType::kFloat32, shape);
  for (int64_t i = 0; i < wide.num_elements(); ++i)
    wide.flat<float>()[i] = static_cast<float>(i % 251) / 251 - 0.5f;
  if (dtype == DType::kFloat32) return wide;
  Tensor narrow(dtype, shape);
  for (int64_t i = 0; i < wide.num_elements(); ++i)
    narrow.flat<Bfloat16>()[i] = Bfloat16(wide.flat<float>()[i]);
  return narrow;
}

// Microseconds of a step that computes op(inputs) and returns the result.
void Measure(absl::string_view metric, const std::vector<Tensor>& inputs,
             const std::function<Output(GraphBuilder&, const std::vector<Output>&)>& op) {
  LocalSession local;
  std::vector<Output> placeholders;
  std::vector<TensorRef> feeds;
  for (const Tensor& input : inputs) {
    placeholders.push_back(Placeholder(local.graph, input.dtype(), input.shape()));
    feeds.push_back(placeholders.back());
  }
  const Output result = op(local.graph, placeholders);
  auto step = Must(local.session().Prepare(feeds, {result}, {}));
  Tensor value;
  Emit(metric, 1e6 * MedianSeconds([&] { MustOk(step->Run(inputs, absl::MakeSpan(&value, 1))); }), "us");
}

}  // namespace

void Kernels() {
  using Inputs = std::vector<Output>;
  const Tensor tall = Ramp(DType::kFloat32, Shape({262144, 16}));
  Measure("kernel_multiply_row_262144x16", {tall, Ramp(DType::kFloat32, Shape({16}))},
          [](GraphBuilder& g, const Inputs& in) { return Mul(g, in[0], in[1]); });
  Measure("kernel_multiply_column_262144x16", {tall, Ramp(DType::kFloat32, Shape({262144, 1}))},
          [](GraphBuilder& g, const Inputs& in) { return Mul(g, in[0], in[1]); });
  Measure("kernel_sum_rows_262144x16", {tall},
          [](GraphBuilder& g, const Inputs& in) { return ReduceSum(g, in[0], std::vector<int32_t>{0}); });
  const Tensor square = Ramp(DType::kBfloat16, Shape({1024, 1024}));
  Measure("kernel_matmul_bf16_1024", {square, square},
          [](GraphBuilder& g, const Inputs& in) { return MatMul(g, in[0], in[1]); });
}

}  // namespace weir::bench
