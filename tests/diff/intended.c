/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/diff/intended.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX 512

struct edit {
	const char *rest; /* the rest of the text */
	FILE *out;
};

/* Does a comma-separated list have the word? */
static bool is_among(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (; *list; list += strcspn(list, ","), list += *list == ',') {
		if (strcspn(list, ",") == len && !strncmp(list, word, len))
			return true;
	}
	return false;
}

/* Copies up to the line, and copies that line or leaves it out. False: there is no such line. */
static bool go_to(struct edit *e, const char *line, bool keep)
{
	size_t len = strlen(line);

	while (*e->rest) {
		size_t n = strcspn(e->rest, "\n"), with_end = n + (e->rest[n] == '\n');
		bool found = n == len && !strncmp(e->rest, line, len);

		if (!found || keep)
			fwrite(e->rest, 1, with_end, e->out);
		e->rest += with_end;
		if (found)
			return true;
	}
	return false;
}

static bool apply(struct edit *e, const char *line)
{
	if (*line == '+')
		return fprintf(e->out, "%s\n", line + 1) > 0;
	return go_to(e, line + 1, *line == ' ');
}

static bool is_of_suite(const char *word, const struct intended_at *at)
{
	const char card[] = "card:";
	size_t len = sizeof(card) - 1;

	if (at->card && !strncmp(word, card, len))
		word += len;
	return !strcmp(word, at->suite);
}

/* Is this the head of an entry for this place? Its reason. */
static const char *reason_in(const char *line, const struct intended_at *at)
{
	char suite[64], behaviour[64], side[64], modes[64];
	int reason = 0;

	if (strchr("#+-~? \n", *line) ||
	    sscanf(line, "%63s %63s %63s %63s %n", suite, behaviour, side, modes, &reason) < 4)
		return NULL;
	return is_of_suite(suite, at) && !strcmp(behaviour, at->behaviour) &&
			       !strcmp(side, at->side) && is_among(modes, at->mode) && line[reason]
		       ? line + reason
		       : NULL;
}

/* Is the line, which may begin with a family, for this one? */
static bool is_for(const char *line, char family)
{
	switch (*line) {
	case '4':
	case 'n':
		return *line == family;
	case 'm':
		return family == '6';
	case '6':
		return family != '4';
	default:
		return true;
	}
}

/* False: the entry does not fit. */
static bool edit(FILE *file, const struct intended_at *at, struct edit *e, char **reason,
		 enum intended_frames *frames)
{
	char line[LINE_MAX], why[LINE_MAX] = "";
	bool fits = true;

	while (fits && fgets(line, sizeof(line), file)) {
		bool family = *line && strchr("46mn", *line) && strchr("+-~? ", line[1]) && line[1];
		const char *edit = family ? line + 1 : line, *found;

		line[strcspn(line, "\n")] = 0;
		if (*edit && strchr("+-~? ", *edit)) {
			if (!*why || !is_for(line, at->family))
				continue;
			if (*edit == '~')
				*frames = FRAMES_KERNELS;
			else if (*edit == '?')
				*frames = FRAMES_EITHER;
			else
				fits = apply(e, edit);
			*reason = *reason ? *reason : strdup(why);
			continue;
		}
		found = reason_in(line, at);
		strcpy(why, found ? found : "");
	}
	fputs(e->rest, e->out);
	return fits;
}

char *intended_edit(const char *path, const struct intended_at *at, const char *text, char **reason,
		    enum intended_frames *frames)
{
	FILE *file = fopen(path, "r");
	char *edited = NULL;
	size_t size;
	struct edit e = {text, open_memstream(&edited, &size)};
	bool good = file && e.out;

	*reason = NULL;
	*frames = FRAMES_OURS;
	good = good && edit(file, at, &e, reason, frames);
	if (e.out)
		good &= !fclose(e.out);
	if (file)
		fclose(file);
	if (good)
		return edited;
	free(edited);
	return NULL;
}
