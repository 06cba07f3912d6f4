// InitializeTableFromDataset: a table whose keys and values are the elements of a dataset.
#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data/dataset.h"
#include "kernels/cpu/lookup/lookup_table.h"
#include "kernels/device_kernels.h"
#include "kernels/session_state.h"

namespace weir {
namespace {

class InitializeTableFromDataset final : public Kernel {
 public:
  explicit InitializeTableFromDataset(const KernelConstruction& construction)
      : functions_(construction.session() == nullptr ? nullptr : construction.session()->functions()) {}

  bool may_block() const override { return true; }

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const RefPtr<LookupTable> table, LookupResource<LookupTable>(context, 0));
    WEIR_ASSIGN_OR_RETURN(const DatasetPtr dataset, DatasetInput(context, 1));
    // Others take nothing in the end; AddTo compares scalars.
    const LookupTable::Spec& spec = table->spec();
    if (dynamic_cast<const HashTable*>(table.get()) == nullptr || !spec.key_shape.is_scalar() ||
        !spec.value_shape.is_scalar()) {
      return absl::InvalidArgumentError(absl::StrCat("a dataset cannot fill a ", table->ToString()));
    }
    WEIR_RETURN_IF_ERROR(CheckTypes({spec.key_dtype, spec.value_dtype}, dataset->signature().types));
    const auto run = std::make_shared<IteratorRun>(context.device(), functions_);
    IteratorContext iteration = {*run, context.cancellation(), context.step_threads()};
    WEIR_ASSIGN_OR_RETURN(const IteratorPtr iterator, dataset->MakeIterator(iteration));
    TableRows rows(spec.key_dtype, spec.key_shape, spec.value_dtype, spec.value_shape);
    while (true) {
      if (context.cancellation().is_cancelled()) return context.cancellation().reason();
      Element element;
      WEIR_ASSIGN_OR_RETURN(const bool has_element, AskTop(*iterator, iteration, &element));
      if (!has_element) break;
      WEIR_ASSIGN_OR_RETURN(const int64_t num_pairs, NumPairs(spec, element));
      for (int64_t k = 0; k < num_pairs; ++k) {
        if (k % kPairsBetweenQuestions == 0 && context.cancellation().is_cancelled()) break;
        WEIR_RETURN_IF_ERROR(HashTable::AddTo(rows, element[0], element[1], k, context.allocator()));
      }
    }
    const int64_t count = rows.size();
    return table->Initialize(std::move(rows), count);
  }

 private:
  static constexpr int64_t kPairsBetweenQuestions = 4096;

  // A pair, or a batch of pairs.
  static absl::StatusOr<int64_t> NumPairs(const LookupTable::Spec& spec, const Element& element) {
    const auto outer = [](const Shape& whole, const Shape& inner) -> absl::StatusOr<Shape> {
      const int rank = whole.rank() - inner.rank();
      if (rank >= 0 && whole.dims().subspan(rank) == inner.dims()) {
        return Shape::FromDims(whole.dims().subspan(0, rank));
      }
      return absl::InvalidArgumentError(absl::StrCat("a dataset's element of shape ", whole.ToString(),
                                                     " does not end with the table's ", inner.ToString()));
    };
    WEIR_ASSIGN_OR_RETURN(const Shape keys, outer(element[0].shape(), spec.key_shape));
    WEIR_ASSIGN_OR_RETURN(const Shape values, outer(element[1].shape(), spec.value_shape));
    if (keys == values) return keys.num_elements();
    return absl::InvalidArgumentError(absl::StrCat("a dataset's element has ", keys.num_elements(),
                                                   " keys and ", values.num_elements(), " values"));
  }

  const std::shared_ptr<FunctionCaller> functions_;
};

}  // namespace

void RegisterFromDatasetKernels(DeviceKernels& kernels) {
  kernels.Add<InitializeTableFromDataset>("InitializeTableFromDataset");
}

}  // namespace weir
