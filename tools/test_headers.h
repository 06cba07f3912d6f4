// What common_headers.h is for all sources, for those of the tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/common_headers.h"
