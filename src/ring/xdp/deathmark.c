/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/xdp/deathmark.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/mman.h>

#include "base/mutex.h"
#include "base/sys.h"

_Static_assert(DEATHMARK_DIED == FUTEX_OWNER_DIED, "a copy for the XDP program");
_Static_assert(sizeof(struct deathmark_link) == sizeof(struct deathmark_word), "one distance");

/* As struct robust_list_head. */
static struct {
	struct deathmark_link *first;
	long distance; /* from a link to its word */
	void *pending; /* the lock that is about to be taken; not used here */
} head = {.distance = DEATHMARK_BYTES};

_Static_assert(sizeof(head) == sizeof(struct robust_list_head), "the kernel checks the size");

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards head, links and owner */
static uint32_t owner;					  /* thread number; 0: there is none */

static struct deathmark_link *end_of_list(void)
{
	return (struct deathmark_link *)(void *)&head;
}

static void set_word(struct deathmark_link *link)
{
	struct deathmark_word *word = (void *)((uint8_t *)link + DEATHMARK_BYTES);

	__atomic_store_n(&word->word, owner, __ATOMIC_RELAXED);
}

static void link_to(struct deathmark_link **at, struct deathmark_link *next)
{
	/* release: pairs with exit_robust_list() of the kernel, which follows *at at any moment */
	__atomic_store_n(at, next, __ATOMIC_RELEASE);
}

int deathmarks_map(struct deathmarks *marks, int fd)
{
	int prot = PROT_READ | PROT_WRITE;
	uint8_t *links = mmap(NULL, 2 * DEATHMARK_BYTES, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *words;
	long rc;

	if (links == MAP_FAILED)
		return -ENOMEM;
	words = links + DEATHMARK_BYTES;
	rc = sys_call(SYS_mmap, words, DEATHMARK_BYTES, prot, MAP_SHARED | MAP_FIXED, fd, 0);
	if (rc == (long)words)
		rc = sys_call(SYS_madvise, links, 2 * DEATHMARK_BYTES, MADV_DONTFORK, 0, 0, 0);
	if (rc) {
		munmap(links, 2 * DEATHMARK_BYTES);
		return (int)rc;
	}
	marks->links = (struct deathmark_link *)(void *)links;
	marks->words = (struct deathmark_word *)(void *)words;
	return 0;
}

void deathmarks_unmap(struct deathmarks *marks)
{
	if (!marks->links)
		return;
	for (unsigned i = 0; i < DEATHMARKS; i++)
		if (marks->links[i].next)
			deathmark_clear(marks, i);
	munmap(marks->links, 2 * DEATHMARK_BYTES);
	*marks = (struct deathmarks){0};
}

void deathmarks_begin(void)
{
	mutex_lock(&mutex);
	if (!head.first)
		link_to(&head.first, end_of_list());
	if (!sys_call(SYS_set_robust_list, &head, sizeof(head), 0, 0, 0, 0))
		owner = (uint32_t)sys_call(SYS_gettid, 0, 0, 0, 0, 0, 0);
	/* Words that are set name the thread that was the owner before. */
	for (struct deathmark_link *l = head.first; owner && l != end_of_list(); l = l->next)
		set_word(l);
	mutex_unlock(&mutex);
}

void deathmarks_end(void)
{
	mutex_lock(&mutex);
	owner = 0;
	sys_call(SYS_set_robust_list, NULL, sizeof(head), 0, 0, 0, 0);
	mutex_unlock(&mutex);
}

void deathmarks_forget(void)
{
	pthread_mutex_init(&mutex, NULL);
	head.first = NULL;
	owner = 0;
}

bool deathmark_set(const struct deathmarks *marks, unsigned i)
{
	struct deathmark_link *link = &marks->links[i];
	bool set;

	mutex_lock(&mutex);
	set = owner != 0;
	if (set && !link->next) {
		set_word(link);
		link->next = head.first;
		link_to(&head.first, link);
	}
	mutex_unlock(&mutex);
	return set;
}

void deathmark_clear(const struct deathmarks *marks, unsigned i)
{
	struct deathmark_link *link = &marks->links[i], **at = &head.first;

	mutex_lock(&mutex);
	while (link->next && *at != end_of_list() && *at != link)
		at = &(*at)->next;
	if (link->next && *at == link)
		link_to(at, link->next);
	link->next = NULL;
	__atomic_store_n(&marks->words[i].word, 0, __ATOMIC_RELAXED);
	mutex_unlock(&mutex);
}
