#!/bin/bash
# early_test.sh over IPv6.
exec "$(dirname "$(realpath -s "$0")")/early_test.sh" -6
