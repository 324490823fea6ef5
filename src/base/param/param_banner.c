/* SPDX-License-Identifier: BSD-2-Clause */
/* The start-up banner. */
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/clock.h"
#include "base/param/param_internal.h"
#include "base/image/sections.h"
#include "base/sys.h"
#include "base/version.h"

#define RULE "---------------------------------------------------------------------------"
#define BANNER_TEXT 512
#define DAY 86400
#define DAYS_OF_400_YEARS 146097

/*
 * The log level is always shown, because users look for it.  Nothing else that is at its default
 * is shown at level info.
 */
static void banner_line(const struct param *param)
{
	bool is_default = param_is_default(param);
	enum log_level at = is_default && param->kind != KIND_LEVEL ? LOG_DETAILS : LOG_INFO;
	const char *label = param->label;
	char value[BANNER_TEXT];

	if (at > log_level || (is_default && (!label[0] || param->kind == KIND_SPEC)))
		return;
	param_banner_text(param, value, sizeof(value));
	/* Without a label: the variable's name, without VMA_. */
	log_at(at, "%-30s %-26s [%s]", label[0] ? label : param->variable + 4, value,
	       param->variable);
}

static void banner_command(void)
{
	char line[512];
	int fd = sys_open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC, 0);
	ssize_t len;

	if (fd < 0)
		return;
	len = sys_read(fd, line, sizeof(line) - 1);
	sys_close(fd);
	if (len <= 0)
		return;
	line[len] = '\0';
	/* Each argument ends with a zero byte and may contain newlines. */
	for (ssize_t i = 0; i < len - 1; i++) {
		if (iscntrl((unsigned char)line[i]))
			line[i] = ' ';
	}
	log_info("Cmd Line: %s", line);
}

/*
 * In UTC.  Not localtime(3): the C library keeps the time zone that is set at the first such call,
 * and the program may set another one before its own.
 */
static void banner_time(void)
{
	static const char days[] = "ThuFriSatSunMonTueWed";
	static const char months[] = "MarAprMayJunJulAugSepOctNovDecJanFeb";
	long now = (long)(clock_real() / NSEC_PER_SEC), day = now / DAY, sec = now % DAY;
	/* Days since 1 March 2000, because leap days end years that begin in March. */
	long d = day - 11017;
	long cycle = d / DAYS_OF_400_YEARS, in_cycle = d % DAYS_OF_400_YEARS;
	long year = (in_cycle - in_cycle / 1460 + in_cycle / 36524 - in_cycle / 146096) / 365;
	long in_year = in_cycle - (365 * year + year / 4 - year / 100);
	long month = (5 * in_year + 2) / 153, of_month = in_year - (153 * month + 2) / 5 + 1;

	log_info("Current Time: %.3s %.3s %2ld %02ld:%02ld:%02ld %ld UTC", days + day % 7 * 3,
		 months + month * 3, of_month, sec / 3600, sec / 60 % 60, sec % 60,
		 2000 + 400 * cycle + year + (month >= 10));
}

EARLY_CODE void param_banner(void)
{
	struct utsname host;

	if (log_level < LOG_INFO)
		return;
	log_info(RULE);
	log_info("VMA_VERSION: " VMA_VERSION " " VMA_VERSION_KIND);
	banner_command();
	banner_time();
	log_info("Pid: %5d", sys_getpid());
	if (!uname(&host)) {
		log_info("Architecture: %s", host.machine);
		log_info("Node: %s", host.nodename);
	}
	log_info(RULE);
	for (unsigned i = 0; i < param_count(); i++)
		banner_line(&param_table[i]);
	log_info(RULE);
}
