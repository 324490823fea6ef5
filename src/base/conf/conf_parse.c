/* SPDX-License-Identifier: BSD-2-Clause */
/* The grammar of libvma.conf. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/conf/conf.h"
#include "base/mem.h"

#define SKIPPED (-1) /* the block of statements below a bad application-id */
#define NO_BLOCK (-2)
#define FOUND_MAX 24 /* bytes of the file in a note */
#define PORT_MAX 65535

#define ROLES "a role (tcp_server, tcp_client, udp_sender, udp_receiver or udp_connect)"
#define ADDRESS "an address (a.b.c.d, a.b.c.d/LENGTH, [IPv6], [IPv6]/LENGTH or *)"

/* The line that is parsed, without comment. */
struct parser {
	struct conf *conf;
	const char *start, *at, *end;
	unsigned line;
	int block; /* the current one, or SKIPPED, or NO_BLOCK */
	conf_note_fn *note;
	void *arg;
	bool no_memory;
};

/* ---- notes ------------------------------------------------------------------------------- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static bool is_ascii_graphic(char c)
{
	return c > ' ' && c < 0x7f;
}

/* Names may be UTF-8. */
static bool is_graphic(char c)
{
	return is_ascii_graphic(c) || (unsigned char)c >= 0x80;
}

static void tell(const struct parser *p, bool error, const char *at, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static void tell(const struct parser *p, bool error, const char *at, const char *fmt, ...)
{
	char text[512];
	struct conf_note note = {.error = error,
				 .line = p->line,
				 .column = (unsigned)(at - p->start) + 1,
				 .text = text};
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	p->note(p->arg, &note);
}

/* What stands at p->at, for people. */
static const char *found(const struct parser *p, char *buf, size_t size)
{
	const char *end = p->at;

	if (p->at == p->end)
		return "the end of the line";
	if (!is_ascii_graphic(*p->at)) { /* a log may go to a terminal */
		snprintf(buf, size, "the byte 0x%02x", (unsigned char)*p->at);
		return buf;
	}
	while (end < p->end && is_ascii_graphic(*end) && end - p->at < FOUND_MAX)
		end++;
	snprintf(buf, size, "\"%.*s\"", (int)(end - p->at), p->at);
	return buf;
}

/* False, so that a parser can return it. */
static bool expected(const struct parser *p, const char *what)
{
	char buf[FOUND_MAX + 3];

	tell(p, true, p->at, "expected %s, found %s", what, found(p, buf, sizeof(buf)));
	return false;
}

/* ---- tokens --------------------------------------------------------------------------------- */

static void skip_blanks(struct parser *p)
{
	while (p->at < p->end && is_blank(*p->at))
		p->at++;
}

static bool is_digit(const struct parser *p)
{
	return p->at < p->end && *p->at >= '0' && *p->at <= '9';
}

static bool take_char(struct parser *p, char c)
{
	if (p->at == p->end || *p->at != c)
		return false;
	p->at++;
	return true;
}

/* A keyword, which letters, digits, _ and - do not continue. */
static bool take_word(struct parser *p, const char *word)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_-";
	size_t len = strlen(word);

	if ((size_t)(p->end - p->at) < len || memcmp(p->at, word, len) != 0)
		return false;
	if (p->at + len < p->end && memchr(letters, p->at[len], sizeof(letters) - 1))
		return false;
	p->at += len;
	skip_blanks(p);
	return true;
}

/* A decimal number in min..max without leading zeros. */
static bool take_number(struct parser *p, unsigned min, unsigned max, const char *what,
			unsigned *out)
{
	const char *start = p->at;
	unsigned n = 0;

	while (is_digit(p) && n <= max)
		n = n * 10 + (unsigned)(*p->at++ - '0');
	if (p->at == start || n < min || n > max || (*start == '0' && p->at - start > 1)) {
		p->at = start;
		return expected(p, what);
	}
	*out = n;
	return true;
}

/* A name or pattern up to the next blank: a copy, or NULL after a note. */
static char *take_name(struct parser *p, const char *what)
{
	const char *start = p->at;
	size_t len;
	char *name;

	while (p->at < p->end && is_graphic(*p->at))
		p->at++;
	len = (size_t)(p->at - start);
	if (len == 0) {
		expected(p, what);
		return NULL;
	}
	if (len > CONF_NAME_MAX) {
		p->at = start + CONF_NAME_MAX;
		tell(p, true, p->at, "expected %s of at most %d bytes", what, CONF_NAME_MAX);
		return NULL;
	}
	name = mem_alloc(len + 1);
	if (!name) {
		p->no_memory = true;
		return NULL;
	}
	memcpy(name, start, len);
	name[len] = '\0';
	skip_blanks(p);
	return name;
}

static bool take_end(struct parser *p, const char *what)
{
	return p->at == p->end || expected(p, what);
}

/* ---- addresses and ports -------------------------------------------------------------------- */

/* An optional prefix length; without one, all bits count. */
static bool take_length(struct parser *p, unsigned max, unsigned *len)
{
	char what[64];
	const char *at;

	*len = max;
	skip_blanks(p);
	if (!take_char(p, '/'))
		return true;
	skip_blanks(p);
	at = p->at;
	snprintf(what, sizeof(what), "a prefix length from 0 to %u", max);
	if (!take_number(p, 0, 9999, what, len))
		return false;
	if (*len > max) {
		tell(p, false, at, "the prefix length %u counts as %u", *len, max);
		*len = max;
	}
	return true;
}

/* After "[". */
static bool take_ip6(struct parser *p, struct conf_side *side)
{
	const char *end = memchr(p->at, ']', (size_t)(p->end - p->at));
	size_t size = end ? (size_t)(end - p->at) : 0;
	char text[INET6_ADDRSTRLEN];
	struct conf_side v4 = {0};
	unsigned len;

	if (!size || size >= sizeof(text))
		return expected(p, "an IPv6 address and \"]\"");
	memcpy(text, p->at, size);
	text[size] = '\0';
	if (strlen(text) != size || inet_pton(AF_INET6, text, side->addr) != 1)
		return expected(p, "an IPv6 address and \"]\"");
	p->at = end + 1;
	if (!take_length(p, 128, &len))
		return false;
	side->bits = (uint8_t)len;
	conf_addr_v4(v4.addr, 0);
	side->ip6 = memcmp(side->addr, v4.addr, CONF_V4_BITS / 8) != 0;
	return true;
}

static bool take_address(struct parser *p, struct conf_side *side)
{
	unsigned n, len;
	uint32_t v4 = 0;

	memset(side, 0, sizeof(*side));
	if (take_char(p, '*'))
		return true;
	if (take_char(p, '['))
		return take_ip6(p, side);
	if (!is_digit(p))
		return expected(p, ADDRESS);
	for (int i = 0; i < 4; i++) {
		if (i && !take_char(p, '.'))
			return expected(p, "\".\" in an address");
		if (!take_number(p, 0, 255, "a number from 0 to 255 without leading zeros", &n))
			return false;
		v4 = v4 << 8 | n;
	}
	if (!take_length(p, 32, &len))
		return false;
	conf_addr_v4(side->addr, v4);
	side->bits = (uint8_t)(CONF_V4_BITS + len);
	return true;
}

static bool take_ports(struct parser *p, struct conf_side *side)
{
	char what[64];
	unsigned n;

	side->first = 0;
	side->last = PORT_MAX;
	if (take_char(p, '*'))
		return true;
	if (!take_number(p, 1, PORT_MAX, "a port from 1 to 65535, a range of ports, or *", &n))
		return false;
	side->first = side->last = (uint16_t)n;
	skip_blanks(p);
	if (!take_char(p, '-'))
		return true;
	skip_blanks(p);
	snprintf(what, sizeof(what), "the last port of the range, from %u to 65535", n);
	if (!take_number(p, n, PORT_MAX, what, &n))
		return false;
	side->last = (uint16_t)n;
	return true;
}

static bool take_side(struct parser *p, struct conf_side *side)
{
	if (!take_address(p, side))
		return false;
	skip_blanks(p);
	if (!take_char(p, ':'))
		return expected(p, "\":\" and ports");
	skip_blanks(p);
	if (!take_ports(p, side))
		return false;
	skip_blanks(p);
	return true;
}

static bool take_tuple(struct parser *p, struct conf_rule *rule)
{
	if (!take_side(p, &rule->side[0]))
		return false;
	rule->two = take_char(p, ':');
	if (!rule->two)
		return take_end(p, "\":\" or the end of the line");
	skip_blanks(p);
	return take_side(p, &rule->side[1]) && take_end(p, "the end of the line");
}

/* ---- what is found ------------------------------------------------------------------------- */

/* Makes room for one more element of size bytes; sizes are powers of two. */
static bool grow(struct parser *p, void *array, unsigned n, size_t size)
{
	void **at = array, *more;

	if (n & (n - 1))
		return true;
	more = mem_realloc(*at, (n ? 2 * (size_t)n : 1) * size);
	if (!more) {
		p->no_memory = true;
		return false;
	}
	*at = more;
	return true;
}

/* Begins or continues the block; consumes program and id. */
static void open_block(struct parser *p, char *program, char *id, unsigned line)
{
	struct conf *conf = p->conf;

	p->block = SKIPPED;
	for (unsigned i = 0; i < conf->n_blocks; i++) {
		if (!strcmp(conf->blocks[i].program, program) && !strcmp(conf->blocks[i].id, id))
			p->block = (int)i;
	}
	if (p->block == SKIPPED &&
	    grow(p, &conf->blocks, conf->n_blocks, sizeof(struct conf_block))) {
		p->block = (int)conf->n_blocks;
		conf->blocks[conf->n_blocks++] =
			(struct conf_block){.program = program, .id = id, .line = line};
		return;
	}
	mem_free(program);
	mem_free(id);
}

/* Consumes rule->pattern. */
static void add_rule(struct parser *p, const struct conf_rule *rule)
{
	struct conf *conf = p->conf;

	if (p->block == NO_BLOCK) {
		char *program = mem_strdup("*"), *id = mem_strdup("*");

		p->no_memory |= !program || !id;
		if (program && id) {
			open_block(p, program, id, 0);
		} else {
			mem_free(program);
			mem_free(id);
		}
	}
	if (p->block >= 0 && grow(p, &conf->rules, conf->n_rules, sizeof(*rule))) {
		conf->rules[conf->n_rules] = *rule;
		conf->rules[conf->n_rules].line = p->line;
		conf->rules[conf->n_rules++].block = (unsigned)p->block;
	} else if (rule->role == CONF_INTERFACE) {
		mem_free(rule->pattern);
	}
}

/* ---- statements ------------------------------------------------------------------------------ */

static void parse_application_id(struct parser *p)
{
	char *program = take_name(p, "a program or *"), *id = NULL;

	if (program)
		id = take_name(p, "an application id or *");
	if (id && take_end(p, "the end of the line")) {
		open_block(p, program, id, p->line);
		return;
	}
	mem_free(program);
	mem_free(id);
	/* What follows is meant for a program that is not known: for no other one, then. */
	p->block = SKIPPED;
	tell(p, false, p->start,
	     "the statements up to the next application-id are skipped as well");
}

static bool take_role(struct parser *p, struct conf_rule *rule)
{
	for (int role = 0; role < CONF_ROLES; role++) {
		if (take_word(p, conf_role_name((enum conf_role)role))) {
			rule->role = (enum conf_role)role;
			return true;
		}
	}
	return expected(p, ROLES);
}

static void parse_rule(struct parser *p, enum conf_says says)
{
	struct conf_rule rule = {.says = says};

	if (take_role(p, &rule) && take_tuple(p, &rule))
		add_rule(p, &rule);
}

/* Transports of the hardware before Ethernet: such a rule never matches. */
static void parse_never(struct parser *p)
{
	struct conf_rule rule;

	if (take_role(p, &rule) && take_tuple(p, &rule))
		tell(p, false, p->start, "rules for sdp and sa have no effect");
}

static void parse_use(struct parser *p)
{
	if (take_word(p, "os")) {
		parse_rule(p, CONF_OS);
	} else if (take_word(p, "vma")) {
		parse_rule(p, CONF_VMA);
	} else if (take_char(p, '*')) { /* any transport: acceleration is one */
		skip_blanks(p);
		parse_rule(p, CONF_VMA);
	} else if (take_word(p, "sdp") || take_word(p, "sa")) {
		parse_never(p);
	} else {
		expected(p, "vma or os");
	}
}

static void parse_interface(struct parser *p)
{
	struct conf_rule rule = {.role = CONF_INTERFACE};

	if (take_word(p, "deny")) {
		rule.says = CONF_OS;
	} else if (!take_word(p, "allow")) {
		expected(p, "allow or deny");
		return;
	}
	rule.pattern = take_name(p, "an interface or a pattern");
	if (!rule.pattern)
		return;
	if (take_end(p, "the end of the line"))
		add_rule(p, &rule);
	else
		mem_free(rule.pattern);
}

static bool take_destination(struct parser *p)
{
	bool named = take_word(p, "file") || take_word(p, "yfile");
	char *name;

	if (!named)
		return take_word(p, "stderr") || take_word(p, "ystderr") ||
		       take_word(p, "syslog") ||
		       expected(p, "a destination (stderr, syslog or file NAME)");
	name = take_name(p, "the name of a file");
	mem_free(name);
	return name != NULL;
}

/* Files of old contain it. */
static void parse_log(struct parser *p)
{
	bool ok;
	unsigned level;

	if (take_word(p, "destination")) {
		ok = take_destination(p);
	} else if (take_word(p, "min-level")) {
		ok = take_number(p, 0, 9999, "a number", &level);
		skip_blanks(p);
	} else {
		ok = expected(p, "destination or min-level");
	}
	if (ok && take_end(p, "the end of the line"))
		tell(p, false, p->start,
		     "log has no effect: set VMA_LOG_FILE and VMA_TRACELEVEL instead");
}

static void parse_statement(struct parser *p)
{
	skip_blanks(p);
	if (p->at == p->end)
		return;
	if (take_word(p, "application-id"))
		parse_application_id(p);
	else if (take_word(p, "use"))
		parse_use(p);
	else if (take_word(p, "must"))
		parse_rule(p, CONF_MUST);
	else if (take_word(p, "interface"))
		parse_interface(p);
	else if (take_word(p, "log"))
		parse_log(p);
	else
		expected(p, "application-id, use, must, interface or log");
}

static void parse_line(struct parser *p, const char *line, size_t len)
{
	const char *comment = memchr(line, '#', len);

	p->line++;
	p->start = p->at = line;
	p->end = comment ? comment : line + len;
	if (len <= CONF_LINE_MAX)
		parse_statement(p);
	else
		tell(p, true, line + CONF_LINE_MAX,
		     "expected the end of the line: it has more than %d bytes", CONF_LINE_MAX);
}

int conf_parse(struct conf *conf, const char *text, size_t len, conf_note_fn *note, void *arg)
{
	struct parser p = {.conf = conf, .block = NO_BLOCK, .note = note, .arg = arg};

	memset(conf, 0, sizeof(*conf));
	while (len && !p.no_memory) {
		const char *newline = memchr(text, '\n', len);
		size_t line = newline ? (size_t)(newline - text) : len;

		if (p.line == CONF_LINES_MAX) {
			p.line++;
			p.start = text;
			tell(&p, true, text,
			     "expected the end of the file: it has more than %d lines",
			     CONF_LINES_MAX);
			break;
		}
		parse_line(&p, text, line);
		line += newline != NULL;
		text += line;
		len -= line;
	}
	return p.no_memory ? -ENOMEM : 0;
}

/* ---- questions ------------------------------------------------------------------------------ */

static void ignore_note(void *arg, const struct conf_note *note)
{
	(void)arg;
	(void)note;
}

/* Each side is a rule's with one address and one port. */
bool conf_parse_question(const char *text, struct conf_addr addr[2], int *n)
{
	struct parser p = {
		.start = text, .at = text, .end = text + strlen(text), .note = ignore_note};
	struct conf_rule rule;

	skip_blanks(&p);
	if (!take_tuple(&p, &rule))
		return false;
	*n = rule.two ? 2 : 1;
	for (int i = 0; i < *n; i++) {
		const struct conf_side *side = &rule.side[i];
		bool any = !side->bits && !side->ip6;
		bool any_port = !side->first && side->last == PORT_MAX;

		if ((!any && side->bits != 128) || (!any_port && side->first != side->last))
			return false;
		addr[i] = (struct conf_addr){.port = any_port ? 0 : side->first};
		memcpy(addr[i].addr, side->addr, sizeof(addr[i].addr));
	}
	return true;
}
