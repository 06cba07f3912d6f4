// ParseExample, ParseExampleV2, ParseSingleExample: features of serialized tf.Examples as tensors.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/io/example_parser.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

using DTypes = std::vector<DType>;
using Names = std::vector<std::string>;

// The examples of input 0 and their names in input 1, of which there may be none.
absl::StatusOr<ExampleBatch> ReadBatch(const KernelContext& context, int max_rank) {
  const Tensor &serialized = context.input(0), &names = context.input(1);
  if (serialized.shape().rank() > 1 || (max_rank == 1 && serialized.shape().rank() != 1)) {
    return absl::InvalidArgumentError(absl::StrCat("Expected serialized to be a ",
                                                   max_rank == 1 ? "vector" : "scalar or vector",
                                                   ", got shape: ", serialized.shape().ToString()));
  }
  if (names.num_elements() > 0 && names.shape() != serialized.shape()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Expected names have the same shape as serialized: name.shape=", names.shape().ToString(),
        ", serialized.shape=", serialized.shape().ToString()));
  }
  return ExampleBatch{serialized.flat<std::string>(), names.flat<std::string>(),
                      serialized.shape().rank() == 1};
}

class ParseExample final : public Kernel {
 public:
  explicit ParseExample(const KernelConstruction& construction)
      : parser_(construction),
        sparse_attr_(construction.attr<int64_t>("Nsparse")),
        dense_attr_(construction.attr<int64_t>("Ndense")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const ExampleBatch batch, ReadBatch(context, 1));
    Names keys;
    if (static_cast<int64_t>(parser_.num_sparse()) != sparse_attr_ ||
        static_cast<int64_t>(parser_.num_dense()) != dense_attr_) {
      return absl::InvalidArgumentError(
          absl::StrCat("there are ", sparse_attr_, " sparse_keys and ", dense_attr_, " dense_keys for ",
                       parser_.num_sparse(), " sparse_types and ", parser_.num_dense(), " of Tdense"));
    }
    const int num_keys = static_cast<int>(parser_.num_sparse() + parser_.num_dense());
    for (int i = 0; i < num_keys; ++i) {
      const Tensor& key = context.input(2 + i);
      if (!key.shape().is_scalar()) {
        return absl::InvalidArgumentError(
            absl::StrCat("Expected keys to be scalars, got shape: ", key.shape().ToString()));
      }
      keys.push_back(key.scalar<std::string>());
    }
    return parser_.Parse(context, batch, keys, 2 + num_keys);
  }

 private:
  const ExampleParser parser_;
  const int64_t sparse_attr_, dense_attr_;
};

class ParseExampleV2 final : public Kernel {
 public:
  explicit ParseExampleV2(const KernelConstruction& construction)
      : parser_(construction, construction.attr<DTypes>("ragged_value_types")),
        num_ragged_(construction.attr<DTypes>("ragged_value_types").size()),
        num_splits_(construction.attr<DTypes>("ragged_split_types").size()),
        sparse_attr_(construction.attr<int64_t>("num_sparse")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const ExampleBatch batch, ReadBatch(context, 2));
    if (num_ragged_ != num_splits_ || static_cast<int64_t>(parser_.num_sparse()) != sparse_attr_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "ragged_value_types and ragged_split_types must have equal lengths, and sparse_types num_sparse of "
          "them: they have ",
          num_ragged_, ", ", num_splits_, " and ", parser_.num_sparse(), ", num_sparse is ", sparse_attr_));
    }
    Names keys;
    const std::pair<const char*, size_t> lists[] = {
        {"sparse", parser_.num_sparse()}, {"dense", parser_.num_dense()}, {"ragged", num_ragged_}};
    for (int i = 0; i < 3; ++i) {
      const auto& [name, count] = lists[i];
      const Tensor& list = context.input(2 + i);
      if (list.shape().rank() != 1 || list.num_elements() != static_cast<int64_t>(count)) {
        return absl::InvalidArgumentError(absl::StrCat("Expected len(", name, "_keys) == num_", name,
                                                       " but got: ", list.num_elements(), " vs. ", count,
                                                       ", in shape ", list.shape().ToString()));
      }
      keys.insert(keys.end(), list.flat<std::string>().begin(), list.flat<std::string>().end());
    }
    return parser_.Parse(context, batch, keys, 5);
  }

 private:
  const ExampleParser parser_;
  const size_t num_ragged_, num_splits_;
  const int64_t sparse_attr_;
};

class ParseSingleExample final : public Kernel {
 public:
  explicit ParseSingleExample(const KernelConstruction& construction)
      : parser_(construction),
        num_sparse_keys_(construction.attr<Names>("sparse_keys").size()),
        keys_(construction.attr<Names>("sparse_keys")) {
    const Names& dense = construction.attr<Names>("dense_keys");
    keys_.insert(keys_.end(), dense.begin(), dense.end());
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& serialized = context.input(0);
    if (!serialized.shape().is_scalar()) {
      return absl::InvalidArgumentError(
          absl::StrCat("Expected serialized to be a scalar, got shape: ", serialized.shape().ToString()));
    }
    if (num_sparse_keys_ != parser_.num_sparse() ||
        keys_.size() != parser_.num_sparse() + parser_.num_dense() ||
        context.num_outputs() != static_cast<int>(3 * parser_.num_sparse() + parser_.num_dense())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "there are ", num_sparse_keys_, " sparse_keys and ", keys_.size() - num_sparse_keys_,
          " dense_keys for ", parser_.num_sparse(), " sparse_types and ", parser_.num_dense(), " of Tdense"));
    }
    return parser_.Parse(context, {serialized.flat<std::string>(), {}, false}, keys_, 1);
  }

 private:
  const ExampleParser parser_;
  const size_t num_sparse_keys_;
  Names keys_;
};

}  // namespace

void RegisterExamplesKernels(DeviceKernels& kernels) {
  kernels.Add<ParseExample>("ParseExample");
  kernels.Add<ParseExampleV2>("ParseExampleV2");
  kernels.Add<ParseSingleExample>("ParseSingleExample");
}

}  // namespace weir
