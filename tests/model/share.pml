/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Three processes share a connection: 0 and 2 are neighbours of 1.  Their programs call, close,
 * exit, are killed, and imports fail.  Spin searches every order of events: share_test.sh.  The
 * rules are src/sock/share/share_machine.c, its states, messages and functions are named as here.
 *
 * Checked: at most one process has the connection; what was read is read once, whoever reads on;
 * the last close sends the FIN, once, and none before it does; the connection is reset only
 * if its owner was killed, or the process between; when nothing more can happen, no program waits, no request is left, and
 * what all have closed has ended.  Each event happens a bounded number of times, so that is
 * progress, too.
 *
 * Variants, by -D: CALLS=n, n calls of each program; CLOSES, programs close; EXITS, the
 * processes at the ends exit in order; DEATHS=n, so many are killed; FAILS=n, so many imports
 * fail, and the kernel cannot take the connection.
 *
 * Every other name in an #ifdef or #ifndef leaves one rule out, or makes it wrong: Spin must find
 * what goes wrong then.  And it must reach what is marked as of interest.
 *
 * Left out: time (a connection stays until the program that waits for it has used it; pauses are
 * no longer than that); a process that exits between two others (tests/sim/share_test has that);
 * kernel handover; members; a want that a channel without memory loses.
 */

#ifndef CALLS
#define CALLS 1
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef FAILS
#define FAILS 0
#endif

#define reach(n) c_code { static int once; if (!once++) printf("reach %d\n", n); }

#define N 3
#define NONE 3
#define at(me, n) ((me) * N + (n))

mtype = { REQUEST, EXPORT, ACK, NACK, CLOSED, OFFER, LOST, STAYS, ENDED };
chan q[9] = [7] of { mtype, byte, bool }; /* from, to: kind, what was read, reset */

/* States of a process; GONE: it knows no such connection, or is no more. */
#define GONE		0
#define HERE		1
#define EXPORTED	2
#define REQUESTED	3
#define IN_TRANSIT	4
#define away(me)	(state[me] >= EXPORTED)
byte state[N];
byte toward[N];
bool closed[N];		/* by the program; kept for others */
bool offered[N];
bool exiting[N];
bool dead[N];		/* killed, or its process has ended */
bool want[9];		/* me has a request of n */
bool ended[9];		/* me's channel to n has ended, or there is none */
bool told[9];		/* n's side has closed it, as me knows */

byte have[N];		/* bytes read, in the snapshot that me has or had */
bool reset[N];		/* it is the copy of a connection whose owner is gone */

bool waits[N];
byte calls[N];
byte deaths, fails, fins, read_bytes;
bool lost;

#define holds(me, n)	(n != NONE && !ended[at(me, n)] && !told[at(me, n)])
#define open(me)	(state[me] != GONE && !closed[me] && !reset[me])

inline send(me, n, kind)
{
	if
	:: ended[at(me, n)] -> skip
	:: else -> assert(nfull(q[at(me, n)])); q[at(me, n)]!kind, have[me], reset[me]
	fi
}

/* shared_other_holder(): of the two that are not me, in their order */
#define first(me)	(me == 0 -> 1 : 0)
#define second(me)	(me == 2 -> 1 : 2)
#define other_holder(me, but) \
	(holds(me, first(me)) && first(me) != but -> first(me) : \
	 (holds(me, second(me)) && second(me) != but -> second(me) : NONE))

inline drop(me)
{
	if
	:: state[me] == HERE && !reset[me] ->
		fins++;
		assert(fins == 1);
		/* A killed process between us may have had news of others. */
		assert(deaths || !(open(first(me)) || open(second(me))))
	:: else -> skip
	fi;
	state[me] = GONE;
	toward[me] = NONE;
	waits[me] = false
}

#ifdef SETTLE_IN_TRANSIT
#define must_not_settle(me) false
#else
#define must_not_settle(me) (state[me] == IN_TRANSIT)
#endif

inline settle(me)
{
	if
	:: !closed[me] || state[me] == GONE -> skip
	:: closed[me] && must_not_settle(me) -> reach(1)
	:: closed[me] && state[me] == HERE ->
		if
		:: other_holder(me, NONE) == NONE -> drop(me)
		:: else -> skip
		fi
	:: closed[me] && away(me) && !must_not_settle(me) ->
		if
		:: other_holder(me, toward[me]) == NONE ->
#ifndef NO_CLOSED
			send(me, toward[me], CLOSED);
#endif
			drop(me)
		:: else -> skip
		fi
	fi
}

inline lose(me)
{
	toward[me] = NONE;
	if
	:: closed[me] ->
		reach(2);
		if
		:: holds(me, first(me)) -> send(me, first(me), LOST)
		:: else -> skip
		fi;
		if
		:: holds(me, second(me)) -> send(me, second(me), LOST)
		:: else -> skip
		fi;
		state[me] = GONE
	:: else ->
		assert(lost);
		state[me] = HERE;
		reset[me] = true
	fi
}

/* shared_request() */
inline request(me)
{
	if
	:: state[me] == EXPORTED ->
		state[me] = REQUESTED;
		send(me, toward[me], REQUEST)
	:: else -> skip
	fi
}

/* shared_serve(): a request of n that can be answered now */
#ifdef SERVE_IN_TRANSIT
#define may_export(me)	((state[me] == HERE || state[me] == IN_TRANSIT) && !waits[me])
#else
#define may_export(me)	(state[me] == HERE && !waits[me])
#endif
#define may_serve(me, n) (want[at(me, n)] && (!holds(me, n) || state[me] == GONE || may_export(me) || \
	(away(me) && (toward[me] == n -> state[me] != IN_TRANSIT : state[me] == EXPORTED))))

inline serve(me, n)
{
	if
	:: !holds(me, n) -> want[at(me, n)] = false; reach(3)
	:: holds(me, n) && state[me] == GONE ->
		want[at(me, n)] = false;
		send(me, n, LOST)
	:: holds(me, n) && may_export(me) ->
		want[at(me, n)] = false;
		send(me, n, EXPORT);
#ifndef NO_REVERSE
		toward[me] = n;
#endif
		state[me] = IN_TRANSIT
	:: holds(me, n) && away(me) && !may_export(me) && toward[me] == n ->
		want[at(me, n)] = false
	:: holds(me, n) && away(me) && !may_export(me) && toward[me] != n -> request(me); reach(4)
	fi
}

inline arrive(me, bytes, dropped)
{
	have[me] = bytes;
	reset[me] = dropped;
	assert(reset[me] || !((state[0] == HERE && me != 0 && !reset[0]) ||
			      (state[1] == HERE && me != 1 && !reset[1]) ||
			      (state[2] == HERE && me != 2 && !reset[2])));
	state[me] = HERE;
	toward[me] = NONE
}

inline take_back(me)
{
	arrive(me, have[me], reset[me]);
	settle(me)
}

#ifdef LOSE_IN_TRANSIT
#define comes_back(me)	false
#else
#define comes_back(me)	(state[me] == IN_TRANSIT)
#endif

/* ENDED is the end of the channel. */
inline receive(me, n)
{
	q[at(n, me)]?kind, bytes, was_reset;
	if
	:: kind == REQUEST -> want[at(me, n)] = true
	:: kind == EXPORT ->
		if
		:: away(me) && toward[me] == n ->
			assert(state[me] != IN_TRANSIT);
			if
			:: arrive(me, bytes, was_reset); send(me, n, ACK); settle(me)
			:: fails < FAILS && state[me] == REQUESTED ->
				fails++;
				reach(5);
				send(me, n, NACK)
			fi
		:: else -> assert(state[me] == GONE); send(me, n, NACK); reach(6)
		fi
	:: kind == ACK ->
		assert(state[me] == IN_TRANSIT && toward[me] == n);
		state[me] = EXPORTED;
#ifdef ACK_DROPS
		if
		:: closed[me] && other_holder(me, n) == NONE -> drop(me)
		:: else -> settle(me)
		fi
#else
		settle(me)
#endif
	:: kind == NACK ->
		assert(state[me] == IN_TRANSIT && toward[me] == n);
		if
		:: !holds(me, n) -> offered[me] = false
		:: else -> skip
		fi;
		take_back(me);
#ifndef NO_STAYS
		if
		:: state[me] == HERE && holds(me, n) -> send(me, n, STAYS)
		:: else -> skip
		fi
#endif
	:: kind == STAYS ->
		if
		:: state[me] == REQUESTED && toward[me] == n ->
			state[me] = EXPORTED;
			waits[me] = false /* the call fails */
		:: else -> skip
		fi
	:: kind == CLOSED ->
		assert(state[me] == GONE || toward[me] != n || state[me] == IN_TRANSIT);
#ifndef FORGET_CLOSED
		told[at(me, n)] = true;
#endif
		settle(me);
		if
		:: state[me] == HERE -> offered[me] = false
		:: else -> skip
		fi
	:: kind == OFFER ->
		if
		:: state[me] == GONE -> send(me, n, CLOSED)
		:: else ->
			assert(toward[me] == n && state[me] != IN_TRANSIT);
			request(me)
		fi
	:: kind == LOST ->
#ifndef FORGET_LOST
		told[at(me, n)] = true;
#endif
		if
		:: away(me) && toward[me] == n && state[me] != IN_TRANSIT -> lose(me)
		:: else -> settle(me)
		fi
	:: kind == ENDED ->
		ended[at(me, n)] = true;
		want[at(me, n)] = false;
		if
		:: !away(me) || toward[me] != n -> settle(me)
		:: away(me) && toward[me] == n && comes_back(me) -> take_back(me); reach(7)
		:: away(me) && toward[me] == n && !comes_back(me) -> lose(me)
		fi
	fi;
	kind = 0; bytes = 0; was_reset = false
}

/* The process is no more: what it sent arrives, and then the end of each channel. */
inline end_process(me)
{
	if
	:: ended[at(me, first(me))] -> skip
	:: else -> q[at(me, first(me))]!ENDED, 0, false
	fi;
	if
	:: ended[at(me, second(me))] -> skip
	:: else -> q[at(me, second(me))]!ENDED, 0, false
	fi;
	dead[me] = true;
	closed[me] = true;
	waits[me] = false;
	state[me] = GONE;
	toward[me] = NONE;
	reset[me] = false;
	want[at(me, first(me))] = false;
	want[at(me, second(me))] = false
}

/* shared_exit(): what others hold is to be given to them; all that is left to do is done */
#define nothing_left(me) (state[me] == GONE || \
	(state[me] != IN_TRANSIT && other_holder(me, toward[me]) == NONE) || \
	(away(me) && state[me] != IN_TRANSIT && offered[me]))

proctype process(byte me)
{
	mtype kind;
	byte bytes;
	bool was_reset;
	byte heir;

end:	do
	/* messages */
	:: atomic { !dead[me] && nempty(q[at(first(me), me)]) -> receive(me, first(me)) }
	:: atomic { !dead[me] && nempty(q[at(second(me), me)]) -> receive(me, second(me)) }
	:: atomic { !dead[me] && may_serve(me, first(me)) -> serve(me, first(me)) }
	:: atomic { !dead[me] && may_serve(me, second(me)) -> serve(me, second(me)) }
	/* nobody reads what is sent to a process that is no more */
	:: atomic { dead[me] && nempty(q[at(first(me), me)]) ->
		q[at(first(me), me)]?kind, bytes, was_reset; kind = 0; bytes = 0; was_reset = false }
	:: atomic { dead[me] && nempty(q[at(second(me), me)]) ->
		q[at(second(me), me)]?kind, bytes, was_reset; kind = 0; bytes = 0; was_reset = false }
	/* the program */
	:: atomic { !dead[me] && !closed[me] && !waits[me] && calls[me] < CALLS ->
		calls[me]++; waits[me] = true }
	:: atomic { waits[me] && state[me] == EXPORTED -> request(me) }
	:: atomic { waits[me] && state[me] == HERE ->
		waits[me] = false;
		if
		:: reset[me] -> skip
		:: else ->
			assert(have[me] == read_bytes);
			read_bytes++;
			have[me]++
		fi }
#ifdef CLOSES
	:: atomic { !dead[me] && !closed[me] && !waits[me] && state[me] != GONE &&
		calls[me] == CALLS -> closed[me] = true; settle(me) }
#endif
#ifdef EXITS
	:: atomic { !dead[me] && me != 1 && !exiting[me] && !waits[me] && calls[me] == CALLS ->
		exiting[me] = true;
		closed[me] = true;
		settle(me) }
	:: atomic { !dead[me] && exiting[me] && state[me] == HERE && !offered[me] &&
		other_holder(me, NONE) != NONE ->
		offered[me] = true;
		reach(8);
		heir = other_holder(me, NONE);
		send(me, heir, OFFER);
		heir = 0 }
	:: atomic { !dead[me] && exiting[me] && nothing_left(me) ->
		assert(state[me] != HERE);
		end_process(me) }
#endif
	:: atomic { !dead[me] && deaths < DEATHS ->
		deaths++;
		if
		:: state[me] == HERE || me == 1 || (state[me] == IN_TRANSIT && FAILS) -> lost = true
		:: else -> skip
		fi;
		reach(9);
		end_process(me) }
	od
}

#define idle(me) (!waits[me] && !want[at(me, first(me))] && !want[at(me, second(me))] && \
	state[me] != IN_TRANSIT && (!closed[me] || state[me] == GONE || \
	 open(first(me)) || open(second(me))))

init {
	atomic {
		ended[at(0, 2)] = true;
		ended[at(2, 0)] = true;
		state[0] = EXPORTED; toward[0] = 1;
		state[1] = HERE; toward[1] = NONE;
		state[2] = EXPORTED; toward[2] = 1;
		run process(0); run process(1); run process(2)
	}
	timeout;
	/* Nothing more can happen. */
	assert(idle(0) && idle(1) && idle(2));
	assert(deaths || !reset[0] && !reset[1] && !reset[2]);
#ifdef CLOSES
	assert(deaths || fins == 1);
#endif
	assert(!lost || fins <= 1);
	reach(10)
}
