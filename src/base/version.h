/* SPDX-License-Identifier: BSD-2-Clause */
/* The version that the start-up banner and the tools show. */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

#define VMA_VERSION "10.0.0-0"
#define VMA_VERSION_KIND "Development Snapshot"

#endif
