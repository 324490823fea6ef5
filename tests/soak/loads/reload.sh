# nginx, reloaded each second, asked by connections that stay, and by some for one request.
sides=(server both)
churns=1
needs nginx wrk

set_up() {
	nginx_serve root 8080
}

load() {
	wrk_ask stays "$1" 8080 8 &
	wrk_ask once "$1" 8080 8 'Connection: close'
	wait
}

disturb() {
	kill -HUP "${served[$pair.nginx]}"
}
