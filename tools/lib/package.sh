#!/bin/bash
# Makes the Debian package of what was built.
#
#	tools/lib/package.sh DIRECTORY LIBVMA.SO VMA	libvma_VERSION_amd64.deb in it
#
# It prints the package's path.  `tools/package` builds first.
set -eu -o pipefail

(($# == 3)) || {
	sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
	exit 2
}
out=$(realpath "$1")
lib=$(realpath "$2")
vma=$(realpath "$3")
cd "$(dirname "$(readlink -f "$0")")/../.."

version=$("$vma" --version)
version=${version%-*}-1 # the first package of this version
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
root=$stage/debian/libvma
doc=$root/usr/share/doc/libvma

# Two packages of one source are equal, byte by byte.
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2> /dev/null || echo 0)}"
export SOURCE_DATE_EPOCH

install -D -m 644 "$lib" "$root/usr/lib/x86_64-linux-gnu/libvma.so"
install -D -m 755 "$vma" "$root/usr/bin/vma"
ln -s vma "$root/usr/bin/vma_stats"
strip --strip-unneeded --remove-section=.comment "$root/usr/lib/x86_64-linux-gnu/libvma.so" "$root/usr/bin/vma"
for page in docs/man/*.[1-8]; do
	section=${page##*.}
	mkdir -p "$root/usr/share/man/man$section"
	gzip -9nc "$page" > "$root/usr/share/man/man$section/${page##*/}.gz"
done
install -D -m 644 libvma.conf "$root/etc/libvma.conf"
install -D -m 644 tools/vma/vma.bash "$root/usr/share/bash-completion/completions/vma"
for page in README.md SECURITY.md docs/*.md; do
	install -D -m 644 "$page" "$doc/${page##*/}"
done
for example in docs/metrics/*; do
	install -D -m 644 "$example" "$doc/examples/${example##*/}"
done
install -m 644 tools/deb/copyright "$doc/copyright"
install -D -m 644 tools/deb/overrides "$root/usr/share/lintian/overrides/libvma"
cp tools/deb/control "$stage/debian/control"
{
	echo "libvma ($version) unstable; urgency=medium"
	echo
	echo "  * This version."
	echo
	echo " -- $(sed -n 's/^Maintainer: //p' tools/deb/control)  $(date -u -R -d "@$SOURCE_DATE_EPOCH")"
} > "$stage/debian/changelog"
gzip -9nc "$stage/debian/changelog" > "$doc/changelog.Debian.gz"
chmod 644 "$doc/changelog.Debian.gz" "$root"/usr/share/man/man?/*

cd "$stage"
mkdir -p "$root/DEBIAN"
dpkg-shlibdeps -O "$root/usr/bin/vma" "$root/usr/lib/x86_64-linux-gnu/libvma.so" 2> "$stage/shlibdeps" > debian/substvars ||
	{
		cat "$stage/shlibdeps" >&2
		exit 1
	}
echo 'misc:Depends=' >> debian/substvars
dpkg-gencontrol -plibvma -Tdebian/substvars -Pdebian/libvma > /dev/null
echo /etc/libvma.conf > "$root/DEBIAN/conffiles"
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) > "$root/DEBIAN/md5sums"
find "$root" -newermt "@$SOURCE_DATE_EPOCH" -print0 | xargs -0r touch -hd "@$SOURCE_DATE_EPOCH"
dpkg-deb --root-owner-group -Zxz --build "$root" "$out" > /dev/null
echo "$out/libvma_${version}_amd64.deb"
