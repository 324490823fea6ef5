#!/bin/bash
# Installs the missing ones of the Debian 12 packages that the named groups need (build, test, demo,
# soak, guest; default: build).
#
#	tools/lib/install.sh [group...]
set -eu

build=(
	bazel-bootstrap binutils bpftool clang-14 gcc git libbpf-dev libc6-dev libck-dev libcmocka-dev
	libelf-dev libibverbs-dev libjemalloc-dev libnl-3-dev libnl-route-3-dev libpcap-dev libxdp-dev
	linux-libc-dev llvm-14 pkg-config python3 zlib1g-dev
)
test=(
	clang-format-14 clang-tidy-14 ethtool ibverbs-providers iproute2 iputils-ping libclang-rt-14-dev libcap2-bin lld-14
	mount procps sockperf spin tcpdump tshark util-linux
)
# Packages for tests/programs.
programs=(
	apache2 curl golang-go haproxy iperf3 libmemcached-tools libpython3.11-testsuite memcached ncat nodejs nginx-core
	openjdk-17-jdk-headless openssl postgresql redis-server redis-tools socat stress-ng wrk
)
demo=(iproute2 mount procps sockperf util-linux)
# Additional packages for tests/soak.
soak=(
	dnsmasq-base iproute2 mosquitto mosquitto-clients mount procps python3-zmq util-linux
)
guest=(
	busybox-static cpio debian-archive-keyring debootstrap ethtool iproute2 kmod mount procps util-linux
	xz-utils zstd
)

package=(cmake dpkg-dev lintian make man-db mandoc)

wanted=()
for group in "${@:-build}"; do
	case $group in
	build) wanted+=("${build[@]}") ;;
	test) wanted+=("${build[@]}" "${test[@]}" "${programs[@]}" "${package[@]}") ;;
	demo) wanted+=("${build[@]}" "${demo[@]}") ;;
	soak) wanted+=("${programs[@]}" "${soak[@]}") ;;
	guest) wanted+=("${guest[@]}") ;;
	package) wanted+=("${package[@]}") ;;
	*)
		echo "usage: $0 [build|test|demo|soak|guest|package]..." >&2
		exit 2
		;;
	esac
done

find_missing() {
	missing=()
	# A single query, because every run makes it.
	local installed
	installed=$'\n'$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${wanted[@]}" 2> /dev/null || true)$'\n'
	for package in "${wanted[@]}"; do
		[[ $installed == *$'\n'"$package installed"$'\n'* ]] || missing+=("$package")
	done
}

apt() {
	DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=500 \
		-o Acquire::Retries=3 -o Dpkg::Use-Pty=0 "$@" < /dev/null
}

find_missing
((${#missing[@]})) || exit 0
if [[ $(id -u) != 0 ]]; then
	echo "missing; as root: apt-get install --no-install-recommends ${missing[*]}" >&2
	exit 1
fi

# apt waits for dpkg's lock but not for that of its lists: take turns.
exec {lock}> /run/lock/libvma-install
flock -w 600 "$lock"
find_missing
((${#missing[@]})) || exit 0
echo "installing: ${missing[*]}"
# Tests start the servers; the machine shall not run them.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
	trap 'rm -f $policy' EXIT
	printf '#!/bin/sh\nexit 101\n' > $policy
	chmod 755 $policy
fi
# The lists may be missing or too old; then the first attempt fails.
apt install --no-install-recommends "${missing[@]}" > /dev/null 2>&1 && exit 0
for attempt in 1 2 3; do
	# The lists of a foreign source may fail; only those of Debian count.
	apt update || true
	apt install --no-install-recommends "${missing[@]}" && exit 0
	echo "attempt $attempt failed" >&2
	sleep 5
done
exit 1
