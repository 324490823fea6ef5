/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/tcp/recovery/rtt.h"

static nsec_t clamp_rto(nsec_t rto)
{
	if (rto < RTT_MIN_RTO)
		return RTT_MIN_RTO;
	return rto > RTT_MAX_RTO ? RTT_MAX_RTO : rto;
}

void rtt_init(struct rtt *rtt)
{
	*rtt = (struct rtt){.rto = RTT_INITIAL_RTO};
}

void rtt_sample(struct rtt *rtt, nsec_t sample)
{
	nsec_t error;

	if (sample < 1)
		sample = 1;
	if (rtt->min == 0 || sample < rtt->min)
		rtt->min = sample;
	if (rtt->srtt == 0) {
		rtt->srtt = sample;
		rtt->rttvar = sample / 2;
	} else {
		error = rtt->srtt > sample ? rtt->srtt - sample : sample - rtt->srtt;
		rtt->rttvar += (error - rtt->rttvar) / 4;
		rtt->srtt += (sample - rtt->srtt) / 8;
		if (rtt->srtt < 1)
			rtt->srtt = 1;
	}
	/* The variance counts at least as the minimum RTO, as on Linux. */
	error = 4 * rtt->rttvar;
	rtt->rto = clamp_rto(rtt->srtt + (error > RTT_MIN_RTO ? error : RTT_MIN_RTO));
}

void rtt_backoff(struct rtt *rtt)
{
	rtt->rto = clamp_rto(2 * rtt->rto);
}
