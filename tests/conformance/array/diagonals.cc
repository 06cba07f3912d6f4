#include <algorithm>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Array;
using reference::Index;
using reference::Value;

// The k of input `index`, or the main diagonal.
std::pair<int64_t, int64_t> BandOf(const reference::Call& call, size_t index) {
  if (index >= call.inputs.size()) return {0, 0};
  return {call.inputs[index][0].integer(), call.inputs[index][call.inputs[index].size() - 1].integer()};
}

// Where element [row, column] of a matrix is among its diagonals [count, length], as [diagonal, place];
// nothing for an element outside of the band.
Index PlaceOf(const reference::Call& call, std::pair<int64_t, int64_t> band, int64_t row, int64_t column,
              int64_t rows, int64_t columns, int64_t length) {
  const int64_t k = column - row;
  if (k < band.first || k > band.second) return {};
  const AttrValue* const attr = call.node.FindAttr("align");
  const std::string align = attr == nullptr ? "LEFT_LEFT" : attr->get<std::string>();
  const bool is_left = k > 0   ? align == "LEFT_LEFT" || align == "LEFT_RIGHT"
                       : k < 0 ? align == "LEFT_LEFT" || align == "RIGHT_LEFT"
                               : align != "RIGHT_RIGHT";
  int64_t own = 0;  // the elements of diagonal k
  for (int64_t i = 0; i < rows; ++i) own += i + k >= 0 && i + k < columns;
  return {band.second - k, std::min(row, column) + (is_left ? 0 : length - own)};
}

int64_t LongestOf(int64_t rows, int64_t columns, std::pair<int64_t, int64_t> band) {
  int64_t longest = 0;
  for (int64_t k = band.first; k <= band.second; ++k) {
    int64_t own = 0;
    for (int64_t i = 0; i < rows; ++i) own += i + k >= 0 && i + k < columns;
    longest = std::max(longest, own);
  }
  return longest;
}

// The index of an element of the diagonals: one diagonal has no dimension of its own.
Index DiagonalIndex(Index batch, const Index& place, bool is_band) {
  if (is_band) batch.push_back(place[0]);
  batch.push_back(place[1]);
  return batch;
}

void MatrixDiagPart(reference::Call& call) {
  const Array& input = call.in(0);
  const auto band = BandOf(call, 1);
  const int64_t rows = input.dim(input.rank() - 2), columns = input.dim(input.rank() - 1);
  const int64_t length = LongestOf(rows, columns, band);
  Index dims(input.dims().begin(), input.dims().end() - 2);
  if (band.first != band.second) dims.push_back(band.second - band.first + 1);
  dims.push_back(length);
  Array output(dims, call.inputs.size() > 2 ? call.in(2)[0] : Value());
  for (int64_t i = 0; i < input.size(); ++i) {
    Index at = input.IndexOf(i);
    const Index place = PlaceOf(call, band, at[at.size() - 2], at.back(), rows, columns, length);
    at.resize(at.size() - 2);
    if (!place.empty()) output.at(DiagonalIndex(at, place, band.first != band.second)) = input[i];
  }
  call.outputs = {output};
}

// Writes diagonals into matrices.
Array WithDiagonals(const reference::Call& call, Array matrices, const Array& diagonals,
                    std::pair<int64_t, int64_t> band) {
  const int rank = matrices.rank();
  for (int64_t i = 0; i < matrices.size(); ++i) {
    Index at = matrices.IndexOf(i);
    const Index place = PlaceOf(call, band, at[rank - 2], at[rank - 1], matrices.dim(rank - 2),
                                matrices.dim(rank - 1), diagonals.dims().back());
    at.resize(rank - 2);
    if (!place.empty()) matrices[i] = diagonals.at(DiagonalIndex(at, place, band.first != band.second));
  }
  return matrices;
}

void MatrixSetDiag(reference::Call& call) {
  call.outputs = {WithDiagonals(call, call.in(0), call.in(1), BandOf(call, 2))};
}

void MatrixDiag(reference::Call& call) {
  const auto band = BandOf(call, 1);
  const Array& diagonal = call.in(0);
  Index dims = diagonal.dims();
  const int64_t length = dims.back();
  dims.resize(dims.size() - (band.first == band.second ? 1 : 2));
  const int64_t asked_rows = call.inputs.size() > 2 ? call.in(2)[0].integer() : -1;
  const int64_t asked_columns = call.inputs.size() > 3 ? call.in(3)[0].integer() : -1;
  int64_t rows = length - std::min<int64_t>(band.second, 0);
  int64_t columns = length + std::max<int64_t>(band.first, 0);
  if (asked_rows < 0 && asked_columns < 0) rows = columns = std::max(rows, columns);
  dims.push_back(asked_rows < 0 ? rows : asked_rows);
  dims.push_back(asked_columns < 0 ? columns : asked_columns);
  const Array empty(dims, call.inputs.size() > 4 ? call.in(4)[0] : Value());
  call.outputs = {WithDiagonals(call, empty, diagonal, band)};
}

void MatrixBandPart(reference::Call& call) {
  Array output = call.in(0);
  const int64_t lower = call.in(1)[0].integer(), upper = call.in(2)[0].integer();
  for (int64_t i = 0; i < output.size(); ++i) {
    const Index at = output.IndexOf(i);
    const int64_t below = at[at.size() - 2] - at.back();
    if ((lower >= 0 && below > lower) || (upper >= 0 && -below > upper)) output[i] = Value();
  }
  call.outputs = {output};
}

void Diag(reference::Call& call) {
  Index dims = call.in(0).dims();
  dims.insert(dims.end(), call.in(0).dims().begin(), call.in(0).dims().end());
  Array output(dims);
  for (int64_t i = 0; i < call.in(0).size(); ++i) {
    Index at = call.in(0).IndexOf(i);
    const Index half = at;
    at.insert(at.end(), half.begin(), half.end());
    output.at(at) = call.in(0)[i];
  }
  call.outputs = {output};
}

void DiagPart(reference::Call& call) {
  Array output(Index(call.in(0).dims().begin(), call.in(0).dims().begin() + call.in(0).rank() / 2));
  for (int64_t i = 0; i < output.size(); ++i) {
    Index at = output.IndexOf(i);
    const Index half = at;
    at.insert(at.end(), half.begin(), half.end());
    output[i] = call.in(0).at(at);
  }
  call.outputs = {output};
}

const std::vector<DType> kWidths = {DType::kFloat32, DType::kFloat64, DType::kHalf,
                                    DType::kInt8,    DType::kBool,    DType::kComplex128};
const std::vector<std::vector<int32_t>> kBands = {{0, 0}, {1, 1}, {-1, 1}, {-2, 0}, {0, 2}, {-1, 2}, {1, 2}};

Tensor Float(double value) { return Make(DType::kFloat32, {}, {value}); }

void AddPart(Suite& suite) {
  suite.Op("MatrixDiagPart")
      .Reference(MatrixDiagPart)
      .Call({Floats({3, 4})})
      .Call({Floats({2, 4, 3})})
      .Call({Strings({2, 2}, {"a", "b", "c", "d"})})
      .Call({Floats({0, 3})})
      .Hostile({Floats({3})}, "input must have at least 2 dimensions, is [3]");
  for (const char* op : {"MatrixDiagPartV2", "MatrixDiagPartV3"}) {
    // padding_value gets no gradient, as in TensorFlow.
    OpRecord& part = suite.Op(op).Reference(MatrixDiagPart).NoGradient();
    for (DType d : kWidths) part.Call({Sample(d, {2, 3, 4}, -3, 3), Ints({-1, 1}), Sample(d, {}, 1, 3, 5)});
    for (const auto& band : kBands) part.Call({Floats({3, 4}), Ints(band), Float(7)});
    part.Call({Floats({4, 3}), Int(-2), Float(7)})
        .Call({Floats({2, 0, 3}), Int(0), Float(7)})
        .Hostile({Floats({3}), Int(0), Float(0)}, "input must have at least 2 dimensions, is [3]")
        .Hostile({Floats({3, 4}), Int(4), Float(0)}, "k = 4 is outside of matrices of 3 x 4")
        .Hostile({Floats({3, 4}), Ints({-3, 0}), Float(0)}, "k = -3 is outside of matrices of 3 x 4")
        .Hostile({Floats({3, 4}), Ints({1, 0}), Float(0)}, "the lower diagonal 1 is above the upper one 0")
        .Hostile({Floats({3, 4}), Ints({0, 1, 2}), Float(0)},
                 "k must be a scalar or a vector of one or two elements")
        .Hostile({Floats({3, 4}), Ints({}), Float(0)},
                 "k must be a scalar or a vector of one or two elements")
        .Hostile({Floats({3, 4}), Int(0), Floats({2})}, "padding_value must be a scalar, is [2]");
  }
  for (const char* align : {"LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"}) {
    for (const auto& band : kBands) {
      suite.Op("MatrixDiagPartV3").Call({Floats({3, 4}), Ints(band), Float(7)}, {{"align", align}});
      suite.Op("MatrixDiagPartV3").Call({Floats({4, 3}), Ints(band), Float(7)}, {{"align", align}});
    }
  }
}

void AddSet(Suite& suite) {
  suite.Op("MatrixSetDiag")
      .Reference(MatrixSetDiag)
      .Call({Floats({3, 4}), Floats({3}, 2)})
      .Call({Floats({2, 4, 3}), Floats({2, 3}, 2)})
      .Hostile({Floats({3}), Floats({3})}, "input must have at least 2 dimensions")
      .Hostile({Floats({3, 4}), Floats({4})}, "diagonal must be [3] for input [3,4], is [4]");
  for (const char* op : {"MatrixSetDiagV2", "MatrixSetDiagV3"}) {
    OpRecord& set = suite.Op(op).Reference(MatrixSetDiag);
    for (DType d : kWidths) {
      set.Call({Sample(d, {2, 3, 4}, -3, 3), Sample(d, {2, 3, 3}, -3, 3, 2), Ints({-1, 1})});
    }
    set.Call({Floats({3, 4}), Floats({3}, 2), Int(1)})
        .Call({Floats({4, 3}), Floats({2}, 2), Int(-2)})
        .Call({Floats({3, 4}), Floats({3, 3}, 2), Ints({-2, 0})})
        .Hostile({Floats({3}), Floats({3}), Int(0)}, "input must have at least 2 dimensions")
        .Hostile({Floats({3, 4}), Floats({2}), Int(0)}, "diagonal must be [3] for input [3,4], is [2]")
        .Hostile({Floats({3, 4}), Floats({3}), Ints({0, 1})}, "diagonal must be [2,3]")
        .Hostile({Floats({3, 4}), Floats({3}), Int(7)}, "k = 7 is outside")
        .Hostile({Floats({3, 4}), Floats({3}), Ints({1, 0})}, "is above the upper one");
  }
  for (const char* align : {"LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"}) {
    suite.Op("MatrixSetDiagV3").Call({Floats({3, 4}), Floats({4, 3}, 2), Ints({-1, 2})}, {{"align", align}});
  }
}

void AddMaking(Suite& suite) {
  suite.Op("MatrixDiag")
      .Reference(MatrixDiag)
      .Call({Floats({3})})
      .Call({Floats({2, 3})})
      .Call({Sample(DType::kInt64, {2}, -3, 3)})
      .Call({Floats({2, 0})})
      .Hostile({Floats({})}, "k asks for 1 diagonals, diagonal is []")
      .OutOfMemory({Floats({1 << 20})});
  for (const char* op : {"MatrixDiagV2", "MatrixDiagV3"}) {
    // padding_value gets no gradient, as in TensorFlow.
    OpRecord& make = suite.Op(op).Reference(MatrixDiag).NoGradient();
    for (DType d : kWidths) {
      make.Call({Sample(d, {2, 3, 3}, -3, 3), Ints({-1, 1}), Int(-1), Int(-1), Sample(d, {}, 1, 3, 5)});
    }
    make.Call({Floats({2}), Int(1), Int(2), Int(-1), Float(7)})
        .Call({Floats({2}), Int(-1), Int(3), Int(3), Float(7)})
        .Call({Floats({2}), Int(0), Int(-1), Int(5), Float(7)})
        .Call({Floats({2, 3}), Ints({0, 1}), Int(3), Int(4), Float(7)})
        .Call({Floats({3}), Ints({-2}), Int(-1), Int(-1), Float(7)})
        .Hostile({Floats({2}), Int(1), Int(1), Int(-1), Float(0)}, "diagonals of 2 elements need [2,3]")
        .Hostile({Floats({2}), Int(1), Int(5), Int(5), Float(0)}, "num_rows and num_cols are 5 and 5")
        .Hostile({Floats({2}), Int(0), Int(-2), Int(-1), Float(0)}, "num_rows and num_cols are -2 and 2")
        .Hostile({Floats({1, 2}), Ints({0, 1}), Int(-1), Int(-1), Float(0)},
                 "k asks for 2 diagonals, diagonal is [1,2]")
        .Hostile({Floats({}), Int(0), Int(-1), Int(-1), Float(0)}, "k asks for 1 diagonals, diagonal is []")
        .Hostile({Floats({2}), Int(0), Ints({1, 2}), Int(-1), Float(0)}, "num_rows must be a scalar")
        .Hostile({Floats({2}), Int(0), Int(-1), Ints({}), Float(0)}, "num_cols must be a scalar")
        .Hostile({Floats({2}), Int(0), Int(-1), Int(-1), Floats({2})},
                 "padding_value must be a scalar, is [2]")
        .Hostile({Floats({2}), Ints({3, 1}), Int(-1), Int(-1), Float(0)}, "is above the upper one")
        .OutOfMemory({Floats({2}), Int(1 << 30), Int(-1), Int(-1), Float(0)});
  }
  for (const char* align : {"LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"}) {
    suite.Op("MatrixDiagV3")
        .Call({Floats({4, 3}), Ints({-1, 2}), Int(3), Int(4), Float(7)}, {{"align", align}});
  }
}

}  // namespace

void AddDiagonalsRecords(Suite& suite) {
  AddPart(suite);
  AddSet(suite);
  AddMaking(suite);

  OpRecord& band = suite.Op("MatrixBandPart").Reference(MatrixBandPart);
  for (DType d : kWidths) band.Call({Sample(d, {3, 4}, -3, 3), Int(1), Int(0)});
  for (const auto& [lower, upper] : {std::pair(0, 0), {-1, 0}, {0, -1}, {-1, -1}, {2, 1}, {4, 3}}) {
    band.Call({Floats({2, 4, 3}), Tensor::Scalar<int64_t>(lower), Tensor::Scalar<int64_t>(upper)});
  }
  band.Call({Floats({0, 3}), Int(0), Int(0)})
      .Hostile({Floats({3}), Int(0), Int(0)}, "input must have at least 2 dimensions")
      .Hostile({Floats({3, 4}), Int(4), Int(0)}, "num_lower = 4")
      .Hostile({Floats({3, 4}), Int(0), Int(5)}, "num_upper = 5")
      .Hostile({Floats({3, 4}), Ints({0, 0}), Int(5)}, "num_lower must be a scalar");

  const std::vector<DType> dtypes = {DType::kFloat32,   DType::kFloat64,   DType::kInt32,
                                     DType::kInt64,     DType::kHalf,      DType::kBfloat16,
                                     DType::kComplex64, DType::kComplex128};
  OpRecord& diag = suite.Op("Diag").Reference(Diag);
  OpRecord& part = suite.Op("DiagPart").Reference(DiagPart);
  for (DType d : dtypes) {
    diag.Call({Sample(d, {3}, -3, 3)});
    part.Call({Sample(d, {3, 3}, -3, 3)});
  }
  diag.Call({Floats({2, 3})})
      .Call({Floats({0})})
      .Hostile({Floats({})}, "at least 1 dimension")
      .OutOfMemory({Floats({1 << 20})});
  part.Call({Floats({2, 3, 2, 3})})
      .Call({Floats({0, 0})})
      .Hostile({Floats({2, 3})}, "the two halves of input's dimensions must be equal: it is [2,3]")
      .Hostile({Floats({2, 2, 2})}, "it is [2,2,2]")
      .Hostile({Floats({})}, "it is []");
}

}  // namespace weir::conformance
