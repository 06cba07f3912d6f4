// _FusedMatMul: a product of matrices, a bias for each column, an activation.
//
// Each thread adds the bias and applies the activation to the piece of the product that it has just computed,
// a block at a time: the block is read from the first-level cache, not from memory as a node of its own
// would. The arithmetic is that of the single ops, so results are the same bits.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/fused_ops.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/math/elementwise_loops.h"
#include "kernels/cpu/math/math_kernels.h"
#include "kernels/cpu/math/matrix_product.h"
#include "kernels/cpu/math/transposition.h"
#include "kernels/cpu/nn/nn_math.h"

namespace weir {
namespace {

constexpr int64_t kBlockElements = 1 << 12;  // 16 KiB

// What follows the bias: nothing, a loop of the elementwise table, or LeakyRelu.
class Activation {
 public:
  // Unimplemented for an op that is no activation.
  static absl::StatusOr<Activation> Create(const std::string& op, float alpha) {
    Activation activation;
    if (op == "LeakyRelu") {
      activation.is_leaky_ = true;
      activation.alpha_ = alpha;
      return activation;
    }
    for (const char* known : {"Relu", "Relu6", "Elu", "Tanh", "Sigmoid"}) {
      if (op != known) continue;
      const UnaryRow* const row = FindUnaryLoop(op, DType::kFloat32);
      if (row == nullptr) break;
      activation.loop_ = row->loop;
      return activation;
    }
    return absl::UnimplementedError(absl::StrCat("'", op, "' cannot follow BiasAdd in ", kFusedMatMulOp));
  }

  void Apply(float* x, int64_t count) const {
    if (loop_ != nullptr) loop_(x, x, count);
    if (!is_leaky_) return;
    for (int64_t i = 0; i < count; ++i) x[i] = x[i] > 0.0f ? x[i] : x[i] * alpha_;
  }

 private:
  UnaryLoop loop_ = nullptr;
  bool is_leaky_ = false;
  float alpha_ = 0;
};

class FusedMatMul final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    const auto& ops = construction.attr<std::vector<std::string>>("fused_ops");
    if (ops.empty() || ops.size() > 2 || ops[0] != "BiasAdd" || construction.attr<int64_t>("num_args") != 1) {
      return absl::UnimplementedError(absl::StrCat(kFusedMatMulOp,
                                                   " needs one argument and fused_ops of BiasAdd and perhaps "
                                                   "an activation, has ",
                                                   construction.attr<int64_t>("num_args"), " and [",
                                                   absl::StrJoin(ops, ", "), "]"));
    }
    Activation activation;
    if (ops.size() == 2) {
      WEIR_ASSIGN_OR_RETURN(activation,
                            Activation::Create(ops[1], construction.attr<float>("leakyrelu_alpha")));
    }
    return std::unique_ptr<Kernel>(new FusedMatMul(construction, activation));
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& a = context.input(0);
    const Tensor& b = context.input(1);
    const Tensor& bias = context.input(2);
    WEIR_ASSIGN_OR_RETURN(const ProductShape shape, transposition_.ShapeOfProduct(a.shape(), b.shape()));
    if (bias.shape() != Shape({shape.n})) {
      return absl::InvalidArgumentError(absl::StrCat("the bias must be [", shape.n, "] for a product [",
                                                     shape.m, ",", shape.n, "], is ",
                                                     bias.shape().ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * c, AllocateProduct(context, shape));
    float* const product = c->flat<float>().data();
    const float* const biases = bias.flat<float>().data();
    return MultiplyFloat(context.threads(), shape, a.flat<float>().data(), b.flat<float>().data(), product,
                         [&](int64_t row, int64_t rows, int64_t column, int64_t columns) {
                           float* const piece = product + row * shape.n + column;
                           if (columns == shape.n) {
                             FinishRows(rows, columns, biases, piece);
                           } else {
                             for (int64_t r = 0; r < rows; ++r) {
                               FinishRows(1, columns, biases + column, piece + r * shape.n);
                             }
                           }
                         });
  }

 private:
  FusedMatMul(const KernelConstruction& construction, const Activation& activation)
      : transposition_(construction), activation_(activation) {}

  // Of adjacent rows of `columns` elements.
  void FinishRows(int64_t rows, int64_t columns, const float* bias, float* x) const {
    const int64_t block_columns = std::min(columns, kBlockElements);
    const int64_t block_rows = std::max<int64_t>(1, kBlockElements / columns);
    if (block_columns == columns) {
      for (int64_t r = 0; r < rows; r += block_rows) {
        FinishBlock(std::min(block_rows, rows - r), columns, bias, x + r * columns);
      }
      return;
    }
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; c += block_columns) {
        FinishBlock(1, std::min(block_columns, columns - c), bias + c, x + r * columns + c);
      }
    }
  }

  void FinishBlock(int64_t rows, int64_t columns, const float* bias, float* x) const {
    AddToRows<float>(rows, columns, x, bias, x);
    activation_.Apply(x, rows * columns);
  }

  const Transposition transposition_;
  const Activation activation_;
};

}  // namespace

void RegisterFusedMatMulKernels(DeviceKernels& kernels) {
  kernels.Add<FusedMatMul>(kFusedMatMulOp, {{"T", {DType::kFloat32}}});
}

}  // namespace weir
