// Where the nodes of a graph run: the placer, device setters, and the report that says what went where and
// why.
#pragma once

#include "placer/device_setter.h"
#include "placer/placer.h"
#include "placer/report.h"
