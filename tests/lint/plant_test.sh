#!/bin/bash
# Tests the lint tests: each finds a violation in a small tree, and no error in that tree before.
dir=$(dirname "$(readlink -f "$0")")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failures=0

# The tree: two modules of two layers, one list of calls.
plant() {
	mkdir -p "$tmp/sound"/{src/{base,net,intercept},tools,tests/unit/net,third_party}
	cd "$tmp/sound" || exit 2
	cp "$dir/../../.clang-format" .
	printf '%s\n' '/* SPDX-License-Identifier: BSD-2-Clause */' '#ifndef BASE_A_H' '#define BASE_A_H' '' \
		'int a_get(void);' '' '#endif' > src/base/a.h
	printf '%s\n' '/* SPDX-License-Identifier: BSD-2-Clause */' '#include "base/a.h"' '' \
		'int a_get(void)' '{' '	return 1;' '}' > src/base/a.c
	printf '%s\n' '/* SPDX-License-Identifier: BSD-2-Clause */' '#ifndef NET_B_H' '#define NET_B_H' '' \
		'#include "base/a.h"' '' '#endif' > src/net/b.h
	printf '%s\n' '/* SPDX-License-Identifier: BSD-2-Clause */' 'CALL(int, f, (int a), (a))' \
		'CALL(int, g, (int a), (a))' > src/intercept/calls.h
}

# tree: back to it.
tree() {
	cd "$tmp" && rm -rf tree && cp -r sound tree && cd tree || exit 2
	printf '%s\n' 'int f(int a) { return a; }' 'int g(int a) { return a; }' 'int h(void) { return 1; }' > "$tmp/so.c"
}

so() {
	gcc -shared -fPIC -Wl,-z,now -Wl,-soname,libvma.so "$@" -o "$tmp/libvma.so" "$tmp/so.c"
}

lint() {
	LINT_ROOT=$tmp/tree "$dir/$1_test.sh" "${@:2}" > "$tmp/out" 2>&1
}

# says MESSAGE: an extended regular expression, of a line.
says() {
	local line

	while IFS= read -r line; do
		[[ ! $line =~ $1 ]] || return 0
	done < "$tmp/out"
	return 1
}

# expect TEST MESSAGE [ARG...]: TEST fails and prints MESSAGE.
expect() {
	local test=$1 message=$2

	if lint "$test" "${@:3}"; then
		echo "$test did not notice: $message"
		failures=$((failures + 1))
	elif ! says "$message"; then
		echo "$test did not say: $message"
		cat "$tmp/out"
		failures=$((failures + 1))
	else
		echo "$test: $message"
	fi
	tree
}

sound() {
	if ! lint "$@"; then
		echo "$1 complains about a sound tree"
		cat "$tmp/out"
		failures=$((failures + 1))
	fi
}

plant
tree
sound includes
sound headers
sound format
sound text
sound sleeps
sound atomics ''

sed -i 's,#include "base/a.h",&\n#include "net/b.h",' src/base/a.c
expect includes 'may not include net/b.h'
sed -i 's,#include "base/a.h",#include <stdio.h>\n&,' src/base/a.c
expect includes 'its own header comes first'
sed -i 's,#include "base/a.h",&\n#include "stdio.h",' src/base/a.c
expect includes 'does not start at src/'
cp src/base/a.h src/base/a_internal.h
sed -i 's,base/a.h,base/a_internal.h,' src/net/b.h
expect includes 'is private to its directory'
sed -i 's,#include "base/a.h",&\n#include <netlink/netlink.h>,' src/base/a.c
expect includes 'netlink/netlink.h> belongs in'
sed -i 's,"base/a.h",<infiniband/verbs.h>,' src/net/b.h
expect includes 'infiniband/verbs.h> belongs in'

sed -i 's/^$/size_t b_get(void);/' src/net/b.h
expect headers 'b.h: does not compile alone with gcc'
sed -i 's/^$/void b_get(int n, char (*m)[(__builtin_choose_expr(1, 2, 3), sizeof(__int129))]);/' src/net/b.h
expect headers 'b.h: does not compile alone with clang-14'
cp src/net/b.h tools/b.h
expect headers 'b.h: no include guard TOOLS_B_H'
sed -i 's/BASE_A_H/A_H/' src/base/a.h
expect headers 'no include guard BASE_A_H'
sed -i '/^#define BASE_A_H/d' src/base/a.h
expect headers 'no include guard BASE_A_H'

sed -i 's/^	return/    return/' src/base/a.c
expect format 'code should be clang-formatted'

for word in TO''DO FIX''ME X''XX; do
	sed -i "s,return 1;,& /* $word */," src/base/a.c
	expect text "$word"
done
printf '%s\n' '<<<''<<<< HEAD' >> src/base/a.c
expect text 'a merge was not finished'
sed -i 1d src/base/a.c
expect text 'not an SPDX-License-Identifier'
: > src/base/a.c
expect text 'a.c: the first line is not an SPDX-License-Identifier'
seq -f '/* %g */' 601 >> src/base/a.c
expect text 'a.c: 60. lines'
printf '%s\n' '#!/bin/bash' 'if true; then' > tools/a.sh
expect text 'a.sh: syntax'
printf '%s\n' '#!/bin/bash' 'fi; }' 'f() { if true; then :' > tools/a.sh
expect text 'a.sh: syntax'
printf '#!/bin/bash\nexit 1\ncat << END\n}\nEND' > tools/a.sh
sound text
tree
cp src/base/a.c tests/unit/net/a_test.c
expect text 'a_test.c: no rule'
mkdir tests/unit/net/tcp && cp src/base/a.c tests/unit/net/tcp/c_test.c && echo 'unit_tests()' > tests/unit/net/tcp/BUILD.bazel
expect text 'c_test.c: there is no src/net/tcp'
mkdir src/net/tcp && cp src/base/a.c src/net/tcp/c.c
cp src/base/a.c tests/unit/net/c_test.c && echo 'unit_tests()' > tests/unit/net/BUILD.bazel
expect text 'c_test.c: tests src/net/tcp/c.c'
cp src/base/a.c tests/a.c && sed -i 's/return 1/assert(1)/' tests/a.c
expect text "use cmocka's"

mkdir tests/diff && sed 's/return 1/usleep(20000)/' src/base/a.c > tests/diff/a.c
expect sleeps 'wait for the event'
mkdir tests/diff && sed 's/return 1/let_pass(20, "")/' src/base/a.c > tests/diff/a.c
expect sleeps 'a.c:.*but why?'
mkdir tests/diff && sed 's/return 1/let_pass(20, "nothing tells of it")/' src/base/a.c > tests/diff/a.c
sound sleeps
echo '	sleep 1' > tests/a.sh
expect sleeps 'a.sh:1:.*but why?'
echo '	sleep 1 # nothing tells of it' > tests/a.sh
sound sleeps
tree

# access CODE [COMMENT]: a_get() makes one access, with a comment directly above it.
access() {
	sed -i "s|^	return 1;|	static int x;\\n\\n${2:+	/* $2 */\\n}	$1\\n	return x;|" src/base/a.c
}
release='__atomic_store_n(\&x, 1, __ATOMIC_RELEASE);'
access "$release"
expect atomics 'a.c:8: .*: ordered, but why?' ''
access "$release" 'stores x'
expect atomics 'a.c:9: .*: ordered, but why?' ''
access 'ck_pr_fence_memory();'
expect atomics 'a.c:8: .*: ordered, but why?' ''
access 'sys_membarrier(MEMBARRIER_CMD_GLOBAL);'
expect atomics 'a.c:8: .*: ordered, but why?' ''
access "$release" 'pairs with b()'
sed -i 's,^	__atomic,\n\n\n&,' src/base/a.c
expect atomics 'a.c:12: .*: ordered, but why?' ''
access "$release $release"
sed -i 's,^int a_get,/* Pairs with b(). */\n&,; s,; __atomic,;\n	__atomic,' src/base/a.c
expect atomics 'a.c:10: .*: ordered, but why?' ''
access "$release" 'pairs with b()'
expect atomics 'src/base: each ordered access has a reason' src/base

access "$release"
sound atomics src/base
tree
access "$release" 'pairs with b()'
sound atomics ''
tree
access "$release"
sed -i 's,^int a_get,/* Any thread; pairs\n * with b(). */\n&,' src/base/a.c
sound atomics ''
tree
access "${release/RELEASE/RELAXED}"
sound atomics ''
tree

# contract FOLDER COMMENT STATEMENT [ROLE]: a function of a header with this Role, its comment and what it asserts.
contract() {
	mkdir -p "src/$1"
	printf '%s\n' '/*' ' * C.' ' *' " * Role	${4:-any}." ' * Lifetime	control lock.' ' */' '' \
		"/* $2 */" 'int c_get(struct ring *ring);' > "src/$1/c.h"
	printf '%s\n' 'static const struct c c = {.a = 1,' '	.b = 2};' '' 'int c_get(struct ring *ring)' '{' "	$3" \
		'	return 1;' '}' > "src/$1/c.c"
}
sound_contract() {
	contract "$@"
	sound contracts ''
	tree
}
contract sock/core 'Control lock: gets it.' ''
expect contracts 'c_get: its contract needs control_assert_held\(\)' ''
contract sock/core 'control lock, no ring held: gets it.' 'control_assert_held();'
expect contracts 'c_get: its contract needs control_assert_no_ring\(\)' ''
contract sock/core 'Gets it.' '' 'control lock, except where a function says otherwise'
expect contracts 'c_get: its contract needs control_assert_held\(\)' ''
contract sock/core 'Gets it.' '' 'f(): any.  All others: control lock'
expect contracts 'c_get: its contract needs control_assert_held\(\)' ''
contract sock/core '---- control lock ---- */ /* Gets it.' ''
sed -i 's,\*/ /\*,*/\n/*,' src/sock/core/c.h
expect contracts 'c_get: its contract needs control_assert_held\(\)' ''
# own_contract STATEMENT: a function of one file.
own_contract() {
	mkdir -p src/sock/core
	printf '%s\n' '/* Control lock: sets it. */' 'static void set(int i)' '{' "	$1" '	a = i;' '}' > src/sock/core/c.c
}
own_contract ''
expect contracts 'set: its contract needs control_assert_held\(\)' ''
own_contract 'control_assert_held();'
sound contracts ''
tree
contract ring 'holder: gets it.' ''
expect contracts 'c_get: its contract needs ring_assert_held\(\)' ''
contract sock/core 'Control lock: gets it.' 'control_assert_held();'
expect contracts 'take it from the list' src/sock/core
sound_contract sock/core 'Control lock: gets it.' 'control_assert_held();'
sound_contract sock/core 'any: gets it.' '' 'control lock'
sound_contract sock/core 'Gets it.' '' 'c_get(): any.  All others: control lock'
sound_contract sock/core 'Control lock, or holder: gets it.' ''
sound_contract ring 'holder: gets it.' 'ring_assert_held(ring);'

# Two rooms of sock, and what their objects call: high() calls low() (down.a), which calls high() as well (up.a).
rooms() {
	mkdir -p src/sock/{core,tcp}
	: > src/sock/core/low.c > src/sock/tcp/high.c > src/sock/tcp/high.h
}
# object NAME FUNCTION CALLED [OTHER-CALLED]: for the linker's eyes only.
object() {
	printf '%s\n' ".globl $2" "$2: call $3" "${4:+call $4}" | as -o "$tmp/$1.o"
}
for ((i = 0; i < 9; i++)); do
	object f$((i + 1)) f$i f$(((i + 1) % 9))
done
object high high low
object low low high && (cd "$tmp" && ar rc up.a low.o high.o && ar rc circle.a high.o f?.o)
printf '%s\n' '.globl low' 'low: ret' '.comm sock_kinds, 4' | as -o "$tmp/low.o"
(cd "$tmp" && ar rc down.a low.o high.o && ar rc circle.a low.o)

rooms
sound rooms "$tmp/down.a"
tree
rooms
expect rooms 'low \(core\) calls up: high of high \(tcp\)' "$tmp/up.a"
rooms
echo '#include "sock/tcp/high.h"' > src/sock/core/low.c
expect rooms 'low.c: sock/tcp/high.h is above core' "$tmp/down.a"
rooms
mkdir src/sock/attic && rm src/sock/core/low.c && echo '#include "sock/tcp/high.h"' > src/sock/attic/low.c
expect rooms 'attic is no room' "$tmp/down.a"
rooms
mkdir src/net/tcp && echo '#include "net/netlink/c.h"' > src/net/tcp/c.c
expect rooms 'net/netlink/c.h is apart from net/tcp' "$tmp/down.a"
rooms
for i in {1..9}; do : > "src/sock/core/f$i.c"; done
expect rooms 'in a circle of 9 files' "$tmp/circle.a"
rooms
for i in {1..41}; do echo > "src/sock/core/e$i.h"; done
expect rooms 'src/sock/core: 42 files' "$tmp/down.a"

printf '{ f; g; };\n' > "$tmp/map"
sed -i 's/{ f/{ global: f/; s/g; }/g; local: *; }/' "$tmp/map"
so -Wl,--version-script="$tmp/map"
sound exports "$tmp/libvma.so"
so
expect exports '^> h$' "$tmp/libvma.so"
sed -i 's/g;//' "$tmp/map"
so -Wl,--version-script="$tmp/map"
expect exports '^< g$' "$tmp/libvma.so"
sed -i '/int h/d' "$tmp/so.c"
so -Wl,--no-as-needed -l:libstdc++.so.6
expect exports 'needs libstdc\+\+' "$tmp/libvma.so"
sed -i '/int h/d' "$tmp/so.c"
so -Wl,-soname,other.so
expect exports 'soname is not' "$tmp/libvma.so"

# A libc with four functions, one of which has two names, and its table.
calls() {
	mkdir -p tests/lint
	printf '%s\n' 'ours: x' '	read' 'harmless: because x' '	isatty' 'documented: README.md' '	fdopen' \
		'unrelated: x' '	str*' > tests/lint/libc_calls.txt
	echo 'fdopen' > README.md
	printf 'int %s(void) { return 1; }\n' read isatty fdopen strlen "$@" > "$tmp/libc.c"
	echo 'int read(void) { return 1; }' > "$tmp/so.c"
}
build_libc() {
	# Most defects are of the table.
	cmp -s "$tmp/libc.c" "$tmp/libc.was" || gcc -w -shared -fPIC -fno-builtin -o "$tmp/libc.so" "$tmp/libc.c"
	cmp -s "$tmp/so.c" "$tmp/so.was" || so
	cp "$tmp/libc.c" "$tmp/libc.was" && cp "$tmp/so.c" "$tmp/so.was"
}
# Only the first run reads the headers.
expect_calls() {
	build_libc
	expect libc "$1" "$tmp/libvma.so" "$tmp/libc.so" "$tmp/prototypes"
	calls
}
calls
build_libc
sound libc "$tmp/libvma.so" "$tmp/libc.so" "$tmp/prototypes"
calls newcall
expect_calls 'newcall: the C library has it'
sed -i 's/isatty/isatty dup7/' tests/lint/libc_calls.txt
expect_calls 'dup7: .* has it, the C library has not'
sed -i 's/str\*/str* mem*/' tests/lint/libc_calls.txt
expect_calls 'mem\*: matches nothing'
sed -i 's/str\*/str* is*/' tests/lint/libc_calls.txt
expect_calls 'is\*: matches isatty, which is harmless'
sed -i 's/isatty/is*/' tests/lint/libc_calls.txt
expect_calls 'is\*: only what is unrelated'
sed -i '/isatty/d; s/str\*/str* isatty/' tests/lint/libc_calls.txt
expect_calls 'isatty: is not unrelated, it takes int __fd'
sed -i 's/isatty/isatty read/' tests/lint/libc_calls.txt
expect_calls 'read: is in .* twice'
sed -i 's/because x/x/' tests/lint/libc_calls.txt
expect_calls 'isatty: is harmless, but no .because'
echo 'no word' > README.md
expect_calls 'fdopen: README.md does not mention it'
echo 'int fdopen(void) { return 1; }' >> "$tmp/so.c"
expect_calls '^> fdopen$'
sed -i 's/isatty/isatty __read/' tests/lint/libc_calls.txt
echo 'int __read(void) __attribute__((alias("read")));' >> "$tmp/libc.c"
expect_calls 'read \(ours\) and __read \(harmless\) are one function'
sed -i 's/str\*/str* __tty/' tests/lint/libc_calls.txt
echo 'int __tty(void) __attribute__((alias("isatty")));' >> "$tmp/libc.c"
expect_calls '__tty \(unrelated\).* are one function'

exit $((failures > 0))
