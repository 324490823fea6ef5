/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ring profiles, settings of rings, direct rings, and memory for frames (vma_extra.h).  What needs a card
 * is refused on a host that has none.
 */
#include <mellanox/vma_extra.h>

#include <string.h>

#include "base/frame/frame_mem.h"
#include "base/log.h"
#include "base/user.h"
#include "intercept/extra.h"
#include "intercept/wrap.h"
#include "sock/core/extra/direct.h"
#include "sock/core/extra/profile.h"

uint64_t extra_direct_mask(void)
{
	return direct_available()
		       ? VMA_EXTRA_API_GET_RING_DIRECT_DESCRIPTORS |
				 VMA_EXTRA_API_REGISTER_MEMORY_ON_RING |
				 VMA_EXTRA_API_DEREGISTER_MEMORY_ON_RING | VMA_EXTRA_API_MODIFY_RING
		       : 0;
}

/* Each name is told once. */
#define NEEDS_CARD(name)                                                                        \
	do {                                                                                    \
		if (direct_available())                                                         \
			break;                                                                  \
		log_warn_once(name "() of the extra API is not available on this host's "       \
				   "ports, it needs a card; it fails with EOPNOTSUPP, and its " \
				   "bit in vma_extra_supported_mask is clear");                 \
		return (int)to_libc(-EOPNOTSUPP, errno);                                        \
	} while (0)

int extra_add_ring_profile(struct vma_ring_type_attr *profile, int *key)
{
	struct vma_ring_type_attr attr;
	int saved = errno, rc;

	if (user_read(&attr, profile, sizeof(attr)))
		return (int)to_libc(-EFAULT, saved);
	if (attr.ring_type == VMA_RING_EXTERNAL_MEM)
		NEEDS_CARD("vma_add_ring_profile, with VMA_RING_EXTERNAL_MEM,");
	rc = profile_add(&attr);
	if (rc > 0)
		rc = user_write(key, &rc, sizeof(rc)) ? -EFAULT : 0;
	return (int)to_libc(rc, saved);
}

/* The direct ring that fd is a descriptor of. */
static int direct_of(int fd, struct direct_id *id)
{
	int rc = extra_ring_id(fd, id);

	if (rc)
		return rc;
	return id->life ? 0 : -EOPNOTSUPP;
}

int extra_direct_descriptors(int fd, struct vma_mlx_hw_device_data *data)
{
	struct vma_mlx_hw_device_data found;
	struct direct_id id;
	int saved = errno, rc;

	NEEDS_CARD("get_ring_direct_descriptors");
	rc = direct_of(fd, &id);
	if (!rc)
		rc = direct_describe(id, &found);
	if (!rc && user_write(data, &found, sizeof(found)))
		rc = -EFAULT;
	return (int)to_libc(rc, saved);
}

int extra_register_memory(int fd, void *addr, size_t length, uint32_t *key)
{
	struct direct_id id;
	int saved = errno, rc;
	uint32_t found;

	NEEDS_CARD("register_memory_on_ring");
	rc = direct_of(fd, &id);
	if (!rc)
		rc = direct_register(id, addr, length, &found);
	if (!rc && user_write(key, &found, sizeof(found))) {
		direct_deregister(id, addr, length);
		rc = -EFAULT;
	}
	return (int)to_libc(rc, saved);
}

int extra_deregister_memory(int fd, void *addr, size_t length)
{
	struct direct_id id;
	int saved = errno, rc;

	NEEDS_CARD("deregister_memory_on_ring");
	rc = direct_of(fd, &id);
	if (!rc)
		rc = direct_deregister(id, addr, length);
	return (int)to_libc(rc, saved);
}

int extra_modify_ring(struct vma_modify_ring_attr *attr)
{
	struct vma_modify_ring_attr copy;
	struct direct_id id;
	int saved = errno, rc;

	NEEDS_CARD("vma_modify_ring");
	if (user_read(&copy, attr, sizeof(copy)))
		return (int)to_libc(-EFAULT, saved);
	rc = extra_ring_id(copy.ring_fd, &id);
	if (!rc)
		rc = direct_modify(id, &copy);
	return (int)to_libc(rc, saved);
}

/* ---- memory for frames --------------------------------------------------------------------- */

static int set_user_alloc(const struct vma_cmsg_ioctl_user_alloc_t *data)
{
	const uint8_t known = VMA_IOCTL_USER_ALLOC_FLAG_TX | VMA_IOCTL_USER_ALLOC_FLAG_RX;

	if (!data->flags || data->flags & ~known)
		return -EINVAL;
	return frame_mem_set_user(data->memalloc, data->memfree);
}

int extra_ioctl(void *cmsg_hdr, size_t cmsg_len)
{
	struct vma_cmsg_ioctl_user_alloc_t data;
	struct cmsghdr head;
	int saved = errno, rc = -EINVAL;

	if (cmsg_len < CMSG_LEN(sizeof(data)))
		return (int)to_libc(-EINVAL, saved);
	if (user_read(&head, cmsg_hdr, sizeof(head)) ||
	    user_read(&data, CMSG_DATA((struct cmsghdr *)cmsg_hdr), sizeof(data)))
		return (int)to_libc(-EFAULT, saved);
	if (head.cmsg_level == SOL_SOCKET && head.cmsg_type == CMSG_VMA_IOCTL_USER_ALLOC &&
	    head.cmsg_len == CMSG_LEN(sizeof(data)))
		rc = set_user_alloc(&data);
	return (int)to_libc(rc, saved);
}
