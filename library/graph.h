// Graphs and what they are made of: tensors with their dtypes and shapes, graphs and the builder that makes
// them, gradients, and TensorFlow's GraphDef and MetaGraphDef.
//
// Two macros return early from functions that return an absl::Status or an absl::StatusOr:
//
//   WEIR_RETURN_IF_ERROR(session->Close());
//   WEIR_ASSIGN_OR_RETURN(const Tensor images, ReadIdx(path));
#pragma once

#include "graph/attr_value.h"
#include "graph/gradients.h"
#include "graph/graph.h"
#include "graph/graph_builder.h"
#include "graph/interchange/graph_def.h"
#include "graph/interchange/meta_graph.h"
#include "graph/node.h"
#include "graph/op_registry.h"
#include "graph/types/device_name.h"
#include "graph/types/dtype.h"
#include "graph/types/float16.h"
#include "graph/types/shape.h"
#include "graph/types/status_macros.h"
#include "graph/types/tensor.h"
