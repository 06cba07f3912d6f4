// _FusedElementwise: an expression of elementwise ops in one pass.
//
// The tensors are walked through in blocks so small that the results in between stay in the first-level
// cache. Each op of the expression is a call of the loop that its own kernel calls too (elementwise_loops.h),
// so results are the same bits; those of half and bfloat16 are rounded after every op, as their nodes would.
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "graph/fused_ops.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/float16_rows.h"
#include "kernels/cpu/math/elementwise_loops.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// What a block's registers take together: most of a first-level cache.
constexpr int64_t kRegisterBytes = 26 << 10;
constexpr int64_t kMaxBlock = 2048;  // elements

// One op. An operand below the number of inputs is an input, any other the result of an earlier operation.
struct Operation {
  UnaryLoop unary = nullptr;  // or
  BinaryLoop binary = nullptr;
  bool broadcasts = true;  // operands of one element are repeated; otherwise refused
  int x = 0;
  int y = 0;
  int target = 0;  // register
};

class Expression {
 public:
  static absl::StatusOr<Expression> Create(const KernelConstruction& construction) {
    const auto& ops = construction.attr<std::vector<std::string>>("ops");
    const auto& operands = construction.attr<std::vector<int64_t>>("operands");
    Expression expression;
    expression.num_inputs_ = static_cast<int>(construction.attr<int64_t>("N"));
    expression.dtype_ = construction.attr<DType>("T");
    if (expression.num_inputs_ > kMaxFusedElementwiseInputs ||
        static_cast<int64_t>(ops.size()) > kMaxFusedElementwiseOps) {
      return absl::UnimplementedError(absl::StrCat("at most ", kMaxFusedElementwiseInputs, " inputs and ",
                                                   kMaxFusedElementwiseOps, " ops, not ",
                                                   expression.num_inputs_, " and ", ops.size()));
    }
    if (ops.empty() || operands.size() != 2 * ops.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("operands must be two for each of the ops, at least one; ", "there are ",
                       operands.size(), " for ", ops.size()));
    }
    for (size_t i = 0; i < ops.size(); ++i) {
      WEIR_RETURN_IF_ERROR(expression.Add(ops[i], operands[2 * i], operands[2 * i + 1]));
    }
    expression.AssignRegisters();
    return expression;
  }

  DType dtype() const { return dtype_; }
  int num_inputs() const { return num_inputs_; }
  int num_registers() const { return num_registers_; }
  absl::Span<const Operation> operations() const { return operations_; }
  double nanoseconds() const { return nanoseconds_ * (IsSixteenBit(dtype_) ? 1.5 : 1); }

 private:
  absl::Status Add(const std::string& op, int64_t x, int64_t y) {
    const int64_t known = num_inputs_ + static_cast<int64_t>(operations_.size());
    const bool is_unary = y == kNoOperand;
    if (x < 0 || x >= known || (!is_unary && (y < 0 || y >= known))) {
      return absl::InvalidArgumentError(absl::StrCat(
          "op ", operations_.size(), ", ", op, ", has the operands ", x, " and ", y, "; there are ",
          num_inputs_, " inputs and ", operations_.size(), " results before it"));
    }
    Operation operation{.x = static_cast<int>(x), .y = static_cast<int>(is_unary ? x : y)};
    DType output = DType::kInvalid;
    if (is_unary) {
      if (const UnaryRow* const row = FindUnaryLoop(op, ComputeDType(dtype_))) {
        operation.unary = row->loop;
        output = row->output_dtype;
        nanoseconds_ += row->nanoseconds;
      }
    } else if (const BinaryRow* const row = FindBinaryLoop(op, ComputeDType(dtype_))) {
      operation.binary = row->loop;
      operation.broadcasts = row->traits.broadcasts;
      output = row->output_dtype;
      nanoseconds_ += row->nanoseconds;
    }
    if (output != ComputeDType(dtype_)) {
      return absl::UnimplementedError(absl::StrCat("'", op, "' is no op of ",
                                                   is_unary ? "one operand" : "two operands", " that gives ",
                                                   DTypeName(dtype_)));
    }
    operations_.push_back(operation);
    return absl::OkStatus();
  }

  // A register is free again after the last operation that reads it, which may write to it.
  void AssignRegisters() {
    const int count = static_cast<int>(operations_.size());
    std::vector<int> last_read(count, -1);
    for (int i = 0; i < count; ++i) {
      for (const int operand : {operations_[i].x, operations_[i].y}) {
        if (operand >= num_inputs_) last_read[operand - num_inputs_] = i;
      }
    }
    std::vector<int> free;
    for (int i = 0; i < count; ++i) {
      Operation& operation = operations_[i];
      const auto release = [&](int operand) {
        if (operand >= num_inputs_ && last_read[operand - num_inputs_] == i) {
          free.push_back(operations_[operand - num_inputs_].target);
        }
      };
      release(operation.x);
      if (operation.y != operation.x) release(operation.y);
      if (free.empty()) free.push_back(num_registers_++);
      operation.target = free.back();
      free.pop_back();
    }
  }

  DType dtype_ = DType::kInvalid;
  int num_inputs_ = 0;
  int num_registers_ = 0;
  double nanoseconds_ = 0;
  std::vector<Operation> operations_;
};

// An input in a step: its elements, or the one that stands for all of them.
struct Operand {
  const char* data = nullptr;
  bool is_repeated = false;
};

// Computes an expression over a range of elements, block by block. One for each thread.
class Evaluation {
 public:
  Evaluation(const Expression& expression, absl::Span<const Operand> inputs, char* output)
      : expression_(expression),
        inputs_(inputs),
        output_(output),
        size_(DTypeSize(expression.dtype())),
        wide_size_(DTypeSize(ComputeDType(expression.dtype()))),
        is_narrow_(IsSixteenBit(expression.dtype())) {
    // One register more for an operand that must be written out; of narrow types the inputs have some too.
    const int rows = expression.num_registers() + 1 + (is_narrow_ ? expression.num_inputs() + 1 : 0);
    const int64_t fitting = kRegisterBytes / (rows * static_cast<int64_t>(wide_size_));
    block_ = std::clamp<int64_t>(fitting / 64 * 64, 64, kMaxBlock);
  }

  void Over(int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += block_) RunBlock(i, std::min(block_, end - i));
  }

 private:
  char* Row(int row) { return registers_ + row * block_ * static_cast<int64_t>(wide_size_); }
  char* Scratch() { return Row(expression_.num_registers()); }
  char* WideInput(int input) { return Row(expression_.num_registers() + 1 + input); }
  char* Rounded() { return Row(expression_.num_registers() + 1 + expression_.num_inputs()); }
  static float* Floats(char* row) { return reinterpret_cast<float*>(row); }

  void RunBlock(int64_t at, int64_t count) {
    const DType dtype = expression_.dtype();
    if (is_narrow_) {
      for (int i = 0; i < expression_.num_inputs(); ++i) {
        const bool is_repeated = inputs_[i].is_repeated;
        ToFloats(dtype, inputs_[i].data + (is_repeated ? 0 : at * static_cast<int64_t>(size_)),
                 Floats(WideInput(i)), is_repeated ? 1 : count);
      }
    }
    char* const output = output_ + at * static_cast<int64_t>(size_);
    const absl::Span<const Operation> operations = expression_.operations();
    for (const Operation& operation : operations) {
      const bool is_last = &operation == &operations.back();
      char* const target = is_last && !is_narrow_ ? output : Row(operation.target);
      Apply(operation, at, count, target);
      if (!is_narrow_) continue;
      FromFloats(dtype, Floats(target), is_last ? output : Rounded(), count);
      if (!is_last) ToFloats(dtype, Rounded(), Floats(target), count);
    }
  }

  void Apply(const Operation& operation, int64_t at, int64_t count, char* target) {
    Operand x = At(operation.x, at), y = At(operation.y, at);
    if (x.is_repeated && (operation.unary != nullptr || y.is_repeated)) {
      Repeat(x.data, count);
      x = {Scratch()};
    }
    if (operation.unary != nullptr) {
      operation.unary(x.data, target, count);
    } else {
      const Operands operands = x.is_repeated   ? Operands::kScalarX
                                : y.is_repeated ? Operands::kScalarY
                                                : Operands::kBoth;
      operation.binary(x.data, y.data, target, count, operands);
    }
  }

  Operand At(int operand, int64_t at) {
    if (operand >= expression_.num_inputs()) {
      return {Row(expression_.operations()[operand - expression_.num_inputs()].target)};
    }
    const Operand& input = inputs_[operand];
    if (is_narrow_) return {WideInput(operand), input.is_repeated};
    return {input.data + (input.is_repeated ? 0 : at * static_cast<int64_t>(size_)), input.is_repeated};
  }

  void Repeat(const char* element, int64_t count) {
    if (wide_size_ == sizeof(float)) {
      std::fill_n(reinterpret_cast<float*>(Scratch()), count, *reinterpret_cast<const float*>(element));
    } else {
      std::fill_n(reinterpret_cast<double*>(Scratch()), count, *reinterpret_cast<const double*>(element));
    }
  }

  const Expression& expression_;
  const absl::Span<const Operand> inputs_;
  char* const output_;
  const size_t size_;
  const size_t wide_size_;
  const bool is_narrow_;
  int64_t block_ = 0;
  alignas(64) char registers_[kRegisterBytes];
};

class FusedElementwise final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(Expression expression, Expression::Create(construction));
    return std::unique_ptr<Kernel>(new FusedElementwise(std::move(expression)));
  }

  absl::Status Compute(KernelContext& context) override {
    const Shape* shape = &context.input(0).shape();
    for (int i = 1; i < expression_.num_inputs(); ++i) {
      const Shape& other = context.input(i).shape();
      if (IsBeyond(other, *shape)) shape = &other;
    }
    std::array<Operand, kMaxFusedElementwiseInputs> operands;
    WEIR_RETURN_IF_ERROR(ReadInputs(context, *shape, operands));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, AllocateOutput(context, *shape, operands));
    const int64_t count = output->num_elements();
    if (count == 0) return absl::OkStatus();
    char* const data = static_cast<char*>(output->data());
    const absl::Span<const Operand> inputs(operands.data(), expression_.num_inputs());
    context.threads().ParallelFor(count, expression_.nanoseconds(), [&](int64_t begin, int64_t end) {
      Evaluation(expression_, inputs, data).Over(begin, end);
    });
    return absl::OkStatus();
  }

 private:
  explicit FusedElementwise(Expression expression) : expression_(std::move(expression)) {}

  // The shape of the result is that of the inputs with more than one element or, where there are none, the
  // one with the most dimensions.
  static bool IsBeyond(const Shape& a, const Shape& b) {
    const bool a_is_one = a.num_elements() == 1, b_is_one = b.num_elements() == 1;
    if (a_is_one != b_is_one) return b_is_one;
    return a_is_one && a.rank() > b.rank();
  }

  absl::Status ReadInputs(KernelContext& context, const Shape& shape,
                          std::array<Operand, kMaxFusedElementwiseInputs>& operands) const {
    const bool is_one = shape.num_elements() == 1;
    for (int i = 0; i < expression_.num_inputs(); ++i) {
      const Tensor& input = context.input(i);
      const bool is_equal = input.shape() == shape;
      if (!is_equal && (input.num_elements() != 1 || input.shape().rank() > shape.rank())) {
        return absl::InvalidArgumentError(absl::StrCat("inputs[", i, "] must be ", shape.ToString(),
                                                       " or one element, is ", input.shape().ToString()));
      }
      operands[i] = {static_cast<const char*>(input.data()), !is_equal && !is_one};
      if (is_equal) continue;
      for (const Operation& operation : expression_.operations()) {
        if (operation.broadcasts || (operation.x != i && operation.y != i)) continue;
        return absl::InvalidArgumentError(absl::StrCat("an op takes operands of one shape: inputs[", i,
                                                       "] is ", input.shape().ToString(), ", not ",
                                                       shape.ToString()));
      }
    }
    return absl::OkStatus();
  }

  // In place of an input that nobody else reads, one of the first few.
  absl::StatusOr<Tensor*> AllocateOutput(
      KernelContext& context, const Shape& shape,
      const std::array<Operand, kMaxFusedElementwiseInputs>& operands) const {
    int whole[4], num_whole = 0;
    for (int i = 0; i < expression_.num_inputs() && num_whole < 4; ++i) {
      if (!operands[i].is_repeated) whole[num_whole++] = i;
    }
    if (num_whole == 0) return context.AllocateOutput(0, shape);
    for (int i = num_whole; i < 4; ++i) whole[i] = whole[0];
    return context.ForwardOrAllocateOutput({whole[0], whole[1], whole[2], whole[3]}, 0, shape);
  }

  const Expression expression_;
};

}  // namespace

void RegisterFusedElementwiseKernels(DeviceKernels& kernels) {
  kernels.Add<FusedElementwise>(kFusedElementwiseOp,
                                {{"T", {DType::kFloat32, DType::kFloat64, DType::kHalf, DType::kBfloat16}}});
}

}  // namespace weir
