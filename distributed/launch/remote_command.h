// The command that runs one task on another host through ssh, or a program that takes the same arguments.
//
// On the host a POSIX shell runs a script that
//  * reads the job's token from its standard input (a command line can be read by every user of a machine),
//  * sets the task's variables, changes to its directory, and starts the program in a process group of its
//  own,
//  * then reads names of signals from its standard input, one a line, and sends them to that group,
//  * and when its standard input ends sends TERM and, after the grace time, KILL.
// So a task ends with whoever holds the other end: a launcher that was killed, a connection that broke (when
// the host's sshd notices). The script's exit code is the program's, or 128 + the signal that killed it; ssh
// adds 255 for failures of its own.
//
// Pure functions. What they quote may hold any bytes but NUL.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace weir {

// ssh never asks for a password, and notices within 30 s that a host is gone.
inline constexpr char kDefaultSsh[] =
    "ssh -T -o BatchMode=yes -o ServerAliveInterval=10 -o ServerAliveCountMax=3";
// ssh's exit code for a host that cannot be reached or a connection that was lost.
inline constexpr int kSshFailed = 255;

struct RemoteTask {
  std::string host;
  std::string directory;
  std::vector<std::pair<std::string, std::string>> environment;  // names: letters, digits, underscores
  std::vector<std::string> command;
  absl::Duration stop_grace = absl::Seconds(30);
};

// One word for a POSIX shell: 'it'\''s'. Words of harmless characters stay as they are.
std::string ShellQuote(absl::string_view text);
// Quoted and joined by spaces.
std::string ShellCommand(const std::vector<std::string>& words);

std::string RemoteScript(const RemoteTask& task);

// `ssh` is split at spaces: program and options. Arguments for execvp.
std::vector<std::string> SshCommand(absl::string_view ssh, const RemoteTask& task);

}  // namespace weir
