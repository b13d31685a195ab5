/*
 * What POWER CPUs count for emulated PMUs: instructions, and time
 *
 * See insn-count.h; what instructions count is in
 * translate/insn-count-impl.c.inc.
 *
 * The accelerator counts on for a while after it is told to stop; what it
 * counts while counting is off is subtracted here.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "insn-count.h"
#include "exec/helper-proto.h"
#include "qapi/error.h"
#include "qapi/qapi-builtin-visit.h"
#include "qemu/main-loop.h"
#include "qemu/pmu-compat.h"
#include "qemu/timer.h"
#include "tcg/insn-start-words.h"

/* See @lane below */
#define PPC_COUNT_WORDS         3
#define PPC_COUNT_WORDS_USED    (INSN_COUNT_UNITS | INSN_COUNT_WORD(1) | \
                                 INSN_COUNT_WORD(2))

enum {
    PPC_COUNT_BUSY,
    PPC_COUNT_RUN,
};

bool ppc_count_available(void)
{
    return insn_count_available();
}

static uint64_t ppc_count_total(PPCInsnCount *c)
{
    uint64_t sum = 0;
    unsigned i;

    for (i = 0; i < PPC_COUNT_DOMAINS; i++) {
        sum += c->insns.total[i][PPC_COUNT_INSNS];
    }
    return sum;
}

/* As the translator chooses it */
static unsigned ppc_count_domain(CPUState *cs)
{
    uint32_t hflags = qatomic_read(&POWERPC_CPU(cs)->env.hflags);

    return (hflags >> HFLAGS_HV & 1) << 1 | (hflags >> HFLAGS_PR & 1);
}

/* One deadline for the instructions of all domains together */
static void ppc_count_set_deadline(PowerPCCPU *cpu)
{
    PPCInsnCount *c = &cpu->insn_count;
    int64_t due[1 << INSN_COUNT_DOMAINS];
    unsigned i;

    for (i = 0; i < ARRAY_SIZE(due); i++) {
        due[i] = INSN_COUNT_NEVER;
    }
    if (c->call) {
        due[ARRAY_SIZE(due) - 1] = MAX((int64_t)(c->call_at -
                                                 ppc_count_total(c)), 0);
    }
    insn_count_set_deadlines(CPU(cpu), ppc_count_domain(CPU(cpu)), due);
}

/*
 * Switch between the two meanings of @base: while counting is on, it is what
 * the totals were ahead of the counts; while it is off, the counts themselves.
 */
static void ppc_count_toggle(PowerPCCPU *cpu)
{
    PPCInsnCount *c = &cpu->insn_count;
    unsigned d, l;

    insn_count_sync(CPU(cpu), 0);
    for (d = 0; d < PPC_COUNT_DOMAINS; d++) {
        for (l = 0; l < PPC_COUNT_LANES; l++) {
            c->base[d][l] = c->insns.total[d][l] - c->base[d][l];
        }
    }
}

void ppc_count_enable(PowerPCCPU *cpu, bool on)
{
    PPCInsnCount *c = &cpu->insn_count;

    if (on == c->on) {
        return;
    }
    ppc_count_toggle(cpu);
    insn_count_enable(CPU(cpu), on ? PPC_COUNT_WORDS_USED : 0, true);
    c->on = on;
    if (on) {
        /* A call may have been set before counting was on. */
        ppc_count_set_deadline(cpu);
    }
    ppc_count_time(cpu);
}

void ppc_count_sync(PowerPCCPU *cpu, uintptr_t ra)
{
    insn_count_sync(CPU(cpu), ra);
}

uint64_t ppc_count_read(PowerPCCPU *cpu, unsigned domain, unsigned lane)
{
    PPCInsnCount *c = &cpu->insn_count;
    uint64_t base = c->base[domain][lane];

    return c->on ? c->insns.total[domain][lane] - base : base;
}

/*
 * Time, and instructions with CTRL[RUN]
 *
 * The clock and the counts are read only when a thread that counts begins or
 * ceases to be busy, or changes CTRL[RUN].
 */

/*
 * Virtual time in ns, for differences while a thread is busy
 *
 * With -icount, the main loop moves the clock on to the next timer when all
 * threads are halted, which it may see before a thread that has just halted
 * gets here. The clock without such steps is what has been executed. With
 * -icount shift=auto, instructions have no fixed length.
 */
static int64_t ppc_count_now(void)
{
    return icount_enabled() == ICOUNT_PRECISE ?
           icount_to_ns(icount_get_raw()) :
           qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
}

/* CTRL[RUN] has changed, or counting with it: @seq is held for writing. */
static void ppc_count_latch(PowerPCCPU *cpu, bool run)
{
    PPCInsnCount *c = &cpu->insn_count;
    unsigned i;

    for (i = 0; i < PPC_COUNT_DOMAINS; i++) {
        uint64_t insns = ppc_count_read(cpu, i, PPC_COUNT_INSNS);

        if (run) {
            qatomic_set_u64(&c->run_from[i], insns);
        } else {
            qatomic_set_u64(&c->run_insns[i],
                            c->run_insns[i] + insns - c->run_from[i]);
        }
    }
}

void ppc_count_time(PowerPCCPU *cpu)
{
    PPCInsnCount *c = &cpu->insn_count;
    CPUState *cs = CPU(cpu);
    /* A reset, or QEMU's stop and cont, let a thread go on that is quiesced */
    bool busy = c->on && !cs->halted && !qatomic_read(&cs->stop) &&
                !cs->stopped;
    bool run = busy && (cpu->env.spr[SPR_CTRL] & CTRL_RUN);
    bool latch = run != c->running[PPC_COUNT_RUN];
    unsigned i;
    int64_t now;

    if (busy == c->running[PPC_COUNT_BUSY] && !latch) {
        return;
    }
    if (latch) {
        ppc_count_sync(cpu, 0);
    }
    now = ppc_count_now();
    seqlock_write_begin(&c->seq);
    if (latch) {
        ppc_count_latch(cpu, run);
    }
    for (i = 0; i < ARRAY_SIZE(c->ns); i++) {
        if (c->running[i]) {
            qatomic_set_i64(&c->ns[i], c->ns[i] + now - c->since);
        }
    }
    qatomic_set_i64(&c->since, now);
    qatomic_set(&c->running[PPC_COUNT_BUSY], busy);
    qatomic_set(&c->running[PPC_COUNT_RUN], run);
    seqlock_write_end(&c->seq);
}

static void ppc_count_time_work(CPUState *cs, run_on_cpu_data data)
{
    ppc_count_time(POWERPC_CPU(cs));
}

void ppc_count_stopped(PowerPCCPU *cpu)
{
    if (cpu->insn_count.on) {
        async_run_on_cpu(CPU(cpu), ppc_count_time_work, RUN_ON_CPU_NULL);
    }
}

/* CTRL has been written */
void helper_count_ctrl(CPUPPCState *env)
{
    ppc_count_time(env_archcpu(env));
}

void ppc_count_peek(PowerPCCPU *cpu, PPCCounts *counts, bool whole)
{
    PPCInsnCount *c = &cpu->insn_count;
    uint64_t total[INSN_COUNT_DOMAINS][INSN_COUNT_LANES];
    int64_t now, ns[ARRAY_SIZE(c->ns)];
    unsigned d, l, seq, unsure;

    g_assert(bql_locked());
    do {
        seq = seqlock_read_begin(&c->seq);
        now = ppc_count_now();
        unsure = insn_count_peek(CPU(cpu),
                                 MAKE_64BIT_MASK(0, PPC_COUNT_LANES), total);
        for (l = 0; l < ARRAY_SIZE(ns); l++) {
            int64_t since = qatomic_read_i64(&c->since);

            ns[l] = qatomic_read_i64(&c->ns[l]);
            if (qatomic_read(&c->running[l]) && now > since) {
                ns[l] += now - since;
            }
        }
        for (d = 0; d < PPC_COUNT_DOMAINS; d++) {
            for (l = 0; l < PPC_COUNT_LANES; l++) {
                uint64_t *count = &counts->lane[d][l];

                *count = c->base[d][l];
                if (c->on) {
                    *count = total[d][l] - *count;
                    if (!whole && (unsure & 1 << d)) {
                        *count -= MIN(insn_count_block_most(l), *count);
                    }
                }
            }
            counts->run_insns[d] = qatomic_read_u64(&c->run_insns[d]);
            if (qatomic_read(&c->running[PPC_COUNT_RUN])) {
                int64_t more = counts->lane[d][PPC_COUNT_INSNS] -
                               qatomic_read_u64(&c->run_from[d]);

                counts->run_insns[d] += MAX(more, 0);
            }
        }
    } while (seqlock_read_retry(&c->seq, seq));

    counts->busy_ns = ns[PPC_COUNT_BUSY];
    counts->run_ns = ns[PPC_COUNT_RUN];
}

/*
 * Calls
 */

static bool ppc_count_is_due(PPCInsnCount *c)
{
    return c->call && (int64_t)(ppc_count_total(c) - c->call_at) >= 0;
}

void ppc_count_call(PowerPCCPU *cpu, uint64_t insns,
                    void (*call)(PowerPCCPU *cpu))
{
    PPCInsnCount *c = &cpu->insn_count;

    ppc_count_sync(cpu, 0);
    c->call = call;
    c->call_at = ppc_count_total(c) + insns;
    ppc_count_set_deadline(cpu);
}

static void ppc_count_deadline(CPUState *cs)
{
    PowerPCCPU *cpu = POWERPC_CPU(cs);
    PPCInsnCount *c = &cpu->insn_count;
    void (*call)(PowerPCCPU *) = c->call;

    if (ppc_count_is_due(c)) {
        c->call = NULL;
        call(cpu);
    }
    ppc_count_set_deadline(cpu);
}

/*
 * Lanes have room for the largest budget, INSN_COUNT_MAX_UNITS, because a
 * thread leaves its code each time that one is used up. Word 0 has no lanes, so
 * that the addition to it, which every block has, takes less code.
 */
const InsnCountOps ppc_insn_count_ops = {
    .offset = offsetof(PowerPCCPU, insn_count.insns),
    /* Aliases gprh[] only, which only the SPE of 32-bit CPUs uses */
    .word = INSN_COUNT_WORD_AT(PowerPCCPU, insn_count.insns, 0x128),
    .units_lane = PPC_COUNT_INSNS,
    .domains = PPC_COUNT_DOMAINS,
    .start_words = INSN_START_WORDS,
    .words = PPC_COUNT_WORDS,
    .lanes = PPC_COUNT_LANES,
    .lane = {
        [PPC_COUNT_LARX] = { 1, 0, 21 },
        [PPC_COUNT_STCX] = { 1, 21, 21 },
        [PPC_COUNT_STCX_FAIL] = { 1, 42, 21 },
        [PPC_COUNT_TLBIE] = { 2, 0, 21 },
    },
    .domain = ppc_count_domain,
    .deadline = ppc_count_deadline,
    .whole_blocks = true,
};

QEMU_BUILD_BUG_ON(INSN_COUNT_MAX_UNITS >= MAKE_64BIT_MASK(0, 21));
QEMU_BUILD_BUG_ON(offsetof(CPUPPCState, gprh) > 0x128 ||
                  offsetof(CPUPPCState, lr) <
                  0x128 + PPC_COUNT_DOMAINS * PPC_COUNT_WORDS *
                          sizeof(uint64_t));

/*
 * Properties, for tests
 */

static bool ppc_count_get(Object *obj, Error **errp)
{
    return POWERPC_CPU(obj)->insn_count.on;
}

static void ppc_count_enable_work(CPUState *cs, run_on_cpu_data on)
{
    ppc_count_enable(POWERPC_CPU(cs), on.host_int);
}

static void ppc_count_set(Object *obj, bool value, Error **errp)
{
    if (!ppc_count_available() || !CPU(obj)->created) {
        error_setg(errp, "This CPU does not count");
        return;
    }
    insn_count_run_on_cpu(CPU(obj), ppc_count_enable_work,
                          RUN_ON_CPU_HOST_INT(value));
}

static void ppc_count_peek_work(CPUState *cs, run_on_cpu_data counts)
{
    ppc_count_peek(POWERPC_CPU(cs), counts.host_ptr, false);
}

/*
 * The lanes of the first domain, then those of the others; busy and run ns;
 * instructions with CTRL[RUN] in each domain
 */
static void ppc_count_get_all(Object *obj, Visitor *v, const char *name,
                              void *opaque, Error **errp)
{
    g_autoptr(uint64List) list = NULL;
    uint64List **tail = &list;
    PPCCounts counts;
    unsigned d, l;

    if (CPU(obj)->created) {
        insn_count_run_on_cpu(CPU(obj), ppc_count_peek_work,
                              RUN_ON_CPU_HOST_PTR(&counts));
    } else {
        ppc_count_peek(POWERPC_CPU(obj), &counts, false);
    }
    for (d = 0; d < PPC_COUNT_DOMAINS; d++) {
        for (l = 0; l < PPC_COUNT_LANES; l++) {
            QAPI_LIST_APPEND(tail, counts.lane[d][l]);
        }
    }
    QAPI_LIST_APPEND(tail, counts.busy_ns);
    QAPI_LIST_APPEND(tail, counts.run_ns);
    for (d = 0; d < PPC_COUNT_DOMAINS; d++) {
        QAPI_LIST_APPEND(tail, counts.run_insns[d]);
    }
    visit_type_uint64List(v, name, &list, errp);
}

void ppc_count_class_init(ObjectClass *oc)
{
    object_class_property_add_bool(oc, "x-insn-count", ppc_count_get,
                                   ppc_count_set);
    object_class_property_set_description(oc, "x-insn-count",
        "Count instructions (for tests)");
    object_class_property_add(oc, "x-insn-counts", "uint64List",
                              ppc_count_get_all, NULL, NULL, NULL);
    object_class_property_set_description(oc, "x-insn-counts",
        "Counted instructions, in each domain each lane, and time");
}
