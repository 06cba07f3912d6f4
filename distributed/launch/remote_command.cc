#include "distributed/launch/remote_command.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace weir {
namespace {

bool IsHarmless(char c) { return absl::ascii_isalnum(c) || absl::StrContains("_-+=:,./@%", c); }

// What follows the variables and the directory. `setsid` makes the program the leader of a new group, so that
// its number is the group's; a signal that comes before goes to the process alone. A trap that does nothing
// keeps the script alive when sshd signals it: it must see the program's end.
constexpr char kWatch[] = R"(
exec 3<&0
setsid "$@" </dev/null 3<&- &
task=$!
trap : HUP INT TERM
{
  while IFS= read -r signal; do kill -s "$signal" -- "-$task" || kill -s "$signal" "$task"; done
  kill -s TERM -- "-$task" || kill -s TERM "$task"
  sleep "$grace"
  kill -s KILL -- "-$task"
} <&3 >/dev/null 2>&1 &
watcher=$!
exec 3<&-
wait "$task"
code=$?
while kill -s 0 "$task" 2>/dev/null; do
  wait "$task"
  code=$?
done
kill -s KILL -- "-$task" 2>/dev/null
kill "$watcher" 2>/dev/null
exit "$code"
)";

}  // namespace

std::string ShellQuote(absl::string_view text) {
  if (!text.empty() && std::all_of(text.begin(), text.end(), IsHarmless)) return std::string(text);
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

std::string ShellCommand(const std::vector<std::string>& words) {
  return absl::StrJoin(words, " ",
                       [](std::string* out, const std::string& word) { out->append(ShellQuote(word)); });
}

std::string RemoteScript(const RemoteTask& task) {
  std::string script = "IFS= read -r WEIR_JOB_TOKEN || exit 160\nexport WEIR_JOB_TOKEN\n";
  for (const auto& [name, value] : task.environment) {
    absl::StrAppend(&script, "export ", name, "=", ShellQuote(value), "\n");
  }
  absl::StrAppend(&script, "cd ", ShellQuote(task.directory),
                  " || exit 1\ngrace=", std::max<int64_t>(1, absl::ToInt64Seconds(task.stop_grace)),
                  "\nset -- ", ShellCommand(task.command), kWatch);
  return script;
}

std::vector<std::string> SshCommand(absl::string_view ssh, const RemoteTask& task) {
  std::vector<std::string> words = absl::StrSplit(ssh, ' ', absl::SkipEmpty());
  words.push_back(task.host);
  // The login shell of the user is any POSIX shell; its only word is this one.
  words.push_back(absl::StrCat("exec sh -c ", ShellQuote(RemoteScript(task))));
  return words;
}

}  // namespace weir
