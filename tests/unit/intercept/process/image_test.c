/* SPDX-License-Identifier: BSD-2-Clause */
#include "intercept/process/image.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/vma_test.h"

static char dir[] = "/tmp/image_test_XXXXXX";

/* LD_PRELOAD names the test itself, which contains the library. */
static char **with_library(void)
{
	static char preload[600];
	static char *env[] = {(char *)"A=1", preload, NULL};
	char self[500] = "";

	assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	snprintf(preload, sizeof(preload), "LD_PRELOAD=/other.so:%s", self);
	return env;
}

static const char *file(const char *name, const void *content, size_t n, int mode)
{
	static char path[600];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0700);
	assert_int_equal(write(fd, content, n), n);
	assert_int_equal(fchmod(fd, (mode_t)mode), 0);
	close(fd);
	return path;
}

static const char *script(const char *text, int mode)
{
	return file("script", text, strlen(text), mode);
}

/* The beginning of a program that has one segment of this type. */
static const char *program(unsigned char class, unsigned type)
{
	struct {
		ElfW(Ehdr) elf;
		ElfW(Phdr) segment;
	} p = {.elf = {.e_machine = EM_X86_64, .e_phnum = 1, .e_phoff = sizeof(ElfW(Ehdr))},
	       .segment = {.p_type = type}};

	memcpy(p.elf.e_ident, ELFMAG, SELFMAG);
	p.elf.e_ident[EI_CLASS] = class;
	return file("program", &p, sizeof(p), 0755);
}

static enum image at(const char *path)
{
	return image_at(AT_FDCWD, path, 0, with_library());
}

static void test_a_program_with_a_loader_has_the_library(void **state)
{
	char *none[] = {NULL}, *other[] = {(char *)"LD_PRELOAD=/other.so", NULL};

	assert_int_equal(at("/bin/sh"), IMAGE_OURS);
	assert_int_equal(image_at(AT_FDCWD, "/bin/sh", 0, none), IMAGE_PLAIN);
	assert_int_equal(image_at(AT_FDCWD, "/bin/sh", 0, other), IMAGE_PLAIN);
	assert_int_equal(image_at(AT_FDCWD, "/bin/sh", 0, NULL), IMAGE_PLAIN);
}

static void test_a_program_without_a_loader_has_no_library(void **state)
{
	assert_int_equal(at(program(ELFCLASS64, PT_INTERP)), IMAGE_OURS);
	assert_int_equal(at(program(ELFCLASS64, PT_LOAD)), IMAGE_PLAIN);
	assert_int_equal(at(program(ELFCLASS32, PT_INTERP)), IMAGE_PLAIN);
}

static void test_a_program_that_gains_privileges_has_no_library(void **state)
{
	const char *path = program(ELFCLASS64, PT_INTERP);

	assert_int_equal(chmod(path, 06755), 0);
	assert_int_equal(at(path), IMAGE_OURS); /* owned by this user */
	assert_int_equal(chown(path, 1, 1), 0);
	assert_int_equal(chmod(path, 04755), 0);
	assert_int_equal(at(path), IMAGE_PLAIN);
	assert_int_equal(chmod(path, 02755), 0);
	assert_int_equal(at(path), IMAGE_PLAIN);
	assert_int_equal(chmod(path, 0755), 0);
	assert_int_equal(at(path), IMAGE_OURS);
}

static void test_a_script_is_as_its_interpreter(void **state)
{
	char text[700];

	assert_int_equal(at(script("#! /bin/sh -e\n", 0755)), IMAGE_OURS);
	assert_int_equal(at(script("#!/nonexistent\n", 0755)), IMAGE_OURS);
	assert_int_equal(at(script("echo hello\n", 0755)), IMAGE_OURS);
	assert_int_equal(at(script("#!", 0755)), IMAGE_OURS);
	assert_int_equal(at(script("", 0755)), IMAGE_OURS);
	snprintf(text, sizeof(text), "#!%s\n", program(ELFCLASS64, PT_LOAD));
	assert_int_equal(at(script(text, 0755)), IMAGE_PLAIN);
	/* A script that is its own interpreter: the kernel refuses it as well. */
	snprintf(text, sizeof(text), "#!%s/script\n", dir);
	assert_int_equal(at(script(text, 0755)), IMAGE_OURS);
}

static void test_a_file_that_cannot_be_executed_is_none(void **state)
{
	assert_int_equal(at("/nonexistent/program"), IMAGE_NONE);
	assert_int_equal(at("/"), IMAGE_NONE);
	assert_int_equal(at("/dev/null"), IMAGE_NONE);
	assert_int_equal(at(NULL), IMAGE_NONE);
	assert_int_equal(at(""), IMAGE_NONE);
	assert_int_equal(at(script("#!/bin/sh\n", 0644)), IMAGE_NONE);
}

static void test_a_descriptor_can_name_a_program(void **state)
{
	int fd = open("/bin/sh", O_RDONLY | O_CLOEXEC), bin = open("/bin", O_PATH | O_CLOEXEC);

	assert_int_equal(image_at(fd, "", AT_EMPTY_PATH, with_library()), IMAGE_OURS);
	assert_int_equal(image_at(bin, "sh", 0, with_library()), IMAGE_OURS);
	assert_int_equal(image_at(bin, "nonexistent", 0, with_library()), IMAGE_NONE);
	assert_int_equal(image_at(-1, "", AT_EMPTY_PATH, with_library()), IMAGE_NONE);
	close(fd);
	close(bin);
}

static void test_the_path_is_searched(void **state)
{
	char path[600];

	program(ELFCLASS64, PT_LOAD);
	snprintf(path, sizeof(path), "/nonexistent::%s:/bin", dir);
	setenv("PATH", path, 1);
	assert_int_equal(image_search("sh", with_library()), IMAGE_OURS);
	assert_int_equal(image_search("program", with_library()), IMAGE_PLAIN);
	assert_int_equal(image_search("nonexistent", with_library()), IMAGE_NONE);
	assert_int_equal(image_search("", with_library()), IMAGE_NONE);
	assert_int_equal(image_search("/bin/sh", with_library()), IMAGE_OURS);
	assert_int_equal(image_search("bin/sh", with_library()), IMAGE_NONE);
	unsetenv("PATH");
	assert_int_equal(image_search("sh", with_library()), IMAGE_OURS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_program_with_a_loader_has_the_library),
		cmocka_unit_test(test_a_program_without_a_loader_has_no_library),
		cmocka_unit_test(test_a_program_that_gains_privileges_has_no_library),
		cmocka_unit_test(test_a_script_is_as_its_interpreter),
		cmocka_unit_test(test_a_file_that_cannot_be_executed_is_none),
		cmocka_unit_test(test_a_descriptor_can_name_a_program),
		cmocka_unit_test(test_the_path_is_searched),
	};
	char command[100];
	int rc;

	if (!mkdtemp(dir))
		return 1;
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(command, sizeof(command), "rm -r %s", dir);
	return system(command) || rc;
}
