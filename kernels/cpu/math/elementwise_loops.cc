#include "kernels/cpu/math/elementwise_loops.h"

namespace weir {
namespace {

template <typename Row>
const Row* FindRow(absl::Span<const Row> rows, absl::string_view op, DType dtype) {
  for (const Row& row : rows) {
    if (row.dtype == dtype && row.op == op) return &row;
  }
  return nullptr;
}

}  // namespace

const BinaryRow* FindBinaryLoop(absl::string_view op, DType dtype) {
  const BinaryRow* row = FindRow(BinaryLoops(), op, dtype);
  return row != nullptr ? row : FindRow(OtherBinaryLoops(), op, dtype);
}

const UnaryRow* FindUnaryLoop(absl::string_view op, DType dtype) {
  const UnaryRow* row = FindRow(UnaryLoops(), op, dtype);
  return row != nullptr ? row : FindRow(OtherUnaryLoops(), op, dtype);
}

}  // namespace weir
