# nginx, and 32 connections that stay.
sides=(server client both)
needs nginx wrk

set_up() {
	nginx_serve root 8080
}

load() {
	wrk_ask wrk "$1" 8080 32
}
