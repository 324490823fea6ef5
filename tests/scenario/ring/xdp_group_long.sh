#!/bin/bash
# xdp_group_test, with its killing going on for a minute.
GROUP_SECONDS=60 exec "$1"
