// Tables from keys to values, which outlive steps: their handles, and what steps do with them.
#include <string>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/op_without_gradient.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

// What the outputs are, only the table knows.
Status OfTable(ShapeInference& s) { return s.WithRank(0, 0).status(); }

Status InitializeShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(OfTable(s));
  WEIR_RETURN_IF_ERROR(s.WithRank(1, 1).status());
  WEIR_RETURN_IF_ERROR(s.WithRank(2, 1).status());
  return MergeInputs(s, 1, 3).status();
}

Status FileShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(OfTable(s));
  return s.WithRank(1, 0).status();
}

Status SizeShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(OfTable(s));
  return ScalarShape(s);
}

Status FromDatasetShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  return s.WithRank(1, 0).status();
}

}  // namespace

std::vector<OpDef> TablesOps() {
  return {
      WithoutGradient("HashTableV2", "Gives the handle of a table that is filled once, and then only read.",
                      ScalarShape),
      WithoutGradient("MutableHashTableV2", "Gives the handle of a table that steps change.", ScalarShape),
      WithoutGradient("MutableHashTableOfTensorsV2",
                      "Gives the handle of a MutableHashTableV2 whose values are vectors.", ScalarShape),
      WithoutGradient(
          "MutableDenseHashTableV2",
          "Gives the handle of a table that steps change and that exports its buckets; empty_key and "
          "deleted_key mark those that are not in use.",
          ScalarShape),
      WithoutGradient("LookupTableFindV2",
                      "Gives the value of each key, default_value for a key that is not there.", OfTable),
      WithoutGradient("LookupTableInsertV2", "Sets the values of keys.", OfTable),
      WithoutGradient("LookupTableRemoveV2", "Removes keys; one that is not there is no error.", OfTable),
      WithoutGradient("LookupTableSizeV2", "Gives the number of keys.", SizeShape),
      WithoutGradient("LookupTableImportV2", "Replaces the whole content of a table.", OfTable),
      WithoutGradient("LookupTableExportV2", "Gives all keys and values.", OfTable),
      WithoutGradient("InitializeTableV2", "Fills a HashTableV2.", InitializeShape),
      WithoutGradient(
          "InitializeTableFromTextFileV2",
          "Fills a HashTableV2 from a file: keys and values are its lines (-2), the numbers of these (-1), "
          "or columns.",
          FileShape),
      WithoutGradient("InitializeTableFromDataset",
                      "Fills a HashTableV2 with the pairs that a dataset gives.", FromDatasetShape),
  };
}

}  // namespace weir
