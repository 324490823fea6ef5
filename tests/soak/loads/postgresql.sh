# postgresql, which forks a process for each connection, under pgbench -C.
sides=(server client both)
churns=1
needs psql pgbench setpriv

set_up() {
	postgres_serve
}

load() {
	postgres_ask pgbench "$1" 4
}
