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
  int weight = 4;  // how often it is drawn, compared with others
};

void AddMathRows(std::vector<OpRow>* rows);
void AddArrayRows(std::vector<OpRow>* rows);
void AddNnRows(std::vector<OpRow>* rows);
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

// Common calls.
DrawCall OneOperand(AttrMap attrs = {});
// All elements between low and high.
DrawCall OneOperandBetween(double low, double high, AttrMap attrs = {});
DrawCall TwoThatBroadcast();
DrawCall TwoBetween(double low0, double high0, double low1, double high1);
DrawCall TwoOfOneShape();

}  // namespace weir::random_graphs
