/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writers reserve, fill and commit records of a ring; any of them is killed at any time; the
 * reader delivers, passes over, and skips.  Spin searches every interleaving: record_test.sh.  The
 * code is src/ring/local/record_ring.c, the steps have the same names; record_quick.h does the same
 * steps where there is nothing to describe and no hole.
 *
 * Checked: no cell is written that the reader has not given back; a delivered record is whole, of
 * one writer, and no record of a writer overtakes another of it; what was committed is delivered
 * once; the reader never finds what cannot be; when all have ended, all cells are given back.
 *
 * Variants, by -D: WRITERS=n; RECORDS=n, of each; DEATHS=n.
 *
 * Every other name in an #ifdef or #ifndef leaves one step out, or makes it wrong: Spin must find
 * what goes wrong then.  And it must reach what is marked as of interest.
 *
 * Left out: lengths (the tests have them); a limit below the capacity.  The cells of a record are
 * filled in one step, and its writer saw the head when it read the tail: an older head is a
 * smaller one.
 */

#ifndef WRITERS
#define WRITERS 2
#endif
#ifndef RECORDS
#define RECORDS 2
#endif
#ifndef DEATHS
#define DEATHS 0
#endif

#define reach(n) c_code { static int once; if (!once++) printf("reach %d\n", n); }

#define CELLS	4
#define HOLES	2
#define at(p)	((p) % CELLS)
#define lap(p)	((p) / CELLS)

mtype = { RESERVED, COMMITTED };

/* ---- shared memory; the fields of a word are accessed in one step -------------------- */

byte tail = CELLS, tail_n, tail_w;
byte head = CELLS;
byte w_lap[CELLS], w_n[CELLS], w_w[CELLS];
mtype w_state[CELLS];
byte cell[CELLS];	/* record of a writer: 16 * writer + number */

bool killed[WRITERS];
bool gone[WRITERS];	/* the reader can know */
byte ended;		/* writers */

/* ---- what we know, and the code does not ----------------------------------------------- */

byte committed, delivered;

/* ---- writer ---------------------------------------------------------------------------- */

inline describe()
{
	old = w_lap[at(f)];
	if
#ifdef NO_DESCRIBE
	:: true
#elif defined(NO_LAP)
	:: tn && old != lap(f) ->
		atomic {
			if
			:: w_lap[at(f)] == old ->
				w_lap[at(f)] = lap(f); w_state[at(f)] = RESERVED;
				w_n[at(f)] = tn; w_w[at(f)] = tw
			:: else
			fi
		}
#else
	:: tn && old < lap(f) ->
		atomic {
			if
#ifdef NO_COMPARE
			:: true ->
#else
			:: w_lap[at(f)] == old ->
#endif
				w_lap[at(f)] = lap(f); w_state[at(f)] = RESERVED;
				w_n[at(f)] = tn; w_w[at(f)] = tw;
				reach(1)
#ifndef NO_COMPARE
			:: else -> reach(2)
#endif
			fi
		}
#endif
	:: else
	fi
}

proctype writer(byte me)
{
	byte k, n, t, tn, tw, h, f, old;

	{
		do
		:: k == RECORDS -> break
		:: k < RECORDS ->
			atomic { k++; n = 1 + (me + k) % 2 }
again:			atomic {
				t = tail; tn = tail_n; tw = tail_w; h = head;
				f = t - tn;
				if
				:: t + n - h > CELLS -> reach(3); goto dropped
				:: else
				fi
			}
			describe();
			atomic {
				if
				:: tail == t -> tail = t + n; tail_n = n; tail_w = me
				:: else -> goto again
				fi
			}
			atomic {
				assert(t >= head && t + n <= head + CELLS);
				cell[at(t)] = 16 * me + k;
				if
				:: n == 2 -> cell[at(t + 1)] = 16 * me + k
				:: n == 1
				fi
			}
			atomic {
				w_lap[at(t)] = lap(t); w_state[at(t)] = COMMITTED;
				w_n[at(t)] = n; w_w[at(t)] = me;
				committed++
			}
dropped:		atomic { n = 0; t = 0; tn = 0; tw = 0; h = 0; f = 0; old = 0 }
		od
	} unless { killed[me] };
	atomic {
		if
		:: killed[me] -> gone[me] = true
		:: else
		fi;
		ended++
	}
}

proctype death()
{
	if
	:: DEATHS > 0 -> killed[0] = true
	:: skip
	fi;
	if
	:: DEATHS > 1 -> killed[1] = true
	:: skip
	fi
}

/* ---- reader ---------------------------------------------------------------------------- */

byte next = CELLS;
byte hole[HOLES], hole_n[HOLES], hole_w[HOLES];
byte holes;
bool dead[WRITERS];
byte last[WRITERS];

inline publish_head()
{
#ifdef HEAD_PAST_HOLES
	head = next
#else
	head = (holes -> hole[0] : next)
#endif
}

/* The cells of the record are the reader's alone. */
inline deliver(p, n)
{
	d_step {
		id = cell[at(p)];
		assert(id != 0 && (n < 2 || cell[at(p + 1)] == id));
		assert(id % 16 > last[id / 16]);
		last[id / 16] = id % 16;
		delivered++;
		id = 0
	}
}

inline remove_hole(i)
{
	atomic {
		holes--;
		if
		:: i < holes -> hole[i] = hole[i + 1]; hole_n[i] = hole_n[i + 1]; hole_w[i] = hole_w[i + 1]
		:: else
		fi;
		hole[holes] = 0; hole_n[holes] = 0; hole_w[holes] = 0
	}
}

#define is_committed(i) \
	(w_lap[at(hole[i])] == lap(hole[i]) && w_state[at(hole[i])] != RESERVED)

/* The first committed hole, or holes. */
inline find_hole()
{
	atomic { found = holes; i = 0 }
	do
	:: atomic { i == found -> i = 0; break }
	:: atomic {
		i < found ->
		if
		:: is_committed(i) -> found = i
		:: else -> i++
		fi
	   }
	od
}

inline look_at_holes()
{
	find_hole();
	if
	:: atomic {
		found < holes ->
		reach(4);
		deliver(hole[found], hole_n[found]);
		remove_hole(found);
		publish_head();
		some = true;
		found = 0
	   }
	:: atomic {
		found == holes ->
		i = holes;
		do
		:: i > 0 ->
			i--;
			if
#ifndef KEEP_GONE
			:: dead[hole_w[i]] && !is_committed(i) -> remove_hole(i); reach(5)
#endif
			:: else
			fi
		:: i == 0 -> break
		od;
		publish_head();
		found = 0
	   }
	fi
}

inline pass(n, w)
{
	if
	:: dead[w] -> reach(6)
	:: else -> hole[holes] = next; hole_n[holes] = n; hole_w[holes] = w; holes++; reach(7)
	fi;
	next = next + n
}

/* Nothing more to look at: none. */
inline look_at_next()
{
	/* the word */
	atomic {
		wn = w_n[at(next)]; ww = w_w[at(next)];
		assert(w_lap[at(next)] <= lap(next));
		if
		:: w_lap[at(next)] < lap(next) -> step = 1
		:: w_lap[at(next)] == lap(next) && w_state[at(next)] == RESERVED -> pass(wn, ww)
		:: w_lap[at(next)] == lap(next) && w_state[at(next)] != RESERVED -> step = 2
		fi
	}
	if
	:: step == 2 ->
#ifndef NEXT_FIRST
		if
		:: holes -> look_at_holes()
		:: else
		fi;
#endif
		atomic {
			if
			:: !some -> deliver(next, wn); next = next + wn; publish_head(); some = true
			:: else
			fi
		}
	:: step == 1 ->
		/* the tail, then the word again */
		atomic {
			wn = tail_n; ww = tail_w; wt = tail;
			if
			:: wt == next -> none = true; step = 0
			:: else -> assert(wt > next && wt - head <= CELLS)
			fi
		}
		atomic {
			if
			:: !step
			:: step && w_lap[at(next)] == lap(next) -> reach(8)
			:: else -> assert(wn && wt - wn == next); pass(wn, ww); reach(9)
			fi
		}
	:: step == 0
	fi;
	atomic { step = 0; wn = 0; ww = 0; wt = 0 }
}

proctype reader()
{
	byte i, found, id, step, wn, ww, wt;
	bool some, none, all;

	do
	:: true ->
		atomic {
			all = ended == WRITERS;
			dead[0] = gone[0];
			dead[1] = gone[1];
			some = false;
			none = false
		}
		if
		:: holes -> look_at_holes()
		:: else
		fi;
		do
		:: some || none || holes == HOLES -> break
		:: !some && !none && holes < HOLES -> look_at_next()
		od;
		if
		:: !some && all -> break
		:: else
		fi
	od;
	/* Holes of the dead that came last. */
	some = false;
	if
	:: holes -> look_at_holes()
	:: else
	fi;
	publish_head();
	assert(holes == 0 && head == tail);
	assert(delivered == committed);
	reach(10)
}

init {
	byte w;

	atomic {
		do
		:: w < WRITERS -> run writer(w); w++
		:: w == WRITERS -> break
		od;
		run death();
		run reader()
	}
}
