#!/bin/bash
# The Debian packages: lintian finds nothing, they install, work and go without a trace;
# a program that is compiled with libvma-dev works with the library and without it; the
# pages render, and name every command and option that vma has.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

vma=$(find_program "${VMA:-tools/vma/vma}") || exit 1
needs cmake cc dpkg-deb lintian mandoc man pkg-config
[[ -n $lib ]] || die "needs the library"
out=$netns_tmp/out
root=$netns_tmp/root
mkdir -p $out/again $root/var/lib/dpkg/{info,updates} && : > $root/var/lib/dpkg/status

packages=$(tools/lib/package.sh $out $lib "$vma") || die "no packages"
{ read -r package && read -r dev; } <<< "$packages" || die "no two packages"
check "lintian" tools/lib/lint_package.sh "$package"
check "... libvma-dev" tools/lib/lint_package.sh "$dev"
mkdir $netns_tmp/bad && dpkg-deb -R "$package" $netns_tmp/bad && rm $netns_tmp/bad/usr/share/man/man1/vma.1.gz &&
	dpkg-deb --root-owner-group -b $netns_tmp/bad $out/bad.deb > /dev/null || die "no bad package"
check "... and something where something is wrong" eval '! tools/lib/lint_package.sh $out/bad.deb 2> $out/found'
check "... what is wrong" grep -q no-manual-page $out/found
tools/lib/package.sh $out/again $lib "$vma" > /dev/null || die "no packages again"
check "made again, it is the same" cmp "$package" "$out/again/${package##*/}"
check "... libvma-dev" cmp "$dev" "$out/again/${dev##*/}"

# The libraries that it depends on are not in this root.
dpkg_root() {
	dpkg --root=$root --force-depends --force-script-chrootless "$@" > $out/dpkg 2>&1 && return
	cat $out/dpkg
	return 1
}
files() {
	find $root ! -type d ! -path '*/var/lib/dpkg/*' ! -path '*/var/log/*'
}
check "install" dpkg_root --install "$package"
check "the library is in a program" eval \
	'$root/usr/bin/vma run cat /proc/self/maps 2> /dev/null | grep -q "$root/usr/lib/x86_64-linux-gnu/libvma.so"'
check "the rules are there, and good" eval '$root/usr/bin/vma check-conf $root/etc/libvma.conf'
check "vma is there" eval '$root/usr/bin/vma --version | grep -q "^$(dpkg-deb -f "$package" Version | cut -d- -f1)"'
check "... and vma_stats, by its name" eval '$root/usr/bin/vma_stats --help | grep -q "^Usage:"'
check "... as vma stat" eval '$root/usr/bin/vma stat --help | cmp - <($root/usr/bin/vma_stats --help)'
check "the exporter is there" eval 'python3 $root/usr/share/doc/libvma/examples/exporter.py --help | grep -q -- --listen'
check "... and the dashboard" python3 -m json.tool $root/usr/share/doc/libvma/examples/grafana.json /dev/null
# stats_page_has_all: each option of vma_stats.
stats_page_has_all() {
	local option options

	options=$($root/usr/bin/vma_stats --help | grep -oE -- '--[a-z_]+')
	[[ -n $options ]] || return 1
	for option in $options; do
		grep -qE "^\.It .*Fl -${option#--}( |\$)" docs/man/vma_stats.8 && continue
		echo "not in vma_stats.8: $option"
		return 1
	done
}
check "vma_stats.8 has its options" stats_page_has_all

# ---- a program with the header ----------------------------------------------------

check "install libvma-dev" dpkg_root --install "$dev"
installed=$root/usr/lib/x86_64-linux-gnu/libvma.so
example=$root/usr/share/doc/libvma-dev/examples
# The compiler must not find the header of the tree, or of the machine.
export PKG_CONFIG_LIBDIR=$root/usr/lib/x86_64-linux-gnu/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
check "pkg-config finds it, with this version" \
	test "$(pkg-config --modversion libvma)-1" = "$(dpkg-deb -f "$dev" Version)"
check "... where the header is" test "$(pkg-config --cflags libvma | tr -d ' ')" = "-I$root/usr/include"
check "... nothing to link with" test -z "$(pkg-config --libs libvma | tr -d ' ')"
by_pkg_config() {
	cc -Wall -Wextra -Werror $(pkg-config --cflags libvma) -o $out/by_pkg_config $example/receive.c \
		$(pkg-config --libs libvma)
}
check "the example compiles with pkg-config" by_pkg_config
# compiles COMPILER LANGUAGE STANDARD: a program that includes our own header, twice.
compiles() {
	printf '#include <%s>\n' vma/vma.h vma/vma.h |
		"$1" -x $2 -std=$3 -Wall -Wextra -Werror -pedantic $(pkg-config --cflags libvma) -fsyntax-only -
}
for compiler in "gcc c c99" "g++ c++ c++11" "clang-14 c c17" "clang++-14 c++ c++17"; do
	command -v ${compiler%% *} > /dev/null || continue
	check "vma.h is of ${compiler#* }, says ${compiler%% *}" compiles $compiler
done
# by_cmake [OPTION...]
by_cmake() {
	rm -rf $out/cmake
	cmake -S $example -B $out/cmake -DCMAKE_PREFIX_PATH=$root/usr -DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF \
		"$@" > $out/cmake.log 2>&1 && cmake --build $out/cmake >> $out/cmake.log 2>&1 && return
	cat $out/cmake.log
	return 1
}
check "... with CMake" by_cmake
check "... by the header of the package" grep -rq "$root/usr/include" $out/cmake --include=flags.make
cp $out/cmake/receive $out/by_cmake
sed -i 's/find_package(libvma 10 /find_package(libvma ${wanted} /' $example/CMakeLists.txt
for wanted in 10 10.0 "10.0.0 EXACT"; do
	check "... version $wanted" by_cmake -Dwanted="${wanted// /;}"
done
for wanted in 9 10.9 11 "10.0.1 EXACT"; do
	check "... version $wanted is not there" eval '! by_cmake -Dwanted="${wanted// /;}" > /dev/null'
done

netns_pair ""
# receives LIB PROGRAM TEXT: it answers 50 datagrams, and says TEXT.
receives() {
	netns_spawn $out/received s "$1" $2 7000 50 || die "no server"
	in_ns c "$probe" ask udp $netns_server 7000 50 || return 1
	wait $spawned || return 1
	grep -qx "$3" $out/received && return
	cat $out/received
	return 1
}
probe=$(netns_find_probe) || exit 1
for program in $out/by_pkg_config $out/by_cmake; do
	check "${program##*/}, without the library" receives "" $program "library not here, 0 in place, 50 copied"
	check "... with it, without a copy" receives $installed $program "library here, 50 in place, 0 copied"
done
check "remove libvma-dev" dpkg_root --purge libvma-dev
check "remove" dpkg_root --purge libvma
check "... nothing is left" test -z "$(files)"

# ---- the pages ------------------------------------------------------------------

for page in docs/man/*.[1-8]; do
	check "$page" mandoc -T lint -W warning "$page"
	check "... renders" eval 'MANWIDTH=80 man -l "$page" > $out/page 2> $out/errors && [[ -s $out/page && ! -s $out/errors ]]'
done

# names COMMAND: vma.1 has its section, and each of its options.
names() {
	local option missing=()

	grep -q "^\.Ss vma $1\b" docs/man/vma.1 || missing+=("$1")
	for option in $("$vma" help "$1" | grep -oE '^  --[a-z-]+'); do
		grep -q "^\.It Fl -${option#--}\b" docs/man/vma.1 || missing+=("$option")
	done
	((${#missing[@]} == 0)) && return
	echo "not in vma.1: ${missing[*]}"
	return 1
}
commands=$("$vma" help | sed -n 's/^  \([a-z_-]*\) .*/\1/p')
check "vma has commands" test -n "$commands"
for command in $commands; do
	check "vma.1 describes $command" names "$command"
done

# ---- completion -----------------------------------------------------------------

# completes WORDS... -- WANTED...: what may follow the words, of which the last is
# begun, has each of those that are wanted.
completes() {
	local words=() wanted

	while [[ $1 != -- ]]; do
		words+=("$1")
		shift
	done
	shift
	got=$(PATH=${vma%/*}:$PATH bash --norc -c '
		_command_offset() { COMPREPLY=(offset:$1); }
		. tools/vma/vma.bash
		COMP_WORDS=("$@")
		COMP_CWORD=$(($# - 1))
		_vma
		printf "%s\n" "${COMPREPLY[@]}"' complete "${words[@]}")
	for wanted; do
		grep -qxF -- "$wanted" <<< "$got" && continue
		echo "$wanted is not in: $got"
		return 1
	done
}
vma=$(realpath "$vma")
check "completion of commands" completes vma "" -- doctor run help
check "... of a begun one" completes vma do -- doctor
check "... and no other" test "$got" = doctor
check "... after help" completes vma help r -- run
check "... of options" completes vma doctor --a -- --attach
check "... of another command" completes vma capture --sn -- --snaplen
touch $netns_tmp/vmastat.4711
VMA_STATS_SHMEM_DIR=$netns_tmp check "... of processes" completes vma capture 4 -- 4711
check "... of interfaces" completes vma doctor "" -- lo
check "... of programs" completes vma run --quiet mkd -- mkdir
check "... of a program's arguments" completes vma run --library x ls -l -- offset:4

verdict
