#include "distributed/command/keys_command.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "distributed/command/flag_parser.h"
#include "distributed/keys/key_files.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

absl::StatusOr<int> Revoke(const std::string& directory, const std::vector<std::string>& folders) {
  const absl::StatusOr<std::string> list = RevokeKeys(directory, folders);
  if (!list.ok()) {
    return absl::Status(list.status().code(), absl::StrCat("weir keys: ", list.status().message()));
  }
  std::printf(
      "%s names what is revoked. Copy it to every host; tasks that were started with\n"
      "  export WEIR_TLS_REVOKED=revoked.pem\n"
      "read it again when it changes, and refuse the next call with such a certificate.\n",
      list->c_str());
  return 0;
}

}  // namespace

absl::StatusOr<int> RunKeys(const std::vector<std::string>& args) {
  KeyFilesOptions options;
  std::string hosts, tasks, revoked;
  FlagParser flags("weir keys",
                   "--dir=DIR [--hosts=HOST,HOST] [--tasks=TASK=HOST,...] [--revoke=FOLDER,...] [flags]",
                   "Makes the keys of a job that uses TLS: a CA, a certificate for each host, and a token.");
  flags.Add(
      "dir", &options.directory,
      "folder to write them to; what is there is never overwritten, and nothing is added to it: for another "
      "host or task make all keys in a new folder, and start the job again");
  flags.Add(
      "hosts", &hosts,
      "where tasks run, as in the cluster's addresses, without ports: 'gpu1,10.0.0.5'; without hosts and "
      "tasks 127.0.0.1");
  flags.Add("tasks", &tasks,
            "tasks that get certificates of their own, and where they run: 'ps:0=gpu1,worker:0=gpu2'");
  flags.Add("days", &options.num_days, "how long the certificates are valid",
            {.least = 1, .most = kMaxKeyDays});
  flags.Add(
      "revoke", &revoked,
      "folders of DIR whose certificates no task shall accept any more: 'gpu1,ps-0'; makes no keys, but "
      "DIR/revoked.pem, or adds to it");
  WEIR_RETURN_IF_ERROR(flags.Parse(args));
  if (flags.wants_help()) {
    std::fputs(flags.Help().c_str(), stdout);
    return 0;
  }
  if (!flags.positional().empty()) {
    return absl::InvalidArgumentError(absl::StrCat("weir keys: '", flags.positional()[0], "' is no flag"));
  }
  if (!revoked.empty()) {
    if (!hosts.empty() || !tasks.empty()) {
      return absl::InvalidArgumentError(
          "weir keys: --revoke makes no keys: give it without --hosts and --tasks");
    }
    return Revoke(options.directory, absl::StrSplit(revoked, ','));
  }
  if (hosts.empty() && tasks.empty()) hosts = "127.0.0.1";
  if (!hosts.empty()) options.hosts = absl::StrSplit(hosts, ',');
  if (!tasks.empty()) {
    absl::StatusOr<std::map<TaskName, std::string>> parsed = ParseKeyTasks(tasks);
    if (!parsed.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("weir keys: --tasks: ", parsed.status().message()));
    }
    options.tasks = *std::move(parsed);
  }
  if (absl::Status made = MakeKeyFiles(options); !made.ok()) {
    return absl::Status(made.code(), absl::StrCat("weir keys: ", made.message()));
  }
  const std::string& dir = options.directory;
  std::printf(
      "%s has a folder for each host, or task. Copy it there, and start the tasks with\n"
      "  export WEIR_TLS_CERT=FOLDER/cert.pem WEIR_TLS_KEY=FOLDER/key.pem WEIR_TLS_CA=FOLDER/ca.pem\n"
      "  export WEIR_JOB_TOKEN=$(cat FOLDER/token)\n"
      "and, with folders of tasks, WEIR_TLS_TASK_NAMES=1.\n"
      "Keep %s/ca.key away from the hosts: it makes certificates that all of them accept.\n",
      dir.c_str(), dir.c_str());
  return 0;
}

}  // namespace weir
