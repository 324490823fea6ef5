# All at the same time: nginx (connections that stay, and one per request; reloaded every 5 s),
# redis, postgresql, datagrams, a process for each connection, publish and subscribe. Processes of
# one user share an interface: the kernel serves postgresql here, because it refuses to run as root.
sides=(both)
churns=1
every=5
needs nginx wrk redis-server redis-benchmark psql pgbench setpriv dnsmasq socat mosquitto mosquitto_pub \
	mosquitto_sub python3

set_up() {
	nginx_serve root 8080 && redis_serve && dns_serve && echo_serve && mqtt_serve &&
		lib_s="" postgres_serve
}

load() {
	wrk_ask stays "$1" 8080 4 &
	wrk_ask once "$1" 8080 4 'Connection: close' &
	redis_ask redis "$1" 4 &
	postgres_ask pgbench "$1" 1 &
	drive dns "$1" python3 tests/soak/ask.py dns $netns_server 53 "$1" &
	drive echo "$1" python3 tests/soak/ask.py echo $netns_server 7006 "$1" &
	mqtt_ask mqtt "$1" 100
	wait
}

disturb() {
	kill -HUP "${served[$pair.nginx]}"
}
