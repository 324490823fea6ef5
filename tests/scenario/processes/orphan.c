/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process that has an interface, and a child that uses none of its sockets.
 *
 *	orphan hold IP PORT HOW		binds a UDP socket, creates the child, prints
 *					"ready" when the child has checked, and waits.
 *					HOW: fork, _Fork, clone, vfork, spawn, system
 *	orphan look			checks what this process has of the port; waits
 *
 * The child prints "clean", or the descriptors and mappings of the port that it has.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const char *program;

__attribute__((noreturn)) static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* ---- what a process has ------------------------------------------------------------- */

static int is_xdp(int fd)
{
	socklen_t len = sizeof(int);
	int domain;

	return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) && domain == AF_XDP;
}

static int is_of_the_port(const char *text)
{
	return strstr(text, "vma-umem") || strstr(text, "vma-group") || strstr(text, "bpf");
}

static int look_at_descriptors(void)
{
	char path[288], target[256];
	struct dirent *entry;
	DIR *dir = opendir("/proc/self/fd");
	int found = 0;

	if (!dir)
		die("/proc/self/fd");
	while ((entry = readdir(dir))) {
		ssize_t len;

		snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
		len = readlink(path, target, sizeof(target) - 1);
		if (len < 0)
			continue;
		target[len] = '\0';
		if (!is_xdp(atoi(entry->d_name)) && !is_of_the_port(target))
			continue;
		printf("descriptor %s: %s\n", entry->d_name, target);
		found++;
	}
	closedir(dir);
	return found;
}

static int look_at_mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	int found = 0;

	if (!maps)
		die("/proc/self/maps");
	while (fgets(line, sizeof(line), maps)) {
		if (!is_of_the_port(line) && !strstr(line, "socket:["))
			continue;
		printf("mapping %s", line);
		found++;
	}
	fclose(maps);
	return found;
}

/* Its parent reads its output to the end. */
__attribute__((noreturn)) static void look(void)
{
	int found;

	/* a first call; its result does not matter */
	getsockopt(-1, SOL_SOCKET, SO_DOMAIN, NULL, NULL);
	found = look_at_descriptors() + look_at_mappings();
	if (!found)
		printf("clean\n");
	fflush(stdout);
	close(STDOUT_FILENO);
	for (;;)
		pause();
}

/* ---- children ------------------------------------------------------------------------ */

static void start_vfork(void)
{
	if (!vfork()) {
		execl(program, program, "look", NULL);
		_exit(127);
	}
}

static void start_spawn(void)
{
	char look_arg[] = "look", *args[] = {(char *)(uintptr_t)program, look_arg, NULL};
	pid_t pid;

	if (posix_spawn(&pid, program, NULL, NULL, args, environ))
		die("posix_spawn");
}

static void start_system(void)
{
	char line[512];

	snprintf(line, sizeof(line), "%s look & :", program);
	if (system(line))
		die(line);
}

static void start_clone(void)
{
	/* Not through libc, as in programs that make system calls directly. */
	register long r10 __asm__("r10") = 0;
	register long r8 __asm__("r8") = 0;
	long pid;

	__asm__ volatile("syscall"
			 : "=a"(pid)
			 : "0"((long)SYS_clone), "D"((long)SIGCHLD), "S"(0L), "d"(0L), "r"(r10),
			   "r"(r8)
			 : "rcx", "r11", "memory");
	if (!pid)
		look();
}

static void start_fork(void)
{
	if (!fork())
		look();
}

static void start__fork(void)
{
	if (!_Fork())
		look();
}

static const struct {
	const char *how;
	void (*start)(void);
} ways[] = {
	{"fork", start_fork},	{"_Fork", start__fork}, {"clone", start_clone},
	{"vfork", start_vfork}, {"spawn", start_spawn}, {"system", start_system},
};

static void start_child(const char *how)
{
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		if (!strcmp(how, ways[i].how)) {
			ways[i].start();
			return;
		}
	}
	die(how);
}

/* Copies the output of the child to the end. */
static void relay(int from)
{
	char text[4096];
	ssize_t n;

	while ((n = read(from, text, sizeof(text))) > 0)
		fwrite(text, 1, (size_t)n, stderr);
}

static void hold(const char *ip, const char *port, const char *how)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_port = htons((uint16_t)atoi(port)),
				   .sin_addr.s_addr = inet_addr(ip)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0), out = dup(STDOUT_FILENO), pipe_fds[2];

	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)))
		die("bind");
	if (pipe(pipe_fds) || dup2(pipe_fds[1], STDOUT_FILENO) < 0)
		die("pipe");
	close(pipe_fds[1]);
	start_child(how);
	if (dup2(out, STDOUT_FILENO) < 0)
		die("dup2");
	relay(pipe_fds[0]);
	printf("ready\n");
	fflush(stdout);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	program = argv[0];
	if (argc == 2 && !strcmp(argv[1], "look"))
		look();
	if (argc != 5 || strcmp(argv[1], "hold") != 0)
		die("usage");
	hold(argv[2], argv[3], argv[4]);
}
