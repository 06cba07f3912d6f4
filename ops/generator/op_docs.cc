#include "ops/generator/op_docs.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "graph/gradients.h"
#include "ops/generator/signature.h"

namespace weir {
namespace {

// "`a: T`, `b: T`"
std::string Quoted(const std::vector<std::string>& specs) {
  return absl::StrJoin(
      specs, ", ", [](std::string* out, const std::string& spec) { absl::StrAppend(out, "`", spec, "`"); });
}

std::string Line(absl::string_view title, const std::vector<std::string>& specs) {
  return specs.empty() ? "" : absl::StrCat("- ", title, ": ", Quoted(specs), "\n");
}

std::string Traits(const OpDef& def) {
  std::vector<std::string> traits;
  if (def.is_stateful) traits.push_back("stateful");
  if (def.is_elementwise) traits.push_back("elementwise");
  if (def.is_commutative) traits.push_back("commutative");
  traits.push_back(def.gradient == NotDifferentiable ? "no gradient"
                   : def.gradient == GradientMissing ? "gradient not written yet"
                                                     : "differentiable");
  return absl::StrCat("- ", absl::StrJoin(traits, ", "), "\n");
}

std::string Function(const Op& op) {
  if (IsHandWritten(op)) return "C++: see `ops/standard_ops.h`\n\n";
  return absl::StrCat("```cpp\n", SignatureOf(op).ToString(/*with_defaults=*/false), ";\n```\n\n");
}

// What stands in the braces of a call, as C++ writes it: "`.transpose_a = false`".
std::string Options(const Op& op) {
  if (IsHandWritten(op)) return "";
  std::vector<std::string> fields;
  for (const Parameter& option : SignatureOf(op).options) {
    absl::string_view value = option.default_value;
    if (absl::ConsumePrefix(&value, "static_cast<float>(")) value.remove_suffix(1);
    fields.push_back(absl::StrCat(".", option.name, " = ", value));
  }
  return Line("Options and their defaults", fields);
}

std::string Section(const Op& op) {
  const OpDef& def = op.def();
  return absl::StrCat("\n### ", op.name(), "\n\n", def.summary, "\n\n", Function(op),
                      Line("Inputs", def.inputs), Line("Outputs", def.outputs), Line("Attrs", def.attrs),
                      Options(op), Traits(def));
}

}  // namespace

std::string OpDocsIntroduction() {
  return "# Ops\n\n"
         "Built from the records in `ops/` and the schemas in `ops/schemas/tensorflow.txt` (`bazel build "
         "//docs:ops.md`).\n"
         "Names, inputs, attrs and defaults are TensorFlow's.\n\n"
         "Every function takes the `GraphBuilder` first and adds one node. Attrs that the inputs determine "
         "are no arguments;\n"
         "attrs with a default are fields of the options, together with the node's `name`. A type attr `T` "
         "stands for one dtype\n"
         "of its list, `N * T` for a list of tensors of one dtype.\n";
}

std::string OpDocsChapter(const OpFamily& family, const OpRegistry& ops) {
  std::string text = absl::StrCat("\n## ", family.title, "\n\n`#include \"ops/", family.name, "_ops.h\"`\n");
  for (const Op* op : ops.ops()) absl::StrAppend(&text, Section(*op));
  return text;
}

}  // namespace weir
