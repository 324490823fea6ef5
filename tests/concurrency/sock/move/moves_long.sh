#!/bin/bash
# moves_test, with a million moves:
#	bazel test --test_output=all //tests/concurrency/sock/move:moves_long
VMA_MOVES=${VMA_MOVES:-1000000} exec "$1"
