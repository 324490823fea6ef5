/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/tcp/tcp_sndbuf.h"

#include <assert.h>
#include <string.h>

#include "base/user.h"
#include "net/tcp/tcp.h"

/* Moves the data to a ring of size bytes; false without memory. */
static bool resize(struct tcp_sndbuf *sb, const struct tcp_ops *ops, uint32_t size)
{
	uint32_t first = sb->size - sb->head;
	uint8_t *data = ops->alloc(size);

	if (!data)
		return false;
	if (sb->len) {
		if (first > sb->len)
			first = sb->len;
		memcpy(data, sb->data + sb->head, first);
		memcpy(data + first, sb->data, sb->len - first);
	}
	if (sb->data)
		ops->free(sb->data);
	sb->data = data;
	sb->size = size;
	sb->head = 0;
	return true;
}

uint32_t tcp_sndbuf_reserve(struct tcp_sndbuf *sb, const struct tcp_ops *ops, uint32_t want,
			    uint32_t limit)
{
	uint32_t size = sb->size ? sb->size : TCP_SNDBUF_FIRST;

	if (limit <= sb->len)
		return 0;
	if (want > limit - sb->len)
		want = limit - sb->len;
	if (sb->len + want <= sb->size)
		return want;
	while (size < sb->len + want)
		size *= 2;
	if (resize(sb, ops, size))
		return want;
	return sb->size - sb->len;
}

bool tcp_sndbuf_append(struct tcp_sndbuf *sb, const struct iovec *iov, int iovcnt, uint32_t len)
{
	uint32_t tail, n, first, before = sb->len;

	assert(len <= sb->size - sb->len);
	for (int i = 0; i < iovcnt && len; i++) {
		n = iov[i].iov_len < len ? (uint32_t)iov[i].iov_len : len;
		if (n == 0)
			continue;
		tail = (sb->head + sb->len) & (sb->size - 1);
		first = sb->size - tail < n ? sb->size - tail : n;
		if (!user_copy(sb->data + tail, iov[i].iov_base, first) ||
		    (first < n &&
		     !user_copy(sb->data, (const uint8_t *)iov[i].iov_base + first, n - first))) {
			sb->len = before;
			return false;
		}
		sb->len += n;
		len -= n;
	}
	assert(len == 0);
	return true;
}

void tcp_sndbuf_parts(const struct tcp_sndbuf *sb, uint32_t offset, uint32_t len,
		      struct tcp_segment *seg)
{
	uint32_t at, first;

	seg->len = len;
	seg->part[1].data = NULL;
	seg->part[1].len = 0;
	if (len == 0) {
		seg->part[0].len = 0;
		return;
	}
	assert(offset + len <= sb->len);
	at = (sb->head + offset) & (sb->size - 1);
	first = sb->size - at < len ? sb->size - at : len;
	seg->part[0].data = sb->data + at;
	seg->part[0].len = first;
	if (first < len) {
		seg->part[1].data = sb->data;
		seg->part[1].len = len - first;
	}
}

void tcp_sndbuf_fini(struct tcp_sndbuf *sb, const struct tcp_ops *ops)
{
	if (sb->data)
		ops->free(sb->data);
	*sb = (struct tcp_sndbuf){0};
}
