#!/bin/bash
# Makes the Debian packages of what was built.
#
#	tools/lib/package.sh DIRECTORY LIBVMA.SO VMA	libvma_VERSION_amd64.deb in it, and
#							libvma-dev_VERSION_amd64.deb
#
# It prints the packages' paths.  `tools/package` builds first.
set -eu -o pipefail

(($# == 3)) || {
	sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
	exit 2
}
out=$(realpath "$1")
lib=$(realpath "$2")
vma=$(realpath "$3")
cd "$(dirname "$(readlink -f "$0")")/../.."
tree=$PWD

upstream=$("$vma" --version)
upstream=${upstream%-*}
version=$upstream-1 # the first package of this version
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

# Two packages of one source are equal, byte by byte.
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2> /dev/null || echo 0)}"
export SOURCE_DATE_EPOCH

mkdir "$stage/debian"
cp tools/deb/control "$stage/debian/control"
{
	echo "libvma ($version) unstable; urgency=medium"
	echo
	echo "  * This version."
	echo
	echo " -- $(sed -n 's/^Maintainer: //p' tools/deb/control)  $(date -u -R -d "@$SOURCE_DATE_EPOCH")"
} > "$stage/debian/changelog"

# begin PACKAGE: $root and $doc are its root and its folder of documents.
begin() {
	name=$1
	root=$stage/debian/$name
	doc=$root/usr/share/doc/$name
	install -D -m 644 tools/deb/copyright "$doc/copyright"
	install -D -m 644 "tools/deb/$name.overrides" "$root/usr/share/lintian/overrides/$name"
	gzip -9nc "$stage/debian/changelog" > "$doc/changelog.Debian.gz"
	chmod 644 "$doc/changelog.Debian.gz"
}

# fill TEMPLATE FILE: the template with this version.
fill() {
	mkdir -p "${2%/*}"
	sed "s/@VERSION@/$upstream/; s/@MAJOR@/${upstream%%.*}/" "$1" > "$2"
	chmod 644 "$2"
}

# finish [BINARY...]: the package, which needs the libraries of these files.
finish() {
	cd "$stage"
	mkdir -p "$root/DEBIAN"
	: > debian/substvars
	(($# == 0)) || dpkg-shlibdeps -O "$@" 2> shlibdeps > debian/substvars || {
		cat shlibdeps >&2
		exit 1
	}
	echo 'misc:Depends=' >> debian/substvars
	dpkg-gencontrol "-p$name" -Tdebian/substvars "-Pdebian/$name" > /dev/null
	(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) > "$root/DEBIAN/md5sums"
	find "$root" -newermt "@$SOURCE_DATE_EPOCH" -print0 | xargs -0r touch -hd "@$SOURCE_DATE_EPOCH"
	dpkg-deb --root-owner-group -Zxz --build "$root" "$out" > /dev/null
	echo "$out/${name}_${version}_amd64.deb"
	cd "$tree"
}

begin libvma
install -D -m 644 "$lib" "$root/usr/lib/x86_64-linux-gnu/libvma.so"
install -D -m 755 "$vma" "$root/usr/bin/vma"
ln -s vma "$root/usr/bin/vma_stats"
strip --strip-unneeded --remove-section=.comment "$root/usr/lib/x86_64-linux-gnu/libvma.so" "$root/usr/bin/vma"
for page in docs/man/*.[1-8]; do
	section=${page##*.}
	mkdir -p "$root/usr/share/man/man$section"
	gzip -9nc "$page" > "$root/usr/share/man/man$section/${page##*/}.gz"
done
chmod 644 "$root"/usr/share/man/man?/*
install -D -m 644 libvma.conf "$root/etc/libvma.conf"
install -D -m 644 tools/vma/vma.bash "$root/usr/share/bash-completion/completions/vma"
for page in README.md SECURITY.md docs/*.md; do
	install -D -m 644 "$page" "$doc/${page##*/}"
done
for example in docs/metrics/*; do
	install -D -m 644 "$example" "$doc/examples/${example##*/}"
done
mkdir "$root/DEBIAN"
echo /etc/libvma.conf > "$root/DEBIAN/conffiles"
finish "$root/usr/bin/vma" "$root/usr/lib/x86_64-linux-gnu/libvma.so"

begin libvma-dev
arch=$root/usr/lib/x86_64-linux-gnu
for header in mellanox/vma_extra.h vma/vma.h; do
	install -D -m 644 include/$header "$root/usr/include/$header"
done
fill tools/deb/libvma.pc.in "$arch/pkgconfig/libvma.pc"
fill tools/deb/libvma-config-version.cmake.in "$arch/cmake/libvma/libvma-config-version.cmake"
install -m 644 tools/deb/libvma-config.cmake "$arch/cmake/libvma"
install -D -m 644 docs/api.md "$doc/api.md"
for example in docs/examples/*; do
	install -D -m 644 "$example" "$doc/examples/${example##*/}"
done
finish
