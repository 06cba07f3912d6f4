// The ops that random graphs are made of, one row each.
//
// A row says of which dtypes the op is and how its inputs and attrs are drawn. A new op is one row in
// catalogue_<family>.cc; the common shapes of calls (one operand, two that broadcast, a reduction...) have
// names there. Rows draw valid calls only: a call that Weir refuses is a finding.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "tests/random_graphs/pool.h"

namespace weir::random_graphs {

struct OpCall {
  std::vector<InputArg> inputs;
  AttrMap attrs = {};
};

// Draws a call; `dtype` is one of the row's. nullopt where nothing fits.
using DrawCall = std::function<std::optional<OpCall>(Pool& pool, DType dtype)>;

struct OpRow {
  std::string op;
  std::vector<DType> dtypes;
  DrawCall draw;
  int weight = 4;        // how often it is drawn, compared with others
  int num_offered = -1;  // only the first outputs are read by later nodes; -1: all are
};

void AddMathRows(std::vector<OpRow>* rows);
void AddArrayRows(std::vector<OpRow>* rows);
void AddIndexRows(std::vector<OpRow>* rows);
void AddLayoutRows(std::vector<OpRow>* rows);
void AddMatrixRows(std::vector<OpRow>* rows);
void AddSegmentRows(std::vector<OpRow>* rows);
void AddNnRows(std::vector<OpRow>* rows);
void AddImageRows(std::vector<OpRow>* rows);
void AddRewriteRows(std::vector<OpRow>* rows);
std::vector<OpRow> AllRows();

// Lists of dtypes.
inline std::vector<DType> Floats() {
  return {DType::kFloat32, DType::kFloat64, DType::kHalf, DType::kBfloat16};
}
inline std::vector<DType> BigFloats() { return {DType::kFloat32, DType::kFloat64}; }
inline std::vector<DType> Integers() { return {DType::kInt32, DType::kInt64}; }
inline std::vector<DType> Numbers() {
  return {DType::kFloat32, DType::kFloat64, DType::kHalf, DType::kBfloat16, DType::kInt32, DType::kInt64};
}
inline std::vector<DType> Anything() {
  return {DType::kFloat32, DType::kFloat64, DType::kHalf, DType::kBfloat16,
          DType::kInt32,   DType::kInt64,   DType::kBool};
}
inline std::vector<DType> Bools() { return {DType::kBool}; }
inline std::vector<DType> AllIntegers() {
  return {DType::kInt32, DType::kInt64,  DType::kInt8,   DType::kUint8,
          DType::kInt16, DType::kUint16, DType::kUint32, DType::kUint64};
}
inline bool IsUnsigned(DType dtype) {
  return dtype == DType::kUint8 || dtype == DType::kUint16 || dtype == DType::kUint32 ||
         dtype == DType::kUint64;
}
// Also the dtypes that only moving elements about makes sense for here.
inline std::vector<DType> AnyElement() {
  std::vector<DType> dtypes = Anything();
  dtypes.insert(dtypes.end(), {DType::kInt8, DType::kUint8, DType::kInt16, DType::kUint16});
  return dtypes;
}

// Common calls.
DrawCall OneOperand(AttrMap attrs = {});
// All elements between low and high.
DrawCall OneOperandBetween(double low, double high, AttrMap attrs = {});
DrawCall TwoThatBroadcast();
DrawCall TwoBetween(double low0, double high0, double low1, double high1);
DrawCall TwoOfOneShape();
// All elements of the first between low and high.
DrawCall TwoOfOneShapeBetween(double low, double high);

// What draws share.
int64_t SizeOf(const Index& dims);
// An axis of a tensor of this rank. Precondition: rank >= 1.
int64_t AnyAxis(Pool& pool, int rank);
// The same axis, sometimes counted from the back.
int64_t MaybeFromBack(Pool& pool, int64_t axis, int rank);
// A tensor of 4 dimensions with elements: [batch, height, width, channels].
Operand DrawImage(Pool& pool, DType dtype);
// A row vector of integers that never vary, each in [low, high].
Output DrawIndices(Pool& pool, int64_t count, int64_t low, int64_t high, DType dtype = DType::kInvalid);

// Slices of a tensor, by coordinates: a matrix [count, depth], sometimes a vector [depth].
struct Coordinates {
  Output output;
  Array value;
  Index updates;  // the dims of the slices that they name
};
// Precondition: a tensor of these dims has elements. `distinct`: no slice is named twice.
Coordinates DrawCoordinates(Pool& pool, const Index& dims, bool distinct);

}  // namespace weir::random_graphs
