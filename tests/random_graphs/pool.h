// The tensors that a new node may read, with their values: what the rows of the catalogue draw inputs from.
//
// Every value is known while the graph is made (the interpreter computes it), so a row asks for what its op
// needs ("numbers between 0 and 3", "a matrix with 4 rows") and gets a tensor that is there or a new
// constant, placeholder or variable. With a chance of 30 % a draw repeats an input that this node has
// already.
//
// A tensor that varies has other values later: in the next iteration of a loop, in the next step. Draws that
// ask for certain values never give one, so whatever a row steers (shapes, indices, domains) stays valid.
//
// Not thread-safe; borrows the case, whose feeds it adds to.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph_builder.h"
#include "kernels/reference/array.h"
#include "tests/random_graphs/graph_case.h"
#include "tests/random_graphs/random.h"

namespace weir::random_graphs {

using reference::Array;
using reference::Index;

struct Operand {
  Output output;
  Array value;
  bool varies = false;

  // kInvalid after an error of the builder: then there is no output.
  DType dtype() const { return output ? output.dtype() : DType::kInvalid; }
  const Index& dims() const { return value.dims(); }
  int rank() const { return value.rank(); }
};

class Pool {
 public:
  using Fits = std::function<bool(const Operand&)>;

  Pool(GraphCase& graph_case, Random& random);

  Random& random() { return random_; }
  GraphBuilder& g() { return *case_.builder; }

  // Draws for the inputs of one node.
  void BeginNode() { drawn_.clear(); }
  bool drew_what_varies() const;
  // Any tensor of the dtype.
  Operand Any(DType dtype);
  Operand OfRank(DType dtype, int rank);
  Operand OfRankAtLeast(DType dtype, int rank);
  Operand OfShape(DType dtype, const Index& dims);
  // One that broadcasts with the shape.
  Operand BroadcastsWith(DType dtype, const Index& dims);
  // All elements between low and high; never varies.
  Operand Between(DType dtype, double low, double high);
  Operand OfShapeBetween(DType dtype, const Index& dims, double low, double high);
  // Exactly this: a constant or a fed placeholder.
  Output Exactly(const Array& value, DType dtype);
  // Exactly these integers: axes, shapes, permutations. int32 or int64 by chance, unless asked.
  Output Integers(const std::vector<int64_t>& values, DType dtype = DType::kInvalid);
  Output Integer(int64_t value, DType dtype = DType::kInvalid);
  // A tensor that is there and fits, else `otherwise`.
  Operand Draw(DType dtype, const Fits& fits, const std::function<Operand()>& otherwise);

  // A node of `x` and, where there is one, of exactly this second input: integers for Transpose and Reshape,
  // else of the dtype of `x`. Later nodes may read it as well. nullopt where its value does not fit its
  // dtype.
  std::optional<Operand> Apply(const std::string& op, const Operand& x,
                               const std::optional<Array>& second = std::nullopt, AttrMap attrs = {});

  // A constant, a placeholder or a variable. In branches and loops always a constant.
  Operand Leaf(DType dtype, const Index& dims, double low = -2, double high = 2);
  Index AnyDims();
  Index DimsOfRank(int rank);

  // Feeds an output that has a producer, with other numbers where they may be others.
  void FeedInterior(Operand* operand);

  void Add(Operand operand) { scopes_.back().push_back(std::move(operand)); }
  // The inside of a branch or of a loop's body: what is added there is forgotten at its end.
  void BeginScope() { scopes_.emplace_back(); }
  void EndScope() { scopes_.pop_back(); }
  bool is_inside() const { return scopes_.size() > 1; }
  const std::vector<Operand>& outermost() const { return scopes_.front(); }
  const std::vector<Operand>& innermost() const { return scopes_.back(); }
  std::vector<Operand> Visible() const;
  // Null when it is no tensor of the pool.
  const Operand* Find(const Output& output) const;

 private:
  const Operand* FindDrawn(DType dtype, const Fits& fits);
  Output AddConstant(const Array& value, DType dtype);
  Output AddPlaceholder(const Array& value, DType dtype);
  Output AddVariable(const Array& value, DType dtype);

  GraphCase& case_;
  Random& random_;
  std::vector<std::vector<Operand>> scopes_;
  std::vector<Operand> drawn_;
  int num_variables_ = 0;
};

// A dtype of the list, the frequent ones of models more often.
DType PickDType(Random& random, const std::vector<DType>& dtypes);

}  // namespace weir::random_graphs
