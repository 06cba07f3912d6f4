#include "distributed/gradient_averaging.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "distributed/gradient_buckets.h"
#include "ops/standard_ops.h"

namespace weir {
namespace {

Output Sizes(GraphBuilder& g, absl::Span<const int64_t> values, SourceLocation where) {
  return Const(g, Tensor::FromSpan<int64_t>(Shape({static_cast<int64_t>(values.size())}), values), {}, where);
}

class Averaging {
 public:
  Averaging(CollectiveNodes nodes, const DistributedOptimizerOptions& options)
      : nodes_(nodes), options_(options) {}

  AveragedGradients Add(GraphBuilder& g, std::vector<GradientAndVariable> gradients, SourceLocation where) {
    std::vector<Node*> collectives;
    for (const GradientBucket& bucket : MakeBuckets(gradients)) {
      AverageBucket(g, bucket, &gradients, &collectives, where);
    }
    for (GradientAndVariable& one : gradients) {
      const auto* const rows = std::get_if<IndexedSlices>(&one.gradient);
      if (rows == nullptr || IsNull(one.gradient)) continue;
      if (options_.reduction == GradientReduction::kAdasum) {
        g.SetError(absl::InvalidArgumentError(
                       absl::StrCat("Adasum is not for gradients of rows, as variable '", one.variable.name,
                                    "' has: its rows are chosen by each rank")),
                   where);
        break;
      }
      one.gradient = GatherRows(g, *rows, &collectives, where);
    }
    return {std::move(gradients), std::move(collectives)};
  }

 private:
  // Gradients of the last variables are ready first.
  std::vector<GradientBucket> MakeBuckets(const std::vector<GradientAndVariable>& gradients) const {
    std::vector<GradientSize> sizes;
    for (size_t i = gradients.size(); i-- > 0;) {
      if (IsNull(gradients[i].gradient) || !std::holds_alternative<Output>(gradients[i].gradient)) continue;
      const ModelVariable& variable = gradients[i].variable;
      const int64_t num_elements = variable.shape.num_elements();
      sizes.push_back({i, variable.dtype, num_elements * static_cast<int64_t>(DTypeSize(variable.dtype))});
    }
    if (options_.reduction == GradientReduction::kAdasum) return MakeGradientBuckets(sizes, 0, 0);
    return MakeGradientBuckets(sizes, options_.first_bucket_bytes, options_.bucket_bytes);
  }

  Reduction ElementReduction() const {
    return options_.reduction == GradientReduction::kAdasum ? Reduction::kAdasum : Reduction::kSum;
  }
  bool Averages() const { return options_.reduction == GradientReduction::kAverage; }

  DType TypeOnTheWay(DType dtype) const {
    if (dtype != DType::kFloat32 && dtype != DType::kFloat64) return dtype;
    if (options_.compression == GradientCompression::kHalf) return DType::kHalf;
    return options_.compression == GradientCompression::kBfloat16 ? DType::kBfloat16 : dtype;
  }

  void AverageBucket(GraphBuilder& g, const GradientBucket& bucket,
                     std::vector<GradientAndVariable>* gradients, std::vector<Node*>* collectives,
                     SourceLocation where) {
    const auto flat = [&](size_t i) {
      return Reshape(g, std::get<Output>((*gradients)[i].gradient), ConstIntegers(g, {-1}, {}, where), {},
                     where);
    };
    const auto average = [&](Output x) {
      const DType on_the_way = TypeOnTheWay(bucket.dtype);
      if (x && on_the_way != x.dtype()) x = Cast(g, x, on_the_way, {}, where);
      Output all = nodes_.AllReduce(g, x, ElementReduction(), Averages(), where);
      collectives->push_back(all.node);
      if (all && on_the_way != bucket.dtype) all = Cast(g, all, bucket.dtype, {}, where);
      return all;
    };
    if (bucket.members.size() == 1) {
      Gradient& gradient = (*gradients)[bucket.members[0]].gradient;
      gradient = average(std::get<Output>(gradient));
      return;
    }
    std::vector<Output> parts;
    std::vector<int64_t> sizes;
    for (const size_t i : bucket.members) {
      parts.push_back(flat(i));
      sizes.push_back((*gradients)[i].variable.shape.num_elements());
    }
    const Output joined = average(ConcatV2(g, parts, Const(g, 0, {}, where), {}, where));
    const std::vector<Output> split = SplitV(g, joined, Sizes(g, sizes, where), Const(g, 0, {}, where),
                                             static_cast<int64_t>(sizes.size()), {}, where);
    if (!g.ok()) return;
    for (size_t k = 0; k < bucket.members.size(); ++k) {
      GradientAndVariable& one = (*gradients)[bucket.members[k]];
      one.gradient = Reshape(g, split[k], Sizes(g, one.variable.shape.dims(), where), {}, where);
    }
  }

  IndexedSlices GatherRows(GraphBuilder& g, const IndexedSlices& rows, std::vector<Node*>* collectives,
                           SourceLocation where) {
    Output values = rows.values;
    if (values && Averages()) {
      values = Div(g, values, ConstOf(g, values.dtype(), nodes_.size()), {}, where);
    }
    values = nodes_.AllGather(g, values, where);
    const Output indices = nodes_.AllGather(g, rows.indices, where);
    collectives->push_back(values.node);
    collectives->push_back(indices.node);
    return {values, indices, rows.dense_shape};
  }

  CollectiveNodes nodes_;
  const DistributedOptimizerOptions& options_;
};

}  // namespace

absl::Status CheckGradientAveraging(absl::string_view asker, const DistributedOptimizerOptions& options) {
  if (options.bucket_bytes < 1 || options.first_bucket_bytes < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(asker, ": bucket_bytes and first_bucket_bytes must be at least 1, are ",
                     options.bucket_bytes, " and ", options.first_bucket_bytes));
  }
  if (options.backward_passes_per_step >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(asker, ": backward_passes_per_step must be at least 1, is ",
                                                 options.backward_passes_per_step));
}

AveragedGradients AverageGradients(GraphBuilder& g, CollectiveNodes nodes,
                                   std::vector<GradientAndVariable> gradients,
                                   const DistributedOptimizerOptions& options, SourceLocation where) {
  return Averaging(nodes, options).Add(g, std::move(gradients), where);
}

std::vector<GradientAndVariable> GradientsAfter(GraphBuilder& g, const std::vector<Node*>& nodes,
                                                std::vector<GradientAndVariable> gradients,
                                                SourceLocation where) {
  const auto after = g.ControlScope(nodes);
  for (GradientAndVariable& one : gradients) {
    if (IsNull(one.gradient)) continue;
    if (auto* const rows = std::get_if<IndexedSlices>(&one.gradient)) {
      rows->values = Identity(g, rows->values, {}, where);
    } else {
      one.gradient = Identity(g, std::get<Output>(one.gradient), {}, where);
    }
  }
  return gradients;
}

}  // namespace weir
