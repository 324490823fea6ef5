# nginx, and 32 clients that open a connection for each request.
sides=(server client both)
churns=1
needs nginx wrk

set_up() {
	nginx_serve root 8080
}

load() {
	wrk_ask wrk "$1" 8080 32 'Connection: close'
}
