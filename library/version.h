// WEIR_VERSION, a string such as "0.1.0".
#pragma once

#include "graph/version.h"
