/*
 * What the qtests of the x86 PMU have in common
 *
 * They boot the program in x86-pmu/, and run its cases by way of a mailbox in
 * RAM, or let it run one of them alone.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef X86_PMU_UTIL_H
#define X86_PMU_UTIL_H

#include "libqtest.h"
#include "x86-pmu/cases.h"
#include "x86-pmu/guest.h"

/* The versions of Icelake-Server before 4 say that they are something else */
#define ICELAKE     "-cpu Icelake-Server-v6,pmu=on"
#define SAPPHIRE    "-cpu SapphireRapids,pmu=on"

typedef struct Guest {
    QTestState *qts;
    unsigned boots;
    uint32_t config;                /* MAILBOX_CONFIG */
    int phase;                      /* that its case is in, or -1 */
    uint32_t command;               /* of guest_start() */
    uint64_t arg, arg2;
} Guest;

/* Before the first guest, and after the last one; false if there can be none */
bool guest_setup(void);
void guest_cleanup(void);

/*
 * Add a test PREFIX/PATH for each case from @first to @end - 1 but those that
 * are CASE_MANUAL, which qtests run themselves. @fn gets the case's number.
 */
void guest_add_cases(const char *prefix, unsigned first, unsigned end,
                     void (*fn)(const void *));
unsigned guest_case_flags(unsigned command);

/* The name of an empty file for QEMU to write to */
char *guest_temporary_file(void);

/* A new disk for snapshots, whose name GUEST_DISK takes */
#define GUEST_DISK  " -drive if=none,format=qcow2,file=%s"
char *guest_disk(void);

/*
 * Run a case, and migrate to a new process at random points until it is done
 * or @n, which counts down, is 0. Without @args, go back to a snapshot in this
 * process instead, from some time after it. Returns the text of the case.
 */
char *guest_run_migrating(Guest *g, const char *args, uint32_t command,
                          uint64_t arg, uint64_t arg2, unsigned *n);

Guest guest_init(const char *args, uint32_t config);
void guest_quit(Guest *g);
/* Stops @g, in the phase that was waited for; returns the name of a file. */
char *guest_save(Guest *g);
/* The program of @g goes on from there in another QEMU; removes the file. */
Guest guest_load(const Guest *g, const char *args, const char *stream);
/* A new QEMU, which does not run yet; @done: has it loaded the stream? */
QTestState *guest_load_bad(const char *args, const char *stream, bool *done);
/* Does a new QEMU load this? It must survive it, and run. */
bool guest_try_load(const char *args, const char *stream);
/* A new QEMU must refuse to load this, and end; returns what it says. */
char *guest_refusal(const char *args, const char *stream);
/* Quits @g; its program goes on in another QEMU. */
Guest guest_migrate(Guest *g, const char *args);
/* Waits until its program has started again. */
void guest_wait_boot(Guest *g);
/* Resets it, and waits for its program. */
void guest_reset(Guest *g);

/* Run a case: to the end, or to a phase of it. */
void guest_run(Guest *g, uint32_t command, uint64_t arg, uint64_t arg2);
void guest_start(Guest *g, uint32_t command, uint64_t arg, uint64_t arg2);
/* Starts the case again if the host was too late to see it in this phase */
void guest_wait_phase(Guest *g, uint32_t phase);
void guest_set_phase(Guest *g, uint32_t phase);
void guest_finish(Guest *g);
/* What it has printed */
char *guest_text(Guest *g);

/*
 * Run a case in a QEMU without qtest. Returns what the program prints, which
 * is nothing if it is not started; *@messages is what QEMU says.
 */
char *guest_run_alone(uint32_t command, uint32_t config, const char *args,
                      char **messages);
/* The same; it is a failure if something is not as it should be. */
char *guest_must_run(uint32_t command, uint32_t config, const char *args,
                     char **messages);
/* Fails unless they are the same. */
void guest_check_same(const char *a, const char *b);
/* The same with each of several arguments, the last of which is NULL */
void guest_check_runs(uint32_t command, uint32_t config,
                      const char *const *args);
/* The same when it is recorded and replayed */
void guest_check_replay(uint32_t command, uint32_t config, const char *args);
/* The lines of one text which the other does not have */
unsigned guest_new_lines(const char *text, const char *old);

#endif
