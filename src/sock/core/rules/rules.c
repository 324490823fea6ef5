/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/rules/rules.h"

#include <errno.h>

#include "base/conf/conf_file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/param.h"
#include "sock/core/inet_sock.h"

#define DEFAULT_FILE "/etc/libvma.conf"		/* it need not exist */
#define DEFAULT_ID "VMA_DEFAULT_APPLICATION_ID" /* no file has to mention it */
#define TOLD_MAX 20				/* notes in the log */

/* Control lock.  In a forked child it is as in its parent. */
static struct {
	bool loaded;
	struct conf conf;
	int block; /* of this program; -1: none */
} rules;

/* ---- the file (control lock) --------------------------------------------------------------- */

const char *rules_file(void)
{
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
	struct conf_addr addr = {.addr = ntohl(addr_v4_of(&ep->addr)), .port = ntohs(ep->port)};

	return addr;
}

enum conf_says rules_ask(struct inet_sock *so, enum conf_role role, const struct endpoint *first,
			 const struct endpoint *second)
{
	const struct conf_rule *rule = NULL;
	struct conf_addr local;

	control_assert_held();
	load();
	if (second)
		local = conf_addr_of(second);
	if (rules.block >= 0)
		rule = conf_find(&rules.conf, rules.block, role, conf_addr_of(first),
				 second ? &local : NULL);
	if (!rule)
		return params.strict ? CONF_MUST : CONF_VMA;
	log_debug("fd %d: %s:%u says %s as %s", sock_twin(&so->sk), rules_file(), rule->line,
		  rule->says == CONF_OS	    ? "os"
		  : rule->says == CONF_MUST ? "must"
					    : "vma",
		  conf_role_name(role));
	if (rule->says == CONF_MUST)
		so->must = true;
	return rule->says == CONF_VMA && params.strict ? CONF_MUST : rule->says;
}

enum conf_says rules_ask_receiver(struct inet_sock *so)
{
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
	*line = rule->line;
	return false;
}
