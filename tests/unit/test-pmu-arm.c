/*
 * Unit test: what kind of instruction the PMU of Arm CPUs takes an encoding for
 *
 * The rows are encodings of each kind, from all over A64, A32, and T32, with
 * what a disassembler makes of them.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bitops.h"

typedef struct DisasContext {
    bool aarch64;
    bool thumb;
    uint32_t insn;
    const char *kind;
} DisasContext;

#define COUNTS(NAME, LANES, FRONTEND, BACKEND)                  \
    static bool trans_##NAME(DisasContext *s, Nothing *a)       \
    {                                                           \
        s->kind = #NAME;                                        \
        return true;                                            \
    }

#include "../../target/arm/pmu/count-kinds.c.inc"

typedef enum InsnSet {
    A64,
    A32,
    T32,
} InsnSet;

static const struct {
    InsnSet set;
    uint32_t insn;
    const char *kind;
} rows[] = {
#define INSN(set, insn, kind) { set, insn, #kind },
#include "pmu-arm-table.h.inc"
};

static void test_kinds(const void *set)
{
    unsigned n = 0;

    for (int i = 0; i < ARRAY_SIZE(rows); i++) {
        DisasContext s = {
            .aarch64 = rows[i].set == A64,
            .thumb = rows[i].set == T32,
            .insn = rows[i].insn,
            /* What counts nothing need not be in a pattern */
            .kind = "NONE",
        };

        if (rows[i].set != GPOINTER_TO_INT(set)) {
            continue;
        }
        count_classify(&s);
        if (!g_str_equal(s.kind, rows[i].kind)) {
            g_test_message("0x%08x is %s and not %s", rows[i].insn, s.kind,
                           rows[i].kind);
            g_test_fail();
        }
        n++;
    }
    g_assert_cmpint(n, >, 100);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_data_func("/pmu-arm/a64", GINT_TO_POINTER(A64), test_kinds);
    g_test_add_data_func("/pmu-arm/a32", GINT_TO_POINTER(A32), test_kinds);
    g_test_add_data_func("/pmu-arm/t32", GINT_TO_POINTER(T32), test_kinds);
    return g_test_run();
}
