// TensorFlow's rewrites of pipelines, as options ask for them (graph/interchange/dataset_options.h). They
// change which datasets there are, and never elements, but the order of a shuffle without a seed.
//
// | option | what becomes what |
// |---|---|
// | noop_elimination | take(-1), skip(0), repeat(1), shard(1, 0) and maps of identities are left out |
// | shuffle_and_repeat_fusion | shuffle, repeat: ShuffleAndRepeat |
// | map_parallelization | Map of a function without state: ParallelMap |
// | map_fusion | two maps without captured tensors: one |
// | filter_fusion | two filters without captured tensors: one |
// | map_and_filter_fusion | Map, Filter: a Map that gives the verdict too, Filter by it, Map without it |
// | map_and_batch_fusion | Map, Batch: MapAndBatch |
// | filter_parallelization | Filter by a function without state: ParallelFilter |
// | inject_prefetch | a Prefetch after the last dataset |
//
// Those that choose a number of calls or a buffer's size want autotune. Datasets that functions make are left
// as they are, and so are maps and filters behind those whose fused functions take 64 MiB. Of TensorFlow's
// rewrites that nobody asks for by name, none is made.
//
// A function without state; safe from any thread.
#pragma once

#include "absl/status/statusor.h"
#include "graph/interchange/dataset_options.h"
#include "graph/op_registry.h"
#include "kernels/cpu/data/pipeline.h"

namespace weir {

// Whether something was changed. Errors: those of function_parts.h. `ops`: what functions may call.
absl::StatusOr<bool> Rewrite(const DatasetOptions& options, const OpRegistry& ops, Pipeline* pipeline);

}  // namespace weir
