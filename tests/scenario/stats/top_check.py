# SPDX-License-Identifier: BSD-2-Clause
"""Drives `vma top` in a terminal of its own.

    top_check.py PROCESS-ID COMMAND...	a process that sends datagrams all the time

Prints a line for each check; ends with 1 if one failed.
"""
import fcntl, os, pty, re, select, signal, struct, subprocess, sys, termios, time

PID, COMMAND = sys.argv[1], sys.argv[2:]
OTHER_PAGE, OWN_PAGE = b"\x1b[?1049h", b"\x1b[?1049l"
HIDE, SHOW = b"\x1b[?25l", b"\x1b[?25h"
failed = 0


def check(what, good):
    global failed
    print("     %s %s" % ("ok" if good else "FAIL", what))
    failed += not good


class Terminal:
    def __init__(self, lines, columns):
        self.master, self.slave = pty.openpty()
        self.size(lines, columns)
        self.before = termios.tcgetattr(self.slave)
        self.out = b""
        self.process = subprocess.Popen(COMMAND, stdin=self.slave, stdout=self.slave, stderr=self.slave,
                                        start_new_session=True, preexec_fn=self.control)

    def control(self):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def size(self, lines, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self, timeout):
        if select.select([self.master], [], [], timeout)[0]:
            self.out += os.read(self.master, 65536)
            return True
        return False

    def pages(self):
        """The pages that were drawn so far, as lists of lines; the last one may be incomplete."""
        return [re.sub(rb"\x1b\[[?0-9]*[A-Za-z]|\r", b"", page).decode().split("\n")
                for page in self.out.split(b"\x1b[H")[1:]]

    def await_page(self, good, timeout=60):
        """Waits for a complete page that is good, drawn from now on; None: there was none."""
        self.out = b""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            self.read(0.2)
            for page in self.pages()[:-1]:
                if good(page):
                    return page
        return None

    def key(self, key):
        os.write(self.master, key)

    def end(self):
        """Its exit status; None: it does not end."""
        end = time.monotonic() + 30
        while self.process.poll() is None and time.monotonic() < end:
            self.read(0.1)
        while self.read(0):
            pass
        return self.process.poll()

    def is_restored(self):
        return (termios.tcgetattr(self.slave) == self.before and
                self.out.rfind(OWN_PAGE) > self.out.rfind(OTHER_PAGE) and
                self.out.rfind(SHOW) > self.out.rfind(HIDE))


def busy(page):
    """Is the process there, with a socket that sends?"""
    return any(re.match(r" *%s .* udp .* [1-9][0-9.k]* +[1-9]" % PID, line) for line in page)


t = Terminal(30, 200)
page = t.await_page(busy)
check("it shows the busy socket", page)
check("and its verdict", page and any("udp" in line and "accelerated over v0 on ring" in line for line in page))
check("and a ring", page and any(re.match(r" *%s \S+ +[0-9]+ v0 " % PID, line) for line in page))
check("keys are not echoed", not termios.tcgetattr(t.slave)[3] & termios.ECHO)
t.key(b"b")
check("a key changes the order", t.await_page(lambda p: "by bytes" in p[0]))
t.key(b" ")
check("space pauses", t.await_page(lambda p: "PAUSED" in p[0]))
t.key(b" ")
check("and goes on", t.await_page(lambda p: "PAUSED" not in p[0]))
t.size(8, 40)
page = t.await_page(lambda p: len(p) <= 8 and all(len(line) <= 40 for line in p))
check("it fits a smaller terminal", page)
t.key(b"q")
check("q ends it", t.end() == 0)
check("the terminal is as before", t.is_restored())

for sig in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
    t = Terminal(24, 80)
    t.await_page(lambda p: True)
    t.out = OTHER_PAGE + HIDE
    t.process.send_signal(sig)
    check("%s ends it" % sig.name, t.end() == 0)
    check("the terminal is as before", t.is_restored())

t = Terminal(24, 80)
t.await_page(lambda p: True)
t.out = OTHER_PAGE + HIDE
t.process.send_signal(signal.SIGTSTP)
os.waitpid(t.process.pid, os.WUNTRACED)
while t.read(0.2):
    pass
check("the terminal is as before while it is stopped", t.is_restored())
t.process.send_signal(signal.SIGCONT)
check("it goes on", t.await_page(lambda p: p[0].startswith("vma top")))
t.key(b"q")
check("and ends", t.end() == 0)
sys.exit(failed != 0)
