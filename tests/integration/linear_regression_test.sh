#!/bin/bash
# Both twins find the line they were given.
set -u
explained=$("$1") || { echo "linear_regression_explained failed: $explained"; exit 1; }
terse=$("$2") || { echo "linear_regression_terse failed: $terse"; exit 1; }
echo "$explained"; echo "$terse"
grep -qE '^w = (2\.9[5-9]|3\.0[0-4])[0-9]*, b = (1\.9[5-9]|2\.0[0-4])' <<<"$explained" || exit 1
grep -qx 'w = 3.000, b = 2.000' <<<"$terse" || exit 1
