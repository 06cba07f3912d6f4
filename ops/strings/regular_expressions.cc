// Regular expressions, in RE2's syntax.
#include <string>
#include <utility>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "ops/families.h"
#include "ops/shape_functions.h"
#include "ops/strings/string_op.h"

namespace weir {
namespace {

// The pattern, and a rewrite, are scalars.
Status WithScalarsShape(ShapeInference& s) {
  for (int i = 1; i < s.num_inputs(); ++i) {
    if (!s.input(i).has_rank() || s.input(i).rank() == 0) continue;
    return InvalidArgumentError(
        StrCat(i == 1 ? "Pattern" : "Rewrite", " must be scalar, but received ", s.input(i).ToString()));
  }
  return UnchangedShape(s);
}

}  // namespace

std::vector<OpDef> RegularExpressionsOps() {
  return {
      StringOp("RegexFullMatch", "Says which strings the regular expression `pattern` matches as a whole.",
               WithScalarsShape),
      StringOp("StaticRegexFullMatch", "Like RegexFullMatch, with the pattern in an attribute.",
               UnchangedShape),
      StringOp("RegexReplace",
               "Replaces the matches of `pattern`, or only the first one of each string, with `rewrite`, in "
               "which \\1 to \\9 stand for the groups of the match and \\0 for all of it.",
               WithScalarsShape),
      StringOp("StaticRegexReplace", "Like RegexReplace, with pattern and rewrite in attributes.",
               UnchangedShape),
  };
}

}  // namespace weir
