// The gradients that several replicas have computed for one variable, added up: what accumulators and
// synchronous replicas hold of a step.
//
// A gradient is dense, or rows of the variable (IndexedSlices). Rows are added up by their indices, and a
// mean divides each row by how many gradients had it, as TensorFlow's SparseConditionalAccumulator does. It
// expects rows in the order of their indices, each once; those of other gradients are merged as they come,
// and a row may then stand in the result twice. `sorts_rows` adds them up first.
//
// kArrival adds each gradient to one sum when it comes: one tensor is held, and the last bits of the sum
// depend on who came first. kByRank holds every gradient and adds them up in a tree over their ranks when
// they are taken: sums of the same gradients have the same bits in every run.
//
// A gradient is shared, never changed. Not thread safe.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/types/allocator.h"
#include "graph/types/shape.h"
#include "graph/types/tensor.h"
#include "kernels/thread_pool.h"

namespace weir {

struct StagedGradient {
  Tensor values;   // of rows: [number of rows, ...]
  Tensor indices;  // int64 vector, of rows only
};

class GradientSum {
 public:
  enum class Order { kArrival, kByRank };
  enum class Reduction { kMean, kSum };

  struct Spec {
    DType dtype = DType::kFloat32;  // half, bfloat16, float or double
    PartialShape shape;             // the variable's
    bool is_sparse = false;
    Order order = Order::kArrival;
    bool sorts_rows = false;
  };
  // What sums are made with. Borrowed.
  struct Memory {
    Allocator& allocator;
    ThreadPool& threads;
  };

  explicit GradientSum(Spec spec) : spec_(std::move(spec)) {}

  // InvalidArgument for a gradient that does not fit the spec, or those that are there, or a rank that is
  // there already (kByRank).
  absl::Status Check(int64_t rank, const StagedGradient& gradient) const;
  // Errors: those of Check; ResourceExhausted. After one everything is as before.
  absl::Status Add(int64_t rank, const StagedGradient& gradient, const Memory& memory);
  // How many gradients are there.
  int64_t count() const { return count_; }
  // The sum, or the mean, of all gradients; none is left. Precondition: count() > 0. After an error
  // (ResourceExhausted) all are still there.
  absl::StatusOr<StagedGradient> Take(Reduction reduction, const Memory& memory);
  void Clear();

  const Spec& spec() const { return spec_; }

 private:
  struct Part {
    Tensor values;
    bool is_own = false;  // nobody else holds the buffer
    // Of rows. How many gradients had each row.
    std::vector<int64_t> indices;
    std::vector<int32_t> counts;
  };

  absl::Status CheckRows(const StagedGradient& gradient) const;
  absl::StatusOr<Part> PartOf(const StagedGradient& gradient, const Memory& memory) const;
  // Each takes the buffer of `a` where that is its own.
  absl::StatusOr<Part> Sum(Part a, const Part& b, const Memory& memory) const;
  absl::StatusOr<Part> SumOfRows(const Part& a, const Part& b, const Memory& memory) const;
  absl::StatusOr<Part> SumOfAll(const Memory& memory) const;
  void DivideByCounts(const Part& sum, const Memory& memory) const;

  const Spec spec_;
  int64_t count_ = 0;
  // kArrival: one sum, as rank 0.
  std::map<int64_t, Part> parts_;
};

}  // namespace weir
