#!/usr/bin/env python3
"""Writes unicode_script_table.h: which script each code point of Unicode belongs to, as the TensorFlow that runs this script says.

usage: write_unicode_scripts.py > unicode_script_table.h
"""

import tensorflow as tf

NUM_CODES = 0x110000

scripts = tf.strings.unicode_script(tf.range(NUM_CODES)).numpy().tolist()
entries = ["{%#x, %d}" % (code, script) for code, script in enumerate(scripts) if code == 0 or scripts[code - 1] != script]
print("""// Which script each code point of Unicode belongs to, by the numbers that ICU gives to scripts.
//
// Written by write_unicode_scripts.py. The property is Script of the Unicode Character Database.
#pragma once

#include <cstdint>

namespace weir {

// The script of all code points from `first` up to the next entry's; -1: none.
struct ScriptRange {
  int32_t first;
  int32_t script;
};

// clang-format off
inline constexpr ScriptRange kScriptRanges[] = {""")
line = "   "
for entry in entries:
    if len(line) + len(entry) + 2 > 108:
        print(line)
        line = "   "
    line += " " + entry + ","
print(line)
print("""};
// clang-format on

}  // namespace weir""")
