/* SPDX-License-Identifier: BSD-2-Clause */
/* What the card is asked to match, byte for byte; tests/mlx5 has what it does then. */
#include <arpa/inet.h>

#include "ring/mlx5/mlx5_internal.h"
#include "vma_test.h"

static struct mlx5_port port = {.base.mac = {2, 0, 0, 0, 0, 1}, .name.port = 3};

static struct inaddr addr_of(const char *text)
{
	struct inaddr a;

	if (!strchr(text, ':'))
		return addr_v4(inet_addr(text));
	assert_int_equal(inet_pton(AF_INET6, text, &a), 1);
	return a;
}

static struct flow_key key_of(uint8_t proto, const char *local, const char *remote)
{
	struct flow_key key = {.local = addr_of(local), .local_port = htons(80), .proto = proto};

	if (remote) {
		key.remote = addr_of(remote);
		key.remote_port = htons(1000);
	}
	return key;
}

/* The specifications in turn, as an aligned copy that holds until the next call. */
static const void *next_spec(const struct mlx5_match *match, size_t *at, unsigned type, size_t size)
{
	static struct ibv_flow_spec spec;

	assert_true(size <= sizeof(spec));
	memcpy(&spec, (const uint8_t *)&match->attr + *at, size);
	assert_int_equal(spec.hdr.type, type);
	assert_int_equal(spec.hdr.size, size);
	*at += size;
	return &spec;
}

static void check_eth(const struct mlx5_match *match, size_t *at, const uint8_t mac[6])
{
	const struct ibv_flow_spec_eth *eth = next_spec(match, at, IBV_FLOW_SPEC_ETH, sizeof(*eth));

	assert_memory_equal(eth->val.dst_mac, mac, 6);
	assert_memory_equal(eth->mask.dst_mac, "\xff\xff\xff\xff\xff\xff", 6);
}

static void check_ip6(const struct mlx5_match *match, size_t *at, const struct flow_key *key)
{
	static const uint8_t none[16], all[16] = {255, 255, 255, 255, 255, 255, 255, 255,
						  255, 255, 255, 255, 255, 255, 255, 255};
	const struct ibv_flow_spec_ipv6 *ip = next_spec(match, at, IBV_FLOW_SPEC_IPV6, sizeof(*ip));
	bool exact = key->remote_port != 0;

	assert_memory_equal(ip->val.dst_ip, &key->local, 16);
	assert_memory_equal(ip->mask.dst_ip, all, 16);
	assert_memory_equal(ip->val.src_ip, exact ? (const void *)&key->remote : none, 16);
	assert_memory_equal(ip->mask.src_ip, exact ? all : none, 16);
	assert_int_equal(ip->mask.flow_label | ip->mask.next_hdr | ip->mask.traffic_class |
				 ip->mask.hop_limit,
			 0);
}

static void check_ports(const struct mlx5_match *match, size_t *at, unsigned type,
			const struct flow_key *key)
{
	const struct ibv_flow_spec_tcp_udp *l4 = next_spec(match, at, type, sizeof(*l4));

	assert_int_equal(l4->val.dst_port, key->local_port);
	assert_int_equal(l4->mask.dst_port, 0xffff);
	assert_int_equal(l4->val.src_port, key->remote_port);
	assert_int_equal(l4->mask.src_port, key->remote_port ? 0xffff : 0);
}

static void test_a_connection_of_ip6(void **state)
{
	struct flow_key key = key_of(IPPROTO_TCP, "fd09::1", "2001:db8::7");
	struct mlx5_match match;
	size_t at = sizeof(match.attr);

	mlx5_match_of(&port, &key, false, 5, &match);
	check_eth(&match, &at, port.base.mac);
	check_ip6(&match, &at, &key);
	check_ports(&match, &at, IBV_FLOW_SPEC_TCP, &key);
	next_spec(&match, &at, IBV_FLOW_SPEC_ACTION_TAG, sizeof(struct ibv_flow_spec_action_tag));
	assert_int_equal(match.attr.num_of_specs, 4);
	assert_int_equal(match.attr.size, at);
	assert_true(at <= sizeof(match));
	assert_int_equal(match.attr.port, 3);
	assert_int_equal(match.attr.priority, 0);
}

static void test_a_receiver_of_ip6(void **state)
{
	struct flow_key key = key_of(IPPROTO_UDP, "fe80::1", NULL);
	struct mlx5_match match;
	size_t at = sizeof(match.attr);

	mlx5_match_of(&port, &key, true, 0, &match);
	check_eth(&match, &at, port.base.mac);
	check_ip6(&match, &at, &key);
	check_ports(&match, &at, IBV_FLOW_SPEC_UDP, &key);
	assert_int_equal(match.attr.num_of_specs, 3);
	assert_int_equal(match.attr.priority, 5); /* after all connections */
}

static void test_a_receiver_of_ip4(void **state)
{
	struct flow_key key = key_of(IPPROTO_UDP, "10.9.0.1", "10.9.0.2");
	const struct ibv_flow_spec_ipv4 *ip;
	struct mlx5_match match;
	size_t at = sizeof(match.attr);

	mlx5_match_of(&port, &key, false, 0, &match);
	check_eth(&match, &at, port.base.mac);
	ip = next_spec(&match, &at, IBV_FLOW_SPEC_IPV4, sizeof(*ip));
	assert_int_equal(ip->val.dst_ip, inet_addr("10.9.0.1"));
	assert_int_equal(ip->val.src_ip, inet_addr("10.9.0.2"));
	assert_int_equal(ip->mask.src_ip, UINT32_MAX);
	check_ports(&match, &at, IBV_FLOW_SPEC_UDP, &key);
}

static void test_groups(void **state)
{
	static const uint8_t mac4[6] = {0x01, 0, 0x5e, 1, 2, 3};
	static const uint8_t mac6[6] = {0x33, 0x33, 0, 1, 0, 5};
	static const struct {
		const char *group, *same, *other;
		const uint8_t *mac;
	} rows[] = {
		{"239.1.2.3", "238.129.2.3", "239.1.2.4", mac4},
		{"ff15::1:5", "ff05:9::1:5", "ff15::2:5", mac6},
	};

	for (size_t i = 0; i < 2; i++) {
		struct flow_key key = key_of(IPPROTO_UDP, rows[i].group, NULL);
		struct flow_key same = key_of(IPPROTO_UDP, rows[i].same, NULL);
		struct flow_key other = key_of(IPPROTO_UDP, rows[i].other, NULL);
		struct mlx5_match match;
		size_t at = sizeof(match.attr);

		mlx5_match_of(&port, &key, false, 0, &match);
		check_eth(&match, &at, rows[i].mac);
		assert_int_equal(match.attr.num_of_specs, 3);
		/* All groups of one Ethernet address. */
		key = mlx5_group_key(&key);
		same = mlx5_group_key(&same);
		other = mlx5_group_key(&other);
		assert_true(flow_key_eq(&key, &same));
		assert_false(flow_key_eq(&key, &other));
		assert_true(addr_is_multicast(&key.local));
		mlx5_match_of(&port, &key, false, 0, &match);
		at = sizeof(match.attr);
		check_eth(&match, &at, rows[i].mac);
		assert_int_equal(match.attr.num_of_specs, 1);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_connection_of_ip6),
	cmocka_unit_test(test_a_receiver_of_ip6),
	cmocka_unit_test(test_a_receiver_of_ip4),
	cmocka_unit_test(test_groups),
};

VMA_TEST_MAIN("mlx5_rule", tests, NULL, NULL)
