/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A socket S moves from one ring to another, and back, while frames arrive, threads poll
 * the rings, and a thread closes S and uses the object again.  Spin searches every
 * interleaving: move_test.sh.  The code is src/sock/move/move.c, its steps have the same names.
 *
 * Checked: no frame that was looked up for S is lost, repeated or (UDP) reordered; none
 * reaches another socket; no thread waits for a ring while it holds one; all processes
 * end; nothing is left in an inbox or in the map of the port; a thread that reads the home
 * of S, and holds that ring, finds S complete: nothing is parked, timers are armed.
 *
 * Variants, one of these by -D:
 *	UDP	a socket with one flow, on its home.  It ends under the control lock.
 *	TCP	a connection.  Its program closes it under the control lock; then it
 *		continues and moves, and the holder of its home may end it at any
 *		time, without that lock.
 *	WIDE	UDP; frames arrive by a flow on a third ring C, which has no other
 *		ring: it stays and forwards.
 *	OTHER	UDP; frames arrive by a flow of another interface, which moves from C to D
 *		while home moves from A to B.
 *	STAYS	UDP; the port refuses to steer the flow, so it stays where it is when
 *		home moves, and forwards until home returns.
 *
 * POLLERS: the process that closes also polls; too large for every run.
 *
 * Every other name in an #ifdef or #ifndef leaves out one step, or does it in a wrong way:
 * Spin must find the error.  Spin must also reach the places marked with reach(), otherwise
 * the search proves nothing.
 *
 * Left out: an inbox is a queue here (a stack that is taken as a whole and reversed is
 * a queue; tests/concurrency/ring tests the stack itself); loads and stores are in order,
 * because the fences of ring.h and hold.h order them where it matters; the receive queue of
 * S is the order in which frames reach input().  A call that ends a move itself
 * (sock_move_settle()) is a mover that kept the control lock.  What S sends.
 */

#ifndef FRAMES
#define FRAMES 3
#endif
#ifndef MOVES
#define MOVES 2
#endif

/* Spin reaches this place. */
#define reach(n) c_code { static int once; if (!once++) printf("reach %d\n", n); }

/* ---- rings ------------------------------------------------------------------------ */

#define A	0
#define B	1
#define C	2
#define D	3
#define NONE	7	/* no ring: the kernel */
#define bit(r)	(1 << (r))

#if defined(OTHER)
#define RINGS	4
#define FIRST	C			/* the ring of the flow in the beginning */
#define TARGET	(C + D - flow_ring)	/* the ring that it moves to */
#elif defined(WIDE)
#define RINGS	3
#define FIRST	C
#define TARGET	C
#else
#define RINGS	2
#define FIRST	A
#define TARGET	into
#endif

#define FREE	255
byte holder[RINGS] = FREE;

/* Items: a frame for S, wherever its home is; S itself. */
mtype = { FORWARD, ARRIVE };
chan inbox[RINGS] = [FRAMES + 1] of { mtype, byte, byte }; /* what, frame, generation */
chan rx[RINGS] = [FRAMES] of { byte };

/* ---- the flow of S ------------------------------------------------------------------ */

mtype = { ABSENT, REAL, STANDIN };
mtype flow[RINGS] = ABSENT;
bool steered[RINGS];	/* the entry in the map belongs to this flow, and ends with it */
byte flow_ring = FIRST;	/* control lock */
chan parked = [FRAMES] of { byte };

/* ---- the steering map, frames on their way from there to a queue ------------------- */

byte map = FIRST;
chan late[RINGS] = [FRAMES] of { byte };

/* ---- S ------------------------------------------------------------------------------ */

byte home = A;
byte gen = 0;
bool open = true;	/* the program has the socket */
bool alive = true;	/* the object is in use */
bool timer[RINGS];	/* the ring has its timer and its work */
byte control = FREE;

/* ---- the move (control lock) ----------------------------------------------------------- */

bool moving;		/* the move of S is under way */
byte move_gen;
byte move_from;		/* the old home */
byte part_from, part_to;

/* ---- what we know, and the code does not ----------------------------------------------- */

byte sent;		/* number of frames that were looked up so far */
byte since;		/* frames from here on are for the present S */
byte got;		/* bits of frames that S received */
#define NEVER	254

/* A frame ends here: it must be for a socket that has ended. */
#define dropped(f) assert(f < since)

/* holder of home: into the receive queue. */
inline input(f)
{
	assert(alive && home == mine && holder[mine] == _pid);
	if
	:: !open -> dropped(f)
	:: else ->
		assert(!(got & bit(f)));
		got = got | bit(f);
#ifndef TCP
		assert(f <= since || (got & bit(f - 1)))
#endif
	fi
}

/* ---- threads ------------------------------------------------------------------------------ */

#define THREAD								\
	byte r;			/* the ring to hold */			\
	byte mine = NONE;	/* the ring that is held */			\
	byte due;		/* bits: rings to try when none is held */ \
	byte n;			/* items still to run */		\
	byte to = NONE;		/* the ring to which the item must be posted on */	\
	mtype what;		/* ... and the item */			\
	byte f, g;							\
	bool here		/* the home of S is the held ring */

/* By LEAVE and by ARRIVE, whichever comes first. */
inline change_home(ring)
{
	if
	:: home == move_from -> home = ring
	:: else -> reach(21)
	fi
}

/* Time passes between reading home and this step. */
inline post()
{
	assert(nfull(inbox[to]));
	inbox[to]!what(f, g);
#ifndef NO_TRY
	due = due | bit(to);
#endif
	to = NONE;
	what = 0
}

/* The flow on the held ring replaces its stand-in. */
inline replace_stand_in()
{
#ifdef NO_STAY_PARK
	assert(flow[mine] == STANDIN || part_to == part_from);
#else
	assert(flow[mine] == STANDIN && gen == move_gen);
#endif
	flow[mine] = REAL;
	flow_ring = mine
}

/* holder of mine: runs an item; posting comes before taking. */
inline run_item()
{
	n--;
	inbox[mine]?what(f, g);
	if
	:: what == ARRIVE ->
#ifndef NO_CHANGE_HOME
		change_home(mine);
#endif
		assert(home == mine && g == gen && alive);
		timer[mine] = true;
		if
		:: part_to == mine ->
			replace_stand_in();
			do
			:: nempty(parked) -> parked?f; input(f); reach(1)
			:: empty(parked) -> break
			od
		:: else
		fi
#ifdef NO_GENERATION
	:: what == FORWARD && home == mine -> assert(g == gen); input(f)
	:: what == FORWARD && home != mine -> to = home
#else
	:: what == FORWARD && home == mine && g == gen -> input(f); reach(4)
	:: what == FORWARD && home != mine && g == gen -> to = home; reach(5)
	:: what == FORWARD && g != gen -> dropped(f); reach(3)
#endif
	fi;
	if
	:: to == NONE -> what = 0
	:: else
	fi
}

/* Runs items until one has to be posted on, which happens in a later step. */
inline run_some()
{
	do
	:: n > 0 && to == NONE -> run_item()
	:: n == 0 || to != NONE -> break
	od;
	if
	:: to == NONE -> f = 0; g = 0
	:: else
	fi
}

/* Waits for ring r, and runs the posted items. */
inline hold()
{
	assert(mine == NONE);
	do
	:: atomic {
		to != NONE || (mine == NONE && holder[r] == FREE) ->
		if
		:: to != NONE -> post()
		:: else ->
			holder[r] = _pid;
			mine = r;
#ifndef NO_DRAIN_INBOX
			n = len(inbox[r])
#endif
		fi;
		run_some()
	   }
	:: mine != NONE && to == NONE -> break
	od
}

inline run_all()
{
	do
	:: atomic {
		n > 0 || to != NONE ->
		if
		:: to != NONE -> post()
		:: else
		fi;
		run_some()
	   }
	:: n == 0 && to == NONE -> break
	od
}

/*
 * The same for S, whose home was r. S may have left and returned meanwhile: ARRIVE was posted
 * before home was stored, so the inbox is checked after home.
 */
inline hold_home(it_is)
{
	atomic {
		assert(mine == NONE);
		holder[r] == FREE;
		holder[r] = _pid;
		mine = r
	}
#ifdef DRAIN_FIRST
	n = len(inbox[mine]);
	run_all();
#endif
	here = home == mine && it_is;
#ifndef DRAIN_FIRST
	if
	:: here -> n = len(inbox[mine])
	:: else -> reach(18)
	fi;
	run_all()
#endif
}

/* Releases, then checks again: this ring, and those that it posted to meanwhile. */
inline release()
{
	atomic {
		holder[mine] = FREE;
#ifndef NO_SECOND_LOOK
		due = due | bit(mine);
#endif
		mine = NONE;
		r = 0
	}
	do
	:: atomic {
		due != 0 || mine != NONE ->
		if
		:: to != NONE -> post()
		/* still to be tried */
		:: to == NONE && mine != NONE -> holder[mine] = FREE; mine = NONE
		:: to == NONE && mine == NONE ->
			if
			:: due & bit(A) -> r = A
			:: due & bit(B) -> r = B
#if RINGS > 2
			:: due & bit(C) -> r = C
#endif
#if RINGS > 3
			:: due & bit(D) -> r = D
#endif
			fi;
			if
			:: len(inbox[r]) == 0 || holder[r] != FREE -> due = due & ~bit(r)
			:: else -> holder[r] = _pid; mine = r; n = len(inbox[r]); reach(6)
			fi;
			r = 0
		fi;
		run_some()
	   }
	:: due == 0 && mine == NONE -> break
	od
}

/* holder of mine: a frame is delivered to the flow of S on this ring. */
inline deliver()
{
	if
	:: home == mine -> input(f); reach(9)
	:: home != mine -> what = FORWARD; g = gen; to = home; reach(10)
	fi
}

/* holder of mine: one frame. */
inline receive()
{
	rx[mine]?f;
	if
	:: flow[mine] == ABSENT -> dropped(f)
	:: flow[mine] == STANDIN && gen != move_gen -> dropped(f)
	:: flow[mine] == STANDIN && gen == move_gen ->
#ifdef NO_PARK
		dropped(f)
#else
		parked!f; reach(7)
#endif
	:: flow[mine] == REAL -> deliver()
	fi;
	if
	:: to == NONE -> f = 0
	:: else
	fi
}

inline drain()
{
	do
	:: atomic { to != NONE -> post(); f = 0; g = 0 }
	:: atomic { to == NONE && nempty(rx[mine]) -> receive(); reach(14) }
	:: to == NONE && empty(rx[mine]) -> break
	od
}

/* holder of mine: removes a flow with its entry. */
inline remove_flow()
{
	flow[mine] = ABSENT;
	if
	:: steered[mine] -> assert(map == mine); map = NONE; steered[mine] = false
	:: else
	fi
}

/* holder of mine = part_to: removes the stand-in with its parked frames. */
inline drop_part()
{
	if
	:: flow[mine] == STANDIN -> remove_flow()
	:: else
	fi;
	do
	:: nempty(parked) -> parked?f; dropped(f)
	:: empty(parked) -> break
	od;
	f = 0
}

/* holder of home: the object has no owner and no home. */
inline free()
{
	alive = false;
	home = NONE;
	gen++
}

/* holder of home: a closed connection has sent everything. */
inline end()
{
	assert(home == mine && flow[mine] == REAL && timer[mine]);
	timer[mine] = false;
	remove_flow();
	free()
}

/* ---- the wire --------------------------------------------------------------------------- */

/*
 * Frames are looked up in the order of arrival, and reach a queue in that order, at any later
 * time.
 */
proctype wire()
{
	byte f;

	do
	:: atomic {
		sent < FRAMES ->
		if
		:: map == NONE -> dropped(sent)
		:: map != NONE -> late[map]!sent
		fi;
		sent++
	   }
#if !defined(WIDE) && !defined(OTHER)
	:: atomic { late[A]?f -> rx[A]!f; f = 0 }
	:: atomic { late[B]?f -> rx[B]!f; f = 0 }
#endif
#if RINGS > 2
	:: atomic { late[C]?f -> rx[C]!f; f = 0 }
#endif
#if RINGS > 3
	:: atomic { late[D]?f -> rx[D]!f; f = 0 }
#endif
	:: atomic {
		sent == FRAMES && empty(late[A]) && empty(late[B]) && empty(late[FIRST]) &&
			empty(late[RINGS - 1]) ->
		break
	   }
	od
}

/* ---- the internal thread moves S ----------------------------------------------------------- */

#define lock_control()	 atomic { control == FREE -> control = _pid }
#define unlock_control() control = FREE

/* The flow leaves its old ring, or is replaced by a stand-in on the same one. */
inline part_leave()
{
	assert(flow[mine] == REAL);
	if
	:: part_to == part_from ->
#ifndef NO_STAY_PARK
		flow[mine] = STANDIN
#endif
		skip
	:: else ->
#ifndef NO_OLD_FLOW_DEL
		remove_flow()
#endif
		skip
	fi
}

/* Leaves a ring that is not home. */
inline leave_other()
{
	r = part_from;
	hold();
#ifndef NO_DRAIN_OTHER
	drain();
#endif
	atomic { part_leave() }
	release()
}

inline arrive_other()
{
	r = part_to;
	hold();
	atomic { replace_stand_in() }
	do
	:: atomic { to != NONE -> post() }
	:: atomic { to == NONE && nempty(parked) -> parked?f; deliver(); reach(16) }
	:: atomic { to == NONE && empty(parked) -> f = 0; g = 0; break }
	od;
	release()
}

proctype mover()
{
	THREAD;
	byte from, into;	/* rings */
	byte moves;

	do
	:: moves == MOVES -> break
	:: moves < MOVES -> break	/* no further moves */
	:: moves < MOVES ->
		lock_control();
		atomic {
			moves++;
			if
			:: !open -> unlock_control(); goto next
			:: else
			fi;
			from = home;
			into = 1 - from;
			move_from = home;
			move_gen = gen;
			part_from = flow_ring;
			part_to = TARGET
		}
		if
		:: part_to == part_from -> goto barrier
		:: else
		fi;
#ifdef STEER_FIRST
		map = part_to;
#endif
		/* PREPARE: a stand-in on the new ring ... */
		r = part_to;
		hold();
		atomic { assert(flow[mine] == ABSENT); flow[mine] = STANDIN }
		release();
		/*
		 * ... and the entry does not belong to the flow any more, and stays when the
		 * flow is removed.
		 */
		r = part_from;
		hold();
		atomic {
			assert(flow[mine] == REAL && steered[mine]);
#ifndef NO_UNSTEER
			steered[mine] = false
#endif
		}
		release();

		/* STEER */
#ifdef STAYS
		/* The port refuses: nothing changes. */
#ifndef NO_RESTEER
		r = part_from;
		hold();
		steered[mine] = true;
		release();
#endif
		r = part_to;
		hold();
		atomic { drop_part(); part_to = part_from }
		release();
#else
		r = part_to;
		hold();
		atomic { map = mine; steered[mine] = true }
		release();
#endif

barrier:
		/* BARRIER: every frame that was looked up before is in the old queue. */
		atomic { moving = true; unlock_control() }
#ifndef NO_BARRIER
		if
		:: part_to == part_from
		:: else -> atomic { empty(late[part_from]); reach(12) }
		fi;
#endif
		lock_control();
		if
		:: atomic { !moving -> reach(13) } goto done /* the socket was closed */
		:: else
		fi;

#ifndef OTHERS_LATE
		if
		:: part_from != from -> leave_other()
		:: else
		fi;
#endif
		/* LEAVE */
		if
		:: atomic { home == NONE -> reach(22) } goto call_off
		:: else
		fi;
		r = from; /* home, unless the socket has ended since */
		hold_home((alive && gen == move_gen));
#ifdef NO_LEAVE_CHECK
		here = true;
#endif
		if
		:: !here -> release(); reach(15); goto call_off
		:: else
		fi;
#ifndef NO_DRAIN
		drain();
#endif
#ifdef TCP
		/* This may have ended the socket. */
		if
		:: atomic {
			!open ->
			end();
			here = false;
			reach(11)
		   }
#ifndef NO_SECOND_CHECK
			release();
			goto call_off
#endif
		:: skip
		fi;
#endif
		atomic {
			here = false;
			assert(timer[mine]);
			timer[mine] = false;
			if
			:: part_from == mine -> part_leave()
			:: else
			fi;
			moving = false
		}
#ifdef WAIT_HOLDING
		r = into;
		hold();
#endif
#ifdef POST_LAST
		change_home(into);
#endif
		atomic {
			what = ARRIVE; g = move_gen; to = into;
			post();
			g = 0
		}
#if defined(STORE_HOME)
		home = into;
#elif !defined(POST_LAST)
		atomic { change_home(into) }
#endif
		release();
#ifdef OTHERS_LATE
		if
		:: part_from != from -> leave_other()
		:: else
		fi;
#endif
		/* If another thread holds the new home, ARRIVE has run when it releases. */
#ifndef NO_LAST_HOLD
		r = into;
		hold();
		release();
#endif
		if
		:: part_to != into -> arrive_other()
		:: else
		fi;
		reach(17);
		goto done;

call_off:
		/* The program closed the socket, and it has ended since. */
		r = part_to;
		hold();
		atomic { drop_part(); moving = false }
		release();
done:
		atomic {
			/* It was part of the move, which is freed. */
			assert(!(inbox[into]??[ARRIVE, 0, eval(move_gen)]));
			from = 0; into = 0; here = false;
			move_from = 0; part_from = 0; part_to = 0; move_gen = 0;
			unlock_control()
		}
next:
		skip
	od
}

/* ---- application threads ------------------------------------------------------------------- */

/* Home is the held ring: the socket must be complete. */
#define complete()							\
	assert(timer[mine] && (flow_ring != mine || flow[mine] == REAL))

/* Holds a ring, for S or for another socket, and polls it. */
inline poll()
{
	if
	:: r = A; hold()
	:: r = B; hold()
#if RINGS > 2
	:: r = C; hold()
#endif
#if RINGS > 3
	:: r = D; hold()
#endif
	:: atomic { home != NONE -> r = home }
		hold_home(open);
		atomic {
			if
			:: here -> complete(); here = false
			:: else
			fi
		}
	fi;
	assert(!timer[mine] || home == mine);
	do
	:: atomic { to != NONE -> post(); f = 0; g = 0 }
	:: atomic { to == NONE && nempty(rx[mine]) -> receive() }
#ifdef TCP
	:: atomic { timer[mine] && !open -> end(); reach(20) }
#endif
	:: to == NONE -> break
	od;
	release()
}

proctype reader()
{
	THREAD;

	do
	:: poll()
	:: break
	od
}

proctype closer()
{
	THREAD;
	bool closed, opened;

	do
#ifdef POLLERS
	:: poll()
#endif
	:: break
	:: !closed ->
		lock_control();
		r = home;
		hold_home(open);
		atomic {
			assert(here);
			complete();
			here = false;
			closed = true;
			open = false;
			since = NEVER;
			gen++;
#ifndef NO_FOLLOW
			if
			:: moving -> move_gen = gen; reach(2)
			:: else
			fi
#endif
		}
		release();
#ifndef TCP
#ifndef NO_CANCEL
		if
		:: moving ->
			r = part_to;
			hold();
			atomic { drop_part(); moving = false }
			release()
		:: else
		fi;
#endif
		r = flow_ring;
		hold();
		atomic { remove_flow() }
		release();
		r = home;
		hold();
		atomic { timer[mine] = false; free() }
		release();
#endif
		unlock_control()
#if !defined(WIDE) && !defined(OTHER)
	:: closed && !opened ->
		/*
		 * The object is used again, for the same key if that is free: by another call,
		 * or by a holder that accepts a connection.
		 */
#ifndef TCP
		lock_control();
#endif
		r = A;
		hold();
		atomic {
			if
			:: !alive && map == NONE ->
				assert(flow[A] == ABSENT);
				gen++;
				alive = true;
				home = A;
				flow[A] = REAL;
				flow_ring = A;
				timer[A] = true;
				map = A;
				steered[A] = true;
				since = sent;
				moving = false;
				open = true;
				opened = true;
				reach(19)
			:: else
#ifndef TCP
				-> assert(false) /* its entry was left behind */
#endif
			fi
		}
		release();
#ifndef TCP
		unlock_control()
#endif
#endif
	od
}

/* ---- the beginning and the end ----------------------------------------------------------------- */

init {
	byte r, f;

	atomic {
		flow[FIRST] = REAL;
		steered[FIRST] = true;
		timer[A] = true;
		run wire();
		run mover();
		run reader();
		run closer()
	}
	_nr_pr == 1;
	d_step {
		assert(control == FREE && !moving && empty(parked));
		assert(!open || alive);
		assert(alive == (home != NONE));
		assert(map == (alive -> flow_ring : NONE));
		for (r : 0 .. RINGS - 1) {
			assert(holder[r] == FREE);
			assert(empty(inbox[r])); /* stranded? */
			assert(flow[r] == (alive && flow_ring == r -> REAL : ABSENT));
			assert(steered[r] == (flow[r] == REAL));
			assert(timer[r] == (alive && home == r));
			do
			:: nempty(rx[r]) ->
				rx[r]?f;
				assert(f < since || flow[r] == REAL);
				assert(!(got & bit(f)));
				got = got | bit(f)
			:: empty(rx[r]) -> break
			od
		}
		for (f : 0 .. FRAMES - 1) {
			assert(f < since || (got & bit(f))) /* lost? */
		}
	}
}
