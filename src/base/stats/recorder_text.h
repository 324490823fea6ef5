/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records of the flight recorder as text, for `vma trace` and the log.
 *
 * Role		any thread; pure.  The recorder may be another process's, and contain anything:
 *		nothing is read beside it, and no byte is shown that is not printable.
 */
#ifndef BASE_STATS_RECORDER_TEXT_H
#define BASE_STATS_RECORDER_TEXT_H

#include "base/stats/recorder.h"
#include "base/stats/stats_text.h"

#define RECORDER_LINE 512
#define RECORDER_EVENT 192
#define RECORDER_WHO 160

/* Of a record; RECORD_NONE: it has none that is known. */
enum record_event record_event(const struct record *record);
/* The number of the socket; 0: the record has none. */
uint32_t record_sock(const struct record *record);
/* Of RECORD_DROP: the number of packets; else 1. */
uint32_t record_times(const struct record *record);
/* When, nsec since the recorder was made. */
uint64_t record_since(const struct recorder *recorder, const struct record *record);

/* "ring 3", "calls", or "sleeps". */
void recorder_area_text(unsigned area, char text[RECORDER_NAME]);

/* Who a socket is, as far as it is known. */
struct recorder_who {
	int fd; /* -1: unknown */
	char protocol[4];
	char local[STATS_ENDPOINT], remote[STATS_ENDPOINT]; /* "": unknown */
};
/* False: the recorder does not know the socket any more. */
bool recorder_who(const struct recorder *recorder, uint32_t sock, struct recorder_who *who);
/* As text: "fd 5 tcp 10.0.0.1:80 10.0.0.2:4000 #17". */
void recorder_who_text(const struct recorder *recorder, uint32_t sock, char text[RECORDER_WHO]);

/* "retransmit" and so on: a word for programs. */
const char *record_word(enum record_event event, char word[RECORDER_NAME]);
/* The event in words. */
void record_text(const struct recorder *recorder, const struct record *record,
		 char text[RECORDER_EVENT]);

/* All of it in one line.  False: there is nothing to show. */
bool recorder_line(const struct recorder *recorder, unsigned area, const struct record *record,
		   char text[RECORDER_LINE]);

#endif
