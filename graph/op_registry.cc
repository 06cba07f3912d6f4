#include "graph/op_registry.h"

#include "absl/strings/str_cat.h"
#include "graph/nearest_names.h"
#include "graph/types/status_macros.h"

namespace weir {

absl::Status OpRegistry::Register(OpDef def) {
  WEIR_ASSIGN_OR_RETURN(Op op, Op::Parse(std::move(def)));
  const std::string name = op.name();
  if (!ops_.emplace(name, std::make_unique<const Op>(std::move(op))).second) {
    return absl::AlreadyExistsError(absl::StrCat("op ", name, " is registered twice"));
  }
  return absl::OkStatus();
}

const Op* OpRegistry::Find(absl::string_view name) const {
  auto found = ops_.find(name);
  return found == ops_.end() ? nullptr : found->second.get();
}

absl::StatusOr<const Op*> OpRegistry::Lookup(absl::string_view name) const {
  if (const Op* op = Find(name)) return op;
  std::vector<absl::string_view> known;
  for (const auto& [op_name, op] : ops_) known.push_back(op_name);
  return absl::NotFoundError(absl::StrCat("no op is named '", name, "'", DidYouMean(name, known)));
}

std::vector<const Op*> OpRegistry::ops() const {
  std::vector<const Op*> result;
  for (const auto& [name, op] : ops_) result.push_back(op.get());
  return result;
}

}  // namespace weir
