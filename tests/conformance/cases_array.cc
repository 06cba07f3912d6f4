// Cases of the array family, and of the checks that pass tensors on.
#include <cmath>
#include <limits>

#include "tests/conformance/op_case.h"

namespace weir::conformance {
namespace {

using D = DType;

const std::vector<D> kEveryWidth = {D::kFloat32, D::kFloat64, D::kHalf,       D::kInt8,
                                    D::kBool,    D::kInt64,   D::kComplex128, D::kString};

Tensor Any(D dtype, std::vector<int64_t> dims, int seed = 1) {
  if (dtype != D::kString) return Sample(dtype, std::move(dims), dtype == D::kBool ? -0.5 : -5, 5, seed);
  int64_t count = 1;
  for (int64_t dim : dims) count *= dim;
  std::vector<std::string> values;
  for (int64_t i = 0; i < count; ++i) values.push_back("s" + std::to_string(i * seed));
  return Strings(std::move(dims), values);
}

Tensor F(std::vector<int64_t> dims, int seed = 1) {
  return Sample(D::kFloat32, std::move(dims), -2, 2, seed);
}

void AddStridedSlices(std::vector<OpCase>* cases) {
  struct Spec {
    std::vector<int64_t> dims;
    std::vector<int32_t> begin, end, strides;
    AttrMap masks;
    std::vector<int64_t> result;
  };
  const std::vector<Spec> specs = {
      {{5}, {1}, {4}, {1}, {}, {3}},
      {{5}, {-1}, {-6}, {-2}, {}, {3}},
      {{5}, {0}, {100}, {3}, {}, {2}},
      {{5}, {4}, {2}, {1}, {}, {0}},
      {{5}, {2}, {0}, {1}, {{"shrink_axis_mask", 1}}, {}},
      {{5}, {-2}, {0}, {1}, {{"shrink_axis_mask", 1}}, {}},
      {{5}, {3}, {1}, {-1}, {{"begin_mask", 1}, {"end_mask", 1}}, {5}},
      {{5}, {1}, {5}, {std::numeric_limits<int32_t>::max()}, {}, {1}},
      {{4, 5}, {1, 2}, {3, 5}, {1, 2}, {}, {2, 2}},
      {{4, 5}, {1}, {3}, {1}, {}, {2, 5}},
      {{2, 3, 4}, {0, 1}, {0, 3}, {1, 1}, {{"ellipsis_mask", 1}}, {2, 3, 2}},
      {{2, 3, 4}, {1, 0, 2}, {2, 0, 4}, {1, 1, 2}, {{"ellipsis_mask", 2}}, {1, 3, 1}},
      {{2, 3}, {0, 0, 1}, {2, 0, 3}, {1, 1, 1}, {{"new_axis_mask", 2}}, {2, 1, 2}},
      {{2, 3, 4},
       {1, 0, 0, 3},
       {2, 0, 0, 0},
       {1, 1, 1, -1},
       {{"shrink_axis_mask", 1}, {"new_axis_mask", 2}, {"ellipsis_mask", 4}},
       {1, 3, 3}},
      {{2, 3}, {0, 0}, {0, 0}, {1, 1}, {{"ellipsis_mask", 1}, {"new_axis_mask", 2}}, {2, 3, 1}},
      {{2, 3, 4},
       {1, 0, 0, 2},
       {0, 0, 0, 0},
       {1, 1, 1, 1},
       {{"shrink_axis_mask", 9}, {"ellipsis_mask", 2}, {"new_axis_mask", 4}},
       {3, 1}},
      {{2, 3},
       {0, 0, 0},
       {0, 0, 0},
       {1, 1, 1},
       {{"ellipsis_mask", 2}, {"begin_mask", 5}, {"end_mask", 5}},
       {2, 3}},
      {{3, 0}, {0}, {2}, {1}, {}, {2, 0}},
      {{}, {0}, {0}, {1}, {{"new_axis_mask", 1}}, {1}},
  };
  for (const Spec& spec : specs) {
    cases->push_back({.op = "StridedSlice",
                      .attrs = spec.masks,
                      .inputs = {F(spec.dims), Ints(spec.begin), Ints(spec.end), Ints(spec.strides)}});
    const std::vector<int32_t> dims(spec.dims.begin(), spec.dims.end());
    cases->push_back(
        {.op = "StridedSliceGrad",
         .attrs = spec.masks,
         .inputs = {Ints(dims), Ints(spec.begin), Ints(spec.end), Ints(spec.strides), F(spec.result)}});
  }
  for (D d : kEveryWidth) {
    cases->push_back({.op = "StridedSlice",
                      .attrs = {},
                      .inputs = {Any(d, {7}), Make(D::kInt16, {1}, {-1}), Make(D::kInt16, {1}, {1}),
                                 Make(D::kInt16, {1}, {-3})}});
    cases->push_back({.op = "StridedSlice",
                      .attrs = {},
                      .inputs = {Any(d, {4, 6}), Longs({3, 0}), Longs({0, 5}), Longs({-1, 2})}});
    cases->push_back({.op = "StridedSliceGrad",
                      .attrs = {},
                      .inputs = {Ints({4, 6}), Ints({3, 0}), Ints({0, 5}), Ints({-1, 2}), Any(d, {3, 3})}});
  }
}

void AddShapeCases(std::vector<OpCase>* cases) {
  for (D out : {D::kInt32, D::kInt64}) {
    for (const Tensor& t : {F({2, 3}), F({}), F({0, 4}), Strings({2}, {"a", "b"})}) {
      for (const char* op : {"Shape", "Size"})
        cases->push_back({.op = op, .attrs = {{"out_type", out}}, .inputs = {t}});
    }
    cases->push_back({.op = "ShapeN",
                      .attrs = {{"out_type", out}},
                      .inputs = {std::vector<Tensor>{F({2, 3}), F({}), F({5})}}});
  }
  for (const Tensor& t : {F({2, 3}), F({}), F({0, 4, 1})})
    cases->push_back({.op = "Rank", .attrs = {}, .inputs = {t}});
  cases->push_back({.op = "Reshape", .attrs = {}, .inputs = {F({2, 6}), Ints({3, 4})}});
  cases->push_back({.op = "Reshape", .attrs = {}, .inputs = {F({2, 6}), Ints({-1, 3})}});
  cases->push_back({.op = "Reshape", .attrs = {}, .inputs = {F({1, 1}), Ints({})}});
  cases->push_back({.op = "Reshape", .attrs = {}, .inputs = {F({0, 3}), Longs({3, -1})}});
  cases->push_back({.op = "Reshape", .attrs = {}, .inputs = {Any(D::kString, {2, 2}), Ints({4})}});
  for (int axis : {0, 1, 2, -1, -3})
    cases->push_back({.op = "ExpandDims", .attrs = {}, .inputs = {F({2, 3}), Int(axis)}});
  cases->push_back({.op = "ExpandDims", .attrs = {}, .inputs = {F({}), Tensor::Scalar<int64_t>(0)}});
  cases->push_back({.op = "Squeeze", .attrs = {}, .inputs = {F({1, 2, 1, 3})}});
  cases->push_back(
      {.op = "Squeeze", .attrs = {{"squeeze_dims", std::vector<int64_t>{-2}}}, .inputs = {F({1, 2, 1, 3})}});
  const std::vector<std::pair<std::vector<int32_t>, std::vector<int32_t>>> pairs = {
      {{2, 3}, {2, 3}}, {{2, 3}, {3}}, {{2, 1, 3}, {4, 1}}, {{}, {2, 3}},
      {{1, 1}, {1}},    {{1}, {5}},    {{0, 3}, {1, 3}}};
  for (const auto& [a, b] : pairs) {
    cases->push_back({.op = "BroadcastGradientArgs", .attrs = {}, .inputs = {Ints(a), Ints(b)}});
    cases->push_back({.op = "BroadcastGradientArgs",
                      .attrs = {},
                      .inputs = {Longs({b.begin(), b.end()}), Longs({a.begin(), a.end()})}});
  }
  cases->push_back({.op = "ConcatOffset",
                    .attrs = {},
                    .inputs = {Int(1), std::vector<Tensor>{Ints({2, 3}), Ints({2, 0}), Ints({2, 5})}}});
  cases->push_back({.op = "ConcatOffset",
                    .attrs = {},
                    .inputs = {Int(-2), std::vector<Tensor>{Longs({2, 3}), Longs({4, 3})}}});
  cases->push_back({.op = "InvertPermutation", .attrs = {}, .inputs = {Ints({2, 0, 3, 1})}});
  cases->push_back({.op = "InvertPermutation", .attrs = {}, .inputs = {Longs({1, 0})}});
}

void AddSourceCases(std::vector<OpCase>* cases) {
  for (D d : kEveryWidth) {
    cases->push_back({.op = "Const", .attrs = {{"value", Any(d, {2, 3})}, {"dtype", d}}, .inputs = {}});
    for (const char* op : {"Identity", "StopGradient"}) {
      cases->push_back({.op = op,
                        .attrs = {},
                        .inputs = {Any(d, {2, 3})},
                        .check_gradient = std::string(op) == "Identity"});
    }
    cases->push_back({.op = "Fill", .attrs = {}, .inputs = {Ints({2, 3}), Any(d, {})}});
    cases->push_back({.op = "ZerosLike", .attrs = {}, .inputs = {Any(d, {3, 5})}});
    if (d != D::kString) cases->push_back({.op = "OnesLike", .attrs = {}, .inputs = {Any(d, {3, 5})}});
  }
  cases->push_back({.op = "Fill", .attrs = {}, .inputs = {Longs({}), F({})}});
  cases->push_back({.op = "Fill", .attrs = {}, .inputs = {Ints({2, 0}), F({})}});
  cases->push_back(
      {.op = "PlaceholderWithDefault", .attrs = {{"shape", PartialShape({-1, 3})}}, .inputs = {F({2, 3})}});
  cases->push_back({.op = "IdentityN",
                    .attrs = {},
                    .inputs = {std::vector<Tensor>{F({2}), Ints({1}), Strings({}, {"x"})}}});
  cases->push_back({.op = "NoOp", .attrs = {}, .inputs = {}});
  for (D d : {D::kFloat32, D::kFloat64, D::kInt32, D::kInt64, D::kHalf, D::kBfloat16, D::kInt8, D::kInt16}) {
    cases->push_back(
        {.op = "Range", .attrs = {}, .inputs = {Make(d, {}, {1}), Make(d, {}, {7}), Make(d, {}, {2})}});
    cases->push_back(
        {.op = "Range", .attrs = {}, .inputs = {Make(d, {}, {5}), Make(d, {}, {0}), Make(d, {}, {-2})}});
    cases->push_back(
        {.op = "Range", .attrs = {}, .inputs = {Make(d, {}, {5}), Make(d, {}, {5}), Make(d, {}, {1})}});
  }
  for (D d : {D::kUint16, D::kUint32, D::kUint64}) {
    cases->push_back(
        {.op = "Range", .attrs = {}, .inputs = {Make(d, {}, {1}), Make(d, {}, {7}), Make(d, {}, {2})}});
  }
  cases->push_back({.op = "CheckNumerics", .attrs = {{"message", "never seen"}}, .inputs = {F({2, 3})}});
  cases->push_back(
      {.op = "CheckNumerics", .attrs = {{"message", "never seen"}}, .inputs = {Sample(D::kHalf, {7})}});
  cases->push_back({.op = "Assert",
                    .attrs = {},
                    .inputs = {Tensor::Scalar(true), std::vector<Tensor>{F({2}), Ints({1})}}});
}

void AddLayoutCases(std::vector<OpCase>* cases) {
  for (D d : kEveryWidth) {
    cases->push_back({.op = "ConcatV2",
                      .attrs = {},
                      .inputs = {std::vector<Tensor>{Any(d, {2, 3}), Any(d, {2, 1}, 2)}, Int(1)}});
    cases->push_back({.op = "Split", .attrs = {{"num_split", 3}}, .inputs = {Int(1), Any(d, {2, 6})}});
    cases->push_back({.op = "Pack",
                      .attrs = {{"axis", 1}},
                      .inputs = {std::vector<Tensor>{Any(d, {2, 3}), Any(d, {2, 3}, 2)}}});
    cases->push_back({.op = "Unpack", .attrs = {{"num", 3}, {"axis", 1}}, .inputs = {Any(d, {2, 3, 2})}});
    cases->push_back({.op = "Slice", .attrs = {}, .inputs = {Any(d, {4, 5}), Ints({1, 2}), Ints({2, -1})}});
    cases->push_back({.op = "Transpose", .attrs = {}, .inputs = {Any(d, {3, 4}), Ints({1, 0})}});
    cases->push_back({.op = "Tile", .attrs = {}, .inputs = {Any(d, {2, 3}), Ints({2, 3})}});
    cases->push_back({.op = "BroadcastTo", .attrs = {}, .inputs = {Any(d, {2, 1}), Ints({3, 2, 4})}});
    cases->push_back(
        {.op = "Pad", .attrs = {}, .inputs = {Any(d, {2, 3}), Make(D::kInt32, {2, 2}, {1, 0, 2, 1})}});
  }
  cases->push_back({.op = "ConcatV2",
                    .attrs = {},
                    .inputs = {std::vector<Tensor>{F({2, 3}), F({0, 3}), F({4, 3})}, Int(0)}});
  cases->push_back({.op = "ConcatV2",
                    .attrs = {},
                    .inputs = {std::vector<Tensor>{F({2, 3, 2}), F({2, 1, 2}), F({2, 2, 2})},
                               Tensor::Scalar<int64_t>(-2)}});
  cases->push_back({.op = "Split", .attrs = {{"num_split", 2}}, .inputs = {Int(-3), F({4, 2, 3})}});
  cases->push_back(
      {.op = "Pack", .attrs = {{"axis", -1}}, .inputs = {std::vector<Tensor>{F({}), F({}, 2), F({}, 3)}}});
  cases->push_back(
      {.op = "Pack", .attrs = {{"axis", -1}}, .inputs = {std::vector<Tensor>{F({2, 2}), F({2, 2}, 2)}}});
  cases->push_back({.op = "Pack", .attrs = {}, .inputs = {std::vector<Tensor>{Int(3), Int(4)}}});
  cases->push_back({.op = "Unpack", .attrs = {{"num", 2}}, .inputs = {F({2})}});
  cases->push_back(
      {.op = "Slice", .attrs = {}, .inputs = {F({2, 3, 4}), Longs({0, 0, 0}), Longs({2, 3, 4})}});
  cases->push_back({.op = "Slice", .attrs = {}, .inputs = {F({2, 3}), Ints({2, 0}), Ints({0, 3})}});
  for (const std::vector<int32_t>& perm :
       std::vector<std::vector<int32_t>>{{0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}, {2, 0, 1}}) {
    cases->push_back({.op = "Transpose", .attrs = {}, .inputs = {F({2, 3, 4}), Ints(perm)}});
  }
  cases->push_back({.op = "Transpose", .attrs = {}, .inputs = {F({33, 50}), Longs({1, 0})}});
  cases->push_back({.op = "Transpose", .attrs = {}, .inputs = {F({2, 3, 20, 20}), Ints({0, 2, 3, 1})}});
  cases->push_back({.op = "Transpose", .attrs = {}, .inputs = {F({}), Ints({})}});
  cases->push_back({.op = "Tile", .attrs = {}, .inputs = {F({2, 1, 3}), Longs({1, 4, 2})}});
  cases->push_back({.op = "Tile", .attrs = {}, .inputs = {F({2}), Ints({0})}});
  cases->push_back({.op = "BroadcastTo", .attrs = {}, .inputs = {F({}), Ints({2, 2})}});
  cases->push_back({.op = "BroadcastTo", .attrs = {}, .inputs = {F({3, 4}), Longs({3, 4})}});
  cases->push_back({.op = "Pad", .attrs = {}, .inputs = {F({3}), Make(D::kInt64, {1, 2}, {0, 2})}});
  cases->push_back({.op = "Pad", .attrs = {}, .inputs = {F({2, 0}), Make(D::kInt32, {2, 2}, {1, 1, 1, 1})}});
}

void AddIndexingCases(std::vector<OpCase>* cases) {
  for (D d : kEveryWidth) {
    cases->push_back({.op = "GatherV2", .attrs = {}, .inputs = {Any(d, {4, 3}), Ints({3, 0, 3}), Int(0)}});
    cases->push_back({.op = "OneHot",
                      .attrs = {},
                      .inputs = {Longs({1, 0, -1, 5}), Int(3), Any(d, {}, 2), Any(d, {}, 3)}});
    cases->push_back({.op = "Select",
                      .attrs = {},
                      .inputs = {Sample(D::kBool, {3, 5}, -0.5, 0.5), Any(d, {3, 5}), Any(d, {3, 5}, 2)}});
    cases->push_back({.op = "SelectV2",
                      .attrs = {},
                      .inputs = {Sample(D::kBool, {3, 1}, -0.9, 0.9), Any(d, {5}), Any(d, {3, 5}, 2)}});
  }
  cases->push_back(
      {.op = "GatherV2", .attrs = {}, .inputs = {F({4, 3}), Make(D::kInt64, {2, 2}, {0, 2, 1, 1}), Int(1)}});
  cases->push_back({.op = "GatherV2", .attrs = {}, .inputs = {F({5}), Int(2), Int(-1)}});
  cases->push_back(
      {.op = "GatherV2", .attrs = {}, .inputs = {F({2, 3, 4}), Ints({}), Tensor::Scalar<int64_t>(1)}});
  cases->push_back({.op = "GatherV2",
                    .attrs = {{"batch_dims", 1}},
                    .inputs = {F({2, 4, 3}), Make(D::kInt32, {2, 2}, {3, 0, 1, 1}), Int(1)}});
  cases->push_back({.op = "GatherV2",
                    .attrs = {{"batch_dims", -1}},
                    .inputs = {F({2, 3, 4}), Make(D::kInt32, {2, 2}, {3, 0, 1, 1}), Int(2)}});
  cases->push_back({.op = "GatherV2",
                    .attrs = {{"batch_dims", 1}},
                    .inputs = {F({2, 3, 4, 2}), Make(D::kInt64, {2, 3}, {3, 0, 1, 1, 1, 2}), Int(2)}});
  cases->push_back(
      {.op = "GatherV2", .attrs = {}, .inputs = {F({2, 3, 4}), Make(D::kInt16, {2}, {2, 0}), Int(-1)}});
  cases->push_back({.op = "OneHot",
                    .attrs = {{"axis", 0}},
                    .inputs = {Make(D::kInt32, {2, 2}, {0, 1, 2, 3}), Int(4), F({}, 2), F({}, 3)}});
  cases->push_back({.op = "OneHot",
                    .attrs = {{"axis", 1}},
                    .inputs = {Make(D::kUint8, {2, 2}, {0, 1, 2, 3}), Int(2), F({}, 2), F({}, 3)}});
  cases->push_back({.op = "Select", .attrs = {}, .inputs = {Tensor::Scalar(true), F({2, 3}), F({2, 3}, 2)}});
  cases->push_back(
      {.op = "Select", .attrs = {}, .inputs = {Make(D::kBool, {2}, {0, 1}), F({2, 3}), F({2, 3}, 2)}});
  cases->push_back(
      {.op = "SelectV2", .attrs = {}, .inputs = {Make(D::kBool, {2}, {0, 1}), F({2}), F({2}, 2)}});
  cases->push_back({.op = "SelectV2", .attrs = {}, .inputs = {Tensor::Scalar(false), F({2, 3}), F({})}});
  for (D d : {D::kBool, D::kFloat32, D::kFloat64, D::kInt32, D::kInt64, D::kHalf, D::kUint8, D::kComplex64}) {
    cases->push_back({.op = "Where", .attrs = {}, .inputs = {Sample(d, {3, 4}, 0, 1.4)}});
  }
  cases->push_back({.op = "Where", .attrs = {}, .inputs = {Make(D::kBool, {2, 2}, {0, 0, 0, 0})}});
  cases->push_back({.op = "Where", .attrs = {}, .inputs = {Tensor::Scalar(true)}});
}

void AddCasts(std::vector<OpCase>* cases) {
  const std::vector<D> dtypes = {D::kFloat32,  D::kFloat64, D::kInt32,     D::kInt64,      D::kHalf,
                                 D::kBfloat16, D::kInt8,    D::kUint8,     D::kInt16,      D::kUint16,
                                 D::kUint32,   D::kUint64,  D::kComplex64, D::kComplex128, D::kBool};
  for (D from : dtypes) {
    for (D to : dtypes) {
      cases->push_back({.op = "Cast",
                        .attrs = {{"DstT", to}},
                        .inputs = {Sample(from, {2, 9}, 0, 100)},
                        .check_gradient = IsFloating(to) && !IsComplex(from)});
    }
  }
  cases->push_back({.op = "Cast",
                    .attrs = {{"DstT", D::kInt32}},
                    .inputs = {Make(D::kFloat32, {4}, {-1.9, 1.9, -0.5, -7})}});
}

}  // namespace

void AddArrayCases(std::vector<OpCase>* cases) {
  AddSourceCases(cases);
  AddShapeCases(cases);
  AddLayoutCases(cases);
  AddStridedSlices(cases);
  AddIndexingCases(cases);
  AddCasts(cases);
}

}  // namespace weir::conformance
