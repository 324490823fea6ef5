/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * thread_offload(): which threads make accelerated sockets.
 *
 * A thread has its setting itself.  What another thread said about it waits in a list until it
 * makes its next socket; a thread that never does leaves its entry there, and the next thread with
 * the same id takes it.
 */
#include <errno.h>
#include <pthread.h>

#include "base/list.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/param.h"
#include "intercept/extra.h"

enum setting { SETTING_NONE, SETTING_OFF, SETTING_ON };

struct order {
	struct list link;
	pthread_t tid;
	enum setting setting;
};

static __thread enum setting mine __attribute__((tls_model("initial-exec")));

static pthread_mutex_t orders_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list orders = {&orders, &orders}; /* orders_lock; the newest first */
static unsigned n_orders;			/* any, atomic; orders_lock to write */

/* orders_lock. NULL: none. */
static struct order *find_order(pthread_t tid)
{
	list_for_each(link, &orders) {
		struct order *order = container_of(link, struct order, link);

		if (pthread_equal(order->tid, tid))
			return order;
	}
	return NULL;
}

static void take_order(void)
{
	struct order *order;

	mutex_lock(&orders_lock);
	order = find_order(pthread_self());
	if (order) {
		mine = order->setting;
		list_remove(&order->link);
		__atomic_store_n(&n_orders, n_orders - 1, __ATOMIC_RELAXED);
	}
	mutex_unlock(&orders_lock);
	mem_free(order);
}

bool extra_offloads(void)
{
	/* Whoever ordered it tells this thread by other means that it may go on. */
	if (__atomic_load_n(&n_orders, __ATOMIC_RELAXED))
		take_order();
	return mine == SETTING_NONE ? params.offloaded_sockets : mine == SETTING_ON;
}

int extra_set_offload(bool offload, unsigned long tid)
{
	enum setting setting = offload ? SETTING_ON : SETTING_OFF;
	struct order *order, *unused;
	int rc = 0;

	if (pthread_equal(tid, pthread_self())) {
		take_order(); /* an older one */
		mine = setting;
		return 0;
	}
	unused = mem_zalloc(sizeof(*unused));
	mutex_lock(&orders_lock);
	order = find_order(tid);
	if (!order && unused) {
		order = unused;
		unused = NULL;
		order->tid = tid;
		list_push_front(&orders, &order->link);
		__atomic_store_n(&n_orders, n_orders + 1, __ATOMIC_RELAXED);
	}
	if (order)
		order->setting = setting;
	else
		rc = -ENOMEM;
	mutex_unlock(&orders_lock);
	mem_free(unused);
	return rc;
}

void extra_fork_child(void)
{
	pthread_mutex_init(&orders_lock, NULL);
	orders = (struct list){&orders, &orders};
	n_orders = 0;
	extra_rings_fork_child();
}
