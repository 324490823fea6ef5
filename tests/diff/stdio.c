/* SPDX-License-Identifier: BSD-2-Clause */
/* stdio on sockets: libc reads, writes and closes them internally. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/diff/diff.h"

/* Echoes lines, prints what arrived, ends when the stream does. */
static void echo(void)
{
	int fd = tcp_pair();
	char buf[4096];
	ssize_t n;
	size_t sum = 0;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
		sum += (size_t)n;
		MUST(send(fd, buf, (size_t)n, MSG_NOSIGNAL));
	}
	/* A reset, if our last answer arrived after the peer had closed. */
	say("%zu bytes, then %s", sum, n == 0 || errno == ECONNRESET ? "the end" : "an error");
	close(fd);
	meet();
}

static FILE *opened(const char *mode)
{
	FILE *f = fdopen(tcp_pair(), mode);

	if (!f)
		MUST(-1);
	return f;
}

static void lines(void)
{
	FILE *f = opened("r+");
	char buf[100], *line = NULL;
	size_t size = 0;

	SAY(fprintf(f, "one %d\ntwo %s\nthree\n", 1, "2"));
	SAY(fflush(f));
	SAY(fgets(buf, sizeof(buf), f) != NULL);
	say_bytes(buf, strlen(buf));
	SAY(getline(&line, &size, f));
	say_bytes(line, strlen(line));
	SAY(fgetc(f));
	SAY(ungetc('T', f));
	SAY(fscanf(f, "%99s", buf));
	say_bytes(buf, strlen(buf));
	free(line);
	SAY(fclose(f));
	meet();
}

static void two_files(void)
{
	int fd = tcp_pair();
	FILE *in = fdopen(fd, "r"), *out = fdopen(dup(fd), "w");
	char buf[100];

	setlinebuf(out);
	SAY(fputs("hello\n", out));
	SAY(fgets(buf, sizeof(buf), in) != NULL);
	say_bytes(buf, strlen(buf));
	SAY(fputs("world\n", out));
	SAY(fread(buf, 1, 6, in));
	say_bytes(buf, 6);
	SAY(fclose(out));
	SAY(shutdown(fd, SHUT_WR));
	SAY(fgetc(in));
	SAY(feof(in) != 0);
	SAY(ferror(in) != 0);
	SAY(fclose(in));
	meet();
}

static void much(void)
{
	FILE *in, *out;
	int fd = tcp_pair();
	static char data[50000], back[50000];

	in = fdopen(fd, "r");
	out = fdopen(dup(fd), "w");
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * 7 + i / 256);
	SAY(fwrite(data, 1, sizeof(data), out));
	SAY(fclose(out));
	SAY(fread(back, 1, sizeof(back), in));
	say_bytes(back, sizeof(back));
	SAY(fclose(in));
	meet();
}

static int print(int fd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int print(int fd, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vdprintf(fd, fmt, args);
	va_end(args);
	return n;
}

static void dprintfs(void)
{
	int fd = tcp_pair();
	char buf[300];

	SAY(dprintf(fd, "number %d %200s\n", 42, "x"));
	SAY(recv(fd, buf, 211, MSG_WAITALL));
	say_bytes(buf, 211);
	SAY(print(fd, "%s", "again"));
	SAY(recv(fd, buf, 5, MSG_WAITALL));
	close(fd);
	meet();
}

static void errors(void)
{
	FILE *f = opened("r+");
	char buf[10];

	SAY(fseek(f, 0, SEEK_SET));
	SAY(ftell(f));
	SAY(fileno(f) >= 0);
	set_nonblocking(fileno(f), true);
	SAY(fgets(buf, sizeof(buf), f) != NULL);
	SAY(ferror(f) != 0);
	clearerr(f);
	SAY(shutdown(fileno(f), SHUT_WR));
	signal(SIGPIPE, SIG_IGN);
	SAY(fputs("x", f));
	SAY(fflush(f));
	signal(SIGPIPE, SIG_DFL);
	SAY(fclose(f));
	meet();
}

/* As a server of inetd has it: the same stdin and stdout from the start. */
static void standard(void)
{
	int in = dup(0), out = dup(1), fd = tcp_pair();
	char buf[100];

	fflush(stdout);
	MUST(dup2(fd, 0));
	MUST(dup2(fd, 1));
	close(fd);
	say("%d", printf("to the peer\n"));
	say("%d", fflush(stdout));
	SAY(fgets(buf, sizeof(buf), stdin) != NULL);
	say_bytes(buf, strlen(buf));
	MUST(dup2(in, 0));
	MUST(dup2(out, 1));
	clearerr(stdin);
	close(in);
	close(out);
	meet();
}

static void closed_below(void)
{
	FILE *f = opened("r+");

	SAY(close(fileno(f)));
	meet();
	SAY(fputc('x', f));
	SAY(fclose(f));
}

static void reopened(void)
{
	FILE *f = opened("r+");
	char c;

	SAY(fputs("x", f));
	SAY(fflush(f));
	SAY(fgetc(f));
	SAY(fputs("y", f)); /* written by freopen() */
	f = freopen("/dev/null", "r", f);
	SAY(f != NULL);
	SAY(fread(&c, 1, 1, f));
	SAY(fclose(f));
	meet();
}

/* A file that libc tries to map at first. */
static void mapped(void)
{
	char buf[100];
	int fd = tcp_pair();
	FILE *f;

	MUST(send(fd, "line\n", 5, 0));
	f = fdopen(fd, "rm");
	SAY(f && fgets(buf, sizeof(buf), f));
	say_bytes(buf, strlen(buf));
	SAY(fclose(f));
	meet();
}

static void mapped_unread(void)
{
	FILE *f = opened("rm");

	SAY(fclose(f));
	meet();
}

const struct behaviour stdio_behaviours[] = {
	{"lines", echo, lines, OURS},
	{"two_files", echo, two_files, OURS},
	{"much", echo, much, OURS},
	{"dprintf", echo, dprintfs, OURS},
	{"errors", echo, errors, OURS},
	{"standard", echo, standard, OURS},
	{"closed_below", echo, closed_below, OURS},
	{"mapped", echo, mapped, OURS},
	{"mapped_unread", echo, mapped_unread, OURS},
	{"reopened", echo, reopened, OURS},
	{0},
};
