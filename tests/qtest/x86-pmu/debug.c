/*
 * Debug exceptions: watchpoints and single-stepping, alone and together
 *
 * An instruction that hits a watchpoint while TF is set causes one #DB, and
 * DR6 tells both reasons. Reference: Intel SDM volume 3, "Debug Registers" and
 * "Debug Exceptions".
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "lib.h"

#define DR6_B0              BIT(0)
#define DR6_BS              BIT(14)
#define DR6_REASONS         (DR6_BS | 15)
#define DR7_WRITE_4         0xd0001ull  /* DR0: writes of 4 bytes */
#define MAX_SEEN            8

/* Two pages: the first word is watched; all else is on pages of its own. */
static Shared32 words[2048] __attribute__((aligned(4096)));
#define WATCHED             (&words[0])
#define NOT_WATCHED         (&words[1024])

/* Both store to their argument. The first #DB is that of the store. */
asm(".globl body_debug_step, body_debug_watch, debug_step_1, debug_step_2\n"
    ".globl debug_step_3, debug_step_4, debug_watch_1\n"
    "body_debug_step:\n"
    "   pushf\n"
    "   orl     $0x100, (%rsp)\n"
    "   popf\n"
    "   mov     %edi, (%rdi)\n"
    "debug_step_1:\n"
    "   pushf\n"
    "debug_step_2:\n"
    "   andl    $~0x100, (%rsp)\n"
    "debug_step_3:\n"
    "   popf\n"
    "debug_step_4:\n"
    "   ret\n"
    "body_debug_watch:\n"
    "   mov     %edi, (%rdi)\n"
    "debug_watch_1:\n"
    "   ret\n");

static unsigned seen;
static uint64_t seen_rip[MAX_SEEN], seen_reasons[MAX_SEEN];

static void write_dr7(uint64_t value)
{
    asm volatile("mov %0, %%dr7" : : "r" (value));
}

static bool hook_reasons(Frame *f)
{
    uint64_t dr6;

    if (f->vector != VEC_DB) {
        return false;
    }
    asm volatile("mov %%dr6, %0" : "=r" (dr6));
    asm volatile("mov %0, %%dr6" : : "r" (0ull));
    if (seen < MAX_SEEN) {
        seen_rip[seen] = f->rip;
        seen_reasons[seen] = dr6 & DR6_REASONS;
    }
    seen++;
    return true;
}

static void check_debug(int i, const uint8_t *rip, uint64_t reasons)
{
    check("return address", i, seen_rip[i], (uintptr_t)rip);
    check("reasons in DR6", i, seen_reasons[i], reasons);
}

static void run(void (*body)(void), Shared32 *word, bool at_cpl3)
{
    seen = 0;
    (at_cpl3 ? user : kernel)(body, (uintptr_t)word);
}

static void check_steps(uint64_t first)
{
    check("#DBs", NO_STEP, seen, 4);
    check_debug(0, debug_step_1, first);
    check_debug(1, debug_step_2, DR6_BS);
    check_debug(2, debug_step_3, DR6_BS);
    check_debug(3, debug_step_4, DR6_BS);
}

void case_debug_reasons(void)
{
    Cpu *cpu = this_cpu();
    int i;

    asm volatile("mov %0, %%dr0" : : "r" (WATCHED));
    asm volatile("mov %0, %%dr6" : : "r" (0ull));
    for (i = 0; i < 4; i++) {
        bool at_cpl3 = i & 1;

        pmu_reset();
        program_fixed(0, FIXED_OS | FIXED_USR);
        pmu_enable = i & 2 ? FIXED_BIT(0) : 0;
        cpu->hook = hook_reasons;

        context("single-stepping under a watchpoint");
        write_dr7(DR7_WRITE_4);
        run(body_debug_step, WATCHED, at_cpl3);
        check_steps(DR6_B0 | DR6_BS);

        context("watchpoint");
        run(body_debug_watch, WATCHED, at_cpl3);
        check("#DBs", NO_STEP, seen, 1);
        check_debug(0, debug_watch_1, DR6_B0);

        context("single-stepping after a watchpoint");
        run(body_debug_step, NOT_WATCHED, at_cpl3);
        check_steps(DR6_BS);

        context("single-stepping");
        write_dr7(0);
        run(body_debug_step, WATCHED, at_cpl3);
        check_steps(DR6_BS);
        cpu->hook = NULL;
    }
    context("");
    pmu_reset();
}
