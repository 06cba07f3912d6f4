#include "kernels/formats/sqlite_functions.h"

#include <sqlite3.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

constexpr struct {
  const char* name;
  int num_arguments;
} kFunctions[] = {{"instr", 2}, {"replace", 3}, {"like", 2},  {"like", 3},
                  {"glob", 2},  {"trim", 2},    {"ltrim", 2}, {"rtrim", 2}};

// Numbers are short texts.
int64_t NumBytes(sqlite3_value* value) {
  const int type = sqlite3_value_type(value);
  return type == SQLITE_TEXT || type == SQLITE_BLOB ? std::max(sqlite3_value_bytes(value), 1) : 1;
}

}  // namespace

struct SqliteFunctions::Function {
  ~Function() { sqlite3_finalize(statement); }

  // The first two arguments are those that are compared.
  static void Call(sqlite3_context* context, int, sqlite3_value** arguments) {
    const Function& self = *static_cast<const Function*>(sqlite3_user_data(context));
    const int64_t a = NumBytes(arguments[0]), b = NumBytes(arguments[1]);
    if (a * b > kMostComparisons) {
      const std::string message =
          absl::StrCat(self.name, "() of ", a, " and ", b,
                       " bytes takes too long: their product may be at most ", kMostComparisons);
      return sqlite3_result_error(context, message.data(), static_cast<int>(message.size()));
    }
    for (int i = 0; i < self.num_arguments; ++i) sqlite3_bind_value(self.statement, i + 1, arguments[i]);
    if (sqlite3_step(self.statement) == SQLITE_ROW) {
      sqlite3_result_value(context, sqlite3_column_value(self.statement, 0));
    } else {
      sqlite3_result_error(context, sqlite3_errmsg(sqlite3_db_handle(self.statement)), -1);
    }
    sqlite3_reset(self.statement);
    sqlite3_clear_bindings(self.statement);
  }

  const char* name;
  int num_arguments;
  sqlite3_stmt* statement = nullptr;  // SELECT name(?, ...)
};

SqliteFunctions::SqliteFunctions() = default;

SqliteFunctions::~SqliteFunctions() {
  functions_.clear();
  sqlite3_close(own_);
}

absl::StatusOr<std::unique_ptr<SqliteFunctions>> SqliteFunctions::AddTo(sqlite3* database,
                                                                        int max_value_bytes) {
  std::unique_ptr<SqliteFunctions> result(new SqliteFunctions);
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX;
  if (sqlite3_open_v2(":memory:", &result->own_, flags, nullptr) != SQLITE_OK) {
    return absl::InternalError("SQLite opens no database for its functions");
  }
  sqlite3_limit(result->own_, SQLITE_LIMIT_LENGTH, max_value_bytes);
  for (const auto& [name, num_arguments] : kFunctions) {
    auto function = std::make_unique<Function>();
    function->name = name;
    function->num_arguments = num_arguments;
    const std::string query = absl::StrCat("SELECT ", name, num_arguments == 2 ? "(?, ?)" : "(?, ?, ?)");
    const int encoding = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
    if (sqlite3_prepare_v2(result->own_, query.c_str(), -1, &function->statement, nullptr) != SQLITE_OK ||
        sqlite3_create_function_v2(database, name, num_arguments, encoding, function.get(), Function::Call,
                                   nullptr, nullptr, nullptr) != SQLITE_OK) {
      return absl::InternalError(absl::StrCat("SQLite does not take ", name, "()"));
    }
    result->functions_.push_back(std::move(function));
  }
  return result;
}

}  // namespace weir
