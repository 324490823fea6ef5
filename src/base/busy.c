/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/busy.h"

__thread struct hold *hold_current __attribute__((tls_model("initial-exec")));
char busy_with[1];
