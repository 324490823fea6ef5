# A load whose preparation ends the script, with success.
sides=(server)

set_up() {
	exit 0
}

load() { :; }
