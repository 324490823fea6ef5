/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/options/ring_option.h"

#include <errno.h>
#include <string.h>

#include "sock/core/extra/profile.h"
#include "vma_test.h"

#define KEY VMA_RING_ALLOC_MASK_RING_PROFILE_KEY
#define USER VMA_RING_ALLOC_MASK_RING_USER_ID
#define IN VMA_RING_ALLOC_MASK_RING_INGRESS
#define OUT VMA_RING_ALLOC_MASK_RING_ENGRESS

static void test_the_option_is_what_programs_are_compiled_with(void **state)
{
	struct vma_ring_alloc_logic_attr attr = {.ingress = 1};
	uint32_t words[5];

	assert_int_equal(SO_VMA_RING_ALLOC_LOGIC, 2810);
	assert_int_equal(KEY | USER << 4 | IN << 8 | OUT << 12, 0x8421);
	assert_int_equal(sizeof(attr), 20);
	assert_int_equal(offsetof(struct vma_ring_alloc_logic_attr, ring_alloc_logic), 4);
	assert_int_equal(offsetof(struct vma_ring_alloc_logic_attr, ring_profile_key), 8);
	assert_int_equal(offsetof(struct vma_ring_alloc_logic_attr, user_id), 12);
	memcpy(words, &attr, sizeof(words));
	assert_int_equal(words[4], 1);
	attr.ingress = 0;
	attr.engress = 1;
	memcpy(words, &attr, sizeof(words));
	assert_int_equal(words[4], 2);
}

static const struct option {
	const char *what;
	uint32_t mask, logic, profile, user;
	bool ingress, engress;
	int rc;
	bool set_rx, set_tx;
	uint32_t user_id; /* the option is set */
} options[] = {
	{"both sides", IN | OUT, 20, 0, 0, 1, 1, 0, 1, 1, 0},
	{"receive", IN, 20, 0, 0, 1, 0, 0, 1, 0, 0},
	{"send", OUT, 20, 0, 0, 0, 1, 0, 0, 1, 0},
	{"a flag that the mask does not cover", IN, 20, 0, 0, 1, 1, 0, 1, 0, 0},
	{"a mask whose flag is off", IN | OUT, 20, 0, 0, 0, 1, 0, 0, 1, 0},
	{"no side in the mask", 0, 20, 0, 0, 1, 1, 0, 0, 0, 0},
	{"no side's flag", IN | OUT, 20, 0, 0, 0, 0, 0, 0, 0, 0},
	{"every logic", IN, 0, 0, 0, 1, 0, 0, 1, 0, 0},
	{"every logic", IN, 1, 0, 0, 1, 0, 0, 1, 0, 0},
	{"every logic", IN, 10, 0, 0, 1, 0, 0, 1, 0, 0},
	{"every logic", IN, 30, 0, 0, 1, 0, 0, 1, 0, 0},
	{"every logic", IN, 31, 0, 0, 1, 0, 0, 1, 0, 0},
	{"a user id", IN | OUT | USER, 11, 0, 7, 1, 1, 0, 1, 1, 7},
	{"user id 0", IN | USER, 11, 0, 0, 1, 0, 0, 1, 0, 0},
	{"no user id", IN, 11, 0, 7, 1, 0, -EINVAL, 0, 0, 0},
	{"no user id, no side", 0, 11, 0, 7, 0, 0, -EINVAL, 0, 0, 0},
	{"the profile that is none", IN | KEY, 20, 0, 0, 1, 0, 0, 1, 0, 0},
	{"a profile", IN | OUT | KEY, 20, 1, 0, 1, 1, 0, 1, 1, 0},
	{"a profile that was not added", IN | KEY, 20, 3, 0, 1, 0, -EINVAL, 0, 0, 0},
	{"a direct ring to send", OUT | KEY, 20, 2, 0, 0, 1, 0, 0, 1, 0},
	{"a direct ring to receive", IN | KEY, 20, 2, 0, 1, 0, -EOPNOTSUPP, 0, 0, 0},
	{"a direct ring for both", IN | OUT | KEY, 20, 2, 0, 1, 1, -EOPNOTSUPP, 0, 0, 0},
	{"a profile that the mask does not cover", IN, 20, 1, 0, 1, 0, 0, 1, 0, 0},
	{"no logic of the list", IN, 2, 0, 0, 1, 0, -EINVAL, 0, 0, 0},
	{"no logic of the list", IN, 32, 0, 0, 1, 0, -EINVAL, 0, 0, 0},
	{"no logic of the list", IN, 256 + 20, 0, 0, 1, 0, -EINVAL, 0, 0, 0},
	{"no logic of the list", IN, UINT32_MAX, 0, 0, 1, 0, -EINVAL, 0, 0, 0},
	{"an unknown bit", IN | 16, 20, 0, 0, 1, 0, -EINVAL, 0, 0, 0},
	{"an unknown bit", IN | 1u << 31, 20, 0, 0, 1, 0, -EINVAL, 0, 0, 0},
};

static const struct ring_alloc before = {.logic = RING_LOGIC_SOCKET, .user_id = 99};

static void check_side(const struct option *o, const struct ring_alloc *side, bool set, bool want)
{
	assert_int_equal(set, want);
	assert_int_equal(side->logic, want ? (int)o->logic : before.logic);
	assert_int_equal(side->user_id, want ? o->user_id : before.user_id);
	assert_int_equal(side->profile, want && o->mask & KEY && o->profile == 1);
	assert_int_equal(side->direct, want && o->mask & KEY && o->profile == 2);
}

static void test_the_option_sets_the_sides_it_names(void **state)
{
	struct vma_ring_type_attr packet = {.ring_type = VMA_RING_PACKET};
	struct vma_ring_type_attr external = {.ring_type = VMA_RING_EXTERNAL_MEM};

	assert_int_equal(profile_add(&packet), 1);
	assert_int_equal(profile_add(&external), 2);
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		const struct option *o = &options[i];
		struct vma_ring_alloc_logic_attr attr = {
			.comp_mask = o->mask,
			.ring_alloc_logic = o->logic,
			.ring_profile_key = o->profile,
			.user_id = o->user,
			.ingress = o->ingress,
			.engress = o->engress,
			.reserved = 0x2aaaaaaa, /* any value from the stack */
		};
		struct ring_alloc rx = before, tx = before;
		bool set_rx = false, set_tx = false;
		uint8_t odd[1 + sizeof(attr)];
		int rc;

		memcpy(odd + 1, &attr, sizeof(attr));
		rc = ring_option_read(odd + 1, sizeof(attr), &rx, &tx, &set_rx, &set_tx);
		if (rc != o->rc)
			fail_msg("%s: %d instead of %d", o->what, rc, o->rc);
		check_side(o, &rx, set_rx, o->set_rx);
		check_side(o, &tx, set_tx, o->set_tx);
	}
}

static void test_the_option_has_one_size(void **state)
{
	struct vma_ring_alloc_logic_attr attr[2] = {{.comp_mask = IN, .ingress = 1}};
	struct ring_alloc rx = before, tx = before;
	bool set_rx = true, set_tx = true;

	for (size_t len = 0; len <= sizeof(attr); len++) {
		if (len == sizeof(attr[0]))
			continue;
		assert_int_equal(ring_option_read(attr, len, &rx, &tx, &set_rx, &set_tx), -EINVAL);
	}
	assert_int_equal(ring_option_read(NULL, sizeof(attr[0]), &rx, &tx, &set_rx, &set_tx),
			 -EINVAL);
	/* The call wrote nothing. */
	assert_int_equal(rx.logic, before.logic);
	assert_int_equal(rx.user_id, before.user_id);
	assert_int_equal(tx.logic, before.logic);
	assert_int_equal(tx.user_id, before.user_id);
	assert_true(set_rx && set_tx);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_the_option_is_what_programs_are_compiled_with),
	cmocka_unit_test(test_the_option_sets_the_sides_it_names),
	cmocka_unit_test(test_the_option_has_one_size),
};

VMA_TEST_MAIN("ring_option", tests, NULL, NULL)
