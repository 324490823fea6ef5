#!/bin/bash
# xdp_group_test, with processes killed for a minute.
GROUP_SECONDS=60 exec "$1"
