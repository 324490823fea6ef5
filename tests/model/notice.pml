/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A writer publishes bytes of two connections and posts notices; the reader sleeps when there is
 * nothing; the writer is killed at any time.  Spin searches every interleaving: notice_test.sh.
 * The code is src/ring/local/notice.h, the steps have the same names.
 *
 * Memory is that of x86: stores wait in a buffer of their processor, and arrive in their order;
 * loads overtake them.  A locked instruction and a fence wait until the buffer is empty;
 * membarrier() empties those of both sides.
 *
 * Checked: when nothing more can happen, the reader has read all that was published; after a
 * death, all that was published before it, and then it has ended.
 *
 * Variants, by -D: POSTS=n; DEATHS=1; FENCED: without membarrier(), both sides fence.
 *
 * Every other name in an #ifdef or #ifndef leaves one step out, or makes it wrong: Spin must find
 * what goes wrong then.  And it must reach what is marked as of interest.
 */

#ifndef POSTS
#define POSTS 3
#endif
#ifndef DEATHS
#define DEATHS 0
#endif

#define reach(n) c_code { static int once; if (!once++) printf("reach %d\n", n); }

#define SLOTS 2

/* ---- memory ------------------------------------------------------------------------ */

byte tail[2];	/* of each connection, which is also a group */
byte posted;
byte slot[SLOTS];
byte group[2];
bool armed;

byte wake;	/* the eventfd */
bool killed;	/* the writer executes nothing more */
bool told;	/* the pidfd is readable */

#define TAIL	0
#define SLOT	2
#define GROUP	4
#define POSTED	6
chan writer_stores = [8] of { byte, byte };
chan reader_stores = [2] of { bool };

inline arrive(what, value)
{
	if
	:: what < SLOT -> tail[what] = value
	:: what >= SLOT && what < GROUP -> slot[what - SLOT] = value
	:: what >= GROUP && what < POSTED -> group[what - GROUP] = value
	:: what == POSTED -> posted = value
	fi
}

proctype memory()
{
	byte what, value;
	bool flag;

end:	do
	:: atomic { writer_stores?what, value -> arrive(what, value); what = 0; value = 0 }
	:: atomic { reader_stores?flag -> armed = flag; flag = false }
	od
}

/* ---- writer ------------------------------------------------------------------------ */

byte sent[2];

inline look_at_armed()
{
#if defined(FENCED) && !defined(NO_FENCE)
	empty(writer_stores);
#endif
	saw = armed
}

proctype writer()
{
	byte n, c;
	bool saw;

	{
		do
		:: n == POSTS -> break
		:: n < POSTS ->
			if
			:: c = 0
			:: c = 1
			fi;
			atomic { sent[c]++; writer_stores!TAIL + c, sent[c] }
#ifdef LOOK_FIRST
			look_at_armed();
#endif
#ifdef POSTED_FIRST
			writer_stores!POSTED, n + 1;
#endif
			writer_stores!SLOT + n % SLOTS, c;
			writer_stores!GROUP + c, n + 1;
#ifndef POSTED_FIRST
			writer_stores!POSTED, n + 1;
#endif
			n++;
#ifndef LOOK_FIRST
			look_at_armed();
#endif
			if
			:: saw ->
				/* a locked exchange */
				atomic {
					empty(writer_stores) ->
					saw = armed;
					armed = false
				}
				if
				:: saw -> wake = 1
				:: else -> reach(7)
				fi
			:: else
			fi;
			c = 0
		od
	} unless { killed }
}

/* The kernel kills it, and what it had stored arrives before anybody hears of it. */
proctype death()
{
	if
	:: DEATHS -> killed = true; empty(writer_stores); told = true
	:: skip
	fi
}

/* ---- reader ------------------------------------------------------------------------ */

byte have[2];

inline look(c)
{
	have[c] = tail[c]
}

inline take_groups()
{
	reach(3);
	if
#ifndef NO_GROUPS
	:: group[0] > seen -> look(0)
#endif
	:: else
	fi;
	if
#ifndef NO_GROUPS
	:: group[1] > seen -> look(1)
#endif
	:: else
	fi
}

/* p was read from posted, and is not seen. */
inline take()
{
	if
	:: p - seen > SLOTS -> take_groups()
	:: else ->
		i = seen;
		do
		:: i < p -> hear[slot[i % SLOTS]] = true; i++
		:: i == p -> break
		od;
		i = posted;
		if
#ifdef NO_SECOND_LOOK
		:: false
#elif defined(LOOK_TOO_LATE)
		:: i - seen > SLOTS -> take_groups()
#else
		:: i - seen >= SLOTS -> take_groups(); reach(6)
#endif
		:: else ->
			if
			:: hear[0] -> look(0)
			:: else
			fi;
			if
			:: hear[1] -> look(1)
			:: else
			fi
		fi;
		hear[0] = false;
		hear[1] = false;
		i = 0
	fi;
	seen = p
}

/* Arms, and makes it visible. */
inline arm()
{
	reader_stores!true;
#ifdef FENCED
	empty(reader_stores)
#elif defined(NO_BARRIER)
	skip
#elif defined(OWN_FENCE)
	empty(reader_stores)	/* membarrier() of the wrong kind: this processor only */
#else
	atomic { empty(reader_stores) && empty(writer_stores) }
#endif
}

proctype reader()
{
	byte seen, p, i;
	bool hear[2];

	do
	:: atomic { p = posted };
		if
		:: p != seen -> take()
		:: p == seen && told -> break
		:: p == seen && !told ->
#ifdef LOOK_BEFORE_ARMING
			p = posted;
			arm();
#else
			arm();
			p = posted;
#endif
			if
#ifndef NO_LOOK
			:: p != seen -> reach(4)
#endif
			:: else ->
end:				if
				:: wake -> reach(2)
				:: told -> reach(5)
				fi
			fi;
			reader_stores!false;
			wake = 0
		fi;
		p = 0
	od;
#ifndef NO_LAST_LOOK
	/* Its death was told: what it had published, also without a notice. */
	look(0);
	look(1);
#endif
	reach(8);
	assert(have[0] == tail[0] && have[1] == tail[1])
}

init {
	atomic { run memory(); run writer(); run death(); run reader() }
	timeout;
	/* Nothing more can happen. */
	assert(have[0] == tail[0] && have[1] == tail[1]);
	reach(1)
}
