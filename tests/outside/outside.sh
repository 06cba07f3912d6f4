# What the tests of this folder share; they source it. $ROOT is the checkout, $WORK an empty folder.
set -u -o pipefail
ROOT=$(dirname "$(readlink -f "$TEST_SRCDIR/$TEST_WORKSPACE/WORKSPACE")")
BUILT=$TEST_SRCDIR/$TEST_WORKSPACE
WORK=$TEST_TMPDIR/work
mkdir -p "$WORK"

fail() {
  echo "$*"
  echo "[  FAILED  ] outside.$case_name (0 ms)"
  exit 1
}
# in_case NAME: what follows belongs to it, until the next one.
case_name=""
in_case() {
  [ -z "$case_name" ] || echo "[       OK ] outside.$case_name (0 ms)"
  case_name=$1
}
run() {
  "$@" >"$WORK/log" 2>&1 || { cat "$WORK/log"; fail "failed: $*"; }
}
# The line of the program's points, found alone and by two workers with a parameter server.
finds_the_line() {
  local said
  said=$("$1" 2>&1) || fail "$1 failed: $said"
  [ "$said" = "y = 3.00 x + 2.00" ] || fail "$1 said: $said"
  said=$("$2" launch --ps=1 --workers=2 -- "$1" 2>&1) || fail "$2 launch ... $1 failed: $said"
  [ "$(grep -c 'y = 3\.0[0-9] x + 2\.0[0-9]\|y = 3\.0[0-9] x + 1\.9[0-9]' <<<"$said")" = 2 ] || fail "$2 launch ... $1 said: $said"
}
