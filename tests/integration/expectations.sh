# What the tests of this folder expect; they source it.
fail() { echo "FAILED: $*"; exit 1; }
# expect CODE TEXT COMMAND...: the command ends with the code and says the text.
expect() {
  local code=$1 text=$2 said got
  shift 2
  said=$("$@" 2>&1)
  got=$?
  [ "$got" = "$code" ] || fail "$* ended with $got instead of $code: $said"
  grep -qF -- "$text" <<<"$said" || fail "$* did not say '$text': $said"
}
# at_least A B: the number A is not below B.
at_least() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a >= b) }'; }
