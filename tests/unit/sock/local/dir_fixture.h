/* SPDX-License-Identifier: BSD-2-Clause */
/* The directory of local endpoints below a base of its own, open during each case. */
#ifndef TESTS_UNIT_SOCK_LOCAL_DIR_FIXTURE_H
#define TESTS_UNIT_SOCK_LOCAL_DIR_FIXTURE_H

#include "sock/local/local_dir.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "sock/core/control.h"
#include "vma_test.h"

static char base[64], inside[128];

static inline bool nobody_is_dead(uint64_t process)
{
	return false;
}

static inline void open_it(void)
{
	struct stat st;

	assert_int_equal(local_dir_open(base, nobody_is_dead), 0);
	assert_int_equal(stat("/proc/self/ns/net", &st), 0);
	snprintf(inside, sizeof(inside), "%s/local3-%lu", base, (unsigned long)st.st_ino);
}

static inline int setup(void **state)
{
	strcpy(base, "/dev/shm/local-dir-test-XXXXXX");
	assert_non_null(mkdtemp(base));
	assert_true(control_lock());
	open_it();
	return 0;
}

static inline int teardown(void **state)
{
	char command[128];

	local_dir_close();
	control_unlock();
	snprintf(command, sizeof(command), "rm -rf %s", base);
	return system(command);
}

static inline struct local_place place_of(enum local_proto proto, const char *addr, uint16_t port)
{
	struct local_place place = {.proto = proto, .at.port = htons(port)};
	struct in_addr in;

	if (inet_pton(AF_INET, addr, &in) == 1)
		place.at.addr = addr_v4(in.s_addr);
	else
		assert_int_equal(inet_pton(AF_INET6, addr, &place.at.addr), 1);
	return place;
}

static inline void add(enum local_proto proto, const char *addr, uint16_t port, uint64_t process,
		       uint32_t socket)
{
	struct local_place place = place_of(proto, addr, port);
	struct local_entry entry = {.process = process, .socket = socket};

	assert_int_equal(local_dir_add(&place, &entry), 0);
}

static inline unsigned find(enum local_proto proto, const char *addr, uint16_t port,
			    struct local_entry found[LOCAL_MEMBERS])
{
	struct local_place to = place_of(proto, addr, port), at;

	return local_dir_find(&to, &at, found);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
