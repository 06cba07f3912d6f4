// The functions that add ops to a graph: those of every op, variables with their initial values, conditionals
// and loops, look-ups of rows.
#pragma once

#include "ops/control_flow.h"
#include "ops/embedding.h"
#include "ops/initializers.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"
