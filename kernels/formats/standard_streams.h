// The standard streams of a program: keeps files and sockets away from descriptors 0, 1 and 2, and says
// whether an output has arrived.
//
// A program may be started with its standard streams closed (`program >&-`, some daemons). What it opens next
// gets the lowest free number: then everything that it prints goes into an event file or a peer's connection.
#pragma once

#include <string>

namespace weir {

// Opens /dev/null for each of 0, 1 and 2 that is closed. For the beginning of a program, before other threads
// open anything.
void OpenStandardStreams();

// open(2) with O_CLOEXEC; the descriptor is never 0, 1 or 2. -1 and errno on an error.
int OpenAboveStandardStreams(const std::string& path, int flags);

// Writes what was printed (stdio, and std::cout, which goes through it) to standard output. Empty, or an
// error for people when any of it could not be written, now or before.
std::string FlushStandardOutput();

}  // namespace weir
