/* SPDX-License-Identifier: BSD-2-Clause */
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "doctor.h"
#include "ring/xdp/xdp_check.h"

#define KERNEL_MAJOR 5 /* the oldest kernel: 5.10 */
#define KERNEL_MINOR 10

#define LOCKED_MB 16 /* of frames at least, for each interface */

static bool kernel_is(unsigned major, unsigned minor, const char *release)
{
	unsigned is_major, is_minor;

	return sscanf(release, "%u.%u", &is_major, &is_minor) == 2 &&
	       (is_major > major || (is_major == major && is_minor >= minor));
}

static void check_kernel(const struct patient *patient, const char *release)
{
	int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (!kernel_is(KERNEL_MAJOR, KERNEL_MINOR, release))
		report_finding(patient->report, FINDING_BLOCKS, "kernel",
			       "boot a newer kernel (Debian 11 or later has one)",
			       "Linux %s; %d.%d or later is needed", release, KERNEL_MAJOR,
			       KERNEL_MINOR);
	else if (fd < 0 && errno == EAFNOSUPPORT)
		report_finding(patient->report, FINDING_BLOCKS, "kernel",
			       "boot a kernel that was built with CONFIG_XDP_SOCKETS",
			       "Linux %s has no AF_XDP", release);
	else
		report_finding(patient->report, FINDING_OK, "kernel", NULL, "Linux %s", release);
	if (fd >= 0)
		close(fd);
}

/* Returns true if nothing is missing. */
static bool check_capabilities(const struct patient *patient, const char *release)
{
	char missing[XDP_CAPS_TEXT];

	if (!xdp_missing_caps(missing)) {
		report_finding(patient->report, FINDING_OK, "privileges", NULL,
			       "this user has all capabilities that AF_XDP needs");
		if (!kernel_is(6, 6, release) && !xdp_have_cap(CAP_PERFMON) &&
		    !xdp_have_cap(CAP_SYS_ADMIN))
			report_finding(patient->report, FINDING_NOTE, "privileges", NULL,
				       "before Linux 6.6 the kernel may ask for CAP_PERFMON, too");
		return true;
	}
	report_finding(patient->report, FINDING_BLOCKS, "privileges",
		       "run the program as root, or give it the capabilities as ambient ones "
		       "(setpriv --ambient-caps, AmbientCapabilities= of systemd)",
		       "this user lacks %s", missing);
	return false;
}

/* The user has the capabilities: does the kernel accept what they are for? */
static void check_policy(const struct patient *patient)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "vma_doctor", 4, 4, 1, NULL);

	if (fd >= 0) {
		close(fd);
		return;
	}
	report_finding(patient->report, FINDING_BLOCKS, "privileges",
		       fd == -EPERM ? "run the program outside the container, or allow bpf(2) and "
				      "AF_XDP in it; before Linux 5.11: ulimit -l unlimited"
				    : "boot a kernel that was built with CONFIG_BPF_SYSCALL",
		       "the kernel refuses to make a BPF map (%s)", strerrordesc_np(-fd));
}

static void check_memlock(const struct patient *patient)
{
	struct rlimit limit;

	if (xdp_have_cap(CAP_IPC_LOCK) || getrlimit(RLIMIT_MEMLOCK, &limit) ||
	    limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= (rlim_t)LOCKED_MB << 20)
		return;
	report_finding(patient->report, FINDING_BLOCKS, "locked memory",
		       "ulimit -l unlimited, LimitMEMLOCK=infinity of systemd, or give the program "
		       "CAP_IPC_LOCK",
		       "the limit is %lu KB, the frames of an interface need %d MB at least",
		       (unsigned long)limit.rlim_cur >> 10, LOCKED_MB);
}

static void check_jit(const struct patient *patient)
{
	char text[16];

	if (patient_read(patient, text, sizeof(text), "/proc/sys/net/core/bpf_jit_enable") &&
	    !strcmp(text, "0"))
		report_finding(patient->report, FINDING_SLOW, "kernel",
			       "sysctl -w net.core.bpf_jit_enable=1",
			       "BPF programs are interpreted, for each frame that arrives");
}

void doctor_system(const struct patient *patient)
{
	struct utsname host;

	if (uname(&host))
		snprintf(host.release, sizeof(host.release), "unknown");
	check_kernel(patient, host.release);
	if (check_capabilities(patient, host.release))
		check_policy(patient);
	check_memlock(patient);
	check_jit(patient);
}
