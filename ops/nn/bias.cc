// The bias of a layer.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/gradient_formulas.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

using namespace formulas;  // NOLINT: the vocabulary of this file

bool ChannelsAreFirst(const AttrMap& attrs) { return attrs.at("data_format").get<std::string>() != "NHWC"; }

// The axis of the channels in a tensor of that rank.
int ChannelAxis(const AttrMap& attrs, int rank) { return ChannelsAreFirst(attrs) ? 1 : rank - 1; }

}  // namespace

std::vector<OpDef> BiasOps() {
  return {
      {.name = "BiasAdd",
       .summary = "Adds bias[c] to all elements of channel c.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_ASSIGN_OR_RETURN(const PartialShape value, s.WithRankAtLeast(0, 2));
         WEIR_ASSIGN_OR_RETURN(const PartialShape bias, s.WithRank(1, 1));
         if (!value.has_rank()) return OkStatus();
         const int axis = ChannelAxis(s.attrs(), value.rank());
         const auto channels = s.MergeDims(value.dim(axis), bias.dim(0));
         if (!channels.ok()) {
           return InvalidArgumentError(
               StrCat("channels differ: value is ", value.ToString(), ", bias is ", bias.ToString()));
         }
         std::vector<int64_t> dims = DimsOf(value);
         dims[axis] = *channels;
         return SetOutputDims(s, 0, dims);
       },
       .gradient = [](GradientContext& g) -> Status {
         g.set_input_grad(0, g.grad(0));
         g.set_input_grad(
             1, g.Add("BiasAddGrad", {g.grad(0)}, {{"data_format", g.attr<std::string>("data_format")}}));
         return OkStatus();
       }},
      {.name = "BiasAddGrad",
       .summary = "Adds up the elements of every channel: the gradient of BiasAdd's bias.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_ASSIGN_OR_RETURN(const PartialShape value, s.WithRankAtLeast(0, 2));
         s.set_output(0, PartialShape({value.has_rank() ? value.dim(ChannelAxis(s.attrs(), value.rank()))
                                                        : kUnknown}));
         return OkStatus();
       },
       .gradient = [](GradientContext& g) -> Status {
         Output bias = g.grad(0);
         if (ChannelsAreFirst(g.node().attrs())) {
           // [1, channels, 1...], as many dimensions as the input has.
           const Output inner_rank = Sub(g, g.Add("Rank", {g.input(0)}), g.Constant(DType::kInt32, 2));
           const Output ones =
               g.Add("Fill", {Reshape(g, inner_rank, g.Integers({1})), g.Constant(DType::kInt32, 1)});
           const std::vector<Output> dims = {g.Integers({1, -1}), ones};
           bias = Reshape(g, bias, g.Add("ConcatV2", {dims, g.Constant(DType::kInt32, 0)}));
         }
         g.set_input_grad(0, BroadcastTo(g, bias, ShapeOf(g, g.input(0))));
         return OkStatus();
       }},
  };
}

}  // namespace weir
