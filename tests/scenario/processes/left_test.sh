#!/bin/bash
# Clients wait for an answer of a server that is killed. Their requests are acknowledged, so they send
# nothing, and only a reset tells them. A process that shares the interface with the dead one sends it,
# or else the next one.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	clients				servers, one of which is killed
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

script=tests/scenario/processes/killed.py
netns_pair ""

# mute PORT: a server; $spawned is its process.
mute() {
	netns_spawn $netns_tmp/mute.$1 s "$lib" python3 $script mute $netns_server "$1" ||
		die "no server: $(cat $netns_tmp/mute.$1)"
}

# ask LIB PORT: 20 clients, whose requests the server has; $spawned is their process.
ask() {
	netns_spawn $netns_tmp/ask c "$1" python3 $script ask $netns_server "$2" 20 ||
		die "no clients: $(cat $netns_tmp/ask)"
	await 40 grep -q "^asked 20$" $netns_tmp/mute.$2 || die "requests are missing: $(cat $netns_tmp/mute.$2)"
}

all_ended() {
	wait $1
	[[ $(tail -n 1 $netns_tmp/ask) == "ended 20" ]] && return
	cat $netns_tmp/ask
	return 1
}

# A server that has closed all its connections is killed; the next process finds none of them.
closed_are_not_left() {
	local log=$netns_tmp/next vma_env=("${vma_env[@]}")

	netns_spawn $netns_tmp/answer s "$lib" python3 $script answer $netns_server 7000 || return 1
	netns_run c "" python3 $script visit $netns_server 7000 20 || return 1
	await 30 netns_tcp_ended c || return 1 # the server has the last FIN
	netns_kill $spawned
	vma_env+=(VMA_TRACELEVEL=debug VMA_LOG_FILE=$log)
	mute 7001
	await 30 grep -q 'killed left 0 connections' $log || grep 'killed left' $log
	netns_kill $spawned
	grep -q 'killed left 0 connections' $log
}

[[ -z $lib ]] || check "closed connections are not left" closed_are_not_left
for client in "" ${lib:+"$lib"}; do
	of="clients of the kernel"
	[[ -z $client ]] || of="clients of ours"

	mute 7000
	victim=$spawned
	ask "$client" 7000
	clients=$spawned
	netns_kill $victim
	mute 7001
	beside=$spawned
	check "the next process resets what a killed one left, $of" all_ended $clients

	mute 7000
	victim=$spawned
	ask "$client" 7000
	clients=$spawned
	netns_kill $victim
	check "a process beside it does, $of" all_ended $clients
	netns_kill $beside
done
verdict
