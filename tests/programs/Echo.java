// java Echo.java serve ADDRESS PORT, and java Echo.java ask ADDRESS PORT: an NIO selector
// that echoes TCP and UDP; blocking and non-blocking clients, which end with 0 when
// everything came back.

import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.DatagramChannel;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

public class Echo {
	static InetSocketAddress address;

	// Writes what it has read; reads when there is room.
	static void echo(SelectionKey key) throws Exception {
		SocketChannel channel = (SocketChannel) key.channel();
		ByteBuffer buffer = (ByteBuffer) key.attachment();
		boolean ended = key.isReadable() && channel.read(buffer) < 0;

		buffer.flip();
		channel.write(buffer);
		buffer.compact();
		if (ended && buffer.position() == 0) {
			channel.close();
			return;
		}
		key.interestOps((buffer.position() > 0 ? SelectionKey.OP_WRITE : 0)
				| (buffer.hasRemaining() && !ended ? SelectionKey.OP_READ : 0));
	}

	static void serve() throws Exception {
		Selector selector = Selector.open();
		ServerSocketChannel listener = ServerSocketChannel.open();
		DatagramChannel datagrams = DatagramChannel.open();
		ByteBuffer datagram = ByteBuffer.allocate(2000);

		datagrams.bind(address);
		datagrams.configureBlocking(false);
		datagrams.register(selector, SelectionKey.OP_READ);
		listener.setOption(StandardSocketOptions.SO_REUSEADDR, true);
		listener.bind(address, 128);
		listener.configureBlocking(false);
		listener.register(selector, SelectionKey.OP_ACCEPT);
		for (;;) {
			selector.select();
			for (SelectionKey key : selector.selectedKeys()) {
				if (key.channel() == datagrams) {
					var from = datagrams.receive(datagram.clear());
					if (from != null)
						datagrams.send(datagram.flip(), from);
				} else if (key.isAcceptable()) {
					SocketChannel child = listener.accept();
					if (child == null)
						continue;
					child.configureBlocking(false);
					child.register(selector, SelectionKey.OP_READ, ByteBuffer.allocate(65536));
				} else {
					echo(key);
				}
			}
			selector.selectedKeys().clear();
		}
	}

	static void check(boolean right) {
		if (!right)
			throw new AssertionError();
	}

	// java.net.Socket, of one thread.
	static void blocking(int rounds) throws Exception {
		try (Socket socket = new Socket(address.getAddress(), address.getPort())) {
			byte[] sent = new byte[5000];

			socket.setSoTimeout(60000);
			for (int i = 0; i < rounds; i++) {
				Arrays.fill(sent, (byte) i);
				socket.getOutputStream().write(sent);
				check(Arrays.equals(socket.getInputStream().readNBytes(sent.length), sent));
			}
			socket.shutdownOutput();
			check(socket.getInputStream().read() == -1 || rounds == 0);
		}
	}

	static void threads() throws Exception {
		List<Thread> threads = new ArrayList<>();
		var failed = new java.util.concurrent.atomic.AtomicInteger();

		for (int i = 0; i < 20; i++) {
			Thread thread = new Thread(() -> {
				try {
					blocking(50);
				} catch (Throwable problem) {
					problem.printStackTrace();
					failed.incrementAndGet();
				}
			});
			thread.start();
			threads.add(thread);
		}
		for (Thread thread : threads)
			thread.join();
		check(failed.get() == 0);
	}

	static void large() throws Exception {
		try (SocketChannel channel = SocketChannel.open(address)) {
			ByteBuffer sent = ByteBuffer.allocate(3000000), got = ByteBuffer.allocate(3000000);
			Selector selector = Selector.open();

			for (int i = 0; i < sent.capacity(); i++)
				sent.put(i, (byte) (i * 7 % 251));
			channel.configureBlocking(false);
			SelectionKey key = channel.register(selector, SelectionKey.OP_READ | SelectionKey.OP_WRITE);
			while (got.hasRemaining()) {
				check(selector.select(60000) > 0);
				selector.selectedKeys().clear();
				channel.write(sent);
				check(channel.read(got) >= 0);
				if (!sent.hasRemaining())
					key.interestOps(SelectionKey.OP_READ);
			}
			check(got.flip().equals(sent.flip()));
		}
	}

	static void datagrams() throws Exception {
		try (var socket = new java.net.DatagramSocket()) {
			socket.setSoTimeout(60000);
			for (int i = 0; i < 200; i++) {
				byte[] sent = ("datagram " + i).getBytes();
				var answer = new java.net.DatagramPacket(new byte[100], 100);

				socket.send(new java.net.DatagramPacket(sent, sent.length, address));
				socket.receive(answer);
				check(new String(answer.getData(), 0, answer.getLength()).equals("datagram " + i));
			}
		}
	}

	public static void main(String[] args) throws Exception {
		address = new InetSocketAddress(args[1], Integer.parseInt(args[2]));
		if (args[0].equals("serve")) {
			serve();
			return;
		}
		threads();
		large();
		datagrams();
		System.out.println("all right");
	}
}
