#include "ops/losses/cross_entropy.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "ops/argument_checks.h"
#include "ops/losses/operands.h"
#include "ops/standard_ops.h"

namespace weir::losses {
namespace {

// All dimensions of x but the last made one.
Output AsRows(GraphBuilder& g, Output x, SourceLocation where) {
  if (!x || x.shape().rank() == 2) return x;
  const Output last = StridedSlice(g, ShapeOf(g, x, {}, where), ConstIntegers(g, {-1}, {}, where),
                                   ConstIntegers(g, {0}, {}, where), ConstIntegers(g, {1}, {}, where),
                                   {.end_mask = 1}, where);
  const Output shape =
      ConcatV2(g, {ConstIntegers(g, {-1}, {}, where), last}, Const(g, 0, {}, where), {}, where);
  return Reshape(g, x, shape, {}, where);
}

// The losses of rows in the shape of what the rows were made of, without its last dimension.
Output WithoutLast(GraphBuilder& g, Output losses, Output rows_of, SourceLocation where) {
  if (!losses || rows_of.shape().rank() == 2) return losses;
  const Output shape =
      StridedSlice(g, ShapeOf(g, rows_of, {}, where), ConstIntegers(g, {0}, {}, where),
                   ConstIntegers(g, {-1}, {}, where), ConstIntegers(g, {1}, {}, where), {}, where);
  return Reshape(g, losses, shape, {}, where);
}

bool CheckSmoothing(GraphBuilder& g, absl::string_view name, double smoothing, SourceLocation where) {
  if (smoothing >= 0 && smoothing <= 1) return true;
  g.SetError(
      absl::InvalidArgumentError(absl::StrCat(name, ": label_smoothing must be from 0 to 1, is ", smoothing)),
      where);
  return false;
}

// labels * (1 - smoothing) + rest
Output Smooth(GraphBuilder& g, Output labels, double smoothing, Output rest, SourceLocation where) {
  const Output kept = Mul(g, labels, ConstOf(g, labels.dtype(), 1 - smoothing, {}, where), {}, where);
  return AddV2(g, kept, rest, {}, where);
}

Output NumClasses(GraphBuilder& g, Output labels, SourceLocation where) {
  const Output count = StridedSlice(g, ShapeOf(g, labels, {}, where), ConstIntegers(g, {-1}, {}, where),
                                    ConstIntegers(g, {0}, {}, where), ConstIntegers(g, {1}, {}, where),
                                    {.end_mask = 1, .shrink_axis_mask = 1}, where);
  return CastTo(g, count, labels.dtype(), where);
}

// x without its last dimension, where it may be 1 and x has one dimension more than `rank`.
Output DropLastOne(GraphBuilder& g, Output x, int rank, SourceLocation where) {
  if (!x || x.shape().rank() != rank + 1) return x;
  const int64_t last = x.shape().dim(rank);
  const bool may_be_one = last == 1 || last == PartialShape::kUnknownDim;
  return may_be_one ? Squeeze(g, x, {.squeeze_dims = {-1}}, where) : x;
}

}  // namespace

Output SoftmaxCrossEntropy(GraphBuilder& g, Output onehot_labels, Output logits, const LossOptions& options,
                           double label_smoothing, SourceLocation where) {
  const LossOptions named = Named(options, "softmax_cross_entropy_loss");
  if (!CheckSameShapes(g, named.name, onehot_labels, logits, where)) return {};
  if (!CheckSmoothing(g, named.name, label_smoothing, where)) return {};
  const auto scope = g.NameScope(named.name);
  Output labels = CastTo(g, onehot_labels, logits.dtype(), where);
  if (label_smoothing > 0) {
    const Output smoothing = ConstOf(g, logits.dtype(), label_smoothing, {}, where);
    const Output rest = RealDiv(g, smoothing, NumClasses(g, labels, where), {}, where);
    labels = Smooth(g, labels, label_smoothing, rest, where);
  }
  labels = StopGradient(g, labels, {.name = "labels_stop_gradient"}, where);
  const Output rows = SoftmaxCrossEntropyWithLogits(g, AsRows(g, logits, where), AsRows(g, labels, where),
                                                    {.name = "xentropy"}, where)
                          .loss;
  const Output losses = WithoutLast(g, rows, logits, where);
  return Weigh(g, losses, named, where);
}

Output SparseSoftmaxCrossEntropy(GraphBuilder& g, Output labels, Output logits, const LossOptions& options,
                                 SourceLocation where) {
  LossOptions named = Named(options, "sparse_softmax_cross_entropy_loss");
  if (!g.ok()) return {};
  const Output* const given_weights = std::get_if<Output>(&named.weights);
  const Output weights_to_check = given_weights != nullptr ? *given_weights : Output();
  for (const auto& [argument, x] : {std::pair("labels", labels), std::pair("logits", logits),
                                    std::pair("the weights", weights_to_check)}) {
    if (x && !CheckGiven(g, named.name, argument, x, where)) return {};
  }
  const int rank = logits ? logits.shape().rank() - 1 : -1;
  if (rank < 0 || !labels || (labels.shape().rank() != rank && labels.shape().rank() != rank + 1)) {
    g.SetError(absl::InvalidArgumentError(
                   absl::StrCat(named.name, ": labels must be [...] and logits [...,classes]: labels are ",
                                labels ? labels.shape().ToString() : "missing", ", logits are ",
                                logits ? logits.shape().ToString() : "missing")),
               where);
    return {};
  }
  const auto scope = g.NameScope(named.name);
  const Output numbers = DropLastOne(g, labels, rank, where);
  if (auto* const weights = std::get_if<Output>(&named.weights)) {
    *weights = DropLastOne(g, *weights, rank, where);
  }
  const bool is_flat = logits.shape().rank() == 2;
  const Output flat = is_flat ? numbers : Reshape(g, numbers, ConstIntegers(g, {-1}, {}, where), {}, where);
  const Output rows =
      SparseSoftmaxCrossEntropyWithLogits(g, AsRows(g, logits, where), flat, {.name = "xentropy"}, where)
          .loss;
  const Output losses = WithoutLast(g, rows, logits, where);
  return Weigh(g, losses, named, where);
}

Output SigmoidCrossEntropy(GraphBuilder& g, Output multi_class_labels, Output logits,
                           const LossOptions& options, double label_smoothing, SourceLocation where) {
  const LossOptions named = Named(options, "sigmoid_cross_entropy_loss");
  if (!CheckSameShapes(g, named.name, multi_class_labels, logits, where)) return {};
  if (!CheckSmoothing(g, named.name, label_smoothing, where)) return {};
  const auto scope = g.NameScope(named.name);
  Output labels = CastTo(g, multi_class_labels, logits.dtype(), where);
  if (label_smoothing > 0) {
    labels =
        Smooth(g, labels, label_smoothing, ConstOf(g, logits.dtype(), label_smoothing / 2, {}, where), where);
  }
  const Output losses = SigmoidCrossEntropyWithLogits(g, logits, labels, {.name = "xentropy"}, where);
  return Weigh(g, losses, named, where);
}

Output LogLoss(GraphBuilder& g, Output labels, Output predictions, const LossOptions& options, double epsilon,
               SourceLocation where) {
  const LossOptions named = Named(options, "log_loss");
  if (!CheckSameShapes(g, named.name, labels, predictions, where)) return {};
  if (!CheckFinite(g, named.name, {{"epsilon", epsilon}}, where)) return {};
  const auto scope = g.NameScope(named.name);
  const Output p = CastTo(g, predictions, DType::kFloat32, where);
  const Output y = CastTo(g, labels, DType::kFloat32, where);
  const Output one = Const(g, 1.0f, {}, where);
  const Output tiny = Const(g, static_cast<float>(epsilon), {}, where);
  const Output of_true = Mul(g, y, Log(g, AddV2(g, p, tiny, {}, where), {}, where), {}, where);
  const Output no = Sub(g, one, p, {}, where);
  const Output of_false =
      Mul(g, Sub(g, one, y, {}, where), Log(g, AddV2(g, no, tiny, {}, where), {}, where), {}, where);
  const Output losses = Sub(g, Neg(g, of_true, {}, where), of_false, {}, where);
  return Weigh(g, losses, named, where);
}

Output HingeLoss(GraphBuilder& g, Output labels, Output logits, const LossOptions& options,
                 SourceLocation where) {
  const LossOptions named = Named(options, "hinge_loss");
  if (!CheckSameShapes(g, named.name, labels, logits, where)) return {};
  const auto scope = g.NameScope(named.name);
  const Output one = Const(g, 1.0f, {}, where);
  const Output doubled =
      Mul(g, Const(g, 2.0f, {}, where), CastTo(g, labels, DType::kFloat32, where), {}, where);
  const Output sign = Sub(g, doubled, one, {}, where);
  const Output margin = Mul(g, sign, CastTo(g, logits, DType::kFloat32, where), {}, where);
  const Output losses = Relu(g, Sub(g, one, margin, {}, where), {}, where);
  return Weigh(g, losses, named, where);
}

}  // namespace weir::losses
