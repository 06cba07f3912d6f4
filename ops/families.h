// The families of ops and their files: one list of ops for each file ops/<family>/<file>.cc.
//
// In those files one op is one record: name, summary, shape function and gradient stand together; its schema
// comes from ops/schemas/tensorflow.txt. In shape functions `s` is the ShapeInference, in gradients `g` is
// the GradientContext.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "graph/op_def.h"
#include "graph/op_registry.h"

namespace weir {

using OpList = std::vector<OpDef> (*)();

// The files of each family. The build lists them: it finds FILE.cc, which defines FileOps() (family.bzl).
const std::vector<OpList>& ArrayFiles();
const std::vector<OpList>& ControlFlowFiles();
const std::vector<OpList>& DataFlowFiles();
const std::vector<OpList>& DebuggingFiles();
const std::vector<OpList>& IoFiles();
const std::vector<OpList>& LookupFiles();
const std::vector<OpList>& MathFiles();
const std::vector<OpList>& NnFiles();
const std::vector<OpList>& RandomFiles();
const std::vector<OpList>& SparseFiles();
const std::vector<OpList>& StateFiles();
const std::vector<OpList>& StringsFiles();
const std::vector<OpList>& SummaryFiles();
const std::vector<OpList>& TrainingFiles();

struct OpFamily {
  absl::string_view name;   // "array": the folder ops/array, the header ops/array_ops.h
  absl::string_view title;  // of its chapter in the documentation
  std::vector<OpList> files;

  // Completes every op with its schema and registers it. Returns the first error: those of
  // SchemaTable::Complete and OpRegistry::Register.
  absl::Status Register(OpRegistry& registry) const;
};
// All of them, in the order of the documentation.
const std::vector<OpFamily>& OpFamilies();

}  // namespace weir
