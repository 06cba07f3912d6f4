#!/bin/bash
# tools/install puts a library into a folder, and the program of examples/outside is built with it by CMake and by
# pkg-config, as the folder's README says; tools/make_deb makes a package that holds the same.
. "$(dirname "$0")/outside.sh"

in_case installs_what_a_program_needs
prefix=$WORK/prefix
run "$ROOT/tools/install" --prefix="$prefix" --built="$BUILT"
for file in include/weir/weir.h include/weir/session.h lib/libweir.a lib/libweir.so lib/pkgconfig/weir.pc \
  lib/cmake/Weir/WeirConfig.cmake bin/weir; do
  [ -e "$prefix/$file" ] || fail "no $file"
done
version=$("$prefix/bin/weir" version) && [ "$version" = "weir $(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --modversion weir)" ] ||
  fail "the command is '$version', weir.pc says otherwise"

in_case headers_need_nothing_of_the_repository
wrong=$(grep -rhoE '^ *# *include +"[^"]+"' "$prefix/include" | grep -vE '"(weir|absl)/' | sort -u)
[ -z "$wrong" ] || fail "headers include $wrong"
for header in "$prefix"/include/weir/*.h; do
  run g++ -std=c++20 -fsyntax-only -I"$prefix/include" -include "$header" -x c++ /dev/null
done

in_case installs_again_without_leftovers
touch "$prefix/include/weir/gone.h" "$prefix/include/another.h"
run "$ROOT/tools/install" --prefix="$prefix" --built="$BUILT"
[ ! -e "$prefix/include/weir/gone.h" ] || fail "the header of an earlier version is still there"
[ -e "$prefix/include/another.h" ] || fail "another library's header is gone"

in_case others_can_use_what_it_installs
(umask 077 && run "$ROOT/tools/install" --prefix="$WORK/open" --built="$BUILT") || exit 1
closed=$(find "$WORK/open" ! -type l \( ! -perm -o=r -o -type d ! -perm -o=x \))
[ -z "$closed" ] || fail "only its owner can use $closed"

in_case refuses_what_it_cannot_do
refused() { # TEXT FLAG...
  local text=$1 said
  shift
  said=$("$ROOT/tools/install" --built="$BUILT" "$@" 2>&1) && fail "took $*"
  grep -qF -- "$text" <<<"$said" || fail "said about $*: $said"
}
refused "Say --prefix=DIR"
refused "is no absolute path" --prefix=here
refused "unknown argument '--prefx=/x'" --prefx=/x
refused "cannot hold this path" "--prefix=$WORK/a b"
refused "is no name of a folder" --prefix="$prefix" --libdir=../lib
refused "no library/libweir.so there" --prefix="$prefix" --built="$WORK"

in_case cmake_finds_the_package
run cmake -S "$ROOT/examples/outside" -B "$WORK/cmake" -DCMAKE_PREFIX_PATH="$prefix"
run cmake --build "$WORK/cmake"
finds_the_line "$WORK/cmake/outside" "$prefix/bin/weir"
finds_the_line "$WORK/cmake/outside_static" "$prefix/bin/weir"
ldd "$WORK/cmake/outside_static" | grep -q libweir && fail "outside_static needs libweir.so"

in_case cmake_refuses_another_version
mkdir -p "$WORK/later" && cat >"$WORK/later/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.16)
project(later CXX)
find_package(Weir 99.0 REQUIRED)
END
cmake -S "$WORK/later" -B "$WORK/later/build" -DCMAKE_PREFIX_PATH="$prefix" >"$WORK/log" 2>&1 && fail "99.0 was found"
grep -q '99.0' "$WORK/log" || { cat "$WORK/log"; fail "the version is not named"; }

in_case the_compiler_with_pkg_config
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
# shellcheck disable=SC2046
run g++ -O1 -o "$WORK/outside" "$ROOT/examples/outside/outside.cc" $(pkg-config --cflags --libs weir) -Wl,-rpath,"$prefix/lib"
finds_the_line "$WORK/outside" "$prefix/bin/weir"

in_case moves_with_its_folder
mv "$prefix" "$WORK/moved"
run cmake -S "$ROOT/examples/outside" -B "$WORK/cmake_moved" -DCMAKE_PREFIX_PATH="$WORK/moved"
grep -q "$prefix/" "$WORK/cmake_moved/CMakeFiles/outside.dir/build.make" && fail "CMake still looks into $prefix"

in_case debian_package
deb=$("$ROOT/tools/make_deb" --out="$WORK" --built="$BUILT" | tail -1) && [ -f "$deb" ] || fail "no package: $deb"
depends=$(dpkg-deb --field "$deb" Depends)
for package in libc6 libabsl-dev libgrpc++ libprotobuf libdnnl; do
  grep -q "$package" <<<"$depends" || fail "the package does not depend on $package: $depends"
done
run dpkg-deb --extract "$deb" "$WORK/deb"
run env LD_LIBRARY_PATH="$(dirname "$(find "$WORK/deb" -name 'libweir.so')")" "$WORK/deb/usr/bin/weir" version
grep -qx 'prefix=/usr' "$(find "$WORK/deb" -name weir.pc)" || fail "weir.pc names another prefix than /usr"
[ -e "$WORK/deb/usr/include/weir/weir.h" ] || fail "no headers in the package"
in_case ""
