// _FusedMatMul: a product of matrices, a bias for each column, an activation.
//
// Each thread adds the bias and applies the activation to the piece of the product that it has just computed,
// a block at a time: the block is read from the first-level cache, not from memory as a node of its own
// would. The arithmetic is that of the single ops, so results are the same bits: of half and bfloat16 each
// intermediate result is rounded as its node would, in the cache.
#include <algorithm>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/fused_ops.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/float16_rows.h"
#include "kernels/cpu/math/bfloat16_product.h"
#include "kernels/cpu/math/elementwise_loops.h"
#include "kernels/cpu/math/matrix_product.h"
#include "kernels/cpu/math/transposition.h"
#include "kernels/cpu/nn/nn_math.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr int64_t kBlockElements = 1 << 12;  // 16 KiB

// What follows the bias: nothing, a loop of the elementwise table, or LeakyRelu.
class ActivationFunction {
 public:
  // Unimplemented for an op that is no activation.
  static absl::StatusOr<ActivationFunction> Create(const std::string& op, float alpha) {
    ActivationFunction activation;
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

  bool is_none() const { return loop_ == nullptr && !is_leaky_; }

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

// Adds the bias to rows of a product and applies the activation, a block at a time.
class Ending {
 public:
  Ending(const ActivationFunction& activation, int64_t columns, const float* bias)
      : activation_(activation), columns_(columns), bias_(bias) {}

  // Of rows [row, row + rows) and columns [column, column + columns) of the product x.
  void Finish(int64_t row, int64_t rows, int64_t column, int64_t columns, float* x) const {
    ForEachBlock(row, rows, column, columns, [&](int64_t r, int64_t c, int64_t at) {
      AddToRows<float>(r, c, x + at, bias_ + at % columns_, x + at);
      activation_.Apply(x + at, r * c);
    });
  }

  // The same from a product in single precision to the result.
  template <typename T>
  void Finish(int64_t row, int64_t rows, int64_t column, int64_t columns, float* x, T* y) const {
    ForEachBlock(row, rows, column, columns, [&](int64_t r, int64_t c, int64_t at) {
      FromFloats(x + at, y + at, r * c);
      FinishRounded(r, c, at, x + at, y + at);
    });
  }

  // The same of a product that is rounded already.
  template <typename T>
  void Finish(int64_t row, int64_t rows, T* y) const {
    float buffer[kBlockElements];
    ForEachBlock(row, rows, 0, columns_,
                 [&](int64_t r, int64_t c, int64_t at) { FinishRounded(r, c, at, buffer, y + at); });
  }

 private:
  // Calls body(rows, columns, index of the first element) for blocks of adjacent elements: some rows, or a
  // part of one.
  template <typename Body>
  void ForEachBlock(int64_t row, int64_t rows, int64_t column, int64_t columns, const Body& body) const {
    const bool are_adjacent = columns == columns_ && columns <= kBlockElements;
    const int64_t block_rows = are_adjacent ? kBlockElements / columns : 1;
    const int64_t block_columns = std::min(columns, kBlockElements);
    for (int64_t r = 0; r < rows; r += block_rows) {
      for (int64_t c = 0; c < columns; c += block_columns) {
        body(std::min(block_rows, rows - r), std::min(block_columns, columns - c),
             (row + r) * columns_ + column + c);
      }
    }
  }

  template <typename T>
  void FinishRounded(int64_t rows, int64_t columns, int64_t at, float* buffer, T* y) const {
    const int64_t count = rows * columns;
    ToFloats(y, buffer, count);
    AddToRows<float>(rows, columns, buffer, bias_ + at % columns_, buffer);
    FromFloats(buffer, y, count);
    if (activation_.is_none()) return;
    ToFloats(y, buffer, count);
    activation_.Apply(buffer, count);
    FromFloats(buffer, y, count);
  }

  const ActivationFunction& activation_;
  const int64_t columns_;  // of the product
  const float* const bias_;
};

template <typename T>
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
    ActivationFunction activation;
    if (ops.size() == 2) {
      WEIR_ASSIGN_OR_RETURN(activation,
                            ActivationFunction::Create(ops[1], construction.attr<float>("leakyrelu_alpha")));
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
    WEIR_ASSIGN_OR_RETURN(const Tensor wide_bias, Widen(context, bias));
    const Ending ending(activation_, shape.n, wide_bias.flat<float>().data());
    if constexpr (std::is_same_v<T, Bfloat16>) {
      const absl::Status status = products_.Run(context, shape, a, b, c);
      if (status.ok()) FinishRows(context.threads(), shape, ending, c->flat<T>().data());
      if (!absl::IsUnimplemented(status)) return status;
    }
    return MultiplyInFloat(context, shape, ending, c);
  }

 private:
  FusedMatMul(const KernelConstruction& construction, const ActivationFunction& activation)
      : transposition_(construction), activation_(activation) {}

  static absl::Status MultiplyInFloat(KernelContext& context, const ProductShape& shape, const Ending& ending,
                                      Tensor* c) {
    WEIR_ASSIGN_OR_RETURN(const Tensor a, Widen(context, context.input(0)));
    WEIR_ASSIGN_OR_RETURN(const Tensor b, Widen(context, context.input(1)));
    WEIR_ASSIGN_OR_RETURN(Tensor wide, WideOutput(context, *c));
    float* const x = wide.flat<float>().data();
    T* const y = c->flat<T>().data();
    return MultiplyFloat(context, shape, a.flat<float>().data(), b.flat<float>().data(), x,
                         [&](int64_t row, int64_t rows, int64_t column, int64_t columns) {
                           if constexpr (std::is_same_v<T, float>) {
                             ending.Finish(row, rows, column, columns, y);
                           } else {
                             ending.Finish(row, rows, column, columns, x, y);
                           }
                         });
  }

  static void FinishRows(ThreadPool& threads, const ProductShape& shape, const Ending& ending, T* y) {
    constexpr double kNanosecondsPerElement = 0.5;
    threads.ParallelFor(shape.m, kNanosecondsPerElement * static_cast<double>(shape.n),
                        [&](int64_t begin, int64_t end) { ending.Finish(begin, end - begin, y); });
  }

  struct NoProducts {};

  const Transposition transposition_;
  const ActivationFunction activation_;
  std::conditional_t<std::is_same_v<T, Bfloat16>, Bfloat16Products, NoProducts> products_;
};

}  // namespace

void RegisterFusedMatmulKernels(DeviceKernels& kernels) {
  kernels.Add<FusedMatMul>(kFusedMatMulOp, Types<float, Half, Bfloat16>("T"));
}

}  // namespace weir
