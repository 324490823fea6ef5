# nginx as Debian's package configures it: its workers run as www-data.
sides=(server)
churns=1
needs nginx wrk

set_up() {
	nginx_serve www-data 8080
}

load() {
	wrk_ask stays "$1" 8080 8 &
	wrk_ask once "$1" 8080 8 'Connection: close'
	wait
}
