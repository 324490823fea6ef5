# Sourced by tools/guest: the emulator and the kernels, downloaded once and kept in $guest_cache.
#
#	emulator/	root: Debian 13 with the qemu of its backports
#	kernel-NAME/	vmlinuz, release, lib/modules, initramfs.gz
#	accel-NAME	whether KVM runs that kernel, and since which boot of the host
#
# A part is created in NAME.part and renamed when it is complete; after an interruption it is
# created again.  Runs that need a missing part wait for each other.

# The version of the parts; other versions are created again.
guest_recipe=2
guest_cache=${LIBVMA_GUEST_CACHE:-/var/cache/libvma-guest}
guest_keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# guest_apt COMMAND...: apt with its own sources and lists, and the host's proxies and keys; $part
# contains everything.
guest_apt() {
	"$1" -q -o Dir::Etc::SourceList="$part/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
		-o Dir::State="$part/apt" -o Dir::State::Status=/dev/null -o Dir::Cache="$part/apt" \
		-o Acquire::Retries=3 -o APT::Sandbox::User=root "${@:2}"
}

# guest_mirrors: $mirror and $mirror_security, from which the host gets its packages.
guest_mirrors() {
	local release uri

	mirror=
	mirror_security=
	while read -r release uri; do
		case $release in
		*-security) mirror_security=${mirror_security:-$uri} ;;
		*-*) ;;
		*) mirror=${mirror:-$uri} ;;
		esac
	done < <(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' |
		sort -u)
	if [[ -z $mirror ]]; then
		# Without lists apt does not know the origin: the address must show it.
		read -r release mirror < <(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
			grep -E '/debian/?$')
	fi
	[[ $mirror ]] || die "apt has no mirror of Debian among its sources"
	mirror_security=${mirror_security:-${mirror%/}-security}
}

# guest_sources SUITE...: lines for a sources.list; *-security is on another mirror.
guest_sources() {
	local suite uri

	for suite; do
		uri=$mirror
		[[ $suite != *-security ]] || uri=$mirror_security
		echo "deb [signed-by=$guest_keyring] $uri $suite main"
	done
}

# guest_has NAME: is it complete, and of this version?
guest_has() {
	[[ -s $guest_cache/$1/recipe && $(< "$guest_cache/$1/recipe") == "$guest_recipe" ]]
}

# guest_part NAME FUNCTION [ARG...]: creates it, unless it exists; other runs wait.
guest_part() {
	local name=$1 part=$guest_cache/$1.part start=$SECONDS

	guest_has "$name" && return
	guest_lock
	if ! guest_has "$name"; then
		echo "guest: making $guest_cache/$name" >&2
		# An older one may be in use.
		rm -rf --one-file-system "$part" "${guest_cache:?}/$name.old"
		[[ ! -e $guest_cache/$name ]] || mv "$guest_cache/$name" "$guest_cache/$name.old"
		mkdir -p "$part" || die "cannot write to $guest_cache"
		if ! part=$part guest_apart "${@:2}" > "$part/log" 2>&1; then
			tail -n 20 "$part/log" >&2
			die "cannot make $name (the whole log: $part/log)"
		fi
		echo $guest_recipe > "$part/recipe"
		mv "$part" "$guest_cache/$name" || die "cannot write to $guest_cache"
		echo "guest: $name took $((SECONDS - start)) s" >&2
	fi
	guest_unlock
}

guest_lock() {
	mkdir -p "$guest_cache" && exec {guest_locked}> "$guest_cache/lock" || die "cannot write to $guest_cache"
	flock "$guest_locked"
}

guest_unlock() {
	exec {guest_locked}>&-
}

# guest_apart FUNCTION [ARG...]: runs it in separate namespaces, so that its mounts and processes
# end with it, and it ends with this shell.
guest_apart() {
	local pid rc

	setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child=KILL --mount-proc \
		"$BASH" "$self" --make "$@" < /dev/null &
	pid=$!
	trap 'kill -KILL $pid 2> /dev/null; wait $pid 2> /dev/null; exit 130' INT TERM HUP
	wait $pid
	rc=$?
	trap - INT TERM HUP
	return $rc
}

# ---- the emulator -----------------------------------------------------------

# Debian 12's qemu is too old for igb: a separate system has a newer one.
guest_make_emulator() {
	local include=()

	guest_mirrors
	[[ $mirror != https:* ]] || include=(--include=ca-certificates)
	debootstrap --variant=minbase --keyring=$guest_keyring "${include[@]}" trixie "$part/root" "$mirror" || exit
	cp /etc/resolv.conf "$part/root/etc/" || exit
	apt-config dump Acquire > "$part/root/etc/apt/apt.conf.d/80host" || exit
	guest_sources trixie trixie-backports > "$part/root/etc/apt/sources.list"
	mount -t proc none "$part/root/proc" && mount --rbind /dev "$part/root/dev" || exit
	in_emulator "$part" apt-get -q update &&
		in_emulator "$part" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 install \
			--no-install-recommends -t trixie-backports qemu-system-x86 || exit
	in_emulator "$part" apt-get clean
	rm -rf "$part"/root/var/lib/apt/lists/*
	mkdir "$part"/root/mnt/{host,out,control}
	in_emulator "$part" qemu-system-x86_64 --version
}

in_emulator() {
	chroot "$1/root" /usr/bin/env PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C "${@:2}"
}

# ---- kernels ----------------------------------------------------------------

# The modules for the start of the guest; the host's files contain the rest.
guest_modules=(virtio_pci 9pnet_virtio 9p overlay virtio_console)

# guest_suites NAME: the source of a kernel.
guest_suites() {
	case $1 in
	newest) echo trixie-backports ;;
	6.12) echo trixie trixie-security ;;
	6.1) echo bookworm bookworm-security ;;
	5.10) echo bullseye bullseye-security ;;
	*) return 1 ;;
	esac
}

# guest_make_kernel NAME: installs the packages behind linux-image-amd64, whose names change.
guest_make_kernel() {
	local packages release

	guest_mirrors
	mkdir -p "$part"/apt/{lists/partial,archives/partial,unpacked} || exit
	# shellcheck disable=SC2046 # words
	guest_sources $(guest_suites "$1") > "$part/apt/sources.list"
	guest_apt apt-get -o APT::Update::Error-Mode=any update || exit
	mapfile -t packages < <(guest_apt apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts \
		--no-breaks --no-replaces --no-enhances linux-image-amd64 |
		grep -E '^linux-(image|modules|binary|base)-[0-9.]+[^ ]*-amd64$' | sort -u)
	((${#packages[@]})) || { echo "no kernel behind linux-image-amd64"; exit 1; }
	echo "${packages[@]}"
	(cd "$part/apt/unpacked" && guest_apt apt-get download "${packages[@]}" &&
		for package in *.deb; do dpkg -x "$package" . || exit; done) || exit
	guest_take_kernel
	release=$(< "$part/release")
	depmod -b "$part" "$release" || exit
	guest_make_initramfs "$release" || exit
	rm -rf "$part/apt"
}

# Packages have the kernel and its modules at different places.
guest_take_kernel() {
	local modules

	modules=$(find "$part/apt/unpacked" -path '*lib/modules/*' -name kernel -type d -prune | head -n 1)
	[[ $modules ]] || { echo "no modules in the packages"; exit 1; }
	modules=${modules%/kernel}
	echo "${modules##*/}" > "$part/release"
	find "$part/apt/unpacked" -name 'vmlinuz*' -type f -exec mv {} "$part/vmlinuz" \;
	[[ -s $part/vmlinuz ]] || { echo "no vmlinuz in the packages"; exit 1; }
	mkdir -p "$part/lib/modules"
	mv "$modules" "$part/lib/modules/" || exit
}

# guest_make_initramfs RELEASE: busybox and a few modules in their order; see guest_initramfs.
guest_make_initramfs() {
	local tree=$part/apt/initramfs module path number=100

	mkdir -p "$tree"/{bin,modules,dev,proc,sys,lower,memory,root}
	cp /bin/busybox "$tree/bin/" || return
	for module in "${guest_modules[@]}"; do
		modprobe -d "$part" -S "$1" --show-depends "$module" | sed -n 's/^insmod \([^ ]*\).*/\1/p'
	done | awk '!seen[$0]++' | while read -r path; do
		number=$((number + 1))
		module=$tree/modules/$number-$(basename "${path%.ko*}").ko
		case $path in
		*.xz) xz -dc "$path" ;;
		*.zst) zstd -qdc "$path" ;;
		*) cat "$path" ;;
		esac > "$module" || return
	done || return
	(cd "$tree" && find . | cpio --quiet -o -H newc | gzip -1) > "$part/initramfs.gz"
}

# guest_initramfs KERNEL FOLDER: the stored one, with the present tests/guest/start.
guest_initramfs() {
	mkdir "$2/start" && cp tests/guest/start "$2/start/init" && chmod 755 "$2/start/init" &&
		{ cat "$guest_cache/kernel-$1/initramfs.gz" &&
			(cd "$2/start" && echo init | cpio --quiet -o -H newc | gzip -1); } > "$2/initramfs.gz" ||
		die "no initramfs"
}

# ---- KVM --------------------------------------------------------------------

# guest_find_accel KERNEL: sets $accel. If the device exists, a kernel does not necessarily run on
# it.
guest_find_accel() {
	local file=$guest_cache/accel-$1 boot known

	boot=$(< /proc/sys/kernel/random/boot_id)
	if [[ ! -w /dev/kvm ]]; then
		accel=tcg
		return
	fi
	guest_lock
	{ read -r known accel < "$file"; } 2> /dev/null
	if [[ ${known:-} != "$boot" ]]; then
		accel=tcg
		guest_apart try_kvm "$1" > "$file.part" 2>&1
		! grep -q guest-is-alive "$file.part" || accel=kvm
		echo "$boot $accel" > "$file.part" && mv "$file.part" "$file"
	fi
	guest_unlock
}

# Ten seconds are enough for a kernel with KVM; if KVM is broken, the emulator reports it and waits
# for a debugger.
guest_make_try_kvm() {
	local kernel=$1 root=$guest_cache/emulator/root tmp=/run/guest

	mount -t tmpfs none /run && mkdir $tmp && mount --rbind /dev "$root/dev" || exit
	guest_initramfs "$kernel" $tmp
	cp "$guest_cache/kernel-$kernel/vmlinuz" $tmp/ && mount --bind $tmp "$root/mnt/control" || exit
	timeout -s KILL 10 chroot "$root" qemu-system-x86_64 -M q35 -accel kvm -cpu host -m 512 -nodefaults \
		-no-user-config -no-reboot -display none -kernel /mnt/control/vmlinuz -initrd /mnt/control/initramfs.gz \
		-append "console=ttyS0 quiet panic=-1 guest_probe" -serial stdio > $tmp/said 2>&1 < /dev/null &
	await 11 kvm_has_spoken
	cat $tmp/said
}

kvm_has_spoken() {
	grep -qE 'guest-is-alive|KVM internal error' /run/guest/said || ! kill -0 $!
}
