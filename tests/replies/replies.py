# SPDX-License-Identifier: BSD-2-Clause
"""The test side: sends frames, one input after the other, and records what the target
answers and what its program has received: see case.py.

	replies.py FAMILY INTERFACE TARGET-MAC RP_FILTER OTHER-INTERFACE OTHER-MAC > transcript

FAMILY: 4 or 6.  It sends frames on the first interface, and receives on both.
"""
import case
import inputs4
import inputs6
import inputs_icmp
import inputs_tcp
import inputs_udp

(inputs6 if case.IPV6 else inputs4).run()
if case.RP_FILTER == "0":
    inputs_udp.run()
    inputs_tcp.run()
    inputs_icmp.run()
