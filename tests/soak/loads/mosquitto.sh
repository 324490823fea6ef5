# mosquitto: one client publishes 500 messages per second, one subscribes.
sides=(server client both)
needs mosquitto mosquitto_pub mosquitto_sub python3

set_up() {
	mqtt_serve
}

load() {
	mqtt_ask mqtt "$1" 500
}
