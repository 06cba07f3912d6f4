// Ops and kernels of a program's own (RuntimeOptions, ServerOptions; docs/guide/own_ops.md): what an op is
// and how its shapes are found, what a kernel is, what it gets from a step, and where kernels are registered.
#pragma once

#include "graph/op_def.h"
#include "graph/shape_inference.h"
#include "kernels/device_kernels.h"
#include "kernels/kernel.h"
#include "kernels/kernel_context.h"
#include "kernels/kernel_registry.h"
#include "ops/register_ops.h"
