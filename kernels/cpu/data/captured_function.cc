#include "kernels/cpu/data/captured_function.h"

#include "absl/strings/str_cat.h"
#include "graph/function_bodies.h"
#include "kernels/cpu/data/pipeline_checks.h"
#include "kernels/session_state.h"

namespace weir {

FunctionOfNode::FunctionOfNode(const KernelConstruction& construction, absl::string_view attr)
    : description_(absl::StrCat(attr, " = ", construction.node().FindAttr(attr)->ToString())) {
  if (construction.session() != nullptr) {
    caller_ = construction.session()->functions();
    files_ = construction.session()->files();
  }
  const AttrValue* const body = construction.node().FindAttr(BodyAttr(attr));
  const auto* const bytes = body == nullptr ? nullptr : body->get_if<std::string>();
  if (bytes != nullptr) body_ = std::make_shared<const std::string>(*bytes);
}

absl::Status FunctionOfNode::Check() const {
  if (body_ != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("Function ", description_, " is not defined: no library came with the node"));
}

absl::StatusOr<CapturedFunction> CapturedFunction::Create(const FunctionOfNode& function,
                                                          const KernelContext& context, int first,
                                                          int count) {
  WEIR_RETURN_IF_ERROR(function.Check());
  CapturedFunction captured;
  captured.body_ = function.body();
  captured.files_ = function.files();
  for (int i = first; i < first + count; ++i) captured.captured_.push_back(context.input(i));
  return captured;
}

absl::StatusOr<DatasetPtr> DatasetMadeFor(const Dataset& above, absl::string_view function,
                                          const Element& results, const IteratorContext& context) {
  if (results.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(function, " must return a single scalar of dtype DT_VARIANT."));
  }
  WEIR_ASSIGN_OR_RETURN(DatasetPtr dataset, DatasetIn(results[0]));
  if (context.stages + above.stages() + dataset->stages() > Dataset::kMaxStages) {
    return absl::InvalidArgumentError(absl::StrCat(
        "more than ", Dataset::kMaxStages, " datasets are made of one another: a function gives one of ",
        dataset->stages(), " below ", context.stages + above.stages()));
  }
  WEIR_RETURN_IF_ERROR(CheckFits(above.signature(), dataset->signature()));
  if (dataset->has_assertions()) {
    // What is above that one is not known here.
    WEIR_RETURN_IF_ERROR(
        CheckAssertions(*dataset, {"Iterator", "Root", absl::StrCat(IteratorName(above), "[0]")}));
  }
  return dataset;
}

IteratorContext Below(const Dataset& above, const IteratorContext& context) {
  IteratorContext below = context;
  below.stages += above.stages();
  return below;
}

absl::StatusOr<bool> Verdict(const Element& results) {
  if (results.size() == 1 && results[0].dtype() == DType::kBool && results[0].num_elements() == 1) {
    return results[0].scalar<bool>();
  }
  return absl::InvalidArgumentError("Filter predicate `f` must return a scalar bool.");
}

absl::Status CheckResults(const Element& results, const Dataset::Signature& signature) {
  if (results.size() != signature.types.size()) {
    return absl::InvalidArgumentError(absl::StrCat("The function gives ", results.size(), " tensors; ",
                                                   signature.types.size(), " are expected"));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].dtype() == signature.types[i]) continue;
    return absl::InvalidArgumentError(absl::StrCat("Data type mismatch at component ", i, ": expected ",
                                                   DTypeName(signature.types[i]), " but got ",
                                                   DTypeName(results[i].dtype()), "."));
  }
  return absl::OkStatus();
}

}  // namespace weir
