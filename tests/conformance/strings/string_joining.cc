// Strings joined.
#include <algorithm>

#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;

void StringJoin(Call& call) {
  Index dims;
  for (const Array& input : call.inputs) {
    if (input.rank() > 0) dims = input.dims();
  }
  call.outputs[0] = Array(dims);
  for (int64_t k = 0; k < call.outputs[0].size(); ++k) {
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      if (i > 0) call.outputs[0][k].text += call.text("separator");
      call.outputs[0][k].text += call.inputs[i][call.inputs[i].rank() == 0 ? 0 : k].text;
    }
  }
}

// Counts the joined indices up like an odometer, the first axis of the list fastest.
void ReduceJoin(Call& call) {
  const Array& input = call.in(0);
  std::vector<int> axes;
  for (const int64_t axis : call.in(1).integers()) axes.push_back(Call::Axis(axis, input.rank()));
  Index dims;
  int64_t num_joined = 1;
  for (int i = 0; i < input.rank(); ++i) {
    const bool is_joined = std::count(axes.begin(), axes.end(), i) > 0;
    if (is_joined) num_joined *= input.dim(i);
    if (!is_joined || call.flag("keep_dims")) dims.push_back(is_joined ? 1 : input.dim(i));
  }
  call.outputs[0] = Generate(dims, [&](Index index) {
    Index from;
    for (int i = 0, k = 0; i < input.rank(); ++i) {
      const bool is_joined = std::count(axes.begin(), axes.end(), i) > 0;
      from.push_back(is_joined ? 0 : index[k]);
      if (!is_joined || call.flag("keep_dims")) ++k;
    }
    Value joined;
    for (int64_t n = 0; n < num_joined; ++n) {
      if (n > 0) joined.text += call.text("separator");
      joined.text += input.at(from).text;
      for (size_t i = 0; i < axes.size() && ++from[axes[i]] == input.dim(axes[i]); ++i) {
        from[axes[i]] = 0;
      }
    }
    return joined;
  });
}

// Looks through all slices for each segment.
void UnsortedSegmentJoin(Call& call) {
  const Array& input = call.in(0);
  Index dims = {call.in(2)[0].integer()};
  for (int d = call.in(1).rank(); d < input.rank(); ++d) dims.push_back(input.dim(d));
  const int64_t num_slices = call.in(1).size(), per_slice = num_slices == 0 ? 0 : input.size() / num_slices;
  call.outputs[0] = Array(dims);
  for (int64_t k = 0; k < call.outputs[0].size() && per_slice > 0; ++k) {
    bool is_first = true;
    for (int64_t slice = 0; slice < num_slices; ++slice) {
      if (call.in(1)[slice].integer() != k / per_slice) continue;
      if (!is_first) call.outputs[0][k].text += call.text("separator");
      call.outputs[0][k].text += input[slice * per_slice + k % per_slice].text;
      is_first = false;
    }
  }
}

}  // namespace

void AddStringJoiningRecords(Suite& suite) {
  using Tensors = std::vector<Tensor>;
  suite.Op("StringJoin")
      .Reference(StringJoin)
      .Call({Tensors{Words({"a", "b"}), Words({"c", ""})}})
      .Call({Tensors{Words({"a", "b"}), Words({"c", ""})}}, {{"separator", ", "}})
      .Call({Tensors{Strings({}, {"a"}), Words({"c", "d", "e"}), Strings({}, {"f"})}}, {{"separator", "-"}})
      .Call({Tensors{Strings({}, {"a"}), Strings({}, {"b"})}}, {{"separator", "-"}})
      .Call({Tensors{Strings({2, 2}, {"a", "b", "c", "d"})}}, {{"separator", "-"}})
      .Call({Tensors{Words({}), Words({})}})
      .Hostile({Tensors{Words({"a", "b"}), Words({"c"})}}, "Input shapes do not match: [2] vs. [1]")
      .Hostile({Tensors{Words({"a"}), Strings({1, 1}, {"c"})}}, "Input shapes do not match: [1] vs. [1,1]")
      .OutOfMemory({Tensors{Strings({}, {std::string(100'000, 'a')}),
                            Strings({10'000}, std::vector<std::string>(10'000))}});

  const Tensor table = Strings({2, 3}, {"a", "b", "c", "d", "", "f"});
  const Tensor cube = Strings({2, 2, 2}, {"a", "b", "c", "d", "e", "f", "g", "h"});
  OpRecord& reduce = suite.Op("ReduceJoin").Reference(ReduceJoin);
  for (const Tensor& axes : {Int(0), Int(1), Int(-1), Ints({0, 1}), Ints({1, 0}), Ints({})}) {
    for (bool keep_dims : {false, true}) {
      reduce.Call({table, axes}, {{"separator", "."}, {"keep_dims", keep_dims}});
    }
  }
  for (const Tensor& axes : {Ints({2, 0}), Ints({1}), Ints({-3, 1}), Ints({2, 1, 0})})
    reduce.Call({cube, axes});
  reduce.Call({Strings({}, {"alone"}), Ints({})})
      .Call({Strings({0, 2}, {}), Int(0)}, {{"separator", "x"}})
      .Call({Strings({0, 2}, {}), Int(1)}, {{"separator", "x"}})
      .Hostile({table, Int(2)}, "Invalid reduction dimension 2 for input with 2 dimension(s)", {},
               absl::StatusCode::kOutOfRange)
      .Hostile({table, Ints({0, kHuge})}, "Invalid reduction dimension 2147483647", {},
               absl::StatusCode::kOutOfRange)
      .Hostile({Strings({}, {"a"}), Int(0)}, "Invalid reduction dimension 0 for input with 0", {},
               absl::StatusCode::kOutOfRange)
      .Hostile({table, Ints({0, -2})}, "Duplicate reduction dimension -2")
      .OutOfMemory({Strings({10'000}, std::vector<std::string>(10'000)), Int(0)},
                   {{"separator", std::string(100'000, 'x')}});

  OpRecord& segments = suite.Op("UnsortedSegmentJoin").Reference(UnsortedSegmentJoin);
  const Tensor rows = Strings({3, 2}, {"a", "b", "c", "", "e", "f"});
  for (DType d : {DType::kInt32, DType::kInt64}) {
    for (DType n : {DType::kInt32, DType::kInt64}) {
      segments.Call({Words({"a", "b", "c"}), Make(d, {3}, {1, 0, 1}), Make(n, {}, {3})}, {{"separator", ":"}})
          .Call({rows, Make(d, {3}, {1, 0, 1}), Make(n, {}, {2})}, {{"separator", ", "}})
          .Call({rows, Make(d, {3, 2}, {1, 0, 1, 3, 3, 3}), Make(n, {}, {4})});
    }
  }
  segments.Call({Strings({0, 2}, {}), Ints({}), Int(2)})
      .Call({Strings({2, 0}, {}), Ints({1, 1}), Int(2)})
      .Call({Words({}), Ints({}), Int(0)})
      .Hostile({Words({"a", "b"}), Ints({0, 2}), Int(2)}, "segment_ids[1] is 2, num_segments 2")
      .Hostile({Words({"a", "b"}), Ints({-1, 0}), Int(2)}, "segment_ids[0] is -1, num_segments 2")
      .Hostile({Words({"a", "b"}), Ints({0}), Int(2)},
               "Segment dimension is 1 while input dimension is 2 in rank 0")
      .Hostile({Words({"a", "b"}), Int(0), Int(2)}, "Segment_id cannot have rank 0")
      .Hostile({Words({"a"}), Make(DType::kInt32, {1, 1}, {0}), Int(2)},
               "Invalid segment_id rank 2 for input with 1 dimension(s)", {}, absl::StatusCode::kOutOfRange)
      .Hostile({Words({"a"}), Ints({0}), Int(-1)}, "Number of segments must be non-negative but got -1")
      .Hostile({Words({"a"}), Ints({0}), Ints({1})}, "Number of segments must be a scalar")
      .OutOfMemory({Words({"a"}), Ints({0}), Int(kHuge)});
}

}  // namespace weir::conformance
