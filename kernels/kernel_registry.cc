#include "kernels/kernel_registry.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace weir {
namespace {

bool Accepts(const KernelDef& def, const Node& node) {
  for (const auto& [attr_name, allowed] : def.types) {
    const AttrValue* value = node.FindAttr(attr_name);
    const DType* dtype = value == nullptr ? nullptr : value->get_if<DType>();
    if (dtype == nullptr || std::find(allowed.begin(), allowed.end(), *dtype) == allowed.end()) return false;
  }
  return true;
}

std::string TypesToString(const KernelDef& def) {
  return absl::StrCat(
      def.device_type, " {",
      absl::StrJoin(def.types, "; ",
                    [](std::string* out, const auto& entry) {
                      absl::StrAppend(out, entry.first, " in ",
                                      absl::StrJoin(entry.second, ",", [](std::string* name, DType dtype) {
                                        absl::StrAppend(name, DTypeName(dtype));
                                      }));
                    }),
      "}");
}

std::string TypeAttrsToString(const Node& node) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : node.attrs()) {
    if (value.kind() == AttrKind::kType) parts.push_back(absl::StrCat(name, "=", value.ToString()));
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace

void KernelRegistry::Register(KernelDef def) { defs_[def.op].push_back(std::move(def)); }

const KernelDef* KernelRegistry::Find(const Node& node, absl::string_view device_type) const {
  auto found = defs_.find(node.op_name());
  if (found == defs_.end()) return nullptr;
  for (const KernelDef& def : found->second) {
    if (def.device_type == device_type && Accepts(def, node)) return &def;
  }
  return nullptr;
}

bool KernelRegistry::HasKernel(const Node& node, absl::string_view device_type) const {
  return Find(node, device_type) != nullptr;
}

std::vector<std::string> KernelRegistry::DeviceTypesFor(const Node& node) const {
  std::set<std::string> types;
  for (const KernelDef* def : DefsFor(node.op_name())) {
    if (Accepts(*def, node)) types.insert(def->device_type);
  }
  return {types.begin(), types.end()};
}

absl::StatusOr<std::unique_ptr<Kernel>> KernelRegistry::Create(const Node& node, Device& device,
                                                               SessionState* session) const {
  if (const KernelDef* def = Find(node, device.type())) {
    absl::StatusOr<std::unique_ptr<Kernel>> kernel = def->create(KernelConstruction(node, device, session));
    if (kernel.ok()) return kernel;
    const absl::Status& status = kernel.status();
    return absl::Status(status.code(), absl::StrCat(node.Describe(), ": ", status.message()));
  }
  const std::vector<const KernelDef*> defs = DefsFor(node.op_name());
  return absl::NotFoundError(absl::StrCat(
      node.Describe(), ": no kernel for device ", device.type(), " with ", TypeAttrsToString(node),
      defs.empty() ? "; the op has no kernels"
                   : absl::StrCat("; there are: ",
                                  absl::StrJoin(defs, ", ", [](std::string* out, const KernelDef* def) {
                                    out->append(TypesToString(*def));
                                  }))));
}

std::vector<const KernelDef*> KernelRegistry::DefsFor(absl::string_view op) const {
  std::vector<const KernelDef*> result;
  auto found = defs_.find(op);
  if (found == defs_.end()) return result;
  for (const KernelDef& def : found->second) result.push_back(&def);
  return result;
}

}  // namespace weir
