/*
 * What the x86 PMU qtests and the program that they boot agree on
 *
 * The program waits for a command in its mailbox, runs the test case of that
 * number, and appends a line of text for each rule that does not hold.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef X86_PMU_GUEST_H
#define X86_PMU_GUEST_H

/* The default version of the PMU, and the most that there is */
#define MOST_VERSION        5
#define MOST_GP_COUNTERS    8
#define MOST_FIXED_COUNTERS 4
#define MOST_COUNTER_WIDTH  48

/* The tests' pmu-metrics-ovf, in slots */
#define METRICS_LIMIT       4096

/*
 * Counting starts with the instruction after the WRMSR that enables it. The
 * WRMSR that disables it still counts: kvm-unit-tests wants exactly one of
 * the two in its instruction counts. Set this to 0, and nothing else, for a
 * CPU where counting ends before the WRMSR.
 */
#define DISABLING_WRMSR     1

/* The program: an image at the end of the first 4 GiB, then copied to RAM */
#define GUEST_ROM_SIZE      0x40000
#define GUEST_RAM_BASE      0x100000
#define GUEST_TRAMPOLINE    0x8000
#define GUEST_PAGE_TABLES   0x10000
/* 2 MiB of 4 KiB pages for page faults; all other pages have 2 MiB */
#define GUEST_SMALL_PAGES   0x400000
#define GUEST_STACK_SIZE    0x4000
/* Where SMM starts after RESET, and the RIP that it has saved (in QEMU) */
#define GUEST_SMI_HANDLER   0x38000
#define GUEST_SMI_RIP       0x3ff78
/* Not part of the image: code to be written, and much data; up to 16 MiB */
#define GUEST_CODE_AREA     0x600000
#define GUEST_DATA_AREA     0x800000

#define MAILBOX_ADDR        0x20000
#define MAILBOX_BOOTS       0       /* incremented when it is ready */
#define MAILBOX_COMMAND     4       /* written by the qtest, 0 when done */
#define MAILBOX_CHECKS      8       /* rules that were checked */
#define MAILBOX_FAILURES    12      /* those which do not hold */
#define MAILBOX_PHASE       16      /* progress in a case, for the qtest */
#define MAILBOX_LENGTH      20      /* of the text */
#define MAILBOX_ARG         24      /* 64 bits for the case, */
#define MAILBOX_ARG2        32      /* and 64 more */
#define MAILBOX_CONFIG      40      /* what the CPU is like */
#define MAILBOX_TEXT        64
#define MAILBOX_TEXT_SIZE   0x10000
#define MAILBOX_DEAD        0xdead  /* phase after an unexpected exception */

#define CONFIG_WIDTH        0xff    /* slots per cycle */
#define CONFIG_LEVEL_2      0x100   /* PERF_METRICS has eight bytes */
#define CONFIG_PRECISE      0x200   /* pmu-model=precise */
#define CONFIG_SMP          0x400   /* there is a second CPU */
#define CONFIG_TIMER        0x800   /* time depends on nothing but the code */
/* Four fields for what is not the default: version, counters, their width */
#define CONFIG_SHAPE(version, gp, fixed, width)                             \
    ((version) << 12 | (gp) << 16 | (fixed) << 20 | (width) << 24)
#define CONFIG_EXACT        0x8000  /* no interrupt waits for a block's end */
#define CONFIG_TURNS        0x800000  /* the CPUs take turns of 100 ms */

/* In front of what some bodies wait for */
#define LOOSE_NOPS            64

/*
 * The first words of the image are a command to run without the qtest, and
 * what MAILBOX_CONFIG is then. The text goes to -debugcon, where each
 * character is an event for record and replay: without one, a replay ends
 * before the last instructions.
 */
#define DEBUG_PORT          0xe9
#define EXIT_PORT           0x501

#endif
