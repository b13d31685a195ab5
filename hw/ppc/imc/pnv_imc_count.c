/*
 * PowerNV in-memory collection counters: values of events of cores and threads
 *
 * A *meter* covers the threads of a core, or one thread. A *reading* of a meter
 * takes the totals of each thread (instructions by state, busy time, ...),
 * subtracts those of the previous reading, and computes the values of events
 * from the differences:
 *
 *  - a cycle is a nanosecond of virtual time;
 *  - the busy time of a thread is divided between states (user, kernel,
 *    MSR[HV], ...) in proportion to the instructions in each state, or, if the
 *    host did not let it execute any meanwhile, to its last ones;
 *  - events named NON_IDLE, and instructions in a state of MSR[HV] and MSR[PR]
 *    together (PRIV, PROB, HV, ADJUNCT), count only with the run latch,
 *    CTRL[RUN];
 *  - for the number of busy threads, assume that all threads of a core began to
 *    be busy at the same moment: at least N threads are busy for as long as the
 *    thread with the Nth longest time. So the times of exactly 0 to 4 busy
 *    threads add up to the time of the core, and, each multiplied by its
 *    number of threads, to the times of the threads.
 *
 * The totals of a running vCPU are read from another thread, and can be off by
 * one block. A total that is lower than at the previous reading counts as no
 * difference, so that counters never decrease.
 *
 * Decisions of our own: POWER9's public catalog says that instructions by
 * MSR[HV] and MSR[PR] are non-idle ones; POWER10's says nothing, and is treated
 * alike. CCYC counts nanoseconds, like all cycles, although the catalog says
 * that its clock has 32 MHz: the times of 0 to 4 busy threads add up to it.
 * PCYC has no cycles of halted threads, although POWER9's catalog speaks of all
 * threads of the core: an emulated thread that sleeps executes none.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "pnv_imc_internal.h"
#include "hw/ppc/ppc.h"
#include "qemu/host-utils.h"
#include "target/ppc/insn-count.h"

/* What the events of the catalogs count */
typedef enum Value {
    INSNS,
    RUN_INSNS,
    PRIV_INSNS,
    PROB_INSNS,
    HV_INSNS,
    ADJUNCT_INSNS,
    BUSY,
    RUN,
    PRIV_CYCLES,
    PROB_CYCLES,
    HV_CYCLES,
    ADJUNCT_CYCLES,
    CYCLES,
    REF_CYCLES,
    ST_CYCLES,
    SMT2_CYCLES,
    SMT4_CYCLES,
    ST_RUN,
    SMT2_RUN,
    SMT4_RUN,
    PURR,
    RUN_PURR,
    ANY_RUN,
    ALL_RUN,
    RUN_0,
    RUN_1,
    RUN_2,
    RUN_3,
    RUN_4,
    RUN_1_INSNS,
    RUN_2_INSNS,
    RUN_3_INSNS,
    RUN_4_INSNS,
    LARX,
    STCX,
    STCX_FAIL,
    TLBIE,
    INT_OS,
    INT_HYP,
    INT_EBB,
    INT_DOORBELL,
    VALUES
} Value;

QEMU_BUILD_BUG_ON(VALUES != PNV_IMC_VALUES);

/* Some events exist three times: for any state of MSR[PR], and for each. */
typedef enum Bank {
    ANY,
    USER,
    KERNEL,
} Bank;

QEMU_BUILD_BUG_ON(KERNEL >= PNV_IMC_BANKS);

/*
 * All events that an emulator can count, by their names in the catalogs of
 * POWER9 and POWER10, without the prefix CPM_. An event with @by_state also
 * exists with the suffixes _USER and _KERNEL.
 */
static const struct {
    const char *name;
    Value value;
    bool by_state;
} names[] = {
    { "INST", INSNS },
    { "PCYC", BUSY },
    { "NON_IDLE_INST", RUN_INSNS },
    { "NON_IDLE_PCYC", RUN },
    { "ANY_THRD_NON_IDLE_PCYC", ANY_RUN },
    { "CORE_ALL_THRD_NON_IDLE_PCYC", ALL_RUN },
    { "0THRD_NON_IDLE_PCYC", RUN_0 },
    { "1THRD_NON_IDLE_PCYC", RUN_1 },
    { "2THRD_NON_IDLE_PCYC", RUN_2 },
    { "3THRD_NON_IDLE_PCYC", RUN_3 },
    { "4THRD_NON_IDLE_PCYC", RUN_4 },
    { "1THRD_NON_IDLE_INST", RUN_1_INSNS },
    { "2THRD_NON_IDLE_INST", RUN_2_INSNS },
    { "3THRD_NON_IDLE_INST", RUN_3_INSNS },
    { "4THRD_NON_IDLE_INST", RUN_4_INSNS },
    { "CCYC", CYCLES },
    { "32MHZ_CYC", REF_CYCLES },
    { "NEST_REF_CLK", REF_CYCLES },
    { "RUN_CYC_ST_MODE", ST_RUN },
    { "RUN_CYC_SMT2_MODE", SMT2_RUN },
    { "RUN_CYC_SMT4_MODE", SMT4_RUN },
    { "RUN_PURR", RUN_PURR },
    { "RUN_SPURR", RUN_PURR },          /* no frequency scaling */
    { "STCX_FIN", STCX },
    { "STCX_FAIL", STCX_FAIL },
    { "STCX_FAIL_FIN", STCX_FAIL },
    { "LARX_FIN", LARX },
    { "TLBIE", TLBIE },
    { "TLBIE_FIN", TLBIE },
    { "EXT_INT_OS", INT_OS },
    { "EXT_INT_HYP", INT_HYP },
    { "EXT_INT_EBB", INT_EBB },
    { "EXT_INT_DOORBELL", INT_DOORBELL },
    { "INT_DOORBELL", INT_DOORBELL },
    { "MSR_PRIV_INST", PRIV_INSNS },
    { "MSR_PRIV_PCYC", PRIV_CYCLES },
    { "MSR_PROB_INST", PROB_INSNS },
    { "MSR_PROB_PCYC", PROB_CYCLES },
    { "MSR_HV_INST", HV_INSNS },
    { "MSR_HV_PCYC", HV_CYCLES },
    { "MSR_AJUNCT_INST", ADJUNCT_INSNS },       /* spelt so in the catalog */
    { "MSR_ADJUNCT_PCYC", ADJUNCT_CYCLES },
    { "PRIV_INST", PRIV_INSNS },
    { "PRIV_PCYC", PRIV_CYCLES },
    { "PROB_INST", PROB_INSNS },
    { "PROB_PCYC", PROB_CYCLES },
    { "HV_INST", HV_INSNS },
    { "HV_PCYC", HV_CYCLES },
    { "ADJUNCT_INST", ADJUNCT_INSNS },
    { "ADJUNCT_PCYC", ADJUNCT_CYCLES },
    { "CS_PCYC", BUSY, true },
    { "CS_INST", INSNS, true },
    { "CS_CORE_MODE_ST_CCYC", ST_CYCLES, true },
    { "CS_CORE_MODE_SMT2_CCYC", SMT2_CYCLES, true },
    { "CS_CORE_MODE_SMT4_CCYC", SMT4_CYCLES, true },
    { "CS_CORE_PCYC", CYCLES, true },
    { "CS_32MHZ_CYC", REF_CYCLES, true },
    { "CS_PURR", PURR, true },
    { "CS_SPURR", PURR, true },
};

#define PREFIX "CPM_"
#define REF_CLOCK_HZ 32000000

static void resolve(PnvImcEvent *event)
{
    static const struct {
        const char *suffix;
        Bank bank;
    } banks[] = {
        { "", ANY }, { "_USER", USER }, { "_KERNEL", KERNEL },
    };
    unsigned i, j;

    event->value = PNV_IMC_VALUES;
    if (!g_str_has_prefix(event->name, PREFIX)) {
        return;
    }
    for (i = 0; i < ARRAY_SIZE(names); i++) {
        for (j = 0; j < (names[i].by_state ? ARRAY_SIZE(banks) : 1); j++) {
            g_autofree char *name = g_strconcat(PREFIX, names[i].name,
                                                banks[j].suffix, NULL);

            if (!strcmp(name, event->name)) {
                event->value = names[i].value;
                event->bank = banks[j].bank;
                return;
            }
        }
    }
}

void pnv_imc_count_resolve(GArray *events)
{
    unsigned i;

    for (i = 0; i < events->len; i++) {
        resolve(pnv_imc_event(events, i));
    }
}

uint32_t pnv_imc_count_hz(const PnvImcEvent *e)
{
    if (e->bank == ANY && e->value == REF_CYCLES) {
        return REF_CLOCK_HZ;
    }
    return e->bank == ANY && e->value == CYCLES ? NANOSECONDS_PER_SECOND : 0;
}

/*
 * MSR[HV] << 1 | MSR[PR], by the names of the states in the catalogs. Linux
 * without a hypervisor runs its programs with both bits set, in adjunct state.
 */
#define DOMAIN_PRIV     0
#define DOMAIN_PROB     1
#define DOMAIN_HV       2
#define DOMAIN_ADJUNCT  3

QEMU_BUILD_BUG_ON(PPC_COUNT_DOMAINS != PNV_IMC_DOMAINS);

static uint64_t ticks(uint64_t ns, uint32_t hz)
{
    return muldiv64(ns, hz, NANOSECONDS_PER_SECOND);
}

/* @value * @part / @whole; 0 if @whole is 0 */
static uint64_t share(uint64_t value, uint64_t part, uint64_t whole)
{
    uint64_t lo, hi;

    if (!whole) {
        return 0;
    }
    mulu64(&lo, &hi, value, part);
    divu128(&lo, &hi, whole);
    return lo;
}

/*
 * Without TCG, a thread has no instructions, but is always busy. @whole: see
 * ppc_count_peek()
 */
static void thread_totals(PowerPCCPU *cpu, uint64_t *total, bool whole)
{
    static const uint8_t lane[] = {
        [PPC_COUNT_LARX] = PNV_IMC_LARX,
        [PPC_COUNT_STCX] = PNV_IMC_STCX,
        [PPC_COUNT_STCX_FAIL] = PNV_IMC_STCX_FAIL,
        [PPC_COUNT_TLBIE] = PNV_IMC_TLBIE,
    };
    static const struct {
        uint8_t total;
        uint8_t excp;
    } interrupt[] = {
        { PNV_IMC_INT_OS, POWERPC_EXCP_EXTERNAL },
        { PNV_IMC_INT_HYP, POWERPC_EXCP_HVIRT },
        { PNV_IMC_INT_EBB, POWERPC_EXCP_EXTERNAL_EBB },
        { PNV_IMC_INT_DOORBELL, POWERPC_EXCP_SDOOR },
        { PNV_IMC_INT_DOORBELL, POWERPC_EXCP_SDOOR_HV },
    };
    PPCCounts counts;
    unsigned d, i;

    memset(total, 0, PNV_IMC_TOTALS * sizeof(*total));
    total[PNV_IMC_BUSY_NS] = total[PNV_IMC_RUN_NS] =
        qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
    if (ppc_count_available()) {
        ppc_count_peek(cpu, &counts, whole);
        total[PNV_IMC_BUSY_NS] = counts.busy_ns;
        total[PNV_IMC_RUN_NS] = counts.run_ns;
        for (d = 0; d < PPC_COUNT_DOMAINS; d++) {
            total[PNV_IMC_RUN_INSNS + d] = counts.run_insns[d];
            total[PNV_IMC_INSNS + d] = counts.lane[d][PPC_COUNT_INSNS];
            for (i = PPC_COUNT_LARX; i < ARRAY_SIZE(lane); i++) {
                total[lane[i]] += counts.lane[d][i];
            }
        }
    }
    for (i = 0; i < ARRAY_SIZE(interrupt); i++) {
        total[interrupt[i].total] +=
            qatomic_read_u64(&cpu->env.excp_stats[interrupt[i].excp]);
    }
}

/*
 * The difference between the totals of a thread and those @seen at the previous
 * reading, @ns ago. The clock has advanced since @ns was computed: cap times at
 * @ns, and leave the rest for the next reading. Totals that have decreased add
 * nothing until they are larger again.
 */
static void thread_delta(PowerPCCPU *cpu, uint64_t *seen, uint64_t ns,
                         uint64_t *delta)
{
    uint64_t total[PNV_IMC_TOTALS];
    unsigned i;

    thread_totals(cpu, total, false);
    for (i = 0; i < PNV_IMC_TOTALS; i++) {
        delta[i] = total[i] - seen[i];
        if ((int64_t)delta[i] < 0) {
            delta[i] = 0;
        }
    }
    delta[PNV_IMC_BUSY_NS] = MIN(delta[PNV_IMC_BUSY_NS], ns);
    delta[PNV_IMC_RUN_NS] = MIN(delta[PNV_IMC_RUN_NS],
                                delta[PNV_IMC_BUSY_NS]);
}

/* Instructions with the run latch, in all domains */
static uint64_t run_insns(const uint64_t *delta)
{
    uint64_t sum = 0;
    unsigned i;

    for (i = 0; i < PPC_COUNT_DOMAINS; i++) {
        sum += delta[PNV_IMC_RUN_INSNS + i];
    }
    return sum;
}

static void add_by_state(PnvImcValues value, Value what, uint64_t all,
                         uint64_t user)
{
    value[what][ANY] += all;
    value[what][USER] += user;
    value[what][KERNEL] += all - user;
}

static uint64_t user_insns(const uint64_t *by)
{
    return by[DOMAIN_PROB] + by[DOMAIN_ADJUNCT];
}

static uint64_t all_insns(const uint64_t *by)
{
    return user_insns(by) + by[DOMAIN_PRIV] + by[DOMAIN_HV];
}

/*
 * Values that are sums over the threads. Times are divided in proportion to the
 * instructions @by.
 */
static void thread_values(PnvImcValues value, const uint64_t *seen,
                          const uint64_t *delta, const uint64_t *by,
                          unsigned mode)
{
    const uint64_t *run_by = &delta[PNV_IMC_RUN_INSNS];
    uint64_t user = user_insns(by), insns = all_insns(by);
    uint64_t busy = delta[PNV_IMC_BUSY_NS];
    uint64_t busy_user = share(busy, user, insns);
    uint64_t busy_prob = share(busy, by[DOMAIN_PROB], insns);
    uint64_t busy_priv = share(busy, by[DOMAIN_PRIV], insns);
    uint64_t run = delta[PNV_IMC_RUN_NS];
    uint64_t run_seen = seen[PNV_IMC_RUN_NS];

    add_by_state(value, INSNS, all_insns(&delta[PNV_IMC_INSNS]),
                 user_insns(&delta[PNV_IMC_INSNS]));
    value[RUN_INSNS][ANY] += run_insns(delta);
    value[PRIV_INSNS][ANY] += run_by[DOMAIN_PRIV];
    value[PROB_INSNS][ANY] += run_by[DOMAIN_PROB];
    value[HV_INSNS][ANY] += run_by[DOMAIN_HV];
    value[ADJUNCT_INSNS][ANY] += run_by[DOMAIN_ADJUNCT];

    add_by_state(value, BUSY, busy, busy_user);
    value[PRIV_CYCLES][ANY] += busy_priv;
    value[PROB_CYCLES][ANY] += busy_prob;
    value[ADJUNCT_CYCLES][ANY] += busy_user - busy_prob;
    value[HV_CYCLES][ANY] += busy - busy_user - busy_priv;
    value[RUN][ANY] += run;
    value[ST_RUN + mode][ANY] += run;
    value[RUN_PURR][ANY] += ticks(run_seen + run, PNV_TIMEBASE_FREQ) -
                            ticks(run_seen, PNV_TIMEBASE_FREQ);

    value[LARX][ANY] += delta[PNV_IMC_LARX];
    value[STCX][ANY] += delta[PNV_IMC_STCX];
    value[STCX_FAIL][ANY] += delta[PNV_IMC_STCX_FAIL];
    value[TLBIE][ANY] += delta[PNV_IMC_TLBIE];
    value[INT_OS][ANY] += delta[PNV_IMC_INT_OS];
    value[INT_HYP][ANY] += delta[PNV_IMC_INT_HYP];
    value[INT_EBB][ANY] += delta[PNV_IMC_INT_EBB];
    value[INT_DOORBELL][ANY] += delta[PNV_IMC_INT_DOORBELL];
}

/*
 * Values by the number of threads with the run latch at the same time: at least
 * N + 1 threads for as long as the thread @order[N] had it. More than 4 threads
 * count as 4.
 */
static void overlap_values(PnvImcValues value,
                           uint64_t delta[][PNV_IMC_TOTALS], unsigned threads,
                           uint64_t ns)
{
    unsigned order[PNV_IMC_THREADS], i, j;

    for (i = 0; i < threads; i++) {
        for (j = i; j > 0 && delta[order[j - 1]][PNV_IMC_RUN_NS] <
                             delta[i][PNV_IMC_RUN_NS]; j--) {
            order[j] = order[j - 1];
        }
        order[j] = i;
    }

    value[ANY_RUN][ANY] += delta[order[0]][PNV_IMC_RUN_NS];
    value[ALL_RUN][ANY] += delta[order[threads - 1]][PNV_IMC_RUN_NS];
    value[RUN_0][ANY] += ns - delta[order[0]][PNV_IMC_RUN_NS];
    for (i = 0; i < threads; i++) {
        uint64_t run = delta[order[i]][PNV_IMC_RUN_NS];
        uint64_t next = i + 1 < threads ?
                        delta[order[i + 1]][PNV_IMC_RUN_NS] : 0;
        unsigned n = MIN(i, 3);

        value[RUN_1 + n][ANY] += run - next;
    }
    /*
     * Divide the instructions of a thread in proportion to the times for which
     * 1, 2, ... threads had the latch. Thread @order[i] had it with at least
     * i others.
     */
    for (i = 0; i < threads; i++) {
        const uint64_t *d = delta[order[i]];
        uint64_t insns = run_insns(d), given = 0, ran = 0;

        for (j = threads; j-- > i; ) {
            uint64_t upto;

            ran = delta[order[j]][PNV_IMC_RUN_NS];
            upto = j == i ? insns : share(insns, ran, d[PNV_IMC_RUN_NS]);
            value[RUN_1_INSNS + MIN(j, 3)][ANY] += upto - given;
            given = upto;
        }
    }
}

void pnv_imc_count_start(PnvImcMeter *meter)
{
    unsigned i;

    meter->since_ns = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
    for (i = 0; i < meter->threads; i++) {
        /* What a thread began before is not for this meter. */
        thread_totals(meter->cpu[i], meter->seen[i], true);
    }
    memset(meter->by, 0, sizeof(meter->by));
}

void pnv_imc_count_read(PnvImcMeter *meter, PnvImcValues value)
{
    unsigned mode = meter->core_threads == 1 ? 0
                  : meter->core_threads == 2 ? 1 : 2;
    int64_t now = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
    uint64_t delta[PNV_IMC_THREADS][PNV_IMC_TOTALS];
    uint64_t ns = now - meter->since_ns, insns = 0, user = 0, ref, purr;
    bool executed = false;
    unsigned i, j;

    for (i = 0; i < meter->threads; i++) {
        thread_delta(meter->cpu[i], meter->seen[i], ns, delta[i]);
        if (all_insns(&delta[i][PNV_IMC_INSNS])) {
            memcpy(meter->by[i], &delta[i][PNV_IMC_INSNS],
                   sizeof(meter->by[i]));
            executed = true;
        }
        thread_values(value, meter->seen[i], delta[i], meter->by[i], mode);
        for (j = 0; j < PNV_IMC_TOTALS; j++) {
            meter->seen[i][j] += delta[i][j];
        }
    }
    for (i = 0; i < meter->threads; i++) {
        const uint64_t *by = executed ? &delta[i][PNV_IMC_INSNS]
                                      : meter->by[i];

        if (executed || delta[i][PNV_IMC_BUSY_NS]) {
            insns += all_insns(by);
            user += user_insns(by);
        }
    }
    overlap_values(value, delta, meter->threads, ns);

    /*
     * The core's clocks have no state of their own: divide them in proportion
     * to the instructions of all threads, or to the last ones of those that
     * are busy.
     */
    ref = ticks(now, REF_CLOCK_HZ) - ticks(meter->since_ns, REF_CLOCK_HZ);
    purr = (ticks(now, PNV_TIMEBASE_FREQ) -
            ticks(meter->since_ns, PNV_TIMEBASE_FREQ)) * meter->threads;
    add_by_state(value, CYCLES, ns, share(ns, user, insns));
    add_by_state(value, ST_CYCLES + mode, ns, share(ns, user, insns));
    add_by_state(value, REF_CYCLES, ref, share(ref, user, insns));
    add_by_state(value, PURR, purr, share(purr, user, insns));
    meter->since_ns = now;
}
