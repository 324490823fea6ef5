// node echo.js serve ADDRESS PORT, and node echo.js ask ADDRESS PORT: TCP, UDP and HTTP
// (PORT + 1).  The asking side ends with 0 when everything came back.
"use strict";
const assert = require("assert");
const dgram = require("dgram");
const http = require("http");
const net = require("net");

const [role, address, portText] = process.argv.slice(2);
const port = Number(portText);

function serve() {
	net.createServer({ allowHalfOpen: true }, (c) => c.pipe(c)).listen(port, address);
	const udp = dgram.createSocket(address.includes(":") ? "udp6" : "udp4");
	udp.on("message", (m, from) => udp.send(m, from.port, from.address));
	udp.bind(port, address);
	http.createServer((req, res) => req.pipe(res)).listen(port + 1, address);
}

// One connection: sends size bytes in pieces, ends, and wants them back, then the end.
function connection(size) {
	return new Promise((resolve, reject) => {
		const sent = Buffer.alloc(size, "0123456789");
		const got = [];
		const c = net.connect({ port, host: address, allowHalfOpen: true });
		c.on("connect", () => {
			for (let i = 0; i < size; i += 10000) c.write(sent.subarray(i, i + 10000));
			c.end();
		});
		c.on("data", (d) => got.push(d));
		c.on("error", reject);
		c.on("end", () => resolve(assert(Buffer.concat(got).equals(sent))));
	});
}

function datagrams(count) {
	return new Promise((resolve, reject) => {
		const udp = dgram.createSocket(address.includes(":") ? "udp6" : "udp4");
		let next = 0;
		const ask = () => udp.send(`datagram ${next}`, port, address);
		udp.on("error", reject);
		udp.on("message", (m) => {
			assert.strictEqual(String(m), `datagram ${next}`);
			if (++next < count) return ask();
			udp.close();
			resolve();
		});
		ask();
	});
}

const agent = new http.Agent({ keepAlive: true, maxSockets: 4 });
function request(body) {
	return new Promise((resolve, reject) => {
		const req = http.request({ host: address, port: port + 1, method: "POST", agent }, (res) => {
			let got = "";
			res.on("data", (d) => (got += d));
			res.on("end", () => resolve(assert.strictEqual(got, body)));
		});
		req.on("error", reject);
		req.end(body);
	});
}

async function ask() {
	await connection(3000000);
	await Promise.all(Array.from({ length: 50 }, (_, i) => connection(20000 + i)));
	await datagrams(200);
	await Promise.all(Array.from({ length: 200 }, (_, i) => request(`request ${i}`)));
	agent.destroy();
	console.log("all right");
}

if (role === "serve") serve();
else ask();
