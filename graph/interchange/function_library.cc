#include "graph/interchange/function_library.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "google/protobuf/util/message_differencer.h"
#include "graph/interchange/function_body.h"
#include "graph/interchange/function_calls.h"
#include "graph/interchange/message_form.h"
#include "graph/nearest_names.h"
#include "graph/types/status_macros.h"

namespace weir {

using ::tensorflow::FunctionDef;

namespace {

constexpr int64_t kMaxNodes = 4'000'000;
constexpr int64_t kMaxBytes = int64_t{1} << 30;
// Each call has the reason for itself.
constexpr size_t kMaxReason = 1000;

}  // namespace

int ArgumentNumber(absl::string_view input) {
  int number = -1;
  return absl::ConsumePrefix(&input, "#") && absl::SimpleAtoi(input, &number) ? number : -1;
}

absl::StatusOr<FunctionLibrary> FunctionLibrary::Create(const tensorflow::FunctionDefLibrary& functions,
                                                        const OpRegistry& ops) {
  FunctionLibrary library(ops);
  for (const FunctionDef& function : functions.function()) {
    const std::string& name = function.signature().name();
    if (name.empty()) return absl::InvalidArgumentError("the library has a function without a name");
    const auto [known, is_new] = library.functions_.emplace(name, &function);
    if (is_new || google::protobuf::util::MessageDifferencer::Equals(*known->second, function)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "Cannot add function '", name, "' because a different function with the same name already exists."));
  }
  for (const tensorflow::GradientDef& gradient : functions.gradient()) {
    library.gradients_[gradient.function_name()] = gradient.gradient_func();
  }
  return library;
}

const FunctionDef* FunctionLibrary::Find(absl::string_view name) const {
  const auto found = functions_.find(name);
  return found == functions_.end() ? nullptr : found->second;
}

bool FunctionLibrary::HasEffects(absl::string_view op) const {
  if (op == "VarHandleOp" || op == "ReadVariableOp" || op == "VarIsInitializedOp" || op == "VariableV2" ||
      op == "Variable" || absl::StartsWith(op, "Placeholder")) {
    return false;
  }
  if (op == "StatefulPartitionedCall" || op == "If" || op == "Case" || op == "While") return true;
  const Op* const known = ops_->Find(op);
  if (known != nullptr) return known->is_stateful();
  const tensorflow::FunctionDef* const function = Find(op);
  return function != nullptr && function->signature().is_stateful();
}

std::string FunctionLibrary::GradientOf(absl::string_view name) const {
  const auto found = gradients_.find(name);
  return found == gradients_.end() ? std::string() : std::string(found->second);
}

const tensorflow::FunctionDef* FunctionLibrary::CalledBy(const tensorflow::NodeDef& node) const {
  if (ops_->Find(node.op()) != nullptr) return nullptr;
  if (KindOfCall(node.op()) == CallKind::kNone) return Find(node.op());
  const AttrProto* const function = KindOfCall(node.op()) == CallKind::kCall ? FindAttr(node, "f") : nullptr;
  return function == nullptr ? nullptr : Find(function->func().name());
}

int64_t FunctionLibrary::NumNodesOfCall(absl::string_view name) {
  constexpr int64_t kMost = int64_t{1} << 50, kUnderWay = -1;
  struct Visit {
    const tensorflow::FunctionDef* function;
    int next = 0;
    int64_t sum = 0;
  };
  std::vector<Visit> visits;  // calls may be as deep as the library has functions
  const auto visit = [&](const tensorflow::FunctionDef* function) {
    num_nodes_of_call_[function] = kUnderWay;
    visits.push_back({function});
  };
  const tensorflow::FunctionDef* const asked = Find(name);
  if (asked == nullptr) return 0;
  if (!num_nodes_of_call_.contains(asked)) visit(asked);
  while (!visits.empty()) {
    Visit& here = visits.back();
    if (here.next == here.function->node_def_size()) {
      num_nodes_of_call_[here.function] = here.sum;
      visits.pop_back();
      continue;
    }
    const tensorflow::FunctionDef* const called = CalledBy(here.function->node_def(here.next));
    const auto known = num_nodes_of_call_.find(called);
    if (called != nullptr && known == num_nodes_of_call_.end()) {
      visit(called);
      continue;
    }
    // One that calls itself is refused where it does.
    const int64_t more = called == nullptr ? 1 : std::max<int64_t>(known->second, 1);
    here.sum = std::min(kMost, here.sum + more);
    ++here.next;
  }
  return num_nodes_of_call_.at(asked);
}

absl::StatusOr<std::shared_ptr<const FunctionBody>> FunctionLibrary::Instantiate(absl::string_view name,
                                                                                 const AttrProtos& attrs) {
  const FunctionDef* const function = Find(name);
  if (function == nullptr) {
    std::vector<absl::string_view> known;
    for (const auto& [each, definition] : functions_) known.push_back(each);
    return absl::NotFoundError(absl::StrCat("Function ", name, " is not defined: the library has ",
                                            functions_.size(), " functions, none of that name",
                                            DidYouMean(name, known)));
  }
  // Only attrs of the signature make a difference.
  std::string key(name);
  for (const auto& attr : function->signature().attr()) {
    const auto given = attrs.find(attr.name());
    if (given == attrs.end()) continue;
    WEIR_ASSIGN_OR_RETURN(const std::string bytes, MessageBytes(given->second, "an attr"));
    absl::StrAppend(&key, std::string(1, '\0'), attr.name(), "=", bytes.size(), ":", bytes);
  }
  if (const auto known = bodies_.find(key); known != bodies_.end()) return known->second;
  num_nodes_ += function->node_def_size() + 1;
  if (num_nodes_ > kMaxNodes || num_bytes_ > kMaxBytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "function '", name, "' would be one too many: calls with different attrs have bodies of ", num_nodes_,
        " nodes and ", num_bytes_, " bytes; at most ", kMaxNodes, " and ", kMaxBytes, " are possible"));
  }
  absl::StatusOr<FunctionBody> made = InstantiateFunction(*function, attrs, *this, *ops_);
  if (!made.ok()) {
    const std::string reason = absl::StrCat("function '", name, "': ", made.status().message());
    return bodies_[key] = absl::Status(made.status().code(), reason.substr(0, kMaxReason));
  }
  num_bytes_ += made->num_bytes;
  return bodies_[key] = std::make_shared<const FunctionBody>(*std::move(made));
}

}  // namespace weir
