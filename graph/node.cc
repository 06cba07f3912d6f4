#include "graph/node.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace weir {

std::string Output::name() const {
  return node == nullptr ? "(none)" : absl::StrCat(node->name(), ":", index);
}

const AttrValue* Node::FindAttr(absl::string_view name) const {
  auto found = attrs_.find(name);
  return found == attrs_.end() ? nullptr : &found->second;
}

std::vector<std::string> Node::colocation_names() const {
  std::vector<std::string> names;
  const AttrValue* classes = FindAttr("_class");
  const auto* list = classes == nullptr ? nullptr : classes->get_if<std::vector<std::string>>();
  if (list == nullptr) return names;
  for (absl::string_view name : *list) {
    if (absl::ConsumePrefix(&name, "loc:@")) names.emplace_back(name);
  }
  return names;
}

}  // namespace weir
