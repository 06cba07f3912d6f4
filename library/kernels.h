// Kernels of a program's own (RuntimeOptions::register_kernels): what a kernel is, what it gets from a step,
// and where kernels are registered.
#pragma once

#include "kernels/device_kernels.h"
#include "kernels/kernel.h"
#include "kernels/kernel_context.h"
#include "kernels/kernel_registry.h"
