/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sealed memory: a memfd whose size no process can change, so that an access to a mapping of it
 * cannot go past its end (SIGBUS).
 *
 * Role		any thread.
 * Lifetime	the memory is free when the last descriptor is closed and the last mapping is gone.
 */
#ifndef BASE_SEALED_H
#define BASE_SEALED_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Creates one of size bytes, zeroed and not resident; name: what /proc/PID/fd shows.  Returns a
 * hidden descriptor (base/sys.h) that the caller closes, or -errno; -EFBIG: the process may not
 * have files of this size (RLIMIT_FSIZE).
 */
int sealed_create(const char *name, size_t size);

#define SEALED_ANY_NODE (-1)

/*
 * The same, with pages of a kind.
 * huge: huge pages, all of them allocated now, because one that is missing later is a SIGBUS; size
 * is then a multiple of theirs.  -ENOMEM, -ENOSPC: there are too few.
 * node: the NUMA node that the pages come from while it has free ones, whichever process touches
 * them first (set_mempolicy(2): MPOL_PREFERRED); SEALED_ANY_NODE: as the kernel decides.  A node
 * that does not exist is ignored.
 */
int sealed_create_pages(const char *name, size_t size, bool huge, int node);

/* The size in bytes of such memory; 0: fd is none, a process could still shrink or grow it. */
size_t sealed_size(int fd);
bool sealed_is_huge(int fd);

#endif
