// The variables of a growing graph, and the ops that read and write them: assignments, scattered slices, the
// update rules of optimizers.
//
// Whatever uses a variable runs after what used it before, by control edges, so that every graph has one
// result. Rules keep slots (variables of their own), which only they write: a mean square stays positive.
//
// Not thread-safe; borrows the case, the pool and the random numbers.
#pragma once

#include <string>
#include <vector>

#include "tests/random_graphs/graph_case.h"
#include "tests/random_graphs/pool.h"
#include "tests/random_graphs/random.h"

namespace weir::random_graphs {

struct MutableVariable {
  Output handle;
  DType dtype = DType::kInvalid;
  Array initial;
  std::string slot_of;   // for slots: the variable, op and input that they are of
  Node* last = nullptr;  // the last node that read or wrote it
  bool is_touched = false;
};

class MutableVariables {
 public:
  MutableVariables(GraphCase& graph_case, Pool& pool, Random& random);

  // A read or a write of some variable, maybe of a new one. What a read gives is in the pool. Null when there
  // is nothing to use (in branches no variable is made) and after an error of the builder.
  Node* Use();

  std::vector<MutableVariable>& all() { return all_; }

  // The ops, for a test that they have references.
  static std::vector<std::string> Ops();

 private:
  GraphBuilder& g() { return *case_.builder; }
  MutableVariable* Any();
  MutableVariable* Add(DType dtype, Array initial, const std::string& slot_of = "");
  // The slot of a rule, made where there is none yet; null where it cannot be made.
  MutableVariable* Slot(const MutableVariable& variable, const std::string& op, const std::string& input);
  Array Numbers(const Index& dims, DType dtype, double low, double high);

  Node* Read(MutableVariable& variable);
  Node* ReadPart(MutableVariable& variable);
  Node* Assign(MutableVariable& variable);
  Node* Scatter(MutableVariable& variable);
  Node* ScatterNd(MutableVariable& variable);
  Node* Apply(MutableVariable& variable);
  Output Scalar(DType dtype, double value);
  void Offer(Node& node, std::vector<Array> inputs, bool varies);
  void MaybeFeed(Operand* operand);

  GraphCase& case_;
  Pool& pool_;
  Random& random_;
  std::vector<MutableVariable> all_;
};

}  // namespace weir::random_graphs
