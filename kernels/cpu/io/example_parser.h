// Features of serialized tf.Examples as tensors: what ParseExample and its kin, and ParseExampleDataset,
// share.
//
// Thread safety: const after it is made. Memory of outputs is the context's. InvalidArgument, with
// TensorFlow's texts, for attrs, default values and examples that do not fit; ResourceExhausted, Cancelled.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/io/feature_columns.h"
#include "kernels/kernel.h"

namespace weir {

class ExampleParser {
 public:
  using DTypes = std::vector<DType>;
  using Names = std::vector<std::string>;

  // Reads the attrs sparse_types, Tdense and dense_shapes.
  explicit ExampleParser(const KernelConstruction& construction, DTypes ragged = {});

  size_t num_sparse() const { return sparse_.size(); }
  size_t num_dense() const { return dense_types_.size(); }
  size_t num_ragged() const { return ragged_.size(); }

  // Outputs: indices, then values, then shapes of all sparse features; dense features; values, then splits of
  // all ragged ones. The keys are those of sparse, dense and ragged features, in this order. Default values
  // begin at input `first_default`.
  absl::Status Parse(KernelContext& context, const ExampleBatch& batch, const Names& keys,
                     int first_default) const;

 private:
  int first_dense() const { return static_cast<int>(num_sparse()); }
  int first_ragged() const { return static_cast<int>(num_sparse() + num_dense()); }
  DType TypeOf(int column) const;
  absl::Status ReadShapes(const KernelContext& context, int first_default,
                          std::vector<DenseFeature>& dense) const;
  absl::Status Check(const ExampleBatch& batch, const std::string& key, int column,
                     absl::Span<const Feature> features) const;
  absl::Status Write(KernelContext& context, const ExampleBatch& batch, const ColumnNames& names,
                     const std::vector<DenseFeature>& dense, int first_default,
                     DeviceArray<Feature>& columns) const;

  const DTypes sparse_, dense_types_;
  const std::vector<PartialShape> shapes_;
  const DTypes ragged_;
};

}  // namespace weir
