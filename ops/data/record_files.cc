// Datasets of what is in files.
#include <string>
#include <utility>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

// Only the dataset and the path are scalars for sure: captured tensors may be anything.
Status SavedShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  return s.WithRank(1, 0).status();
}

OpDef File(std::string name, std::string summary) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .infer_shapes = ScalarShape,
          .gradient = NotDifferentiable};
}

}  // namespace

std::vector<OpDef> RecordFilesOps() {
  return {
      File("TFRecordDataset", "Gives a dataset of the records of TFRecord files, one after another."),
      File("TextLineDataset", "Gives a dataset of the lines of files, one after another."),
      File("CSVDataset", "Gives a dataset of the records of files of comma-separated values."),
      File("CSVDatasetV2", "Gives a dataset of the records of files of comma-separated values."),
      File("ExperimentalCSVDataset", "Gives a dataset of the records of files of comma-separated values."),
      File("SqlDataset", "Gives a dataset of the rows that a query gives of an SQLite database."),
      File("LoadDataset", "Gives the dataset that SaveDataset has written."),
      File("SnapshotDatasetV2",
           "Gives the dataset, and keeps the elements of its first pass in files for later ones."),
      {.name = "SaveDataset",
       .summary = "Writes the elements of a dataset to files, so that LoadDataset gives it.",
       .infer_shapes = SavedShape,
       .gradient = NotDifferentiable},
      File("FixedLengthRecordDatasetV2", "Gives a dataset of pieces of record_bytes bytes of files."),
  };
}

}  // namespace weir
