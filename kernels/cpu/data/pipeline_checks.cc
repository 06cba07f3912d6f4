#include "kernels/cpu/data/pipeline_checks.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "graph/interchange/plain_graph.h"

namespace weir {
namespace {

// The op without a version: "V2" of "BatchDatasetV2" counts for none.
bool IsAnyVersionOf(absl::string_view prefix, absl::string_view op) {
  if (!absl::ConsumePrefix(&op, prefix)) return false;
  if (op.empty()) return true;
  if (!absl::ConsumePrefix(&op, "V") || op.empty()) return false;
  for (const char c : op) {
    if (!absl::ascii_isdigit(c)) return false;
  }
  return true;
}

std::vector<const Dataset*> InputDatasets(const Dataset& dataset) {
  std::vector<const Dataset*> inputs;
  for (const Tensor& input : dataset.inputs()) {
    const absl::StatusOr<DatasetPtr> found = DatasetIn(input);
    if (found.ok()) inputs.push_back(found->get());  // held by the dataset
  }
  return inputs;
}

// The number at input 1: of Take, Skip and Repeat.
int64_t CountOf(const Dataset& dataset) {
  if (dataset.inputs().size() < 2 || dataset.inputs()[1].dtype() != DType::kInt64) return 1;
  const Tensor& count = dataset.inputs()[1];
  return count.num_elements() == 1 ? count.flat<int64_t>()[0] : 1;
}

bool HasFileName(const Dataset& cache) {
  const Tensor& name = cache.inputs()[1];
  return name.dtype() == DType::kString && name.num_elements() == 1 && !name.flat<std::string>()[0].empty();
}

std::vector<std::string> TransformationsOf(const Dataset& dataset) {
  const Tensor& texts = dataset.inputs()[1];
  return {texts.flat<std::string>().begin(), texts.flat<std::string>().end()};
}

absl::Status CheckNext(const Dataset& dataset, const std::vector<std::string>& above) {
  const std::vector<std::string> wanted = TransformationsOf(dataset);
  const size_t num_above = above.size() - 1;  // all but "Iterator"
  if (wanted.size() > num_above) {
    return absl::InvalidArgumentError(absl::StrCat("Asserted next ", wanted.size(),
                                                   " transformations but encountered only ", num_above, "."));
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    const std::string& found = above[above.size() - 1 - i];
    if (IsAnyVersionOf(wanted[i], found)) continue;
    return absl::InvalidArgumentError(absl::StrCat("Asserted transformation matching ", wanted[i],
                                                   " at offset ", i, " but encountered ", found,
                                                   " transformation instead."));
  }
  return absl::OkStatus();
}

absl::Status CheckNode(const std::string& wanted, const DatasetNode& node) {
  WEIR_ASSIGN_OR_RETURN(const PlainNode assertion, PlainNodeFromText(wanted));
  if (!IsAnyVersionOf(assertion.op, node.op)) {
    return absl::InvalidArgumentError(
        absl::StrCat("Asserted transformation matching '", assertion.op, "', but found '", node.op, "'."));
  }
  for (const auto& [name, value] : assertion.attrs) {
    const auto found = node.attrs.find(name);
    const std::string asserted = absl::StrCat("Asserted attribute '", name, "' having a value of '",
                                              value.ToString(), "', but found ");
    if (found == node.attrs.end()) {
      return absl::InvalidArgumentError(absl::StrCat(asserted, "no such attribute defined."));
    }
    if (found->second == value) continue;
    return absl::InvalidArgumentError(absl::StrCat(asserted, "value of '", found->second.ToString(), "'."));
  }
  return absl::OkStatus();
}

absl::Status CheckPrevious(const Dataset& dataset) {
  const std::vector<std::string> wanted = TransformationsOf(dataset);
  const Dataset* at = &dataset;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const std::vector<const Dataset*> inputs = InputDatasets(*at);
    if (inputs.empty() || inputs.back()->node() == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("Asserted previous ", wanted.size(),
                                                     " transformations but encountered only ", i, "."));
    }
    at = inputs.back();
    const absl::Status status = CheckNode(wanted[i], *at->node());
    if (status.ok()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("Failure checking transformations at offset ", i, ": ", status.message()));
  }
  return absl::OkStatus();
}

absl::Status Check(const Dataset& dataset, std::vector<std::string>* above) {
  if (!dataset.has_assertions()) return absl::OkStatus();
  const absl::string_view op = dataset.node() == nullptr ? "" : absl::string_view(dataset.node()->op);
  if (absl::EndsWith(op, "AssertNextDataset")) WEIR_RETURN_IF_ERROR(CheckNext(dataset, *above));
  if (absl::EndsWith(op, "AssertPrevDataset")) WEIR_RETURN_IF_ERROR(CheckPrevious(dataset));
  const std::string name = IteratorName(dataset);
  if (absl::StartsWith(name, "Empty")) return absl::OkStatus();  // it asks for none of its input
  const std::vector<const Dataset*> inputs = InputDatasets(dataset);
  const bool is_numbered = inputs.size() > 1 || op == "RepeatDataset";
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!name.empty()) above->push_back(is_numbered ? absl::StrCat(name, "[", i, "]") : name);
    WEIR_RETURN_IF_ERROR(Check(*inputs[i], above));
    if (!name.empty()) above->pop_back();
  }
  return absl::OkStatus();
}

}  // namespace

std::string IteratorName(const Dataset& dataset) {
  if (dataset.node() == nullptr) return "";
  absl::string_view op = dataset.node()->op;
  if (op == "OptionsDataset") return "";
  if (op == "TakeDataset") return CountOf(dataset) == 0 ? "EmptyTake" : "FiniteTake";
  if (op == "SkipDataset") return CountOf(dataset) < 0 ? "EmptySkip" : "FiniteSkip";
  if (op == "RepeatDataset") {
    const int64_t count = CountOf(dataset);
    return count < 0 ? "ForeverRepeat" : count == 0 ? "EmptyRepeat" : "FiniteRepeat";
  }
  if (op == "CacheDataset") return HasFileName(dataset) ? "FileCacheImpl" : "MemoryCacheImpl";
  absl::ConsumePrefix(&op, "Experimental");
  const size_t word = op.rfind("Dataset");
  if (word == absl::string_view::npos) return std::string(op);
  return absl::StrCat(op.substr(0, word), op.substr(word + 7));
}

absl::Status CheckAssertions(const Dataset& dataset, std::vector<std::string> above) {
  return Check(dataset, &above);
}

}  // namespace weir
