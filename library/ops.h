// The functions that add ops to a graph: those of every op, variables with their initial values, variables in
// parts, conditionals and loops, look-ups of rows, summaries.
#pragma once

#include "ops/control_flow.h"
#include "ops/embedding.h"
#include "ops/initializers.h"
#include "ops/partitioned_variable.h"
#include "ops/standard_ops.h"
#include "ops/summaries.h"
#include "ops/variable.h"
