#include "kernels/cpu/data/dataset.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "kernels/cancellable_wait.h"
#include "kernels/cpu/data_flow/held_resource.h"
#include "kernels/cpu/data_flow/plain_value.h"

namespace weir {
namespace {

// What an element and a tensor take besides what is in them: their places, counts of references, buffers.
constexpr int64_t kElementBytes = 128;
constexpr int64_t kTensorBytes = 128;

// What is in variants, each value once: lists share what they hold, and may hold it many times.
class HeldValues {
 public:
  // Of one tensor, with what it takes by itself; values in it are added by AddAll.
  void Add(const Tensor& tensor, int64_t* num_bytes) {
    *num_bytes += kTensorBytes + static_cast<int64_t>(tensor.num_bytes());
    if (tensor.dtype() == DType::kString) {
      for (const std::string& text : tensor.flat<std::string>()) {
        *num_bytes += static_cast<int64_t>(text.size());
      }
    } else if (tensor.dtype() == DType::kVariant) {
      for (const ResourceHandle& value : tensor.flat<ResourceHandle>()) {
        const Resource* const resource = value.resource.get();
        if (resource != nullptr && seen_.insert(resource).second) waiting_.push_back(resource);
      }
    }
  }
  void AddAll(int64_t* num_bytes) {
    while (!waiting_.empty()) {
      const Resource* const resource = waiting_.back();
      waiting_.pop_back();
      if (const auto* const dataset = dynamic_cast<const Dataset*>(resource)) {
        *num_bytes += dataset->num_bytes();
      } else if (const auto* const plain = dynamic_cast<const PlainValue*>(resource)) {
        for (const Tensor& tensor : plain->tensors()) Add(tensor, num_bytes);
      }
    }
  }

 private:
  absl::flat_hash_set<const Resource*> seen_;
  std::vector<const Resource*> waiting_;
};

}  // namespace

absl::Status CheckElement(const Dataset::Signature& signature, const Element& element) {
  Dataset::Signature given;
  for (const Tensor& tensor : element) {
    given.types.push_back(tensor.dtype());
    given.shapes.emplace_back(tensor.shape());
  }
  return CheckFits(signature, given);
}

absl::Status SetElement(KernelContext& context, const Dataset::Signature& signature, Element element) {
  WEIR_RETURN_IF_ERROR(CheckElement(signature, element));
  for (size_t i = 0; i < element.size(); ++i) {
    context.set_output(static_cast<int>(i), std::move(element[i]));
  }
  return absl::OkStatus();
}

int64_t NumBytes(const Element& element) {
  int64_t num_bytes = kElementBytes;
  HeldValues held;
  for (const Tensor& tensor : element) held.Add(tensor, &num_bytes);
  held.AddAll(&num_bytes);
  return num_bytes;
}

int64_t NumBytes(const absl::StatusOr<Element>& outcome) {
  if (outcome.ok()) return NumBytes(*outcome);
  return kElementBytes + static_cast<int64_t>(outcome.status().message().size());
}

IteratorRun::IteratorRun(Device& device, std::shared_ptr<FunctionCaller> functions)
    : device_(device), functions_(std::move(functions)) {
  if (functions_ == nullptr) return;
  end_of_worker_ = functions_->end().OnCancel([this](const absl::Status& reason) { end_.Cancel(reason); });
}

void IteratorRun::Cancel() {
  if (functions_ != nullptr) functions_->end().Remove(std::exchange(end_of_worker_, 0));
  end_.Cancel(absl::CancelledError("the iterator is gone"));
}

Environment& IteratorRun::environment() const {
  return functions_ == nullptr ? RealEnvironment() : functions_->environment();
}

absl::StatusOr<std::shared_ptr<Function>> IteratorRun::Prepare(const std::shared_ptr<const std::string>& body,
                                                               const std::shared_ptr<FileSystem>& files) {
  if (functions_ == nullptr) return absl::FailedPreconditionError("functions are called in sessions alone");
  absl::MutexLock lock(&mutex_);
  std::shared_ptr<Function>& function = prepared_[body];
  if (function == nullptr) {
    WEIR_ASSIGN_OR_RETURN(function, functions_->Prepare(*body, device_, files));
  }
  return function;
}

void IteratorRun::BeginLastCall() {
  absl::MutexLock lock(&mutex_);
  ++num_last_calls_;
}

void IteratorRun::EndLastCall() {
  absl::MutexLock lock(&mutex_);
  --num_last_calls_;
}

absl::Status IteratorRun::AwaitLastCalls(Cancellation& cancellation) {
  return AwaitUnlessCancelled(environment(), mutex_, cancellation,
                              [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return num_last_calls_ == 0; });
}

absl::StatusOr<bool> AskTop(Iterator& iterator, IteratorContext& context, Element* element) {
  absl::StatusOr<bool> has_element = iterator.Next(context, element);
  if (!absl::IsOutOfRange(has_element.status())) return has_element;
  // The step may be cancelled because another iterator of its is at its end, and that is the reason.
  if (context.cancellation.is_cancelled()) return context.cancellation.reason();
  return absl::InternalError(
      absl::StrCat("An iterator returned `OutOfRange`, which only its end is. Original message: ",
                   has_element.status().message()));
}

absl::StatusOr<Element> Dataset::Get(IteratorContext& context, int64_t index) const {
  const int64_t count = cardinality();
  if (count < 0) {
    return absl::FailedPreconditionError(absl::StrCat("a dataset of ",
                                                      count == kInfinite ? "infinite" : "unknown",
                                                      " cardinality does not support random access"));
  }
  if (index < 0 || index >= count) {
    return absl::OutOfRangeError(absl::StrCat("Index out of range [0, ", count, "): ", index));
  }
  return ElementAt(context, index);
}

absl::StatusOr<Element> Dataset::GetAsserted(IteratorContext& context, int64_t index) const {
  return cardinality() == kUnknown ? ElementAt(context, index) : Get(context, index);
}

absl::Status Dataset::CheckAnyOrder() const {
  return absl::FailedPreconditionError(
      "`global_shuffle` requires all upstream transformations be compatible with random access.");
}

absl::StatusOr<Element> Dataset::ElementAt(IteratorContext&, int64_t) const {
  return absl::UnimplementedError("Random access is not implemented for this dataset.");
}

absl::StatusOr<RefPtr<VariantValue>> Dataset::ZerosLike(KernelContext&) const {
  return absl::InvalidArgumentError("a dataset has no zeros");
}

absl::StatusOr<RefPtr<VariantValue>> Dataset::Add(const VariantValue&, KernelContext&) const {
  return absl::InvalidArgumentError("datasets cannot be added");
}

absl::StatusOr<DatasetPtr> DatasetIn(const Tensor& tensor) {
  if (tensor.dtype() == DType::kVariant && tensor.shape().is_scalar()) {
    const auto* const dataset = dynamic_cast<const Dataset*>(tensor.scalar<ResourceHandle>().resource.get());
    if (dataset != nullptr) return DatasetPtr::Share(dataset);
  }
  return absl::InvalidArgumentError(absl::StrCat("Tensor must be a Dataset object, is ", tensor.ToString(4)));
}

absl::StatusOr<DatasetPtr> DatasetInput(const KernelContext& context, int index) {
  return DatasetIn(context.input(index));
}

absl::StatusOr<DatasetPtr> DatasetInput(const KernelContext& context, int index,
                                        absl::Span<const DType> types) {
  WEIR_ASSIGN_OR_RETURN(DatasetPtr dataset, DatasetIn(context.input(index)));
  WEIR_RETURN_IF_ERROR(CheckTypes(types, dataset->signature().types));
  return dataset;
}

absl::StatusOr<int> StagesOver(absl::Span<const Tensor> tensors) {
  int stages = 1;
  for (const Tensor& tensor : tensors) {
    WEIR_RETURN_IF_ERROR(CheckMayBeHeld(tensor));
    if (tensor.dtype() != DType::kVariant) continue;
    for (const ResourceHandle& element : tensor.flat<ResourceHandle>()) {
      const auto* const value = dynamic_cast<const VariantValue*>(element.resource.get());
      const auto* const dataset = dynamic_cast<const Dataset*>(value);
      if (value == nullptr) continue;
      const int held = dataset != nullptr ? dataset->stages() : value->depth() * Dataset::kStagesPerDepth;
      stages = std::max(stages, held + 1);
    }
  }
  if (stages <= Dataset::kMaxStages) return stages;
  return absl::InvalidArgumentError(
      absl::StrCat("more than ", Dataset::kMaxStages, " datasets are made of one another"));
}

absl::Status Dataset::CountParts(const KernelContext& context) {
  int stages = 1;
  int64_t num_parts = 1;
  for (int i = 0; i < context.num_inputs(); ++i) {
    WEIR_ASSIGN_OR_RETURN(const int over, StagesOver({context.input(i)}));
    stages = std::max(stages, over);
    const absl::StatusOr<DatasetPtr> dataset = DatasetIn(context.input(i));
    if (dataset.ok()) num_parts += (*dataset)->num_parts_;
    if (dataset.ok()) WEIR_RETURN_IF_ERROR(AddOptionsOf(**dataset));
    if (dataset.ok() && (*dataset)->has_assertions()) has_assertions_ = true;
    inputs_.push_back(context.input(i));
    if (num_parts <= kMaxParts) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("a dataset is made of more than ", kMaxParts, " others, counted with repetition"));
  }
  stages_ = stages;
  num_parts_ = num_parts;
  return absl::OkStatus();
}

void SetNode(KernelContext& context, const std::shared_ptr<const DatasetNode>& node) {
  auto* const dataset = dynamic_cast<Dataset*>(context.output(0).scalar<ResourceHandle>().resource.get());
  if (dataset == nullptr) return;
  for (int i = 0; i < context.num_inputs(); ++i) {
    const absl::StatusOr<DatasetPtr> input = DatasetIn(context.input(i));
    if (input.ok() && input->get() == dataset) return;
  }
  dataset->set_node(node);
}

absl::Status Dataset::AddOptions(absl::string_view options) {
  if (options.empty()) return absl::OkStatus();
  std::string all = absl::StrCat(this->options(), options);
  if (all.size() > kMaxOptionsBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a dataset has ", all.size(), " bytes of options, those of its inputs among them; at most ",
        kMaxOptionsBytes, " are kept"));
  }
  options_ = std::make_shared<const std::string>(std::move(all));
  return absl::OkStatus();
}

absl::Status Dataset::AddOptionsOf(const Dataset& input) {
  if (options_ == input.options_) return absl::OkStatus();
  if (options_ != nullptr) return AddOptions(input.options());
  options_ = input.options_;
  return absl::OkStatus();
}

absl::StatusOr<Dataset::Signature> SignatureOf(const KernelConstruction& construction) {
  const Node& node = construction.node();
  const AttrValue* const types = node.FindAttr("output_types") != nullptr ? node.FindAttr("output_types")
                                                                          : node.FindAttr("Toutput_types");
  Dataset::Signature signature = {types->get<std::vector<DType>>(),
                                  construction.attr<std::vector<PartialShape>>("output_shapes")};
  if (signature.types.size() == signature.shapes.size()) return signature;
  return absl::InvalidArgumentError(
      absl::StrCat("`output_types` and `output_shapes` must be the same length: ", signature.types.size(),
                   " vs ", signature.shapes.size()));
}

std::vector<PartialShape> ShapesOf(const Dataset::Signature& signature) {
  std::vector<PartialShape> shapes = signature.shapes;
  shapes.resize(signature.types.size());
  return shapes;
}

absl::Status CheckTypes(absl::Span<const DType> wanted, absl::Span<const DType> given) {
  if (wanted.size() != given.size()) {
    return absl::InvalidArgumentError(absl::StrCat("Number of components does not match: expected ",
                                                   wanted.size(), " types but got ", given.size(), "."));
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == given[i]) continue;
    return absl::InvalidArgumentError(absl::StrCat("Data type mismatch at component ", i, ": expected ",
                                                   DTypeName(wanted[i]), " but got ", DTypeName(given[i]),
                                                   "."));
  }
  return absl::OkStatus();
}

absl::Status CheckFits(const Dataset::Signature& wanted, const Dataset::Signature& given) {
  WEIR_RETURN_IF_ERROR(CheckTypes(wanted.types, given.types));
  const std::vector<PartialShape> wanted_shapes = ShapesOf(wanted), given_shapes = ShapesOf(given);
  for (size_t i = 0; i < wanted_shapes.size(); ++i) {
    if (wanted_shapes[i].IsCompatibleWith(given_shapes[i])) continue;
    return absl::InvalidArgumentError(absl::StrCat("Incompatible shapes at component ", i, ": expected ",
                                                   wanted_shapes[i].ToString(), " but got ",
                                                   given_shapes[i].ToString(), "."));
  }
  return absl::OkStatus();
}

}  // namespace weir
