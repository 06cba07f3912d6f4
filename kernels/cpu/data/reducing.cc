// GroupByReducerDataset: one element for each key, in the order of the keys, made of all of the key's
// elements.
//
// An iterator holds a state for each key that has come. They count on the device.
#include <map>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/data/captured_function.h"
#include "kernels/cpu/data/over_input.h"
#include "kernels/cpu/data_flow/element_rooms.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

class GroupByReducerDataset final : public DatasetOfInput {
 public:
  struct Functions {
    CapturedFunction key;
    CapturedFunction init;
    CapturedFunction reduce;
    CapturedFunction finalize;
  };
  GroupByReducerDataset(Signature signature, DatasetPtr input, Functions functions)
      : DatasetOfInput(std::move(signature), std::move(input)), functions_(std::move(functions)) {}

  absl::StatusOr<IteratorPtr> MakeIterator(IteratorContext& context) const override;
  int64_t cardinality() const override { return kUnknown; }

 private:
  const Functions functions_;
};

class GroupByReducerIterator final : public IteratorOverInput {
 public:
  struct Functions {
    PreparedFunction key;
    PreparedFunction init;
    PreparedFunction reduce;
    PreparedFunction finalize;
  };
  GroupByReducerIterator(RefPtr<const GroupByReducerDataset> dataset, IteratorPtr input, Functions functions)
      : IteratorOverInput(std::move(input)), dataset_(std::move(dataset)), functions_(std::move(functions)) {}

  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override {
    while (!input_is_over_) {
      if (context.cancellation.is_cancelled()) return context.cancellation.reason();
      Element next;
      WEIR_ASSIGN_OR_RETURN(const bool has_element, input_->Next(context, &next));
      input_is_over_ = !has_element;
      if (has_element) WEIR_RETURN_IF_ERROR(Reduce(context, std::move(next)));
    }
    if (states_.empty()) return false;
    // A key whose last call fails is left out, as in TensorFlow.
    Element state = std::move(states_.extract(states_.begin()).mapped());
    num_held_ -= NumHeld(state);
    rooms_.Free(num_held_);
    WEIR_ASSIGN_OR_RETURN(Element result, functions_.finalize.Run(std::move(state), context.cancellation));
    WEIR_RETURN_IF_ERROR(CheckResults(result, dataset_->signature()));
    *element = std::move(result);
    return true;
  }
  absl::Status Save(IteratorContext& context, PositionWriter& position) override {
    position.Add(int64_t{input_is_over_});
    position.Add(static_cast<int64_t>(states_.size()));
    for (const auto& [key, state] : states_) {
      position.Add(key);
      position.Add(static_cast<int64_t>(state.size()));
      for (const Tensor& tensor : state) position.Add(tensor);
    }
    return IteratorOverInput::Save(context, position);
  }
  absl::Status Restore(IteratorContext& context, PositionReader& position) override {
    WEIR_ASSIGN_OR_RETURN(input_is_over_, position.NextNumber(0, 1));
    WEIR_ASSIGN_OR_RETURN(const int64_t num_states, position.NextNumber(0, INT64_MAX));
    states_.clear();
    num_held_ = 0;
    for (int64_t i = 0; i < num_states; ++i) {
      WEIR_ASSIGN_OR_RETURN(const int64_t key, position.NextNumber());
      WEIR_ASSIGN_OR_RETURN(const int64_t size, position.NextNumber(0, INT64_MAX));
      Element state;
      for (int64_t k = 0; k < size; ++k) {
        // The functions check what it is.
        WEIR_ASSIGN_OR_RETURN(Tensor tensor, position.Next());
        state.push_back(std::move(tensor));
      }
      WEIR_RETURN_IF_ERROR(Keep(context, key, std::move(state)));
    }
    return IteratorOverInput::Restore(context, position);
  }

 private:
  absl::Status Reduce(IteratorContext& context, Element element) {
    WEIR_ASSIGN_OR_RETURN(const Element keys, functions_.key.Run(element, context.cancellation));
    if (keys.size() != 1 || keys[0].dtype() != DType::kInt64 || keys[0].num_elements() != 1) {
      return absl::InvalidArgumentError("`key_func` must return a scalar int64.");
    }
    const int64_t key = keys[0].flat<int64_t>()[0];
    if (!states_.contains(key)) {
      WEIR_ASSIGN_OR_RETURN(Element state, functions_.init.Run(keys, context.cancellation));
      WEIR_RETURN_IF_ERROR(Keep(context, key, std::move(state)));
    }
    Element arguments = states_[key];
    for (Tensor& tensor : element) arguments.push_back(std::move(tensor));
    WEIR_ASSIGN_OR_RETURN(Element state, functions_.reduce.Run(std::move(arguments), context.cancellation));
    return Keep(context, key, std::move(state));
  }
  // In place of what the key had. ResourceExhausted when the device has no memory for it: nothing changes.
  absl::Status Keep(IteratorContext& context, int64_t key, Element state) {
    const auto found = states_.find(key);
    const int64_t before = found == states_.end() ? 0 : NumHeld(found->second);
    const int64_t num_held = num_held_ - before + NumHeld(state);
    WEIR_RETURN_IF_ERROR(rooms_.Hold(num_held, context.allocator(), "the states of keys"));
    num_held_ = num_held;
    states_.insert_or_assign(key, std::move(state));
    return absl::OkStatus();
  }
  // A key, and each tensor of its state.
  static int64_t NumHeld(const Element& state) { return 1 + static_cast<int64_t>(state.size()); }

  const RefPtr<const GroupByReducerDataset> dataset_;
  const Functions functions_;
  std::map<int64_t, Element> states_;     // of keys whose elements have not come out
  int64_t num_held_ = 0;                  // of all
  ElementRooms rooms_ = ElementRooms(1);  // for these
  bool input_is_over_ = false;
};

absl::StatusOr<IteratorPtr> GroupByReducerDataset::MakeIterator(IteratorContext& context) const {
  GroupByReducerIterator::Functions prepared;
  WEIR_ASSIGN_OR_RETURN(prepared.key, functions_.key.Prepare(context));
  WEIR_ASSIGN_OR_RETURN(prepared.init, functions_.init.Prepare(context));
  WEIR_ASSIGN_OR_RETURN(prepared.reduce, functions_.reduce.Prepare(context));
  WEIR_ASSIGN_OR_RETURN(prepared.finalize, functions_.finalize.Prepare(context));
  WEIR_ASSIGN_OR_RETURN(IteratorPtr iterator, input().MakeIterator(context));
  return IteratorPtr(new GroupByReducerIterator(RefPtr<const GroupByReducerDataset>::Share(this),
                                                std::move(iterator), std::move(prepared)));
}

class GroupByReducer final : public DatasetKernel {
 public:
  explicit GroupByReducer(const KernelConstruction& construction)
      : DatasetKernel(construction),
        functions_{{construction, "key_func"},
                   {construction, "init_func"},
                   {construction, "reduce_func"},
                   {construction, "finalize_func"}},
        num_captured_{Count(construction, "Tkey_func_other_arguments"),
                      Count(construction, "Tinit_func_other_arguments"),
                      Count(construction, "Treduce_func_other_arguments"),
                      Count(construction, "Tfinalize_func_other_arguments")} {}

 private:
  static int Count(const KernelConstruction& construction, absl::string_view attr) {
    return static_cast<int>(construction.attr<std::vector<DType>>(attr).size());
  }

  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0));
    GroupByReducerDataset::Functions made;
    CapturedFunction* const places[] = {&made.key, &made.init, &made.reduce, &made.finalize};
    int first = 1;
    for (int i = 0; i < 4; ++i) {
      WEIR_ASSIGN_OR_RETURN(*places[i],
                            CapturedFunction::Create(functions_[i], context, first, num_captured_[i]));
      first += num_captured_[i];
    }
    return SetDataset<GroupByReducerDataset>(context, signature, std::move(input), std::move(made));
  }

  const FunctionOfNode functions_[4];
  const int num_captured_[4];
};

}  // namespace

void RegisterReducingKernels(DeviceKernels& kernels) {
  for (const char* op : {"GroupByReducerDataset", "ExperimentalGroupByReducerDataset"}) {
    kernels.Add<GroupByReducer>(op);
  }
}

}  // namespace weir
