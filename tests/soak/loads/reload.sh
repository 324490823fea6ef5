# nginx, reloaded every second; some connections stay, others serve one request.
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
