// Parts of strings, their lengths and letters.
#include <string>
#include <utility>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/shape_functions.h"
#include "ops/strings/string_op.h"

namespace weir {
namespace {

Status SubstrShape(ShapeInference& s) {
  const PartialShape& pos = s.input(1);
  const PartialShape& len = s.input(2);
  const absl::StatusOr<PartialShape> where = pos.MergeWith(len);
  if (!where.ok()) {
    return InvalidArgumentError(
        StrCat("pos and len should have the same shape, got: ", pos.ToString(), " vs. ", len.ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(PartialShape result, ShapeInference::Broadcast(s.input(0), *where));
  s.set_output(0, std::move(result));
  return OkStatus();
}

// A sparse matrix: its indices, values and shape.
Status SplitShape(ShapeInference& s) {
  for (int i = 0; i < 2; ++i) {
    if (!s.input(i).has_rank() || s.input(i).rank() == 1 - i) continue;
    return InvalidArgumentError(StrCat(s.input_name(i), " must be a ", i == 0 ? "vector" : "scalar",
                                       ", got shape: ", s.input(i).ToString()));
  }
  s.set_output(0, PartialShape({kUnknown, 2}));
  s.set_output(1, PartialShape({kUnknown}));
  s.set_output(2, PartialShape({2}));
  return OkStatus();
}

Status NGramsShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 1).status());
  WEIR_ASSIGN_OR_RETURN(PartialShape splits, s.WithRank(1, 1));
  s.set_output(0, PartialShape({kUnknown}));
  s.set_output(1, std::move(splits));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> PiecesOps() {
  return {
      StringOp("Substr",
               "Gives `len` bytes, or characters of UTF-8, of each string from `pos` on; a negative `pos` "
               "counts from the end.",
               SubstrShape),
      StringOp("StringSplit",
               "Splits each string of a vector at every byte that `delimiter` has; the pieces are a sparse "
               "matrix with a row for each string.",
               SplitShape),
      StringOp(
          "StringSplitV2",
          "Splits each string of a vector at `sep`, or at white space if that is empty, at most maxsplit "
          "times; the pieces are a sparse matrix with a row for each string.",
          SplitShape),
      StringOp(
          "StringNGrams",
          "Joins neighbouring words of each row, `ngram_widths` of them at a time, with pads at the ends of "
          "the row.",
          NGramsShape),
      StringOp("StringLength", "Gives the number of bytes, or of characters of UTF-8, of each string.",
               UnchangedShape),
      StringOp("StringStrip", "Removes white space at both ends of each string.", UnchangedShape),
      StringOp("StringUpper", "Replaces small letters with capital ones.", UnchangedShape),
      StringOp("StringLower", "Replaces capital letters with small ones.", UnchangedShape),
  };
}

}  // namespace weir
