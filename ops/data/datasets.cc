// Datasets: sequences of elements that are computed when an iterator asks for them.
#include <string>
#include <utility>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/op_without_gradient.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

// A dataset is a scalar, and so are the datasets that it is made of.
Status DatasetShape(ShapeInference& s) {
  for (int i = 0; i < s.num_inputs(); ++i) {
    if (s.input_type(i) == DType::kVariant) WEIR_RETURN_IF_ERROR(s.WithRank(i, 0).status());
  }
  return ScalarShape(s);
}

// Made of tensors, which may be variants of any shape.
Status SourceShape(ShapeInference& s) { return ScalarShape(s); }

// Captured tensors may be variants of any shape: only the first input is a dataset for sure.
Status FunctionDatasetShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  return ScalarShape(s);
}

// The attr says what is given; the first input is a dataset.
Status ReducedShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  const auto& shapes = s.attr<std::vector<PartialShape>>("output_shapes");
  for (int i = 0; i < s.num_outputs(); ++i) s.set_output(i, PartialShape());
  return shapes.empty() ? InvalidArgumentError("output_shapes is empty") : OkStatus();
}

// The attr says what the element is.
Status ElementShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  const auto& shapes = s.attr<std::vector<PartialShape>>("output_shapes");
  if (static_cast<int>(shapes.size()) != s.num_outputs()) {
    return InvalidArgumentError(StrCat("`output_types` and `output_shapes` must be the same length: ",
                                       s.num_outputs(), " vs ", shapes.size()));
  }
  for (int i = 0; i < s.num_outputs(); ++i) s.set_output(i, shapes[i]);
  return OkStatus();
}

// Of tensors that are no datasets, and without outputs.
Status WrittenShape(ShapeInference& s) {
  for (int i = 0; i < s.num_inputs(); ++i) WEIR_RETURN_IF_ERROR(s.WithRank(i, 0).status());
  return OkStatus();
}

// The rows of the arguments become the rows of the outputs.
Status RowsShape(ShapeInference& s) {
  const auto& shapes = s.attr<std::vector<PartialShape>>("output_shapes");
  if (static_cast<int>(shapes.size()) != s.num_outputs()) {
    return InvalidArgumentError("Length of output_shapes and output_types must match.");
  }
  int64_t num_rows = kUnknown;
  const int num_arguments = static_cast<int>(s.attr<std::vector<DType>>("Targuments").size());
  for (int i = 0; i < num_arguments; ++i) {
    if (s.input(i).rank() == 0) {
      return InvalidArgumentError(
          StrCat("Arguments must have rank at least 1. Input ", i, " has rank of 0."));
    }
    if (s.input(i).rank() < 0 || s.input(i).dim(0) < 0) continue;
    if (num_rows >= 0 && s.input(i).dim(0) != num_rows) {
      return InvalidArgumentError(StrCat("Arguments must have the same dimension 0: input ", i, " has ",
                                         s.input(i).dim(0), ", others have ", num_rows));
    }
    num_rows = s.input(i).dim(0);
  }
  for (int i = 0; i < s.num_outputs(); ++i) {
    if (shapes[i].rank() < 0) {
      s.set_output(i, PartialShape());
      continue;
    }
    std::vector<int64_t> dims = {num_rows};
    dims.insert(dims.end(), shapes[i].dims().begin(), shapes[i].dims().end());
    WEIR_ASSIGN_OR_RETURN(PartialShape shape, PartialShape::FromDims(dims));
    s.set_output(i, std::move(shape));
  }
  return OkStatus();
}

OpDef Source(std::string name, std::string summary) {
  return WithoutGradient(std::move(name), std::move(summary), SourceShape);
}

OpDef Made(std::string name, std::string summary) {
  return WithoutGradient(std::move(name), std::move(summary), DatasetShape);
}

// Other inputs than the dataset may be vectors.
OpDef Sized(std::string name, std::string summary) {
  return WithoutGradient(std::move(name), std::move(summary), FunctionDatasetShape);
}

OpDef Function(std::string name, std::string summary) {
  return WithoutGradient(std::move(name), std::move(summary), FunctionDatasetShape);
}

}  // namespace

std::vector<OpDef> DatasetsOps() {
  return {
      Source("RangeDataset", "Gives a dataset of the numbers from start to before stop."),
      Source("TensorDataset", "Gives a dataset of one element: the tensors."),
      Source("ListDataset", "Gives a dataset of elements that are there."),
      Source("MatchingFilesDataset", "Gives a dataset of the names of the files that match the patterns."),
      Source("ExperimentalMatchingFilesDataset",
             "Gives a dataset of the names of the files that match the patterns."),
      Source("GeneratorDataset", "Gives a dataset of what next_func gives, until it ends with OutOfRange."),
      Source("TensorSliceDataset", "Gives a dataset of the tensors' rows."),
      Source("SparseTensorSliceDataset", "Gives a dataset of a sparse tensor's rows, as sparse tensors."),
      Made("RepeatDataset", "Gives the dataset count times after itself; -1: for ever."),
      Made("UniqueDataset", "Gives the elements of the dataset that have not been there before."),
      Made("TakeDataset", "Gives the first count elements of the dataset; -1: all."),
      Made("SkipDataset", "Gives the elements of the dataset after the first count; -1: none."),
      Made("ShardDataset", "Gives each num_shards-th element of the dataset, from the index-th on."),
      Made("ConcatenateDataset", "Gives the elements of one dataset, then those of another."),
      Made("ZipDataset", "Gives elements of one element of each of the datasets."),
      Made("BatchDataset", "Gives elements of batch_size elements, as rows; the last may have fewer."),
      Made("BatchDatasetV2", "Gives elements of batch_size elements, as rows; the last may have fewer."),
      Made("ParallelBatchDataset",
           "Gives elements of batch_size elements, as rows; the last may have fewer."),
      WithoutGradient(
          "PaddedBatchDatasetV2",
          "Gives elements of batch_size elements, as rows, filled up with padding_values to one shape.",
          FunctionDatasetShape),
      Sized("DenseToSparseBatchDataset", "Gives sparse tensors of batch_size elements."),
      Sized("ExperimentalDenseToSparseBatchDataset", "Gives sparse tensors of batch_size elements."),
      Made("RebatchDataset", "Gives the rows of each element in num_replicas parts."),
      Made("ExperimentalRebatchDataset", "Gives the rows of each element in num_replicas parts."),
      Sized("RebatchDatasetV2", "Gives the rows of all elements in elements of the batch_sizes, in turn."),
      Made("UnbatchDataset", "Gives the rows of the dataset's elements."),
      Made("ShuffleDataset", "Gives the elements of the dataset in a random order, drawn from a buffer."),
      Made(
          "ShuffleAndRepeatDataset",
          "Gives the elements of the dataset count times, each time in a random order, drawn from a buffer."),
      Made(
          "ShuffleAndRepeatDatasetV2",
          "Gives the elements of the dataset count times, each time in a random order, drawn from a buffer."),
      Made("CacheDataset", "Gives the elements of the dataset, and keeps them after the first pass."),
      Made("PrefetchDataset", "Gives the elements of the dataset, some of which are computed ahead."),
      Made("OptionsDataset", "Gives the dataset; its options say how it is to be run."),
      Made("NonSerializableDataset", "Gives the dataset."),
      Made("ExperimentalNonSerializableDataset", "Gives the dataset."),
      Sized("AssertNextDataset", "Gives the dataset; InvalidArgument unless transformations are made of it."),
      Sized("ExperimentalAssertNextDataset",
            "Gives the dataset; InvalidArgument unless transformations are made of it."),
      Sized("AssertPrevDataset", "Gives the dataset; InvalidArgument unless it is made by transformations."),
      Made("DatasetToGraph", "Gives the nodes and tensors that the dataset is made of, as a GraphDef."),
      Made("DatasetToGraphV2", "Gives the nodes and tensors that the dataset is made of, as a GraphDef."),
      Source("DatasetFromGraph", "Gives the dataset that a GraphDef makes."),
      Made("DatasetFingerprint", "Gives a number for what the dataset computes."),
      Made("ComputeBatchSize", "Gives the number of rows of the dataset's elements; -1: not known."),
      Made("GetOptions", "Gives the options of the dataset and of those that it is made of."),
      Made("WrapDatasetVariant", "Gives a variant that holds the dataset."),
      Made("UnwrapDatasetVariant", "Gives the dataset that the variant holds."),
      Made("SleepDataset", "Gives the elements of the dataset, with a wait before each."),
      Made("ExperimentalSleepDataset", "Gives the elements of the dataset, with a wait before each."),
      Made("ModelDataset", "Gives the dataset."),
      Made("RewriteDataset", "Gives the dataset."),
      Made("FinalizeDataset", "Gives the dataset."),
      WithoutGradient("DatasetCardinality",
                      "Gives the number of elements; -1: infinitely many, -2: not known.",
                      FunctionDatasetShape),
      Function("MapDataset", "Gives what f makes of the dataset's elements."),
      Function("ParallelMapDatasetV2", "Gives what f makes of the dataset's elements, several at a time."),
      Function("FilterDataset", "Gives the dataset's elements for which predicate gives true."),
      Function("ParallelFilterDataset",
               "Gives the dataset's elements for which predicate gives true; several calls at a time."),
      Function("TakeWhileDataset",
               "Gives the dataset's elements before the first for which predicate gives false."),
      Function("MapAndBatchDataset",
               "Gives elements of what f makes of batch_size elements, as rows; the last may have fewer."),
      Function("ExperimentalMapAndBatchDataset",
               "Gives elements of what f makes of batch_size elements, as rows; the last may have fewer."),
      Function(
          "GroupByReducerDataset",
          "Gives for each key what finalize_func makes of a state that all elements of the key changed."),
      Function(
          "ExperimentalGroupByReducerDataset",
          "Gives for each key what finalize_func makes of a state that all elements of the key changed."),
      Function("ScanDataset",
               "Gives what f makes of a state and the dataset's elements; it changes the state."),
      Function("FlatMapDataset",
               "Gives the elements of the datasets that f makes of the dataset's elements."),
      Function(
          "InterleaveDataset",
          "Gives the elements of the datasets that f makes of the dataset's elements, of several in turn."),
      Function(
          "ParallelInterleaveDatasetV4",
          "Gives the elements of the datasets that f makes of the dataset's elements, of several in turn; "
          "they are computed ahead."),
      Function(
          "LegacyParallelInterleaveDatasetV2",
          "Gives the elements of the datasets that f makes of the dataset's elements, of several in turn; "
          "they are computed ahead."),
      Made("SlidingWindowDataset",
           "Gives elements of window_size elements, as rows, each window_shift elements after the one "
           "before."),
      Made("ExperimentalSlidingWindowDataset",
           "Gives elements of window_size elements, as rows, each window_shift elements after the one "
           "before."),
      Made("WindowDataset", "Gives datasets of size elements, each shift elements after the one before."),
      Function("GroupByWindowDataset",
               "Gives the elements of what reduce_func makes of elements of one key, when there are enough."),
      Made("IgnoreErrorsDataset", "Gives the elements of the dataset, without those that are errors."),
      Made("AssertCardinalityDataset",
           "Gives the elements of the dataset; FailedPrecondition when they are more or fewer than "
           "cardinality."),
      Made("DirectedInterleaveDataset", "Gives elements of the datasets that the selector's numbers name."),
      Source("RandomDataset", "Gives a dataset of random numbers of 32 bits, without end."),
      Source("RandomDatasetV2", "Gives a dataset of random numbers of 32 bits, without end."),
      Made("GlobalShuffleDataset", "Gives all elements of the dataset in a random order, without a buffer."),
      Source("DummySeedGenerator", "Gives a handle that stands for a node's own seeds."),
      WithoutGradient("GetElementAtIndex", "Gives one element of the dataset.", ElementShape),
      Made("AutoShardDataset", "Gives the elements of the dataset that are the index-th worker's."),
      Made("ExperimentalAutoShardDataset",
           "Gives the elements of the dataset that are the index-th worker's."),
      Function(
          "IndexFlatMapDataset",
          "Gives the rows of what map_func makes of the dataset's elements; index_map_func says which row "
          "of which element comes at an index."),
      Sized("WeightedFlatMapDataset", "Gives elements of one dataset after another, as many as weights say."),
      Function("ParseExampleDatasetV2",
               "Gives the features of the dataset's vectors of serialized examples."),
      Source("CompressElement", "Gives a variant of the tensors, compressed."),
      WithoutGradient("UncompressElement", "Gives the tensors of what CompressElement gave.", ElementShape),
      WithoutGradient("DatasetToSingleElement", "Gives the only element of the dataset.", ElementShape),
      WithoutGradient("DatasetToTFRecord",
                      "Writes the elements of the dataset, which are strings, to a file.", WrittenShape),
      WithoutGradient("ExperimentalDatasetToTFRecord",
                      "Writes the elements of the dataset, which are strings, to a file.", WrittenShape),
      WithoutGradient("MapDefun", "Gives what f makes of the rows of the arguments.", RowsShape),
      WithoutGradient("ReduceDataset", "Gives the state that f makes of the initial state and all elements.",
                      ReducedShape),
  };
}

}  // namespace weir
