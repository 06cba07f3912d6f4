// The ops that graphs may use. Filled by explicit Register calls (ops/register_ops.h), then only read.
//
// Thread safety: Register is for one thread; after that everything is safe to read concurrently. Ops live as
// long as the registry, and graphs point to them: the registry must outlive its graphs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/op_def.h"

namespace weir {

class OpRegistry {
 public:
  OpRegistry() = default;
  OpRegistry(const OpRegistry&) = delete;
  OpRegistry& operator=(const OpRegistry&) = delete;

  // InvalidArgument when a specification does not parse or the shape function or gradient is missing;
  // AlreadyExists for a second op of the name.
  absl::Status Register(OpDef def);

  // Null when there is no such op.
  const Op* Find(absl::string_view name) const;
  // NotFound, with the nearest names, when there is no such op.
  absl::StatusOr<const Op*> Lookup(absl::string_view name) const;

  std::vector<const Op*> ops() const;  // by name

 private:
  std::map<std::string, std::unique_ptr<const Op>, std::less<>> ops_;
};

}  // namespace weir
