/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/rules/rules.h"

#include <errno.h>
#include <stdio.h>

#include "base/conf/conf_file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/param.h"
#include "base/user.h"
#include "sock/core/inet_sock.h"

#define DEFAULT_FILE "/etc/libvma.conf"		/* it need not exist */
#define DEFAULT_ID "VMA_DEFAULT_APPLICATION_ID" /* no file has to mention it */
#define TOLD_MAX 20				/* notes in the log */

/* Control lock.  In a forked child it is as in its parent. */
static struct {
	bool loaded;
	struct conf conf;
	int block;	   /* of this program; -1: none */
	struct conf added; /* of rules_add(): one block, the newest rule first */
	char *added_text;  /* what it was made of; NULL: nothing */
	unsigned denied;   /* line of the rule that denied an interface last */

	/* The last answer of rules_ask(), and the id of the socket. */
	struct rules_decision last;
	uint64_t asked;
} rules;

/* ---- the file (control lock) --------------------------------------------------------------- */

const char *rules_file(void)
{
	control_assert_held();
	return params.config_file;
}

static void log_note(void *arg, const struct conf_note *note)
{
	unsigned *n = arg;

	if (++*n <= TOLD_MAX)
		log_warn("%s:%u:%u: %s%s", rules_file(), note->line, note->column, note->text,
			 note->error ? "; the line is skipped" : "");
}

static void parse(const char *text, size_t len)
{
	const char *program = program_invocation_short_name, *id = params.application_id;
	unsigned notes = 0;

	if (conf_parse(&rules.conf, text, len, log_note, &notes))
		log_error("%s: out of memory; some of its rules are missing", rules_file());
	if (notes > TOLD_MAX)
		log_warn("%s: %u more, see vma check-conf", rules_file(), notes - TOLD_MAX);
	if (strcmp(id, DEFAULT_ID) != 0 && strcmp(id, "*") != 0 && !conf_has_id(&rules.conf, id))
		log_warn("VMA_APPLICATION_ID=%s: no application-id of %s has it", id, rules_file());
	rules.block = conf_block_of(&rules.conf, program, id);
	if (rules.block >= 0)
		log_debug("%s: the rules of %s are those of application-id %s %s (line %u)",
			  rules_file(), program, rules.conf.blocks[rules.block].program,
			  rules.conf.blocks[rules.block].id, rules.conf.blocks[rules.block].line);
}

static void load(void)
{
	const char *why;
	char *text;
	size_t len;
	int rc;

	if (rules.loaded)
		return;
	rules.loaded = true;
	rules.block = -1;
	rc = conf_file_read(rules_file(), &text, &len, &why);
	if (rc) {
		log_at(rc == -ENOENT && !strcmp(rules_file(), DEFAULT_FILE) ? LOG_DEBUG
									    : LOG_WARNING,
		       "%s is not used: %s", rules_file(), why);
		return;
	}
	parse(text, len);
	mem_free(text);
}

/* ---- questions (control lock) ---------------------------------------------------------------- */

static struct conf_addr conf_addr_of(const struct endpoint *ep)
{
	struct conf_addr addr = {.port = ntohs(ep->port)};

	memcpy(addr.addr, ep->addr.b, sizeof(addr.addr));
	return addr;
}

static const char *says_text(enum conf_says says)
{
	return says == CONF_OS ? "os" : says == CONF_MUST ? "must" : "vma";
}

enum conf_says rules_ask(struct inet_sock *so, enum conf_role role, const struct endpoint *first,
			 const struct endpoint *second)
{
	const struct conf_rule *rule = NULL;
	struct conf_addr local;
	bool added;

	control_assert_held();
	load();
	if (second)
		local = conf_addr_of(second);
	if (rules.added_text)
		rule = conf_find(&rules.added, 0, role, conf_addr_of(first),
				 second ? &local : NULL);
	added = rule;
	if (!rule && rules.block >= 0)
		rule = conf_find(&rules.conf, rules.block, role, conf_addr_of(first),
				 second ? &local : NULL);
	rules.asked = so->id;
	rules.last.line = rule && !added ? rule->line : 0;
	if (!rule)
		return params.strict ? CONF_MUST : CONF_VMA;
	rules.last.says = rule->says;
	log_debug("fd %d: %s:%u says %s as %s", sock_twin(&so->sk),
		  added ? "add_conf_rule()" : rules_file(), rule->line, says_text(rule->says),
		  conf_role_name(role));
	if (rule->says == CONF_MUST)
		so->must = true;
	return rule->says == CONF_VMA && params.strict ? CONF_MUST : rule->says;
}

enum conf_says rules_ask_receiver(struct inet_sock *so)
{
	control_assert_held();
	return rules_ask(so, so->inet == INET_UDP ? CONF_UDP_RECEIVER : CONF_TCP_SERVER, &so->local,
			 NULL);
}

bool rules_allow_interface(const char *name, unsigned *line)
{
	const struct conf_rule *rule = NULL;

	control_assert_held();
	load();
	if (rules.block >= 0)
		rule = conf_find_interface(&rules.conf, rules.block, name);
	if (!rule || rule->says != CONF_OS)
		return true;
	*line = rules.denied = rule->line;
	return false;
}

/* FILE:LINE and what it says; of a long name the end. */
static void position(char text[RULES_TEXT], unsigned line, const char *says)
{
	size_t most = RULES_TEXT - strlen(":65535 says deny") - 1, len = strlen(rules_file());

	snprintf(text, RULES_TEXT, "%s:%u says %s", rules_file() + (len > most ? len - most : 0),
		 line, says);
}

struct rules_decision rules_last(const struct inet_sock *so)
{
	control_assert_held();
	return rules.asked == so->id ? rules.last : (struct rules_decision){0};
}

void rules_verdict_text(enum verdict verdict, struct rules_decision rule, char text[RULES_TEXT])
{
	bool fits = verdict == VERDICT_RULE	     ? rule.says == CONF_OS
		    : verdict == VERDICT_ACCELERATED ? rule.says != CONF_OS
						     : false;

	control_assert_held();
	if (verdict == VERDICT_DENIED && rules.denied)
		position(text, rules.denied, "deny");
	else if (fits && rule.line)
		position(text, rule.line, says_text(rule.says));
	else
		snprintf(text, RULES_TEXT, "%s",
			 verdict == VERDICT_ACCELERATED ? "" : verdict_text(verdict));
}

/* ---- rules of the program (control lock) ------------------------------------------------------ */

#define ADDED_MAX 65536 /* bytes of all lines */

static void log_added_note(void *arg, const struct conf_note *note)
{
	bool *bad = arg;

	if (note->line > 1)
		return; /* of a line that was added before */
	*bad = *bad || note->error;
	log_warn("add_conf_rule(): column %u: %s", note->column, note->text);
}

#define LINE_ROOM (CONF_LINE_MAX + 1)

/*
 * Copies the program's line, up to its end.  Page by page: behind the end there may be no memory.  By
 * user_read(), because a fault would end the process: signals are blocked.  Its length, or -errno.
 */
static int read_line(char buf[LINE_ROOM], const char *line)
{
	size_t n = 0, end;

	while (n < LINE_ROOM) {
		size_t part = USER_PAGE - ((uintptr_t)line + n) % USER_PAGE;

		part = part < LINE_ROOM - n ? part : LINE_ROOM - n;
		if (user_read(buf + n, line + n, part))
			return -EFAULT;
		for (end = n + part; n < end; n++) {
			if (!buf[n] || buf[n] == '\n')
				return (int)n;
		}
	}
	return -EINVAL;
}

/* A copy of the program's line, without what follows its end, before the earlier lines. */
static int join(const char *line, char **text)
{
	char buf[LINE_ROOM];
	const char *before = rules.added_text ? rules.added_text : "";
	int n = read_line(buf, line);
	size_t size;

	if (n < 0)
		return n;
	size = (size_t)n + strlen(before) + 2;
	if (size > ADDED_MAX)
		return -EINVAL;
	*text = mem_alloc(size);
	if (!*text)
		return -ENOMEM;
	snprintf(*text, size, "%.*s\n%s", n, buf, before);
	return 0;
}

int rules_add(const char *line)
{
	struct conf conf;
	bool bad = false;
	char *text;
	int rc;

	control_assert_held();
	load();
	rc = join(line, &text);
	if (rc)
		return rc;
	rc = conf_parse(&conf, text, strlen(text), log_added_note, &bad);
	/* One more rule, of sockets and of every program: nothing else is accepted. */
	if (!rc && (bad || conf.n_rules != rules.added.n_rules + 1 || conf.n_blocks != 1 ||
		    conf.blocks[0].line || conf.rules[0].role == CONF_INTERFACE))
		rc = -EINVAL;
	if (rc) {
		conf_fini(&conf);
		mem_free(text);
		return rc;
	}
	conf_fini(&rules.added);
	mem_free(rules.added_text);
	rules.added = conf;
	rules.added_text = text;
	return 0;
}
