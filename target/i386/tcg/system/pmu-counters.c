/*
 * PMU of Intel CPUs under TCG: counters, overflow, interrupts
 *
 * A counter is a value, and the total that its event had when that value was
 * current. Nothing happens until somebody looks: x86_pmu_fold() adds what the
 * events have counted since. A counter that interrupts has a deadline, which
 * is a lower bound of how many of the accelerator's units can pass until it
 * overflows.
 *
 * WRMSR ends its block, and its helper folds, writes the register, and sets the
 * deadlines anew. When one is reached, x86_pmu_deadline() folds, too. If that
 * finds an overflow, the local APIC gets the interrupt, and the main loop takes
 * it before the next block. If not, it sets the next deadline, which is nearer.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "accel/tcg/insn-count.h"
#include "hw/i386/apic_internal.h"
#include "qemu/main-loop.h"
#include "qemu/pmu-compat.h"
#include "tcg/insn-start-words.h"
#include "trace.h"
#include "pmu-internal.h"

static unsigned x86_pmu_domain(CPUState *cs);
static void x86_pmu_deadline(CPUState *cs);
static bool x86_pmu_reaches(CPUState *cs, unsigned domain,
                            const uint64_t *lanes, bool loose);

/*
 * The words have the lower bits of the address in common with the fields LDTR
 * to IDTR, which generated code rarely loads. These are shorter on a 32-bit
 * target, where the last words of the second domain meet the fields after them.
 */
#define X86_COUNT_WORDS         6
#define X86_COUNT_PLACE         ROUND_UP(offsetof(CPUX86State, ldt), 8)
#ifdef TARGET_X86_64
QEMU_BUILD_BUG_ON(X86_COUNT_PLACE +
                  X86_COUNT_DOMAINS * X86_COUNT_WORDS * sizeof(uint64_t) >
                  ROUND_UP(offsetof(CPUX86State, cr), 8));
#endif

QEMU_BUILD_BUG_ON(X86_COUNT_TOTALS > INSN_COUNT_LANES);

/*
 * Units, which are quarters of a slot, bound the lanes: every instruction has
 * some, see count.c.inc. Most blocks add to word 0 only. In the other words,
 * the lanes to which most blocks add are the lowest.
 */
const InsnCountOps x86_insn_count_ops = {
    .offset = offsetof(X86CPU, insn_count),
    .word = INSN_COUNT_WORD_AT(X86CPU, insn_count, X86_COUNT_PLACE),
    .units_lane = X86_COUNT_SLOTS,
    .domains = X86_COUNT_DOMAINS,
    .start_words = INSN_START_WORDS,
    .words = X86_COUNT_WORDS,
    .lanes = X86_COUNT_LANES,
    .lane = {
        [X86_COUNT_INSNS] = { 0, 0, 15 },
        [X86_COUNT_BRANCHES] = { 0, 15, 15 },
        [X86_COUNT_COND] = { 0, 30, 15 },
        [X86_COUNT_CALLS] = { 1, 0, 14 },
        [X86_COUNT_INDIRECT] = { 1, 14, 14 },
        [X86_COUNT_CORE] = { 1, 28, 15 },
        [X86_COUNT_HEAVY] = { 1, 43, 11 },
        [X86_COUNT_CLEARS] = { 1, 54, 10 },
        [X86_COUNT_LOADS] = { 2, 0, 16 },
        [X86_COUNT_STORES] = { 2, 16, 16 },
        [X86_COUNT_RETS] = { 3, 0, 16 },
        [X86_COUNT_COND_TAKEN] = { 3, 16, 16 },
        [X86_COUNT_FAR] = { 3, 32, 16 },
        /* An instruction counts at most twice, and has four units or more */
        [X86_COUNT_FP_SCALAR_DOUBLE] = { 4, 0, 16 },
        [X86_COUNT_FP_SCALAR_SINGLE] = { 4, 16, 16 },
        [X86_COUNT_FP_128_DOUBLE] = { 4, 32, 16 },
        [X86_COUNT_FP_128_SINGLE] = { 4, 48, 16 },
        [X86_COUNT_FP_256_DOUBLE] = { 5, 0, 16 },
        [X86_COUNT_FP_256_SINGLE] = { 5, 16, 16 },
        [X86_COUNT_DIVIDES] = { 5, 32, 13 },
        [X86_COUNT_PAUSES] = { 5, 45, 12 },
    },
    .domain = x86_pmu_domain,
    .deadline = x86_pmu_deadline,
    .reaches = x86_pmu_reaches,
};

static unsigned x86_pmu_domain(CPUState *cs)
{
    return cpu_env(cs)->hflags & HF_CPL_MASK ? X86_COUNT_USER
                                             : X86_COUNT_KERNEL;
}

uint64_t x86_pmu_bit(unsigned counter)
{
    return BIT_ULL(counter < PMU_GP ? counter : counter - PMU_GP + 32);
}

uint64_t *x86_pmu_value(CPUX86State *env, unsigned counter)
{
    QEMU_BUILD_BUG_ON(PMU_GP > MAX_GP_COUNTERS);
    QEMU_BUILD_BUG_ON(MAX_FIXED_COUNTERS != PMU_FIXED - 1);

    if (counter < PMU_GP) {
        return &env->msr_gp_counters[counter];
    }
    counter -= PMU_GP;
    return counter < MAX_FIXED_COUNTERS ? &env->msr_fixed_counters[counter]
                                        : &env->msr_fixed_ctr3;
}

/* What the registers say; @old is the same of some time before */
static PMUConfig x86_pmu_config(CPUX86State *env, unsigned counter,
                                const PMUConfig *old)
{
    PMUConfig config = { };
    bool os, usr;

    if (counter < PMU_GP) {
        uint64_t sel = env->msr_gp_evtsel[counter];
        bool on = FIELD_EX64(sel, EVTSEL, EN);

        config.code = FIELD_EX64(sel, EVTSEL, EVENT);
        config.cmask = FIELD_EX64(sel, EVTSEL, CMASK);
        config.edge = FIELD_EX64(sel, EVTSEL, EDGE);
        config.inv = FIELD_EX64(sel, EVTSEL, INV);
        config.irq = FIELD_EX64(sel, EVTSEL, INT);
        config.selector = sel & (R_EVTSEL_EVENT_MASK | R_EVTSEL_CMASK_MASK |
                                 R_EVTSEL_EDGE_MASK | R_EVTSEL_INV_MASK);
        if (old->event && old->selector == config.selector) {
            config.event = old->event;
            config.cmask = old->cmask;
            config.edge = old->edge;
            config.inv = old->inv;
        } else {
            x86_pmu_find_event(env_archcpu(env), &config);
        }
        os = on && FIELD_EX64(sel, EVTSEL, OS);
        usr = on && FIELD_EX64(sel, EVTSEL, USR);
    } else {
        uint64_t ctrl = env->msr_fixed_ctr_ctrl >> 4 * (counter - PMU_GP);

        config.event = x86_pmu_fixed_event(counter - PMU_GP);
        config.code = config.event->code;
        config.irq = FIELD_EX64(ctrl, FIXED, INT);
        os = FIELD_EX64(ctrl, FIXED, OS);
        usr = FIELD_EX64(ctrl, FIXED, USR);
    }
    if ((env->msr_global_ctrl & x86_pmu_bit(counter)) &&
        !(env->msr_global_status & PMU_STATUS_CTR_FRZ)) {
        config.domains = os << X86_COUNT_KERNEL | usr << X86_COUNT_USER;
    }
    return config;
}

/*
 * What a counter has counted since it was brought up to date, if its event
 * has come to @now, and there were @more cycles, in parts: all of it, and the
 * fraction that is left in @rest.
 *
 * The filters are approximations (our decision, because there are no single
 * cycles): with CMASK the events come packed, CMASK in a cycle; INV counts the
 * other cycles; EDGE takes every second of these cycles to be the start of a
 * run. They look at all since the counter started.
 */
static uint64_t x86_pmu_count(X86CPU *cpu, unsigned counter, uint64_t now,
                              uint64_t more, uint64_t *rest)
{
    const PMUConfig *c = &cpu->pmu->config[counter];
    const X86PMURun *run = &cpu->pmu->run[counter];
    unsigned parts = x86_pmu_event_parts(cpu, c->event);
    uint64_t n, cycles;

    if (!c->cmask && !c->edge) {
        /*
         * A pinned mix rounds its categories: one can be a quarter of a slot
         * less than at the last fold.
         */
        n = run->rest + (now > run->event ? now - run->event : 0);
        *rest = n % parts;
        return n / parts;
    }
    *rest = 0;
    n = now > run->event ? (now - run->event) / parts : 0;
    cycles = x86_pmu_event_sum(cpu, x86_pmu_cycles, c->domains) + more -
             run->cycles;
    cycles /= x86_pmu_event_parts(cpu, x86_pmu_cycles);
    if (c->cmask) {
        n = MIN(n / c->cmask, cycles);
        if (c->inv) {
            n = cycles - n;
        }
    }
    if (c->edge) {
        n = DIV_ROUND_UP(MIN(n, cycles), 2);
    }
    /* An inverted count may have to catch up */
    return n > run->got ? n - run->got : 0;
}

/*
 * An interrupt comes directly after the instruction that overflows its counter,
 * or when the CPU is back at a privilege level that the counter counts. In the
 * middle of a block, that needs two more blocks, which are rarely reused, and
 * profilers want many interrupts, of cycles as a rule. So an interrupt of
 * cycles (but not of slots) is loose: it waits until just before the last
 * instruction of its block, or until after that if only the last one overflows
 * the counter. A filter, as in UOPS_RETIRED.TOTAL_CYCLES, asks for an exact
 * one. How code is divided into blocks depends on host time, so all
 * interrupts are exact with -icount, which promises to repeat a run.
 *
 * With the precise model, interrupts of whatever depends on misses are looser,
 * see x86_pmu_precise_units().
 */
static bool x86_pmu_interrupt_is_loose(X86CPU *cpu, const PMUConfig *c)
{
    return c->event->source == SOURCE_CYCLES && !icount_enabled() &&
           !(c->selector & (R_EVTSEL_CMASK_MASK | R_EVTSEL_EDGE_MASK));
}

/* The value of a counter is about to be replaced: remember its fraction. */
static void x86_pmu_remember_fraction(X86CPU *cpu, unsigned counter)
{
    X86PMU *pmu = cpu->pmu;
    X86PMURun *run = &pmu->run[counter];

    if (run->rest) {
        /* A stream that was refused half way may have left any number */
        pmu->fraction[pmu->next_fraction % PMU_FRACTIONS] = (PMUFraction) {
            .value = *x86_pmu_value(&cpu->env, counter),
            .parts = run->rest,
            .code = run->rest_of,
        };
        pmu->next_fraction = (pmu->next_fraction + 1) % PMU_FRACTIONS;
        run->rest = 0;
    }
}

/* Takes the fraction that belongs to a value of an event; 0 if there is none */
static uint64_t x86_pmu_take_fraction(X86CPU *cpu, uint16_t code,
                                      uint64_t value)
{
    X86PMU *pmu = cpu->pmu;
    uint64_t parts = 0;
    unsigned i;

    for (i = 0; i < PMU_FRACTIONS && !parts; i++) {
        PMUFraction *f = &pmu->fraction[i];

        if (f->parts && f->code == code && f->value == value) {
            parts = f->parts;
            f->parts = 0;
        }
    }
    /* It may come back in another counter than it was saved from */
    for (i = 0; i < PMU_COUNTERS && !parts; i++) {
        X86PMURun *run = &pmu->run[i];

        if (!pmu->config[i].domains && run->rest_of == code &&
            *x86_pmu_value(&cpu->env, i) == value) {
            parts = run->rest;
            run->rest = 0;
        }
    }
    return parts;
}

/* A counter begins to count an event from a value that software has written. */
static void x86_pmu_recall_fraction(X86CPU *cpu, unsigned counter)
{
    const PMUConfig *c = &cpu->pmu->config[counter];
    X86PMURun *run = &cpu->pmu->run[counter];
    uint64_t value = *x86_pmu_value(&cpu->env, counter);

    run->rest_of = c->code;
    run->rest = 0;
    /* Software that writes 0 does not restore, but starts anew. */
    if (value) {
        run->rest = x86_pmu_take_fraction(cpu, c->code, value) %
                    x86_pmu_event_parts(cpu, c->event);
    }
}

void x86_pmu_write_counter(X86CPU *cpu, unsigned counter, uint64_t value)
{
    x86_pmu_remember_fraction(cpu, counter);
    cpu->pmu->run[counter].written = true;
    *x86_pmu_value(&cpu->env, counter) = value;
}

static void x86_pmu_freeze(X86CPU *cpu)
{
    CPUX86State *env = &cpu->env;

    if (FIELD_EX64(env->msr_debugctl, DEBUGCTL, FREEZE_PERFMON_ON_PMI)) {
        x86_pmu_shape_freeze(cpu);
        x86_pmu_reconfigure(cpu);
    }
}

/*
 * Directly after MOV SS, POP SS, and STI, no interrupt is taken, so that the
 * next instruction can load the stack pointer, or wait: QEMU lets an NMI in.
 * The next instruction is alone in its block.
 */
static bool x86_pmu_inhibited(X86CPU *cpu)
{
    return cpu->env.hflags & HF_INHIBIT_IRQ_MASK;
}

void x86_pmu_deliver(X86CPU *cpu)
{
    if (cpu->pmu->irq_domains) {
        x86_pmu_freeze(cpu);
        cpu->pmu->irq_domains = 0;
        if (cpu->apic_state) {
            APICCommonState *apic = APIC_COMMON(cpu->apic_state);

            BQL_LOCK_GUARD();
            x86_pmu_trace_interrupt(cpu);
            if (apic->spurious_vec & APIC_SV_ENABLE) {
                apic_local_deliver(apic, APIC_LVT_PERFORM);
                /* Delivery sets the mask of the entry */
                apic->lvt[APIC_LVT_PERFORM] |= APIC_LVT_MASKED;
            }
        }
        /* The accelerator may have counted only for the deadline of this */
        x86_pmu_reconfigure(cpu);
    }
}

void x86_pmu_pend_interrupt(X86CPU *cpu, unsigned counter)
{
    const PMUConfig *c = &cpu->pmu->config[counter];

    if (c->irq) {
        cpu->pmu->irq_domains |= c->domains;
    }
}

/* Is an interrupt pending that belongs into the current domain? */
static bool x86_pmu_interrupt_is_here(X86CPU *cpu)
{
    return cpu->pmu->irq_domains & 1 << x86_pmu_domain(CPU(cpu));
}

bool x86_pmu_has_frozen(X86CPU *cpu)
{
    CPUX86State *env = &cpu->env;

    return FIELD_EX64(env->msr_debugctl, DEBUGCTL, FREEZE_PERFMON_ON_PMI) &&
           x86_pmu_interrupt_is_here(cpu) && x86_pmu_shape_is_frozen(cpu);
}

/* An overflow is the carry out of the counter. */
static void pmu_fold(X86CPU *cpu, uintptr_t ra, bool unseen)
{
    CPUX86State *env = &cpu->env;
    X86PMU *pmu = cpu->pmu;
    unsigned i;

    insn_count_sync(CPU(cpu), ra);
    if (cpu->pmu_precise) {
        x86_pmu_precise_drain(cpu);
    }
    for (i = 0; i < PMU_COUNTERS; i++) {
        const PMUConfig *c = &pmu->config[i];
        uint64_t *value = x86_pmu_value(env, i);
        X86PMURun *run = &pmu->run[i];
        uint64_t count, now, sum;

        if (!c->domains) {
            continue;
        }
        now = x86_pmu_event_sum(cpu, c->event, c->domains);
        count = x86_pmu_count(cpu, i, now, 0, &run->rest);
        if (!c->cmask && !c->edge) {
            run->event = MAX(run->event, now);
        }
        sum = *value + count;
        /*
         * With INV, a count falls when its events come packed. When QEMU looks
         * depends on the host: that must not keep the counter at a peak. It
         * looks at every instruction when one can overflow and interrupt.
         */
        if (unseen && (c->cmask || c->edge) &&
            !(c->irq && sum > pmu->mask)) {
            continue;
        }
        run->got += count;
        *value = sum & cpu->pmu->mask;
        if (sum != *value) {
            trace_x86_pmu_overflow(CPU(cpu)->cpu_index, i, *value,
                                   pmu->config[i].irq);
            env->msr_global_status |= x86_pmu_bit(i);
            x86_pmu_pend_interrupt(cpu, i);
        }
    }
    x86_topdown_fold(cpu);
    if (!unseen && x86_pmu_interrupt_is_here(cpu)) {
        x86_pmu_freeze(cpu);
    }
}

void x86_pmu_fold(X86CPU *cpu, uintptr_t ra)
{
    pmu_fold(cpu, ra, false);
}

void x86_pmu_fold_unseen(X86CPU *cpu)
{
    pmu_fold(cpu, 0, true);
    if (x86_pmu_interrupt_is_here(cpu)) {
        /* It may stop all counters; the guest's program says when it comes */
        x86_pmu_fold(cpu, 0);
    }
}

bool x86_pmu_peek(X86CPU *cpu, unsigned counter, uint64_t *value)
{
    const PMUConfig *c = &cpu->pmu->config[counter];
    uint64_t sum = *x86_pmu_value(&cpu->env, counter), rest;

    if (c->domains) {
        sum += x86_pmu_count(cpu, counter,
                             x86_pmu_event_sum(cpu, c->event, c->domains),
                             0, &rest);
    }
    *value = sum & cpu->pmu->mask;
    return sum != *value;
}

/* A lower bound of the units until a counter has counted @n more */
static int64_t x86_pmu_units_until(X86CPU *cpu, unsigned counter, uint64_t n)
{
    const PMUConfig *c = &cpu->pmu->config[counter];
    const X86PMURun *run = &cpu->pmu->run[counter];
    unsigned cycle = 4 * cpu->pmu->width, parts;
    uint64_t now, have, want;
    int64_t units = 1;

    if (!c->cmask && !c->edge) {
        return x86_pmu_event_units(cpu, c->event, n, run->rest);
    }
    parts = x86_pmu_event_parts(cpu, c->event);
    now = x86_pmu_event_sum(cpu, c->event, c->domains);
    have = now > run->event ? (now - run->event) / parts : 0;
    /* So many cycles since the start, and as many times CMASK events... */
    want = run->got + n;
    if (c->edge) {
        want = 2 * want - 1;
    }
    if (c->cmask && c->inv) {
        /* ...or besides those that the events fill, which are no fewer then */
        want += have / c->cmask;
    }
    now = x86_pmu_event_sum(cpu, x86_pmu_cycles, c->domains) - run->cycles;
    if (want * cycle > now) {
        units = x86_pmu_units_of(cpu, want * cycle - now);
    }
    if (c->cmask && c->inv) {
        return units;
    }
    want *= MAX(c->cmask, 1);
    if (want > have) {
        int64_t more = x86_pmu_event_units(cpu, c->event,
                                           MIN(want - have, cpu->pmu->mask),
                                           parts - 1);

        units = MAX(units, more);
    }
    return units;
}

/* Is the event a number of instructions? If so, no model changes it. */
static bool x86_pmu_event_is_total(const PMUEvent *e)
{
    return e->source == SOURCE_TOTAL || e->source == SOURCE_BRANCH ||
           e->source == SOURCE_FP;
}

/* The words of the event's lanes; 0 for events that any block may count */
static unsigned x86_pmu_words_due(X86CPU *cpu, const PMUConfig *c)
{
    unsigned lanes = x86_pmu_event_lanes(cpu, c->event), words = 0;

    if (!x86_pmu_event_is_total(c->event) || c->cmask || c->edge) {
        return 0;
    }
    for (; lanes; lanes &= lanes - 1) {
        words |= 1 << x86_insn_count_ops.lane[ctz32(lanes)].word;
    }
    return words;
}

/*
 * A deadline of fewer units is near. For that of an event which few blocks
 * count, insn_count_pass() looks whether a block counts it, for the price of
 * six blocks (measured). A farther one is due in any block: to look at the
 * counter now and then, and set a nearer one, costs less.
 */
#define PMU_NEAR_UNITS 1024

/* Set all deadlines, from values that are up to date */
static void x86_pmu_set_due(X86CPU *cpu)
{
    CPUX86State *env = &cpu->env;
    X86PMU *pmu = cpu->pmu;
    int64_t due[1 << INSN_COUNT_DOMAINS];
    uint64_t metrics = x86_topdown_left(cpu);
    /* With -icount, what the precise model misses may be due in any block */
    int64_t any = cpu->pmu_precise && icount_enabled() ? 0 : INSN_COUNT_NEVER;
    unsigned i, words = 0;

    for (i = 0; i < ARRAY_SIZE(due); i++) {
        due[i] = INSN_COUNT_NEVER;
    }
    if (pmu->irq_domains) {
        /*
         * Inhibited: after the next instruction. A stream that was refused may
         * have left other bits.
         */
        due[pmu->irq_domains & MAKE_64BIT_MASK(0, X86_COUNT_DOMAINS)] =
            x86_pmu_interrupt_is_here(cpu) && x86_pmu_inhibited(cpu);
    }
    for (i = 0; i < PMU_COUNTERS; i++) {
        const PMUConfig *c = &pmu->config[i];

        if (c->domains && c->irq) {
            uint64_t left = pmu->mask + 1 - *x86_pmu_value(env, i);
            /* The counter is up to date, so the next instruction, at least */
            int64_t units = MAX(x86_pmu_units_until(cpu, i, left), 1);
            unsigned of_event = units > PMU_NEAR_UNITS ? 0 :
                                x86_pmu_words_due(cpu, c);

            due[c->domains] = MIN(due[c->domains], units);
            words |= of_event;
            if (!of_event) {
                any = MIN(any, units);
            }
        }
    }
    if (metrics) {
        int64_t *d = &due[pmu->config[PMU_SLOTS_COUNTER].domains];
        int64_t units = x86_pmu_units_of(cpu, metrics);

        *d = MIN(*d, units);
        any = MIN(any, units);
    }
    cpu->insn_count.due_any = pmu->irq_domains ? 0 : any;
    cpu->insn_count.due_words = words;
    insn_count_set_deadlines(CPU(cpu), x86_pmu_domain(CPU(cpu)), due);
}

/*
 * Choose anew what is counted, after a register has changed. Counters must be
 * up to date. The choice takes effect after the current instruction.
 */
void x86_pmu_reconfigure(X86CPU *cpu)
{
    X86PMU *pmu = cpu->pmu;
    unsigned lanes = 0;
    /* A pending interrupt needs a deadline, also if no counter counts */
    bool on = pmu->irq_domains;
    unsigned i;

    for (i = 0; i < PMU_COUNTERS; i++) {
        PMUConfig old = pmu->config[i];
        PMUConfig c = x86_pmu_config(&cpu->env, i, &old);

        pmu->config[i] = c;
        if (!c.domains) {
            continue;
        }
        on = true;
        lanes |= x86_pmu_event_lanes(cpu, c.event);
        if (c.domains != old.domains || c.event != old.event ||
            c.cmask != old.cmask || c.inv != old.inv || c.edge != old.edge) {
            X86PMURun *run = &pmu->run[i];

            run->event = x86_pmu_event_sum(cpu, c.event, c.domains);
            run->cycles = x86_pmu_event_sum(cpu, x86_pmu_cycles, c.domains);
            run->got = 0;
        }
        if (pmu->run[i].rest_of != c.code ||
            pmu->run[i].rest >= x86_pmu_event_parts(cpu, c.event)) {
            x86_pmu_remember_fraction(cpu, i);
            pmu->run[i].written = true;
        }
        if (pmu->run[i].written) {
            x86_pmu_recall_fraction(cpu, i);
            pmu->run[i].written = false;
        }
    }
    x86_topdown_reconfigure(cpu);
    if (pmu->topdown.active) {
        lanes |= x86_topdown_lanes(cpu);
    }
    /* Branch predictors and caches rest while nothing counts */
    insn_count_enable(CPU(cpu), on ? x86_pmu_words_of_lanes(lanes) : 0,
                     !cpu->pmu_precise);
    if (on) {
        x86_pmu_set_due(cpu);
    }
}

void x86_pmu_restart_events(X86CPU *cpu)
{
    unsigned i;

    for (i = 0; i < PMU_COUNTERS; i++) {
        const PMUConfig *c = &cpu->pmu->config[i];
        X86PMURun *run = &cpu->pmu->run[i];

        if (c->domains && !c->cmask && !c->edge) {
            run->event = MIN(run->event,
                             x86_pmu_event_sum(cpu, c->event, c->domains));
        }
    }
    x86_pmu_reconfigure(cpu);
}

/* More than the sum of a pinned event can decrease by */
#define PMU_ROUNDING    1024

void x86_pmu_continue(X86CPU *cpu)
{
    static const PMUConfig none;
    X86PMU *pmu = cpu->pmu;
    unsigned i;

    for (i = 0; i < PMU_COUNTERS; i++) {
        PMUConfig c = x86_pmu_config(&cpu->env, i, &none);
        X86PMURun *run = &pmu->run[i];
        uint64_t now = x86_pmu_event_sum(cpu, c.event, c.domains);
        uint64_t cycles = x86_pmu_event_sum(cpu, x86_pmu_cycles, c.domains);
        bool filter = c.cmask || c.edge;

        run->rest = run->rest_of != c.code ? 0 :
                    MIN(run->rest, x86_pmu_event_parts(cpu, c.event) - 1);
        /* Totals of a stream have a limit */
        run->event = MIN(run->event, now + (pmu->model == X86_PMU_PINNED &&
                                            !filter ? PMU_ROUNDING : 0));
        run->cycles = MIN(run->cycles, cycles);
        if (filter) {
            /* It counts cycles */
            run->got = MIN(run->got, (cycles - run->cycles) /
                                     x86_pmu_event_parts(cpu, x86_pmu_cycles));
        }
        pmu->config[i] = c;
    }
    x86_pmu_reconfigure(cpu);
}

static void x86_pmu_deadline(CPUState *cs)
{
    X86CPU *cpu = X86_CPU(cs);

    x86_pmu_fold_unseen(cpu);
    if (x86_pmu_interrupt_is_here(cpu) && !x86_pmu_inhibited(cpu)) {
        x86_pmu_deliver(cpu);
    }
    x86_pmu_set_due(cpu);
    x86_pmu_trace_deadline(cpu);
}

/* An upper bound of what a block adds to an event of one domain */
static uint64_t x86_pmu_most(X86CPU *cpu, const PMUEvent *e, unsigned domain,
                             const uint64_t *taken, const uint64_t *not_taken)
{
    return MAX(x86_pmu_event_of_totals(cpu, e, domain, taken),
               x86_pmu_event_of_totals(cpu, e, domain, not_taken)) -
           x86_pmu_event_of_totals(cpu, e, domain,
                                   cpu->insn_count.total[domain]);
}

/*
 * Would a counter overflow in a block? Conditional branches are in its lanes,
 * but not whether they are taken.
 */
static bool x86_pmu_reaches(CPUState *cs, unsigned domain,
                            const uint64_t *lanes, bool loose)
{
    X86CPU *cpu = X86_CPU(cs);
    X86PMU *pmu = cpu->pmu;
    const uint64_t *now = cpu->insn_count.total[domain];
    uint64_t not_taken[X86_COUNT_TOTALS], taken[X86_COUNT_TOTALS];
    uint64_t metrics = x86_topdown_left(cpu);
    unsigned i;

    if (cpu->pmu_precise && icount_enabled()) {
        /* What is missed in the block is not known yet: be exact */
        return true;
    }
    memcpy(not_taken, now, sizeof(not_taken));
    for (i = 0; i < X86_COUNT_LANES; i++) {
        not_taken[i] += lanes[i];
    }
    memcpy(taken, not_taken, sizeof(taken));
    taken[X86_COUNT_COND_TAKEN] += lanes[X86_COUNT_COND];

    for (i = 0; i < PMU_COUNTERS; i++) {
        const PMUConfig *c = &pmu->config[i];
        uint64_t more, sum, rest;

        if (!(c->domains & (1 << domain)) || !c->irq ||
            (!loose && x86_pmu_interrupt_is_loose(cpu, c)) ||
            (cpu->pmu_precise && !x86_pmu_event_is_total(c->event))) {
            continue;
        }
        sum = x86_pmu_event_sum(cpu, c->event, c->domains);
        more = 0;
        if (!c->cmask || !c->inv) {     /* other cycles are most without it */
            sum += x86_pmu_most(cpu, c->event, domain, taken, not_taken);
        }
        if (c->cmask || c->edge) {
            if (cpu->pmu_precise) {
                return true;            /* its cycles are not known yet */
            }
            more = x86_pmu_most(cpu, x86_pmu_cycles, domain, taken, not_taken);
        }
        if (*x86_pmu_value(&cpu->env, i) +
            x86_pmu_count(cpu, i, sum, more, &rest) > pmu->mask) {
            return true;
        }
    }
    return metrics && !cpu->pmu_precise &&
           (pmu->config[PMU_SLOTS_COUNTER].domains & (1 << domain)) &&
           lanes[X86_COUNT_SLOTS] >= metrics;
}

/* Slots in all domains: each instruction has some */
static uint64_t x86_pmu_all_slots(X86CPU *cpu)
{
    uint64_t total[INSN_COUNT_DOMAINS][INSN_COUNT_LANES];

    insn_count_peek(CPU(cpu), 1 << X86_COUNT_SLOTS, total);
    return total[X86_COUNT_KERNEL][X86_COUNT_SLOTS] +
           total[X86_COUNT_USER][X86_COUNT_SLOTS];
}

/*
 * INT n is delivered when its block has ended and has counted it. If it fails
 * then, which is before anything else could happen, it has not retired: take it
 * back, from the domain in which it was counted. The clear is that of what
 * happens instead.
 */
static void x86_pmu_take_int_back(X86CPU *cpu)
{
    static const uint8_t lanes[] = {
        X86_COUNT_INSNS, X86_COUNT_BRANCHES, X86_COUNT_FAR, X86_COUNT_HEAVY,
        X86_COUNT_STORES,
    };
    CPUInsnCount *c = &cpu->insn_count;
    uint64_t *total = c->total[cpu->pmu->int_domain];
    unsigned i;

    /* An injected INT n (SVM), or one of long ago, was not counted now. */
    if (!c->counted || x86_pmu_all_slots(cpu) != cpu->pmu->int_slots) {
        return;
    }
    cpu->pmu->int_slots = UINT64_MAX;
    total[X86_COUNT_SLOTS] -= X86_PRICE_HEAVY + X86_PRICE_BRANCH;
    for (i = 0; i < ARRAY_SIZE(lanes); i++) {
        unsigned word = x86_insn_count_ops.lane[lanes[i]].word;

        if (c->counted & INSN_COUNT_WORD(word)) {
            total[lanes[i]]--;
        }
    }
}

static bool x86_pmu_delivers_int(CPUX86State *env)
{
    int delivered = env_cpu(env)->exception_index;

    return delivered >= 0 && delivered < EXCP_INTERRUPT &&
           env->exception_is_int;
}

void x86_pmu_raise(CPUX86State *env, bool is_int)
{
    X86CPU *cpu = env_archcpu(env);

    if (!cpu->pmu) {
        return;
    }
    if (is_int) {
        cpu->pmu->int_domain = env->hflags & HF_CPL_MASK ? X86_COUNT_USER
                                                         : X86_COUNT_KERNEL;
        cpu->pmu->int_slots = x86_pmu_all_slots(cpu);
    } else if (x86_pmu_delivers_int(env)) {
        x86_pmu_take_int_back(cpu);
    }
}

void x86_pmu_vmexit(CPUX86State *env, uint64_t exit_code)
{
    X86CPU *cpu = env_archcpu(env);

    if (cpu->pmu && (exit_code == SVM_EXIT_SWINT ||
                     x86_pmu_delivers_int(env))) {
        x86_pmu_take_int_back(cpu);
    }
}
