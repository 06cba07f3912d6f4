// What was freed in this process and is kept to be used again.
//
// Thread safety: all functions.
#pragma once

namespace weir {

// Gives the system buffers that HostAllocator keeps (but for what each thread keeps of sizes below 1 MiB,
// some MiB) and whole pages that the C library keeps. What is asked for next touches fresh pages. Takes
// milliseconds a gigabyte, and others who allocate wait for parts of it.
void ReleaseFreedMemory();

}  // namespace weir
