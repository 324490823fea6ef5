# SPDX-License-Identifier: BSD-2-Clause
# Completion of vma for bash.  What there is to complete, vma itself tells.

_vma() {
	local cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]:-} words

	COMPREPLY=()
	if ((COMP_CWORD == 1)) || { ((COMP_CWORD == 2)) && [[ $command == help ]]; }; then
		words=$("${COMP_WORDS[0]}" help 2> /dev/null | sed -n 's/^  \([a-z_-]*\) .*/\1/p')
		((COMP_CWORD == 2)) || words+=" help --version"
		mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
		return
	fi
	if [[ $command == run ]]; then
		local i=2

		while [[ ${COMP_WORDS[i]:-} == -* ]] && ((i < COMP_CWORD)); do
			[[ ${COMP_WORDS[i]} != --library ]] || i=$((i + 1))
			i=$((i + 1))
		done
		if ((i < COMP_CWORD)); then
			_command_offset "$i"
			return
		fi
		[[ $cur == -* || ${COMP_WORDS[COMP_CWORD - 1]} == --library ]] ||
			mapfile -t COMPREPLY < <(compgen -c -- "$cur")
	fi
	if [[ $cur == -* ]]; then
		words=$("${COMP_WORDS[0]}" help "$command" 2> /dev/null | grep -oE '^  --[a-z-]+')
		mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
	elif [[ $command == trace ]]; then
		words=$("${COMP_WORDS[0]}" trace 2> /dev/null | awk '$1 == "process" { print $2 }')
		mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
	elif [[ $command == top || ($command == capture && ${COMP_WORDS[COMP_CWORD - 1]} == capture) ]]; then
		words=$(cd "${VMA_STATS_SHMEM_DIR:-/tmp}" 2> /dev/null && printf '%s\n' vmastat.* | sed 's/.*\.//')
		mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
	elif [[ $command == doctor ]]; then
		words=$(ls /sys/class/net 2> /dev/null)
		mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
	elif ((${#COMPREPLY[@]} == 0)); then
		compopt -o default 2> /dev/null
	fi
}
complete -F _vma vma
