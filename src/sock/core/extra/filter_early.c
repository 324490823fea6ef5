/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive callbacks of TCP sockets that have no connection yet.  Each connection that the socket begins
 * gets the callback.  That of a listener is for nothing: its sockets have their own.
 *
 * Role		control lock.
 * Lifetime	an entry stays until the callback is taken back, or its socket is closed: the next call finds
 *		out.
 */
#include <errno.h>

#include "base/mem.h"
#include "sock/core/control.h"
#include "sock/core/extra/filter.h"
#include "sock/core/kind.h"

struct early {
	struct list link;
	struct sock_ref ref;
	int fd;
	vma_recv_callback_t callback;
	void *context;
};

static struct list all = {&all, &all};

static void forget(struct early *e)
{
	list_remove(&e->link);
	mem_free(e);
}

static struct early *find(struct sock_ref ref)
{
	list_for_each_safe(link, &all) {
		struct early *e = container_of(link, struct early, link);

		if (e->ref.sk == ref.sk && e->ref.gen == ref.gen)
			return e;
		if (!sock_ref_valid(e->ref))
			forget(e);
	}
	return NULL;
}

/* early: the socket has no connection.  Otherwise only one that is here is changed. */
static int note(struct sock_ref ref, int fd, vma_recv_callback_t callback, void *context,
		bool early)
{
	struct early *e = find(ref);

	if (e && !callback) {
		forget(e);
		return 0;
	}
	if (!e && !early)
		return 0;
	if (!e) {
		e = mem_zalloc(sizeof(*e));
		if (!e)
			return -ENOMEM;
		e->ref = ref;
		list_push_back(&all, &e->link);
	}
	e->fd = fd;
	e->callback = callback;
	e->context = context;
	return 0;
}

static int register_stream(struct sock_ref ref, int fd, vma_recv_callback_t callback, void *context)
{
	bool early;
	int rc;

	if (!control_lock()) /* no connection begins meanwhile */
		return -EAGAIN;
	rc = filter_try_register(ref, fd, callback, context, &early);
	if (!rc || early)
		rc = note(ref, fd, callback, context, early);
	control_unlock();
	return rc;
}

int filter_register(struct sock_ref ref, int fd, vma_recv_callback_t callback, void *context)
{
	bool stream = sock_kind_made(ref.sk)->filter->check, early;
	int rc;

	do {
		rc = stream ? register_stream(ref, fd, callback, context)
			    : filter_try_register(ref, fd, callback, context, &early);
		if (rc != SOCK_FETCH)
			return rc;
		rc = sock_upcalls.fetch(ref, 0);
	} while (!rc);
	return rc;
}

int filter_connect(struct inet_sock *so)
{
	struct early *e = list_empty(&all) ? NULL : find(sock_ref_of(so));
	struct filter *f;
	int rc;

	control_assert_held();
	if (!e)
		return 0;
	f = mem_zalloc(sizeof(*f));
	rc = filter_begin(so, f, e->fd, e->callback, e->context);
	if (rc)
		mem_free(f);
	return rc;
}

void filter_early_fork_child(void)
{
	while (!list_empty(&all))
		forget(container_of(all.next, struct early, link));
}
