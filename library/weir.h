// All of Weir that a program uses, in one include. Each of the headers here may also be included alone; their
// paths stay when the files behind them move. What lies below weir/internal is not meant to be included
// directly.
#pragma once

#include "library/distributed.h"
#include "library/files.h"
#include "library/graph.h"
#include "library/kernels.h"
#include "library/layers.h"
#include "library/ops.h"
#include "library/optimizers.h"
#include "library/placement.h"
#include "library/session.h"
#include "library/training.h"
#include "library/version.h"
