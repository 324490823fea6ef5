/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libvma.conf: its grammar, and which of its rules decides a question.  docs/man/libvma.conf.5
 * describes the file; conf_file.h reads it.
 *
 *	file      := { [ statement ] [ "#" comment ] NEWLINE }
 *	statement := "application-id" PROGRAM ID
 *	           | "use" ( "vma" | "os" | "*" | "sdp" | "sa" ) ROLE TUPLE
 *	           | "must" ROLE TUPLE
 *	           | "interface" ( "allow" | "deny" ) PATTERN
 *	           | "log" ...
 *	ROLE      := tcp_server | tcp_client | udp_sender | udp_receiver | udp_connect
 *	TUPLE     := ADDRESS ":" PORTS [ ":" ADDRESS ":" PORTS ]
 *	ADDRESS   := a.b.c.d [ "/" LENGTH ] | "[" IPv6 "]" [ "/" LENGTH ] | "*"
 *	PORTS     := PORT [ "-" PORT ] | "*"
 *
 * Statements belong to the application-id before them, or, if there is none, to `* *`.
 *
 * Role		pure; no recursion.  A struct conf belongs to one thread at a time while it is
 *		parsed; after that it is only read.
 * Lifetime	conf_parse() allocates (mem.h), conf_fini() frees.
 */
#ifndef BASE_CONF_CONF_H
#define BASE_CONF_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONF_LINES_MAX 65535 /* lines of a file */
#define CONF_LINE_MAX 1024   /* bytes of a line, without its end */
#define CONF_NAME_MAX 255    /* bytes of a program, application id or interface */

enum conf_role {
	CONF_TCP_SERVER,
	CONF_TCP_CLIENT,
	CONF_UDP_SENDER,
	CONF_UDP_RECEIVER,
	CONF_UDP_CONNECT,
	CONF_ROLES,
	CONF_INTERFACE = CONF_ROLES, /* the rule has a pattern and no addresses */
};

/* CONF_MUST: as CONF_VMA, and what cannot be accelerated fails. */
enum conf_says { CONF_VMA, CONF_MUST, CONF_OS };

/* IPv4 is mapped, RFC 4291 section 2.5.5.2.  No address (0.0.0.0, ::) is one of both families. */
struct conf_addr {
	uint8_t addr[16];
	uint16_t port; /* host byte order */
};

struct conf_side {
	uint8_t addr[16];
	uint8_t bits;	      /* that count; 0: "*", or all of IPv6 */
	bool ip6;	      /* IPv4 does not match */
	uint16_t first, last; /* ports */
};

/* Bits that an IPv4 address has before its own. */
#define CONF_V4_BITS 96u

/* The address in its mapped form; v4: host byte order. */
void conf_addr_v4(uint8_t addr[16], uint32_t v4);

struct conf_rule {
	enum conf_role role;
	enum conf_says says; /* of an interface: CONF_VMA allows it, CONF_OS denies it */
	unsigned line;	     /* from 1 */
	unsigned block;
	bool two; /* side[1] was given */
	union {
		struct conf_side side[2]; /* local for servers and receivers, else remote, local */
		char *pattern;		  /* CONF_INTERFACE */
	};
};

/* The statements of one application-id, which may stand in several places of the file. */
struct conf_block {
	char *program; /* a pattern */
	char *id;
	unsigned line; /* of the first application-id; 0: there was none */
};

struct conf {
	struct conf_rule *rules; /* in the order of the file */
	unsigned n_rules;
	struct conf_block *blocks; /* likewise */
	unsigned n_blocks;
};

/* What is wrong with a line, which is skipped; or, not an error, what has no effect. */
struct conf_note {
	bool error;
	unsigned line, column; /* from 1; column: the byte where it begins */
	const char *text;      /* valid during the call */
};

typedef void conf_note_fn(void *arg, const struct conf_note *note);

/*
 * Parses the len bytes of text, which may be anything.  Calls note for each bad line.  0, or
 * -ENOMEM: the rules so far are there.  conf_fini() in any case.
 */
int conf_parse(struct conf *conf, const char *text, size_t len, conf_note_fn *note, void *arg);
void conf_fini(struct conf *conf);

/*
 * The block that decides for a program (the name of its file) and an application id: the
 * first one that matches.  -1: none.
 */
int conf_block_of(const struct conf *conf, const char *program, const char *id);

/* Does an application-id name exactly this id? */
bool conf_has_id(const struct conf *conf, const char *id);

/*
 * The first rule of the block for this use of a socket; NULL: none, so it is accelerated.
 * first: the local address of a server or receiver, else the peer's.  second: the local address
 * of a client; NULL: not asked for.
 */
const struct conf_rule *conf_find(const struct conf *conf, int block, enum conf_role role,
				  struct conf_addr first, const struct conf_addr *second);
/* The first rule of the block for an interface; NULL: none, so it is allowed. */
const struct conf_rule *conf_find_interface(const struct conf *conf, int block, const char *name);

/* The word in the file, and its role; CONF_ROLES: no role has this name. */
const char *conf_role_name(enum conf_role role);
enum conf_role conf_role_of(const char *name, size_t len);

/* Does text match pattern: * ? [abc] [a-z] [!a]?  Takes strlen(pattern) * strlen(text) steps at most. */
bool conf_matches(const char *pattern, const char *text);

/* Parses ADDRESS:PORT [:ADDRESS:PORT] of a question; false: it is none.  "*" is 0. */
bool conf_parse_question(const char *text, struct conf_addr addr[2], int *n);

#endif
