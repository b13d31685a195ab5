/*
 * Helpers for qtests of counted instructions
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "insn-count-util.h"

/* QEMU's CF_INSN_COUNT_MASK, of the flags of a block in the log */
#define CF_INSN_COUNT_MASK      0x00f80000

unsigned insn_count_blocks(const char *name, unsigned *counting)
{
    g_autofree char *text = NULL;
    g_auto(GStrv) lines = NULL;
    unsigned n = 0;

    *counting = 0;
    g_assert_true(g_file_get_contents(name, &text, NULL, NULL));
    lines = g_strsplit(text, "\n", 0);
    for (int i = 0; lines[i]; i++) {
        unsigned flags;
        const char *at;

        /* "Trace 0: 0x... [cs_base/pc/flags/cflags]"; the last may be cut */
        if (!g_str_has_prefix(lines[i], "Trace ") || !lines[i + 1]) {
            continue;
        }
        at = strrchr(lines[i], '/');
        g_assert(at && sscanf(at, "/%x]", &flags) == 1);
        n++;
        *counting += (flags & CF_INSN_COUNT_MASK) != 0;
    }
    return n;
}
