// The headers of the standard library and of Abseil that most of Weir includes, for
// tools/precompiled_header.bzl. A source still includes what it uses: the clang build (`--config=clang`) and
// whoever sets weir_precompiled=off go without this.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
