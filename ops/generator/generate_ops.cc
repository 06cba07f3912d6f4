// generate_ops header FAMILY | source FAMILY | docs: writes what is made from op schemas to the standard
// output.
#include <cstdio>
#include <string>

#include "ops/families.h"
#include "ops/generator/builder_functions.h"
#include "ops/generator/op_docs.h"

namespace weir {
namespace {

constexpr int kUsageError = 1;

bool Load(const OpFamily& family, OpRegistry& ops) {
  const absl::Status status = family.Register(ops);
  if (!status.ok()) std::fprintf(stderr, "generate_ops: %s\n", std::string(status.message()).c_str());
  return status.ok();
}

int Generate(const std::string& what, const std::string& family_name) {
  std::string text = what == "docs" ? OpDocsIntroduction() : "";
  for (const OpFamily& family : OpFamilies()) {
    if (what != "docs" && family.name != family_name) continue;
    OpRegistry ops;
    if (!Load(family, ops)) return kUsageError;
    if (what == "header") text += BuilderHeader(family, ops);
    if (what == "source") text += BuilderSource(family, ops);
    if (what == "docs") text += OpDocsChapter(family, ops);
  }
  if (text.empty()) {
    std::fprintf(stderr, "usage: generate_ops header FAMILY | source FAMILY | docs\n");
    return kUsageError;
  }
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace
}  // namespace weir

int main(int argc, char** argv) { return weir::Generate(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : ""); }
