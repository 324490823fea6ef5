/* SPDX-License-Identifier: BSD-2-Clause */
/* vma check-conf: what is wrong with a libvma.conf, and which of its rules decides. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf/conf.h"
#include "base/conf/conf_file.h"
#include "base/mem.h"
#include "vma.h"

const char check_conf_help[] =
	"usage: vma check-conf FILE [PROGRAM] [QUESTION...]\n"
	"Prints what is wrong with FILE, a libvma.conf, and what it says to each QUESTION:\n"
	"  ROLE ADDRESS:PORT[:ADDRESS:PORT]\n"
	"                   may a socket be accelerated? ROLE is tcp_server, tcp_client, udp_sender,\n"
	"                   udp_receiver or udp_connect; the address is the local one of servers and\n"
	"                   receivers, else the peer's, and then the local one may follow; * is an\n"
	"                   address or port that is not set\n"
	"  interface NAME   may it be opened?\n"
	"PROGRAM is the name of the program's file; without it, a program that only * matches.\n"
	"VMA_APPLICATION_ID counts as it does for the library.\n"
	"Exit status: 0 FILE is good, and no answer is os or deny; 1 it has errors, or cannot be\n"
	"read; 2 an answer is os or deny; 3 wrong usage.\n";

enum { GOOD = 0, BAD = 1, OS = 2, USAGE = 3 };

#define DEFAULT_ID "VMA_DEFAULT_APPLICATION_ID"

static int usage(void)
{
	fputs(check_conf_help, stderr);
	return USAGE;
}

struct check {
	const char *path;
	const char *text; /* of the file */
	size_t len;
	struct conf conf;
	unsigned errors;
	const char *program; /* "": one that no application-id names */
	int block;
	bool os; /* an answer was os or deny */
};

static void print_note(void *arg, const struct conf_note *note)
{
	struct check *c = arg;

	fprintf(stderr, "%s:%u:%u: %s: %s\n", c->path, note->line, note->column,
		note->error ? "error" : "warning", note->text);
	c->errors += note->error;
}

/* A rule without blanks around it and comment: it was parsed, so it has no control characters. */
static void print_line(const struct check *c, unsigned line)
{
	const char *at = c->text, *end = c->text + c->len, *newline, *comment;

	for (; line > 1; line--)
		at = (const char *)memchr(at, '\n', (size_t)(end - at)) + 1;
	newline = memchr(at, '\n', (size_t)(end - at));
	end = newline ? newline : end;
	comment = memchr(at, '#', (size_t)(end - at));
	end = comment ? comment : end;
	at += strspn(at, " \t\v\f\r");
	while (end > at && strchr(" \t\v\f\r", end[-1]))
		end--;
	printf("%.*s", (int)(end - at), at);
}

static void print_block(const struct check *c)
{
	const char *program = c->program[0] ? c->program : "any other program";

	if (c->block < 0)
		printf("%s: no application-id matches, so everything is accelerated\n", program);
	else if (!c->conf.blocks[c->block].line)
		printf("%s: the rules before any application-id\n", program);
	else
		printf("%s: the rules of application-id %s %s (%s:%u)\n", program,
		       c->conf.blocks[c->block].program, c->conf.blocks[c->block].id, c->path,
		       c->conf.blocks[c->block].line);
}

static const char *word_for(enum conf_role role, const struct conf_rule *rule)
{
	bool os = rule && rule->says == CONF_OS;

	if (role == CONF_INTERFACE)
		return os ? "deny" : "allow";
	return os ? "os" : rule && rule->says == CONF_MUST ? "must" : "vma";
}

static void print_answer(struct check *c, enum conf_role role, const char *what,
			 const struct conf_rule *rule)
{
	printf("%s %s: %s, ", conf_role_name(role), what, word_for(role, rule));
	if (rule) {
		printf("by %s:%u: ", c->path, rule->line);
		print_line(c, rule->line);
		printf("\n");
	} else {
		printf("by default: no rule matches\n");
	}
	c->os |= rule && rule->says == CONF_OS;
}

/* False: it is no question. */
static bool ask(struct check *c, const char *name, const char *what)
{
	enum conf_role role = conf_role_of(name, strlen(name));
	struct conf_addr addr[2];
	const struct conf_rule *rule;
	int n;

	if (!strcmp(name, "interface")) {
		rule = conf_find_interface(&c->conf, c->block, what);
	} else if (role != CONF_ROLES && conf_parse_question(what, addr, &n)) {
		rule = conf_find(&c->conf, c->block, role, addr[0], n == 2 ? &addr[1] : NULL);
	} else {
		fprintf(stderr, "vma check-conf: %s %s is no question\n", name, what);
		return false;
	}
	print_answer(c, role, what, rule);
	return true;
}

static bool is_question(const char *name)
{
	return !strcmp(name, "interface") || conf_role_of(name, strlen(name)) != CONF_ROLES;
}

static int ask_all(struct check *c, int argc, char **argv)
{
	const char *id = getenv("VMA_APPLICATION_ID");

	c->program = "";
	if (argc && !is_question(argv[0])) {
		c->program = argv[0];
		argc--;
		argv++;
	}
	if (argc % 2)
		return usage();
	id = id ? id : DEFAULT_ID;
	if (strcmp(id, DEFAULT_ID) != 0 && strcmp(id, "*") != 0 && !conf_has_id(&c->conf, id))
		fprintf(stderr, "VMA_APPLICATION_ID=%s: no application-id of %s has it\n", id,
			c->path);
	c->block = conf_block_of(&c->conf, c->program, id);
	if (argc || c->program[0])
		print_block(c);
	for (int i = 0; i < argc; i += 2)
		if (!ask(c, argv[i], argv[i + 1]))
			return usage();
	return c->errors ? BAD : c->os ? OS : GOOD;
}

int cmd_check_conf(int argc, char **argv)
{
	struct check c = {.path = argc > 1 ? argv[1] : NULL};
	const char *why;
	char *text;
	int rc;

	if (!c.path || c.path[0] == '-')
		return usage();
	if (conf_file_read(c.path, &text, &c.len, &why)) {
		fprintf(stderr, "%s: %s\n", c.path, why);
		return BAD;
	}
	c.text = text;
	if (conf_parse(&c.conf, text, c.len, print_note, &c)) {
		fprintf(stderr, "%s: out of memory\n", c.path);
		rc = BAD;
	} else {
		rc = ask_all(&c, argc - 2, argv + 2);
	}
	conf_fini(&c.conf);
	mem_free(text);
	return rc;
}
