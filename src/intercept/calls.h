/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every function of the C library that we replace, one line each:
 *
 *   CALL(type, name, (parameters), (arguments), system call)
 *
 * The table of the real functions, its resolution and the version script of
 * libvma.so are made from this list.  The system call serves a call that comes
 * while the real functions are being looked up, or whose function the C library
 * lacks; -1: no system call does, ENOSYS.  In the wrappers the last parameter of
 * fcntl(), ioctl(), execl(), execle() and execlp(), and all but the first of
 * syscall(), are "...".
 *
 * Not here: fork(), see fork.c; open(), pipe() and others that make descriptors
 * which are never ours.  tests/lint/libc_calls.txt has the reason for each
 * function that is not here.
 */
/* socket.c */
CALL(int, accept, (int fd, struct sockaddr *addr, socklen_t *len), (fd, addr, len), SYS_accept)
CALL(int, accept4, (int fd, struct sockaddr *addr, socklen_t *len, int flags), (fd, addr, len, flags), SYS_accept4)
CALL(int, bind, (int fd, const struct sockaddr *addr, socklen_t len), (fd, addr, len), SYS_bind)
CALL(int, connect, (int fd, const struct sockaddr *addr, socklen_t len), (fd, addr, len), SYS_connect)
CALL(int, getpeername, (int fd, struct sockaddr *addr, socklen_t *len), (fd, addr, len), SYS_getpeername)
CALL(int, getsockname, (int fd, struct sockaddr *addr, socklen_t *len), (fd, addr, len), SYS_getsockname)
CALL(int, getsockopt, (int fd, int level, int name, void *val, socklen_t *len), (fd, level, name, val, len), SYS_getsockopt)
CALL(int, listen, (int fd, int backlog), (fd, backlog), SYS_listen)
CALL(int, setsockopt, (int fd, int level, int name, const void *val, socklen_t len), (fd, level, name, val, len), SYS_setsockopt)
CALL(int, shutdown, (int fd, int how), (fd, how), SYS_shutdown)
CALL(int, socket, (int domain, int type, int protocol), (domain, type, protocol), SYS_socket)
CALL(int, socketpair, (int domain, int type, int protocol, int fds[2]), (domain, type, protocol, fds), SYS_socketpair)

/* io_read.c */
CALL(ssize_t, read, (int fd, void *buf, size_t len), (fd, buf, len), SYS_read)
CALL(ssize_t, preadv2, (int fd, const struct iovec *iov, int n, off_t at, int flags), (fd, iov, n, at, flags), -1)
CALL(ssize_t, preadv64v2, (int fd, const struct iovec *iov, int n, off64_t at, int flags), (fd, iov, n, at, flags), -1)
CALL(ssize_t, readv, (int fd, const struct iovec *iov, int n), (fd, iov, n), SYS_readv)
CALL(ssize_t, recv, (int fd, void *buf, size_t len, int flags), (fd, buf, len, flags), -1)
CALL(ssize_t, recvfrom, (int fd, void *buf, size_t len, int flags, struct sockaddr *from, socklen_t *from_len), (fd, buf, len, flags, from, from_len), SYS_recvfrom)
CALL(int, recvmmsg, (int fd, struct mmsghdr *msgs, unsigned n, int flags, struct timespec *timeout), (fd, msgs, n, flags, timeout), SYS_recvmmsg)
CALL(ssize_t, recvmsg, (int fd, struct msghdr *msg, int flags), (fd, msg, flags), SYS_recvmsg)
CALL(ssize_t, __read_chk, (int fd, void *buf, size_t len, size_t size), (fd, buf, len, size), SYS_read)
CALL(ssize_t, __recv_chk, (int fd, void *buf, size_t len, size_t size, int flags), (fd, buf, len, size, flags), -1)
CALL(ssize_t, __recvfrom_chk, (int fd, void *buf, size_t len, size_t size, int flags, struct sockaddr *from, socklen_t *from_len), (fd, buf, len, size, flags, from, from_len), -1)

/* io_write.c */
CALL(ssize_t, pwritev2, (int fd, const struct iovec *iov, int n, off_t at, int flags), (fd, iov, n, at, flags), -1)
CALL(ssize_t, pwritev64v2, (int fd, const struct iovec *iov, int n, off64_t at, int flags), (fd, iov, n, at, flags), -1)
CALL(ssize_t, send, (int fd, const void *buf, size_t len, int flags), (fd, buf, len, flags), -1)
CALL(int, sendmmsg, (int fd, struct mmsghdr *msgs, unsigned n, int flags), (fd, msgs, n, flags), SYS_sendmmsg)
CALL(ssize_t, sendmsg, (int fd, const struct msghdr *msg, int flags), (fd, msg, flags), SYS_sendmsg)
CALL(ssize_t, sendto, (int fd, const void *buf, size_t len, int flags, const struct sockaddr *to, socklen_t to_len), (fd, buf, len, flags, to, to_len), SYS_sendto)
CALL(ssize_t, write, (int fd, const void *buf, size_t len), (fd, buf, len), SYS_write)
CALL(ssize_t, writev, (int fd, const struct iovec *iov, int n), (fd, iov, n), SYS_writev)

/* io_file.c */
CALL(ssize_t, sendfile, (int out, int in, off_t *offset, size_t count), (out, in, offset, count), SYS_sendfile)
CALL(ssize_t, sendfile64, (int out, int in, off64_t *offset, size_t count), (out, in, offset, count), SYS_sendfile)
CALL(ssize_t, splice, (int in, off64_t *in_at, int out, off64_t *out_at, size_t len, unsigned flags), (in, in_at, out, out_at, len, flags), SYS_splice)

/* fd.c */
CALL(int, close, (int fd), (fd), SYS_close)
CALL(int, close_range, (unsigned first, unsigned last, int flags), (first, last, flags), SYS_close_range)
CALL(void, closefrom, (int first), (first), -1)
CALL(int, dup, (int fd), (fd), SYS_dup)
CALL(int, dup2, (int fd, int to), (fd, to), SYS_dup2)
CALL(int, dup3, (int fd, int to, int flags), (fd, to, flags), SYS_dup3)
CALL(int, fcntl, (int fd, int cmd, void *arg), (fd, cmd, arg), SYS_fcntl)
CALL(int, fcntl64, (int fd, int cmd, void *arg), (fd, cmd, arg), SYS_fcntl)
CALL(int, ioctl, (int fd, unsigned long cmd, void *arg), (fd, cmd, arg), SYS_ioctl)

/* poll.c */
CALL(int, poll, (struct pollfd *fds, nfds_t n, int timeout), (fds, n, timeout), SYS_poll)
CALL(int, ppoll, (struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask), (fds, n, timeout, mask), -1)
CALL(int, pselect, (int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *timeout, const sigset_t *mask), (n, r, w, e, timeout, mask), -1)
CALL(int, select, (int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *timeout), (n, r, w, e, timeout), SYS_select)
CALL(int, __poll_chk, (struct pollfd *fds, nfds_t n, int timeout, size_t size), (fds, n, timeout, size), SYS_poll)
CALL(int, __ppoll_chk, (struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask, size_t size), (fds, n, timeout, mask, size), -1)

/* epoll_calls.c */
CALL(int, epoll_create, (int size), (size), SYS_epoll_create)
CALL(int, epoll_create1, (int flags), (flags), SYS_epoll_create1)
CALL(int, epoll_ctl, (int epfd, int op, int fd, struct epoll_event *event), (epfd, op, fd, event), SYS_epoll_ctl)
CALL(int, epoll_pwait, (int epfd, struct epoll_event *events, int max, int timeout, const sigset_t *mask), (epfd, events, max, timeout, mask), -1)
CALL(int, epoll_pwait2, (int epfd, struct epoll_event *events, int max, const struct timespec *timeout, const sigset_t *mask), (epfd, events, max, timeout, mask), -1)
CALL(int, epoll_wait, (int epfd, struct epoll_event *events, int max, int timeout), (epfd, events, max, timeout), SYS_epoll_wait)

/* stdio.c */
CALL(FILE *, fdopen, (int fd, const char *mode), (fd, mode), -1)
CALL(FILE *, freopen, (const char *path, const char *mode, FILE *file), (path, mode, file), -1)
CALL(FILE *, freopen64, (const char *path, const char *mode, FILE *file), (path, mode, file), -1)

/* syscall.c */
CALL(long, syscall, (long nr, long a, long b, long c, long d, long e, long f), (nr, a, b, c, d, e, f), -1)

/* fork.c */
CALL(pid_t, _Fork, (void), (), -1)
CALL(pid_t, vfork, (void), (), -1)
CALL(pid_t, __vfork, (void), (), -1)

/* exec.c */
CALL(int, execl, (const char *path, const char *arg, void *rest), (path, arg, rest), -1)
CALL(int, execle, (const char *path, const char *arg, void *rest), (path, arg, rest), -1)
CALL(int, execlp, (const char *file, const char *arg, void *rest), (file, arg, rest), -1)
CALL(int, execv, (const char *path, char *const argv[]), (path, argv), -1)
CALL(int, execve, (const char *path, char *const argv[], char *const env[]), (path, argv, env), SYS_execve)
CALL(int, execveat, (int dir, const char *path, char *const argv[], char *const env[], int flags), (dir, path, argv, env, flags), SYS_execveat)
CALL(int, execvp, (const char *file, char *const argv[]), (file, argv), -1)
CALL(int, execvpe, (const char *file, char *const argv[], char *const env[]), (file, argv, env), -1)
CALL(int, fexecve, (int fd, char *const argv[], char *const env[]), (fd, argv, env), -1)

/* spawn.c */
CALL(FILE *, popen, (const char *command, const char *type), (command, type), -1)
CALL(int, posix_spawn, (pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr, char *const argv[], char *const env[]), (pid, path, actions, attr, argv, env), -1)
CALL(int, posix_spawnp, (pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr, char *const argv[], char *const env[]), (pid, file, actions, attr, argv, env), -1)
CALL(int, system, (const char *command), (command), -1)

/* exit.c */
CALL(void, _exit, (int status), (status), SYS_exit_group)
CALL(void, _Exit, (int status), (status), SYS_exit_group)
CALL(void, abort, (void), (), -1)

/* signal.c */
CALL(sighandler_t, bsd_signal, (int sig, sighandler_t handler), (sig, handler), -1)
CALL(int, sigaction, (int sig, const struct sigaction *act, struct sigaction *old), (sig, act, old), -1)
CALL(int, siginterrupt, (int sig, int interrupt), (sig, interrupt), -1)
CALL(sighandler_t, signal, (int sig, sighandler_t handler), (sig, handler), -1)
CALL(sighandler_t, ssignal, (int sig, sighandler_t handler), (sig, handler), -1)
CALL(sighandler_t, sysv_signal, (int sig, sighandler_t handler), (sig, handler), -1)
CALL(int, __sigaction, (int sig, const struct sigaction *act, struct sigaction *old), (sig, act, old), -1)
CALL(sighandler_t, __sysv_signal, (int sig, sighandler_t handler), (sig, handler), -1)

/* names.c */
CALL(int, setns, (int fd, int kind), (fd, kind), SYS_setns)
CALL(int, unshare, (int flags), (flags), SYS_unshare)
CALL(int, aio_read, (struct aiocb *request), (request), -1)
CALL(int, aio_read64, (struct aiocb64 *request), (request), -1)
CALL(int, aio_write, (struct aiocb *request), (request), -1)
CALL(int, aio_write64, (struct aiocb64 *request), (request), -1)
CALL(int, bindresvport, (int fd, struct sockaddr_in *addr), (fd, addr), -1)
CALL(int, lio_listio, (int mode, struct aiocb *const requests[], int n, struct sigevent *event), (mode, requests, n, event), -1)
CALL(int, lio_listio64, (int mode, struct aiocb64 *const requests[], int n, struct sigevent *event), (mode, requests, n, event), -1)
CALL(sighandler_t, sigset, (int sig, sighandler_t handler), (sig, handler), -1)
CALL(int, sockatmark, (int fd), (fd), -1)
CALL(int, __close, (int fd), (fd), SYS_close)
CALL(int, __connect, (int fd, const struct sockaddr *addr, socklen_t len), (fd, addr, len), SYS_connect)
CALL(int, __dup2, (int fd, int to), (fd, to), SYS_dup2)
CALL(int, __fcntl, (int fd, int cmd, void *arg), (fd, cmd, arg), SYS_fcntl)
CALL(int, __poll, (struct pollfd *fds, nfds_t n, int timeout), (fds, n, timeout), SYS_poll)
CALL(ssize_t, __read, (int fd, void *buf, size_t len), (fd, buf, len), SYS_read)
CALL(int, __select, (int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *timeout), (n, r, w, e, timeout), SYS_select)
CALL(ssize_t, __send, (int fd, const void *buf, size_t len, int flags), (fd, buf, len, flags), -1)
CALL(ssize_t, __write, (int fd, const void *buf, size_t len), (fd, buf, len), SYS_write)
CALL(FILE *, _IO_fdopen, (int fd, const char *mode), (fd, mode), -1)
CALL(FILE *, _IO_popen, (const char *command, const char *type), (command, type), -1)

/* privilege.c */
CALL(int, chroot, (const char *path), (path), SYS_chroot)
CALL(int, setresuid, (uid_t real, uid_t effective, uid_t set), (real, effective, set), SYS_setresuid)
CALL(int, setreuid, (uid_t real, uid_t effective), (real, effective), SYS_setreuid)
CALL(int, setuid, (uid_t id), (id), SYS_setuid)

/* inside.c */
CALL(void, backtrace_symbols_fd, (void *const *frames, int n, int fd), (frames, n, fd), -1)
CALL(int, daemon, (int stay_here, int keep_files), (stay_here, keep_files), -1)
CALL(int, forkpty, (int *master, char *name, const struct termios *modes, const struct winsize *size), (master, name, modes, size), -1)
CALL(int, getipv4sourcefilter, (int fd, in_addr_t interface, in_addr_t group, uint32_t *mode, uint32_t *n, struct in_addr *sources), (fd, interface, group, mode, n, sources), -1)
CALL(int, getsourcefilter, (int fd, uint32_t interface, const struct sockaddr *group, socklen_t len, uint32_t *mode, uint32_t *n, struct sockaddr_storage *sources), (fd, interface, group, len, mode, n, sources), -1)
CALL(void, herror, (const char *text), (text), -1)
CALL(int, login_tty, (int fd), (fd), -1)
CALL(void, perror, (const char *text), (text), -1)
CALL(int, setipv4sourcefilter, (int fd, in_addr_t interface, in_addr_t group, uint32_t mode, uint32_t n, const struct in_addr *sources), (fd, interface, group, mode, n, sources), -1)
CALL(int, setsourcefilter, (int fd, uint32_t interface, const struct sockaddr *group, socklen_t len, uint32_t mode, uint32_t n, const struct sockaddr_storage *sources), (fd, interface, group, len, mode, n, sources), -1)
CALL(void, __backtrace_symbols_fd, (void *const *frames, int n, int fd), (frames, n, fd), -1)
