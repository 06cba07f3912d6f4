// SQLite's functions that look for one text in another, for queries of anybody.
//
// They compare every place of one with the whole of the other, and SQLite asks nobody while a function
// computes: instr() of two texts of some megabytes takes an hour. Here instr, replace, like (which the
// operator LIKE calls), glob, trim, ltrim and rtrim refuse arguments whose sizes multiplied are more than
// kMostComparisons; else SQLite computes them, in a database of their own. A query with LIKE or GLOB uses no
// index for them.
//
// Thread safety: one thread at a time, as the database.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct sqlite3;

namespace weir {

class SqliteFunctions {
 public:
  // Less than a second: a pattern of 16 bytes may be looked for in 16 MiB.
  static constexpr int64_t kMostComparisons = int64_t{1} << 28;

  // Puts them in the place of those that `database` has. It must be closed before they go. Internal when
  // SQLite does not take them.
  static absl::StatusOr<std::unique_ptr<SqliteFunctions>> AddTo(sqlite3* database, int max_value_bytes);
  ~SqliteFunctions();

 private:
  struct Function;

  SqliteFunctions();

  sqlite3* own_ = nullptr;  // has SQLite's
  std::vector<std::unique_ptr<Function>> functions_;
};

}  // namespace weir
