/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/tcp/recovery/rtt.h"

static nsec_t limit_rto(nsec_t rto)
{
	return rto > RTT_MAX_RTO ? RTT_MAX_RTO : rto;
}

void rtt_init(struct rtt *rtt)
{
	*rtt = (struct rtt){.rto = RTT_INITIAL_RTO};
}

nsec_t rtt_base(const struct rtt *rtt, nsec_t min_rto)
{
	/* The variance counts at least as the minimum RTO, as on Linux. */
	nsec_t late = 4 * rtt->rttvar > min_rto ? 4 * rtt->rttvar : min_rto;

	return rtt->srtt ? limit_rto(rtt->srtt + late) : RTT_INITIAL_RTO;
}

void rtt_sample(struct rtt *rtt, nsec_t sample, nsec_t min_rto)
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
	rtt->rto = rtt_base(rtt, min_rto);
}

void rtt_backoff(struct rtt *rtt)
{
	rtt->rto = limit_rto(2 * rtt->rto);
}
