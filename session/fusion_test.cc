// Nodes that run as one: where they do, where they must not, and that the numbers stay the same bits.
#include "graph/rewrite/fusion.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "graph/rewrite/prune.h"
#include "gtest/gtest.h"
#include "session/test_fusion.h"

namespace weir {
namespace {

using ::testing::Contains;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

TEST_F(FusionTest, DenseLayersRunAsOneNode) {
  for (const DType dtype : kDTypes) {
    dtype_ = dtype;
    for (const char* activation : {"Relu", "Relu6", "Elu", "LeakyRelu"}) {
      const Output y = Layer(activation, {5, 7}, {7, 3}, 3);
      EXPECT_THAT(Fused({y}), UnorderedElementsAre("_FusedMatMul")) << activation << " " << dtype;
      ExpectSameBits({y});
    }
    const Output leaky =
        Op("LeakyRelu", {Op("BiasAdd", {Op("MatMul", {Input({2, 3}), Input({3, 4})}), Input({4})})},
           {{"alpha", 0.7f}});
    EXPECT_THAT(Fused({leaky}), UnorderedElementsAre("_FusedMatMul"));
    ExpectSameBits({leaky});
    const Output no_activation = Op("BiasAdd", {Op("MatMul", {Input({2, 3}), Input({3, 4})}), Input({4})});
    EXPECT_THAT(Fused({no_activation}), UnorderedElementsAre("_FusedMatMul"));
    ExpectSameBits({no_activation});
  }
}

TEST_F(FusionTest, LayersWithTranscendentalActivationsGiveTheSameBits) {
  for (const DType dtype : kDTypes) {
    dtype_ = dtype;
    for (const char* activation : {"Tanh", "Sigmoid"}) {
      const Output y = Layer(activation, {33, 128}, {128, 1025}, 1025);
      EXPECT_THAT(Fused({y}), UnorderedElementsAre("_FusedMatMul"));
      ExpectSameBits({y});
    }
  }
}

TEST_F(FusionTest, DenseLayersOfAllShapesGiveTheSameBits) {
  struct Case {
    int64_t m, k, n;
  };
  for (const Case c :
       {Case{1, 1, 1}, Case{0, 3, 2}, Case{3, 0, 2}, Case{3, 2, 0}, Case{1, 9, 300}, Case{64, 33, 17},
        Case{257, 40, 64}, Case{33, 128, 1025}, Case{2, 3, 5000}, Case{700, 5, 3}}) {
    for (const DType dtype : kDTypes) {
      dtype_ = dtype;
      for (const bool transpose_a : {false, true}) {
        const Shape a = transpose_a ? Shape({c.k, c.m}) : Shape({c.m, c.k});
        const Shape b = transpose_a ? Shape({c.n, c.k}) : Shape({c.k, c.n});
        const Output y =
            Layer("Elu", a, b, c.n, {{"transpose_a", transpose_a}, {"transpose_b", transpose_a}});
        EXPECT_THAT(Fused({y}), Contains("_FusedMatMul"));
        ExpectSameBits({y});
      }
    }
  }
}

TEST_F(FusionTest, ConvolutionsRunWithTheirBiasAndRelu) {
  struct Case {
    const char* format;
    Shape x, w;
    std::vector<int64_t> strides;
    const char* padding;
  };
  for (const DType dtype : kDTypes) {
    dtype_ = dtype;
    for (const Case& c : {Case{"NHWC", {2, 9, 8, 3}, {3, 3, 3, 5}, {1, 1, 1, 1}, "SAME"},
                          Case{"NHWC", {2, 9, 8, 3}, {3, 3, 3, 16}, {1, 2, 2, 1}, "VALID"},
                          Case{"NCHW", {2, 3, 9, 8}, {5, 1, 3, 7}, {1, 1, 2, 1}, "SAME"},
                          Case{"NHWC", {0, 9, 8, 3}, {3, 3, 3, 5}, {1, 1, 1, 1}, "SAME"}}) {
      const AttrMap attrs = {{"strides", c.strides}, {"padding", c.padding}, {"data_format", c.format}};
      const Output x = Input(c.x), product = Op("Conv2D", {x, Input(c.w)}, attrs), bias = Input({c.w.dim(3)});
      const Output sum = Op("BiasAdd", {product, bias}, {{"data_format", c.format}});
      const Output relu = Op(
          "Relu", {Op("BiasAdd", {Op("Conv2D", {x, Input(c.w)}, attrs), bias}, {{"data_format", c.format}})});
      EXPECT_THAT(Fused({sum, relu}), UnorderedElementsAre("_FusedConv2D", "_FusedConv2D"));
      EXPECT_THAT(Fused({relu}, {.may_change_rounding = false}),
                  UnorderedElementsAre("Conv2D", "BiasAdd", "Relu"));
      const std::vector<Tensor> fused = Run({sum, relu}, {}), plain = Run({sum, relu}, {.is_enabled = false});
      for (int i = 0; i < 2; ++i) {
        ASSERT_EQ(fused[i].shape(), plain[i].shape());
        const std::vector<float> a = Floats(fused[i]), b = Floats(plain[i]);
        float largest = 0;
        for (const float number : b) largest = std::max(largest, std::abs(number));
        // The sum's terms in another order, or of a 16-bit type one rounding less.
        const float tolerance = dtype == DType::kFloat32 ? 2e-5f : largest * Epsilon(dtype);
        for (size_t k = 0; k < b.size(); ++k) ASSERT_NEAR(a[k], b[k], tolerance) << c.format << " " << k;
      }
    }
  }
  dtype_ = DType::kFloat32;
  const AttrMap attrs = {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "SAME"}};
  const Output elu = Op(
      "Elu", {Op("BiasAdd", {Op("Conv2D", {Input({1, 4, 4, 2}), Input({3, 3, 2, 3})}, attrs), Input({3})})});
  EXPECT_THAT(Fused({elu}), UnorderedElementsAre("_FusedConv2D", "Elu"));
}

// A Relu that made zeros of them would hide a training that has diverged.
TEST_F(FusionTest, NanPassesThroughFusedActivations) {
  const AttrMap attrs = {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "SAME"}};
  for (const DType dtype : kDTypes) {
    dtype_ = dtype;
    const Output bias = Input({16});
    Tensor& numbers = feeds_.back().second;
    if (dtype == DType::kFloat32) numbers.flat<float>()[3] = std::nanf("");
    if (dtype == DType::kHalf) numbers.flat<Half>()[3] = Half(std::nanf(""));
    if (dtype == DType::kBfloat16) numbers.flat<Bfloat16>()[3] = Bfloat16(std::nanf(""));
    const Output image =
        Op("Relu", {Op("BiasAdd", {Op("Conv2D", {Input({1, 6, 6, 4}), Input({3, 3, 4, 16})}, attrs), bias})});
    const Output matrix = Op("Relu", {Op("BiasAdd", {Op("MatMul", {Input({6, 4}), Input({4, 16})}), bias})});
    EXPECT_THAT(Fused({image, matrix}), UnorderedElementsAre("_FusedConv2D", "_FusedMatMul"));
    for (const Tensor& result : Run({image, matrix}, {})) {
      const std::vector<float> y = Floats(result);
      for (size_t i = 0; i < y.size(); ++i) {
        ASSERT_EQ(std::isnan(y[i]), i % 16 == 3) << i;
        ASSERT_FALSE(y[i] < 0) << i;
      }
    }
  }
}

TEST_F(FusionTest, SumsWithAVectorAreBiases) {
  for (const DType dtype : kDTypes) {
    dtype_ = dtype;
    const Output product = Op("MatMul", {Input({4, 3}), Input({3, 5})});
    const Output y = Op("Relu", {Op("AddV2", {Input({5}), product})});
    EXPECT_THAT(Fused({y}), UnorderedElementsAre("_FusedMatMul"));
    ExpectSameBits({y});
    const Output matrix =
        Op("Relu", {Op("AddV2", {Op("MatMul", {Input({4, 3}), Input({3, 5})}), Input({4, 5})})});
    EXPECT_THAT(Fused({matrix}), UnorderedElementsAre("MatMul", "_FusedElementwise"));
    const Output one = Op("AddV2", {Op("MatMul", {Input({4, 3}), Input({3, 5})}), Input({1})});
    EXPECT_THAT(Fused({one}), UnorderedElementsAre("MatMul", "AddV2"));
  }
}

TEST_F(FusionTest, TrainingFusesTheForwardPass) {
  for (const DType dtype : kDTypes) {
    dtype_ = dtype;
    const Output x = Input({6, 4}), w = Input({4, 5}), b = Input({5});
    const Output y = Op("Relu", {Op("BiasAdd", {Op("MatMul", {x, w}), b})});
    std::vector<Output> fetches = Gradients(Op("Square", {y}), {x, w, b});
    EXPECT_THAT(Fused(fetches), Contains("_FusedMatMul"));
    EXPECT_THAT(Fused(fetches), Not(Contains("Relu")));
    ExpectSameBits(fetches);
  }
}

TEST_F(FusionTest, WhatOthersReadStays) {
  const Output product = Op("MatMul", {Input({4, 3}), Input({3, 5})});
  const Output sum = Op("BiasAdd", {product, Input({5})}), y = Op("Relu", {sum});
  EXPECT_THAT(Fused({y, sum}), UnorderedElementsAre("_FusedMatMul", "Relu"));
  EXPECT_THAT(Fused({y, product}), UnorderedElementsAre("MatMul", "BiasAdd", "Relu"));
  ExpectSameBits({y, sum, product});
  const Output also = Op("Exp", {product});
  EXPECT_THAT(Fused({y, also}), UnorderedElementsAre("MatMul", "BiasAdd", "Relu", "Exp"));
  ExpectSameBits({y, also});
  Output after;
  {
    const auto scope = g_.ControlScope({sum.node});
    after = Op("Exp", {y});
  }
  EXPECT_THAT(Fused({y, after}), UnorderedElementsAre("_FusedMatMul", "Relu", "Exp"))
      << "only up to the signal";
  ExpectSameBits({y, after});
}

TEST_F(FusionTest, ControlInputsAreKeptOrTheNodesStay) {
  const Output x = Input({4, 3}), w = Input({3, 5}), b = Input({5}), other = Op("Exp", {x});
  Output product, sum;
  {
    const auto scope = g_.ControlScope({other.node});
    product = Op("MatMul", {x, w});
  }
  const Output y = Op("BiasAdd", {product, b});
  EXPECT_THAT(Fused({y}), UnorderedElementsAre("Exp", "_FusedMatMul"));
  const Output plain = Op("MatMul", {x, w});
  {
    const auto scope = g_.ControlScope({other.node});
    sum = Op("BiasAdd", {plain, b});
  }
  EXPECT_THAT(Fused({sum}), UnorderedElementsAre("Exp", "MatMul", "BiasAdd"));
  ExpectSameBits({y, sum});
}

TEST_F(FusionTest, NodesOfOneDeviceOnly) {
  const Output x = Input({4, 3}), w = Input({3, 5}), b = Input({5});
  const auto on = [&](const char* device, const char* op, std::vector<InputArg> inputs) {
    const auto scope = g_.DeviceScope(device);
    return Op(op, std::move(inputs));
  };
  const Output apart = on("/cpu:1", "BiasAdd", {on("/cpu:0", "MatMul", {x, w}), b});
  EXPECT_THAT(Fused({apart}), UnorderedElementsAre("MatMul", "BiasAdd"));
  const Output together = on("/cpu:1", "BiasAdd", {on("/cpu:1", "MatMul", {x, w}), b});
  EXPECT_THAT(Fused({together}), UnorderedElementsAre("_FusedMatMul"));
  ExpectSameBits({apart, together});
}

TEST_F(FusionTest, DtypesWithoutAFusedKernelStay) {
  const auto wide = [&](Output x) { return Op("Cast", {x}, {{"DstT", DType::kFloat64}}); };
  const Output y =
      Op("BiasAdd", {Op("MatMul", {wide(Input({4, 3})), wide(Input({3, 5}))}), wide(Input({5}))});
  EXPECT_THAT(Fused({y}), Contains("BiasAdd"));
  ExpectSameBits({y});
}

TEST_F(FusionTest, NormalizationsEndWithTheirActivation) {
  for (const DType dtype : kDTypes) {
    dtype_ = dtype;
    for (const char* format : {"NHWC", "NCHW"}) {
      for (const bool is_training : {true, false}) {
        for (const Shape& shape :
             {Shape({2, 3, 4, 5}), Shape({1, 1, 1, 1}), Shape({0, 2, 2, 3}), Shape({3, 16, 20, 24})}) {
          const AttrMap attrs = {{"data_format", format}, {"is_training", is_training}};
          Node* const norm = Normalize(Input(shape), attrs);
          const Output y = Op("Relu", {norm->output(0)});
          EXPECT_THAT(Fused({y, norm->output(1)}), UnorderedElementsAre("Abs", "_FusedBatchNormEx"));
          ExpectSameBits({y, norm->output(1), norm->output(2), norm->output(3), norm->output(4)});
          const Output sum =
              Op("Relu", {Op("AddV2", {Normalize(Input(shape), attrs)->output(0), Input(shape)})});
          EXPECT_THAT(Fused({sum}), UnorderedElementsAre("Abs", "_FusedBatchNormEx"));
          const Output swapped =
              Op("Relu", {Op("AddV2", {Input(shape), Normalize(Input(shape), attrs)->output(0)})});
          EXPECT_THAT(Fused({swapped}), UnorderedElementsAre("Abs", "_FusedBatchNormEx"));
          ExpectSameBits({sum, swapped});
        }
      }
    }
  }
}

TEST_F(FusionTest, GradientsOfNormalizationsBeginWithTheirActivations) {
  for (const DType dtype : kDTypes) {
    dtype_ = dtype;
    for (const char* format : {"NHWC", "NCHW"}) {
      for (const Shape& shape : {Shape({2, 3, 4, 5}), Shape({1, 1, 1, 1}), Shape({3, 16, 20, 24})}) {
        const AttrMap attrs = {{"data_format", format}};
        const Output x = Input(shape), side = Input(shape);
        Node* const norm = Normalize(x, attrs);
        const Output alone = Op("Relu", {norm->output(0)});
        std::vector<Output> fetches = Gradients(Op("Square", {alone}), {x, norm->input(1), norm->input(2)});
        EXPECT_THAT(Fused(fetches), Contains("_FusedBatchNormGradEx"));
        EXPECT_THAT(Fused(fetches), Not(Contains("ReluGrad")));
        ExpectSameBits(fetches);
        // The sum hands the gradient to both of its terms.
        Node* const first = Normalize(x, attrs);
        const Output sum = Op("Relu", {Op("AddV2", {first->output(0), Op("Exp", {side})})});
        fetches = Gradients(Op("Square", {sum}), {x, side, first->input(1)});
        EXPECT_THAT(Fused(fetches), Contains("_FusedBatchNormGradEx"));
        EXPECT_THAT(Fused(fetches), Not(Contains("ReluGrad")));
        ExpectSameBits(fetches);
      }
    }
  }
}

TEST_F(FusionTest, NormalizationsWithOtherReadersOrShapesStay) {
  const Output x = Input({2, 3, 4, 5});
  Node* norm = Normalize(x);
  EXPECT_THAT(Fused({Op("Relu", {norm->output(0)}), norm->output(0)}), Contains("FusedBatchNormV3"));
  norm = Normalize(x);
  EXPECT_THAT(Fused({Op("Relu", {Op("AddV2", {norm->output(0), Input({5})})})}),
              Contains("FusedBatchNormV3"));
  // The side input is computed from the moments: one node would wait for itself.
  norm = Normalize(x);
  const Output from_moments = Op("AddV2", {x, norm->output(1)});
  const Output y = Op("Relu", {Op("AddV2", {norm->output(0), from_moments})});
  EXPECT_THAT(Fused({y}), Contains("FusedBatchNormV3"));
  ExpectSameBits({y});
}

// The gradient of the sum asks for the shape of the product.
TEST_F(FusionTest, LayersOfUnknownBatchAreFusedInTraining) {
  for (const int64_t batch : {6, 1}) {
    const Output x = InputOfUnknownBatch({batch, 4}), w = Input({4, 5}), b = Input({5});
    const Output y = Op("Relu", {Op("AddV2", {Op("MatMul", {x, w}), b})});
    const std::vector<Output> fetches = Gradients(Op("Square", {y}), {x, w, b});
    EXPECT_THAT(Fused(fetches), Contains("_FusedMatMul"));
    EXPECT_THAT(Fused(fetches), Not(Contains("Relu")));
    ExpectSameBits(fetches);
  }
}

TEST_F(FusionTest, ReadersOfShapesReadTheFusedNode) {
  for (const char* reader : {"Shape", "Size", "Rank"}) {
    const Output product = Op("MatMul", {InputOfUnknownBatch({3, 4}), Input({4, 5})});
    const Output sum = Op("BiasAdd", {product, Input({5})}), y = Op("Relu", {sum});
    const std::vector<Output> fetches = {y, Op(reader, {product}), Op(reader, {sum})};
    EXPECT_THAT(Fused(fetches), UnorderedElementsAre("_FusedMatMul", reader, reader));
    ExpectSameBits(fetches);
  }
  // The bias is computed from the product's size: one node would wait for itself.
  const Output product = Op("MatMul", {InputOfUnknownBatch({3, 4}), Input({4, 5})});
  const Output size = Op("Cast", {Op("Size", {product})}, {{"DstT", DType::kFloat32}});
  const Output y = Op("Relu", {Op("BiasAdd", {product, Op("Mul", {Input({5}), size})})});
  EXPECT_THAT(Fused({y}), Contains("MatMul"));
  ExpectSameBits({y});
}

TEST_F(FusionTest, SideInputsOfUnknownBatchAreFusedWhereShapesAreSurelyEqual) {
  const Shape shape({3, 4, 4, 2});
  const AttrMap attrs = {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "SAME"}};
  const Output x = InputOfUnknownBatch(shape);
  Node* const norm = Normalize(Op("Conv2D", {Op("Exp", {x}), Input({3, 3, 2, 2})}, attrs));
  const Output y = Op("Relu", {Op("AddV2", {norm->output(0), x})});
  EXPECT_THAT(Fused({y}), UnorderedElementsAre("Exp", "Conv2D", "Abs", "_FusedBatchNormEx"));
  ExpectSameBits({y});
  // One image is added to each.
  const Output one = InputOfUnknownBatch({1, 4, 4, 2});
  const Output z = Op("Relu", {Op("AddV2", {Normalize(x)->output(0), one})});
  EXPECT_THAT(Fused({z}), Contains("FusedBatchNormV3"));
  ExpectSameBits({z});
  const Output many = Op("Relu", {Op("AddV2", {Normalize(one)->output(0), x})});
  EXPECT_THAT(Fused({many}), Contains("FusedBatchNormV3"));
  ExpectSameBits({many});
}

TEST_F(FusionTest, TwoPatternsThatFeedEachOtherStay) {
  const Output x = Input({2, 3, 4, 5});
  Node* const a = Normalize(x);
  Node* const b = Normalize(x);
  // Each one alone may be fused; both would wait for the other's moments.
  const Output y = Op("Relu", {Op("AddV2", {a->output(0), Op("AddV2", {x, b->output(1)})})});
  const Output z = Op("Relu", {Op("AddV2", {b->output(0), Op("AddV2", {x, a->output(1)})})});
  ExpectSameBits({y, z});
  EXPECT_THAT(Fused({y, z}), Not(Contains("_FusedBatchNormEx")));
  // What comes before them, behind them or beside them is fused all the same.
  const Output before = Op("Neg", {Op("Exp", {Input({2, 3, 4, 5})})});
  Node* const c = Normalize(before);
  Node* const d = Normalize(before);
  const Output v = Op("Relu", {Op("AddV2", {c->output(0), Op("AddV2", {x, d->output(1)})})});
  const Output w = Op("Relu", {Op("AddV2", {d->output(0), Op("AddV2", {x, c->output(1)})})});
  const std::vector<Output> fetches = {Op("Neg", {Op("Exp", {v})}), w, Layer("Relu", {5, 7}, {7, 3}, 3)};
  const std::vector<std::string> ops = Fused(fetches);
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "_FusedElementwise"), 2);
  EXPECT_THAT(ops, Contains("_FusedMatMul"));
  EXPECT_THAT(ops, Not(Contains("_FusedBatchNormEx")));
  ExpectSameBits(fetches);
}

TEST_F(FusionTest, NothingIsFusedWhenRewritesAreOff) {
  const Output y = Layer("Relu", {5, 7}, {7, 3}, 3);
  auto graph = PruneToSignature(g_.graph(), fed_, {{y}}, {}).value();
  const int num_nodes = graph->num_nodes();
  ASSERT_TRUE(
      FuseNodes(graph, [](const Node&, absl::string_view) { return true; }, {.is_enabled = false}).ok());
  EXPECT_EQ(graph->num_nodes(), num_nodes);
}

// What an imported graph may ask of the fused kernels.
TEST_F(FusionTest, FusedOpsRefuseWhatTheyCannotDo) {
  const Output x = Input({4, 3}), w = Input({3, 5}), b = Input({5}), image = Input({1, 2, 2, 3}),
               v = Input({3});
  const auto refusal = [&](Output y) {
    EXPECT_TRUE(g_.ok()) << g_.status();
    auto session = Session::Create(g_.graph(), {&worker_}, runtime_->kernels()).value();
    return std::string(session->Run(feeds_, {y}).status().message());
  };
  const auto product = [&](std::vector<Output> args, std::vector<std::string> ops) {
    return Op("_FusedMatMul", {x, w, std::move(args)}, {{"fused_ops", std::move(ops)}});
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal(product({b}, {"BiasAdd", "Erf"})), HasSubstr("'Erf' cannot follow BiasAdd"));
  EXPECT_THAT(refusal(product({}, {})), HasSubstr("needs one argument"));
  EXPECT_THAT(refusal(product({v}, {"BiasAdd"})), HasSubstr("the bias must be [5]"));
  const auto norm = [&](std::vector<Output> sides, const char* activation) {
    return g_
        .AddNode("_FusedBatchNormEx", {image, v, v, v, v, std::move(sides)},
                 {{"U", DType::kFloat32}, {"activation_mode", activation}})
        ->output(0);
  };
  EXPECT_THAT(refusal(norm({image, image}, "Relu")), HasSubstr("at most one side input"));
  EXPECT_THAT(refusal(norm({}, "Elu")), HasSubstr("activations Identity and Relu"));
  EXPECT_THAT(refusal(norm({x}, "Relu")), HasSubstr("side_input is [4,3] but x is [1,2,2,3]"));
  const Output grad =
      g_.AddNode("_FusedBatchNormGradEx", {image, image, v, v, v, v, v, x},
                 {{"T", DType::kFloat32}, {"U", DType::kFloat32}, {"activation_mode", "Relu"}})
          ->output(0);
  EXPECT_THAT(refusal(grad), HasSubstr("y is [4,3] but x is [1,2,2,3]"));
}

}  // namespace
}  // namespace weir
