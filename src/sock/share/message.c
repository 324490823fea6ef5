/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/share/message.h"

#define ANSWER(kind) (1u << MESSAGE_##kind)

#define AWAY (PLACE_ELSEWHERE | PLACE_THERE | PLACE_REQUESTED)

const struct message_rule message_rules[MESSAGE_KINDS] = {
	[MESSAGE_REQUEST] =
		{
			.name = "REQUEST",
			.senders = PLACE_REQUESTED | PLACE_MEMBER,
			.receivers = PLACE_ANY,
			.answers = ANSWER(EXPORT) | ANSWER(JOIN) | ANSWER(LOST),
		},
	[MESSAGE_EXPORT] =
		{
			.name = "EXPORT",
			.senders = PLACE_IN_TRANSIT,
			.receivers = PLACE_UNKNOWN | PLACE_THERE | PLACE_REQUESTED,
			.answers = ANSWER(ACK) | ANSWER(NACK),
		},
	[MESSAGE_ACK] =
		{
			.name = "ACK",
			.senders = PLACE_HERE,
			.receivers = PLACE_IN_TRANSIT,
			.closed = PLACE_IN_TRANSIT,
			.answers = ANSWER(CLOSED),
		},
	[MESSAGE_NACK] =
		{
			.name = "NACK",
			.senders = PLACE_ANY, /* shared_for_another() */
			.receivers = PLACE_IN_TRANSIT,
			.closed = PLACE_IN_TRANSIT,
			.answers = ANSWER(STAYS) | ANSWER(TO_KERNEL) | ANSWER(LOST),
		},
	[MESSAGE_CLOSED] =
		{
			.name = "CLOSED",
			.senders = PLACE_UNKNOWN | PLACE_THERE | PLACE_REQUESTED | PLACE_MEMBER,
			.receivers = PLACE_UNKNOWN | PLACE_HERE | PLACE_ELSEWHERE |
				     PLACE_IN_TRANSIT | PLACE_MEMBER,
			.closed = PLACE_ANY,
		},
	[MESSAGE_OFFER] =
		{
			.name = "OFFER",
			/* UNKNOWN: a datagram socket that was connected after the fork. */
			.senders = PLACE_UNKNOWN | PLACE_HERE | PLACE_MEMBER,
			.receivers = PLACE_UNKNOWN | PLACE_THERE | PLACE_REQUESTED | PLACE_MEMBER,
			.answers = ANSWER(REQUEST) | ANSWER(JOIN) | ANSWER(CLOSED) | ANSWER(OFFER) |
				   ANSWER(PENDING) | ANSWER(TO_KERNEL),
		},
	[MESSAGE_LOST] =
		{
			.name = "LOST",
			.senders = PLACE_ANY, /* shared_for_another() */
			.receivers = PLACE_UNKNOWN | PLACE_HERE | AWAY | PLACE_MEMBER,
			.closed = PLACE_ANY,
			.answers = ANSWER(JOIN) | ANSWER(TO_KERNEL),
		},
	[MESSAGE_JOIN] =
		{
			.name = "JOIN",
			.senders = PLACE_UNKNOWN | PLACE_MEMBER, /* as OFFER */
			.receivers = PLACE_UNKNOWN | PLACE_MEMBER,
			.answers = ANSWER(JOIN) | ANSWER(OFFER) | ANSWER(PENDING) | ANSWER(CLOSED) |
				   ANSWER(TO_KERNEL),
		},
	[MESSAGE_PENDING] =
		{
			.name = "PENDING",
			.senders = PLACE_UNKNOWN | PLACE_MEMBER,
			.receivers = PLACE_UNKNOWN | PLACE_MEMBER,
			.closed = PLACE_ANY,
			.answers = ANSWER(RECEIVED) | ANSWER(PENDING) | ANSWER(JOIN) |
				   ANSWER(TO_KERNEL),
		},
	[MESSAGE_RECEIVED] =
		{
			.name = "RECEIVED",
			.senders = PLACE_UNKNOWN | PLACE_MEMBER,
			.receivers = PLACE_ANY, /* and a MESSAGE_PENDING is there */
			.closed = PLACE_ANY,
		},
	[MESSAGE_REROUTE] =
		{
			.name = "REROUTE",
			.of_channel = true,
		},
	[MESSAGE_INVENTORY] =
		{
			.name = "INVENTORY",
			.senders = PLACE_THERE | PLACE_MEMBER,
			.receivers = PLACE_ANY,
		},
	[MESSAGE_INVENTORY_END] =
		{
			.name = "INVENTORY_END",
			.of_channel = true,
		},
	[MESSAGE_CLAIM] =
		{
			.name = "CLAIM",
			.of_channel = true,
		},
	[MESSAGE_TO_KERNEL] =
		{
			.name = "TO_KERNEL",
			.senders = PLACE_ANY,
			.receivers = PLACE_UNKNOWN | PLACE_THERE | PLACE_REQUESTED | PLACE_MEMBER,
			.answers = ANSWER(CLOSED) | ANSWER(TO_KERNEL),
		},
	[MESSAGE_STAYS] =
		{
			.name = "STAYS",
			.senders = PLACE_UNKNOWN | PLACE_HERE,
			.receivers = PLACE_UNKNOWN | PLACE_THERE | PLACE_REQUESTED,
		},
	[MESSAGE_LATE] =
		{
			.name = "LATE",
			.senders = PLACE_ANY,
			.receivers = PLACE_ANY,
			.closed = PLACE_ANY, /* the sender closed it after it exported it */
		},
};
