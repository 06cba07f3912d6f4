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

int64_t NumValues(const ArgDef& arg, const Node& node) {
  if (!arg.number_attr.empty()) return node.attr<int64_t>(arg.number_attr);
  if (!arg.type_list_attr.empty()) {
    return static_cast<int64_t>(node.attr<std::vector<DType>>(arg.type_list_attr).size());
  }
  return 1;
}

std::string TypeAttrsToString(const Node& node) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : node.attrs()) {
    if (value.kind() == AttrKind::kType) parts.push_back(absl::StrCat(name, "=", value.ToString()));
  }
  return absl::StrJoin(parts, ", ");
}

// Of strings and variants a kernel computes on the host, with all that it has beside them.
bool HasObjects(const Node& node) {
  const auto is_object = [](DType dtype) { return dtype == DType::kString || dtype == DType::kVariant; };
  const auto types = node.output_types();
  return std::any_of(types.begin(), types.end(), is_object) ||
         std::any_of(node.inputs().begin(), node.inputs().end(),
                     [&](const Output& input) { return is_object(input.dtype()); });
}

// Of each argument, in the order of the node's: the kind that its name and its dtype give it.
std::vector<MemoryKind> KindsOfArgs(const std::vector<ArgDef>& args, const Node& node,
                                    absl::FunctionRef<DType(int)> dtype_of, int num_values, bool is_on_host,
                                    const std::vector<std::string>& host_names) {
  std::vector<MemoryKind> kinds;
  const auto add = [&](bool is_host) {
    is_host = is_host || !IsPlainBytes(dtype_of(static_cast<int>(kinds.size())));
    kinds.push_back(is_host ? MemoryKind::kHost : MemoryKind::kDevice);
  };
  for (const ArgDef& arg : args) {
    const bool is_host =
        is_on_host || std::find(host_names.begin(), host_names.end(), arg.name) != host_names.end();
    for (int64_t left = NumValues(arg, node); left > 0; --left) add(is_host);
  }
  while (static_cast<int>(kinds.size()) < num_values) add(is_on_host);
  return kinds;
}

}  // namespace

ArgumentKinds KindsOf(const KernelDef& def, const Node& node) {
  const bool is_on_host = def.is_on_host || HasObjects(node);
  return {.own = is_on_host ? MemoryKind::kHost : MemoryKind::kDevice,
          .inputs = KindsOfArgs(
              node.op().inputs(), node, [&node](int i) { return node.input_type(i); }, node.num_inputs(),
              is_on_host, def.host_inputs),
          .outputs = KindsOfArgs(
              node.op().outputs(), node, [&node](int i) { return node.output_type(i); }, node.num_outputs(),
              is_on_host, def.host_outputs)};
}

void KernelRegistry::Register(KernelDef def) { defs_[def.op].push_back(std::move(def)); }

void KernelRegistry::Change(absl::string_view device_type, absl::FunctionRef<void(KernelDef& def)> change) {
  for (auto& [op, defs] : defs_) {
    for (KernelDef& def : defs) {
      if (def.device_type == device_type) change(def);
    }
  }
}

ArgumentKinds KernelRegistry::KindsOf(const Node& node, absl::string_view device_type) const {
  static const auto& nothing = *new KernelDef{.is_on_host = true};
  const KernelDef* const found = Find(node, device_type);
  return weir::KindsOf(found != nullptr ? *found : nothing, node);
}

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
  return CreateOf(device.type(), node, device, session);
}

absl::StatusOr<std::unique_ptr<Kernel>> KernelRegistry::CreateOf(absl::string_view device_type,
                                                                 const Node& node, Device& device,
                                                                 SessionState* session) const {
  if (const KernelDef* def = Find(node, device_type)) {
    absl::StatusOr<std::unique_ptr<Kernel>> kernel = def->create(KernelConstruction(node, device, session));
    if (kernel.ok()) return kernel;
    const absl::Status& status = kernel.status();
    return absl::Status(status.code(), absl::StrCat(node.Describe(), ": ", status.message()));
  }
  const std::vector<const KernelDef*> defs = DefsFor(node.op_name());
  return absl::NotFoundError(absl::StrCat(
      node.Describe(), ": no kernel for device ", device_type, " with ", TypeAttrsToString(node),
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
