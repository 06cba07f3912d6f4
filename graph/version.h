// The version of Weir, as semver.org has it. It is written only here: packages and `weir version` read it.
#pragma once

#define WEIR_VERSION "0.1.0"
