// Kernels of the elementwise ops. A kernel finds its inner loop when it is made; a step then only chooses
// between equal shapes (one call of the loop) and broadcasting (one call a row).
#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/broadcast.h"
#include "kernels/cpu/float16_rows.h"
#include "kernels/cpu/math/elementwise_loops.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// half and bfloat16 are computed in float, this many elements at a time.
constexpr int64_t kBlock = 1024;

const char* At(const void* data, int64_t index, size_t size) {
  return static_cast<const char*>(data) + index * size;
}
char* At(void* data, int64_t index, size_t size) { return static_cast<char*>(data) + index * size; }

// A binary loop over operands of `dtype`, 16-bit floating types included.
class BinaryOperation {
 public:
  BinaryOperation(const BinaryRow& row, DType dtype)
      : loop_(row.loop),
        dtype_(dtype),
        size_(DTypeSize(dtype)),
        makes_bool_(row.output_dtype == DType::kBool),
        output_size_(makes_bool_ ? 1 : size_),
        nanoseconds_(row.nanoseconds * (IsSixteenBit(dtype) ? 1.5 : 1)) {}

  bool Run(const void* x, const void* y, void* z, int64_t n, Operands operands) const {
    return IsSixteenBit(dtype_) ? RunInFloat(x, y, z, n, operands) : loop_(x, y, z, n, operands);
  }

  size_t size() const { return size_; }
  size_t output_size() const { return output_size_; }
  double nanoseconds() const { return nanoseconds_; }
  // Whether its operands may be copied byte by byte; strings may not.
  bool takes_plain_bytes() const { return IsPlainBytes(dtype_); }

 private:
  bool RunInFloat(const void* x, const void* y, void* z, int64_t n, Operands operands) const {
    float x_block[kBlock], y_block[kBlock];
    bool ok = true;
    for (int64_t i = 0; i < n && ok; i += kBlock) {
      const int64_t count = std::min(kBlock, n - i);
      if (operands != Operands::kScalarX)
        ToFloats(dtype_, At(x, i, 2), x_block, count);
      else
        ToFloats(dtype_, x, x_block, 1);
      if (operands != Operands::kScalarY)
        ToFloats(dtype_, At(y, i, 2), y_block, count);
      else
        ToFloats(dtype_, y, y_block, 1);
      if (makes_bool_) {
        ok = loop_(x_block, y_block, At(z, i, 1), count, operands);
        continue;
      }
      float z_block[kBlock];
      ok = loop_(x_block, y_block, z_block, count, operands);
      FromFloats(dtype_, z_block, At(z, i, 2), count);
    }
    return ok;
  }

  const BinaryLoop loop_;
  const DType dtype_;
  const size_t size_;
  const bool makes_bool_;
  const size_t output_size_;
  const double nanoseconds_;
};

absl::Status Refusal(elementwise::Refused refused) {
  return absl::InvalidArgumentError(refused == elementwise::Refused::kNegative
                                        ? "Integers to negative integer powers are not allowed"
                                        : "Integer division by zero");
}

Operands OperandsOf(int64_t x_stride, int64_t y_stride) {
  return x_stride == 0 ? Operands::kScalarX : y_stride == 0 ? Operands::kScalarY : Operands::kBoth;
}

class BinaryKernel final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    const DType dtype = construction.input_type(0);
    const BinaryRow* row = FindBinaryLoop(construction.node().op_name(), ComputeDType(StoredAs(dtype)));
    if (row == nullptr) return absl::InternalError(absl::StrCat("no loop for ", DTypeName(dtype)));
    return std::unique_ptr<Kernel>(new BinaryKernel(construction, *row));
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    const Tensor& y = context.input(1);
    if (x.shape() == y.shape()) return ComputeFlat(context, x, y, x.shape(), Operands::kBoth);
    if (!traits_.broadcasts) {
      return absl::InvalidArgumentError(absl::StrCat(x_name_, " is ", x.shape().ToString(), " but ", y_name_,
                                                     " is ", y.shape().ToString()));
    }
    if (y.num_elements() == 1 && y.shape().rank() <= x.shape().rank()) {
      return ComputeFlat(context, x, y, x.shape(), Operands::kScalarY);
    }
    if (x.num_elements() == 1 && x.shape().rank() <= y.shape().rank()) {
      return ComputeFlat(context, x, y, y.shape(), Operands::kScalarX);
    }
    return ComputeBroadcast(context, x, y);
  }

 private:
  BinaryKernel(const KernelConstruction& construction, const BinaryRow& row)
      : operation_(row, construction.input_type(0)),
        traits_(row.traits),
        x_name_(construction.node().op().inputs()[0].name),
        y_name_(construction.node().op().inputs()[1].name) {
    const AttrValue* strict = construction.node().FindAttr("incompatible_shape_error");
    if (strict != nullptr && !strict->get<bool>()) {
      answers_incompatible_ = true;
      incompatible_answer_ = construction.node().op_name() == "NotEqual";
    }
  }

  absl::Status Refusal() const { return weir::Refusal(traits_.refused); }

  absl::Status ComputeFlat(KernelContext& context, const Tensor& x, const Tensor& y, const Shape& shape,
                           Operands operands) const {
    // The single element of a repeated operand is read all along: only the other one may be overwritten.
    absl::StatusOr<Tensor*> output =
        operands == Operands::kBoth      ? context.ForwardOrAllocateOutput({0, 1}, 0, shape)
        : operands == Operands::kScalarY ? context.ForwardOrAllocateOutput({0}, 0, shape)
                                         : context.ForwardOrAllocateOutput({1}, 0, shape);
    if (!output.ok()) return std::move(output).status();
    const int64_t n = (*output)->num_elements();
    if (n == 0) return absl::OkStatus();
    if (n * operation_.nanoseconds() < kShortLoop) {
      return operation_.Run(x.data(), y.data(), (*output)->data(), n, operands) ? absl::OkStatus()
                                                                                : Refusal();
    }
    std::atomic<bool> ok{true};
    const size_t size = operation_.size();
    context.threads().ParallelFor(n, operation_.nanoseconds(), [&](int64_t begin, int64_t end) {
      const void* from_x = operands == Operands::kScalarX ? x.data() : At(x.data(), begin, size);
      const void* from_y = operands == Operands::kScalarY ? y.data() : At(y.data(), begin, size);
      void* to = At((*output)->data(), begin, operation_.output_size());
      if (!operation_.Run(from_x, from_y, to, end - begin, operands)) ok = false;
    });
    return ok ? absl::OkStatus() : Refusal();
  }

  absl::Status ComputeBroadcast(KernelContext& context, const Tensor& x, const Tensor& y) const {
    absl::StatusOr<Shape> shape = BroadcastShapes({&x.shape(), &y.shape()});
    if (!shape.ok()) {
      if (!answers_incompatible_) return shape.status();
      WEIR_ASSIGN_OR_RETURN(Tensor * answer, context.AllocateOutput(0, Shape()));
      answer->flat<bool>()[0] = incompatible_answer_;
      return absl::OkStatus();
    }
    absl::StatusOr<Tensor*> output = x.shape() == *shape   ? context.ForwardOrAllocateOutput({0}, 0, *shape)
                                     : y.shape() == *shape ? context.ForwardOrAllocateOutput({1}, 0, *shape)
                                                           : context.AllocateOutput(0, *shape);
    if (!output.ok()) return output.status();
    if (shape->num_elements() == 0) return absl::OkStatus();
    const BroadcastLoops loops = MakeBroadcastLoops(*shape, {&x.shape(), &y.shape()});
    std::atomic<bool> ok{true};
    context.threads().ParallelFor(
        loops.num_rows(), loops.inner_size() * operation_.nanoseconds() + 3, [&](int64_t begin, int64_t end) {
          const bool accepted =
              loops.inner_size() < kShortRow && operation_.takes_plain_bytes()
                  ? ComputeShortRows(loops, begin, end, x.data(), y.data(), (*output)->data())
                  : ComputeRows(loops, begin, end, x.data(), y.data(), (*output)->data());
          if (!accepted) ok = false;
        });
    return ok ? absl::OkStatus() : Refusal();
  }

  bool ComputeRows(const BroadcastLoops& loops, int64_t begin, int64_t end, const void* x, const void* y,
                   void* z) const {
    const Operands operands = OperandsOf(loops.strides[0].back(), loops.strides[1].back());
    const int64_t row_size = loops.inner_size();
    const size_t size = operation_.size();
    bool ok = true;
    ForEachRow(loops, 2, begin, end, [&](int64_t row, const int64_t* offsets) {
      ok &= operation_.Run(At(x, offsets[0], size), At(y, offsets[1], size),
                           At(z, row * row_size, operation_.output_size()), row_size, operands);
    });
    return ok;
  }

  // Many rows with one call: it costs as much as some tens of elements.
  bool ComputeShortRows(const BroadcastLoops& loops, int64_t begin, int64_t end, const void* x, const void* y,
                        void* z) const {
    const int64_t row_size = loops.inner_size();
    const int64_t block_rows = std::min(kBlock / row_size, end - begin);
    SpreadOperand spread_x(loops, 0, x, operation_.size(), block_rows);
    SpreadOperand spread_y(loops, 1, y, operation_.size(), block_rows);
    bool ok = true;
    for (int64_t row = begin; row < end; row += block_rows) {
      const int64_t last = std::min(end, row + block_rows);
      ok &= operation_.Run(spread_x.Spread(row, last), spread_y.Spread(row, last),
                           At(z, row * row_size, operation_.output_size()), (last - row) * row_size,
                           Operands::kBoth);
    }
    return ok;
  }

  static constexpr int64_t kShortRow = 128;  // elements
  // Nanoseconds of a loop that ParallelFor would not split. Small additions are short enough to notice its
  // call.
  static constexpr double kShortLoop = 10'000;

  const BinaryOperation operation_;
  const elementwise::Traits traits_;
  const std::string x_name_, y_name_;
  bool answers_incompatible_ = false;
  bool incompatible_answer_ = false;
};

class UnaryKernel final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    const DType dtype = construction.input_type(0);
    const UnaryRow* row = FindUnaryLoop(construction.node().op_name(), ComputeDType(dtype));
    if (row == nullptr) return absl::InternalError(absl::StrCat("no loop for ", DTypeName(dtype)));
    return std::unique_ptr<Kernel>(new UnaryKernel(dtype, *row));
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    absl::StatusOr<Tensor*> output = context.ForwardOrAllocateOutput({0}, 0, x.shape());
    if (!output.ok()) return std::move(output).status();
    std::atomic<bool> ok{true};
    context.threads().ParallelFor(x.num_elements(), nanoseconds_, [&](int64_t begin, int64_t end) {
      if (!Run(At(x.data(), begin, size_), At((*output)->data(), begin, output_size_), end - begin))
        ok = false;
    });
    return ok ? absl::OkStatus() : Refusal(refused_);
  }

 private:
  UnaryKernel(DType dtype, const UnaryRow& row)
      : loop_(row.loop),
        dtype_(dtype),
        size_(DTypeSize(dtype)),
        makes_bool_(row.output_dtype == DType::kBool),
        output_size_(makes_bool_ ? 1 : size_),
        nanoseconds_(row.nanoseconds * (IsSixteenBit(dtype) ? 1.5 : 1)),
        refused_(row.traits.refused) {}

  bool Run(const void* x, void* y, int64_t n) const {
    if (!IsSixteenBit(dtype_)) return loop_(x, y, n);
    float x_block[kBlock], y_block[kBlock];
    bool ok = true;
    for (int64_t i = 0; i < n && ok; i += kBlock) {
      const int64_t count = std::min(kBlock, n - i);
      ToFloats(dtype_, At(x, i, 2), x_block, count);
      ok = loop_(x_block, makes_bool_ ? static_cast<void*>(At(y, i, 1)) : y_block, count);
      if (!makes_bool_) FromFloats(dtype_, y_block, At(y, i, 2), count);
    }
    return ok;
  }

  const UnaryLoop loop_;
  const DType dtype_;
  const size_t size_;
  const bool makes_bool_;
  const size_t output_size_;
  const double nanoseconds_;
  const elementwise::Refused refused_;
};

// The sum of equally shaped tensors, added up in the order of the inputs.
class AddN final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    const DType dtype = construction.input_type(0);
    const BinaryRow* row = FindBinaryLoop("AddV2", ComputeDType(dtype));
    if (row == nullptr) return absl::InternalError(absl::StrCat("no loop for ", DTypeName(dtype)));
    return std::unique_ptr<Kernel>(new AddN(BinaryOperation(*row, dtype)));
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& first = context.input(0);
    const int count = context.num_inputs();
    for (int i = 1; i < count; ++i) {
      if (context.input(i).shape() == first.shape()) continue;
      return absl::InvalidArgumentError(absl::StrCat("inputs must have one shape: inputs[0] is ",
                                                     first.shape().ToString(), ", inputs[", i, "] is ",
                                                     context.input(i).shape().ToString()));
    }
    if (count == 1) {
      context.set_output(0, first);
      return absl::OkStatus();
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.ForwardOrAllocateOutput({0}, 0, first.shape()));
    const size_t size = operation_.size();
    context.threads().ParallelFor(
        first.num_elements(), operation_.nanoseconds() * (count - 1), [&](int64_t begin, int64_t end) {
          char* sum = At(output->data(), begin, size);
          operation_.Run(At(first.data(), begin, size), At(context.input(1).data(), begin, size), sum,
                         end - begin, Operands::kBoth);
          for (int i = 2; i < count; ++i) {
            operation_.Run(sum, At(context.input(i).data(), begin, size), sum, end - begin, Operands::kBoth);
          }
        });
    return absl::OkStatus();
  }

 private:
  explicit AddN(const BinaryOperation& operation) : operation_(operation) {}
  const BinaryOperation operation_;
};

// The dtypes that an op has a loop for. The half types go where float goes.
using DTypesByOp = std::map<std::string, std::vector<DType>>;

template <typename Row>
DTypesByOp DTypesOf(absl::Span<const Row> main_rows, absl::Span<const Row> other_rows) {
  DTypesByOp result;
  for (absl::Span<const Row> rows : {main_rows, other_rows}) {
    for (const Row& row : rows) {
      std::vector<DType>& dtypes = result[row.op];
      dtypes.push_back(row.dtype);
      if (row.dtype == DType::kFloat32) dtypes.insert(dtypes.end(), {DType::kHalf, DType::kBfloat16});
    }
  }
  return result;
}

template <typename K>
void AddAll(DeviceKernels& kernels, const DTypesByOp& dtypes_of) {
  for (const auto& [op, dtypes] : dtypes_of) {
    const bool has_type_attr = dtypes != std::vector<DType>{DType::kBool};  // ops of truth values have none
    kernels.Add<K>(op, has_type_attr ? DeviceKernels::TypeAttrs{{"T", dtypes}} : DeviceKernels::TypeAttrs{});
  }
}

}  // namespace

void RegisterElementwiseKernels(DeviceKernels& kernels) {
  DTypesByOp binary = DTypesOf(BinaryLoops(), OtherBinaryLoops());
  // Quantized numbers are equal where their levels are.
  for (const char* op : {"Equal", "NotEqual"}) {
    binary.at(op).insert(binary.at(op).end(),
                         {DType::kQint8, DType::kQuint8, DType::kQint32, DType::kQint16, DType::kQuint16});
  }
  AddAll<BinaryKernel>(kernels, binary);
  AddAll<UnaryKernel>(kernels, DTypesOf(UnaryLoops(), OtherUnaryLoops()));
  kernels.Add<AddN>("AddN", {{"T", binary.at("AddV2")}});
}

}  // namespace weir
