/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sections of libvma.so for what every start of a program, fork(2) and exit touches.
 *
 * A page costs a fault when it is first touched after an exec, and each page of data costs another
 * one, with a copy, when parent or child write to it after a fork. So these functions and variables
 * lie together: tests/budget/forks_test counts the faults.
 */
#ifndef BASE_IMAGE_SECTIONS_H
#define BASE_IMAGE_SECTIONS_H

#define EARLY_CODE __attribute__((section(".text.startup")))
/* Variables without relocations, that are written to at a fork or in a child that has not begun. */
#define EARLY_DATA __attribute__((section("early_data")))

#endif
