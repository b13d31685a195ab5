/*
 * PowerNV in-memory collection counters: what cores and threads have done
 *
 * A look at a meter takes what each of its threads has done since the last
 * look, and derives the values of events from that:
 *
 *  - a cycle is a nanosecond of virtual time;
 *  - threads of a core that were busy between two looks count as if they had
 *    been at the same time: N threads are busy for as long as the one with
 *    the Nth most time is. 0 to 4 threads add up to the time of the core,
 *    and each one times its number, to that of the threads;
 *  - time is divided between user and kernel as the instructions are;
 *  - events with NON_IDLE in their names count with the run latch, CTRL[RUN].
 *
 * A vCPU that executes is read from outside, at most one block away from what
 * it has retired. If it turns out to have retired less than was seen, the next
 * look finds less: counters do not go back.
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

/* What can be counted */
typedef enum Value {
    INSNS,
    RUN_INSNS,
    PRIV_INSNS,
    PROB_INSNS,
    HV_INSNS,
    BUSY,
    RUN,
    PRIV_CYCLES,
    PROB_CYCLES,
    HV_CYCLES,
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

QEMU_BUILD_BUG_ON(VALUES > PNV_IMC_VALUES);

/* By the state of the MSR, for some */
typedef enum Bank {
    ANY,
    USER,
    KERNEL,
} Bank;

QEMU_BUILD_BUG_ON(KERNEL >= PNV_IMC_BANKS);

/*
 * All events that an emulator can know, by their names in the catalogs of
 * POWER9 and POWER10. In front of each is CPM_. Those that are counted by
 * state have CS_ behind that, and _USER or _KERNEL at the end, or neither.
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
    { "RUN_SPURR", RUN_PURR },          /* nothing is scaled */
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
    { "PRIV_INST", PRIV_INSNS },
    { "PRIV_PCYC", PRIV_CYCLES },
    { "PROB_INST", PROB_INSNS },
    { "PROB_PCYC", PROB_CYCLES },
    { "HV_INST", HV_INSNS },
    { "HV_PCYC", HV_CYCLES },
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

/* Of events that share a word, the first one that is known counts. */
void pnv_imc_count_resolve(GArray *events)
{
    uint32_t taken = UINT32_MAX;
    unsigned i;

    for (i = 0; i < events->len; i++) {
        PnvImcEvent *event = pnv_imc_event(events, i);

        resolve(event);
        if (pnv_imc_is_known(event)) {
            if (event->offset == taken) {
                event->value = PNV_IMC_VALUES;
            }
            taken = event->offset;
        }
    }
}

uint32_t pnv_imc_count_hz(const PnvImcEvent *e)
{
    if (e->bank == ANY && e->value == REF_CYCLES) {
        return REF_CLOCK_HZ;
    }
    return e->bank == ANY && e->value == CYCLES ? NANOSECONDS_PER_SECOND : 0;
}

/* MSR[HV] << 1 | MSR[PR]; programs of a bare-metal kernel have both */
#define DOMAIN_PRIV     0
#define DOMAIN_PROB     1
#define DOMAIN_HV       2
#define DOMAIN_HV_PROB  3

static uint64_t ticks(uint64_t ns, uint32_t hz)
{
    return muldiv64(ns, hz, NANOSECONDS_PER_SECOND);
}

/* @value * @part / @whole, or 0 of nothing */
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

static uint64_t all_domains(PowerPCCPU *cpu, unsigned lane)
{
    uint64_t sum = 0;
    unsigned i;

    for (i = 0; i < PPC_COUNT_DOMAINS; i++) {
        sum += ppc_count_peek(cpu, i, lane);
    }
    return sum;
}

/* Without TCG, threads execute nothing, but are never idle. */
static void thread_totals(PowerPCCPU *cpu, uint64_t *total)
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
    unsigned i;

    memset(total, 0, PNV_IMC_TOTALS * sizeof(*total));
    total[PNV_IMC_BUSY_NS] = total[PNV_IMC_RUN_NS] =
        qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
    if (ppc_count_available(cpu)) {
        total[PNV_IMC_BUSY_NS] = ppc_count_busy_ns(cpu);
        total[PNV_IMC_RUN_NS] = ppc_count_run_ns(cpu);
        total[PNV_IMC_RUN_INSNS] = ppc_count_run_insns(cpu);
        for (i = 0; i < PPC_COUNT_DOMAINS; i++) {
            total[PNV_IMC_INSNS + i] = ppc_count_peek(cpu, i,
                                                      PPC_COUNT_INSNS);
        }
        for (i = PPC_COUNT_LARX; i < ARRAY_SIZE(lane); i++) {
            total[lane[i]] = all_domains(cpu, i);
        }
    }
    for (i = 0; i < ARRAY_SIZE(interrupt); i++) {
        total[interrupt[i].total] +=
            qatomic_read_u64(&cpu->env.excp_stats[interrupt[i].excp]);
    }
}

/*
 * What a thread has done since it was last seen. No more time than there was:
 * the clock has gone on since @ns was read, and that is for the next look.
 */
static void thread_delta(PowerPCCPU *cpu, uint64_t *seen, uint64_t ns,
                         uint64_t *delta)
{
    uint64_t total[PNV_IMC_TOTALS], insns = 0;
    unsigned i;

    thread_totals(cpu, total);
    for (i = 0; i < PNV_IMC_TOTALS; i++) {
        delta[i] = total[i] - seen[i];
        if ((int64_t)delta[i] < 0) {
            delta[i] = 0;
        }
    }
    for (i = 0; i < PPC_COUNT_DOMAINS; i++) {
        insns += delta[PNV_IMC_INSNS + i];
    }
    delta[PNV_IMC_RUN_INSNS] = MIN(delta[PNV_IMC_RUN_INSNS], insns);
    delta[PNV_IMC_BUSY_NS] = MIN(delta[PNV_IMC_BUSY_NS], ns);
    delta[PNV_IMC_RUN_NS] = MIN(delta[PNV_IMC_RUN_NS],
                                delta[PNV_IMC_BUSY_NS]);
}

static void add_by_state(PnvImcValues value, Value what, uint64_t all,
                         uint64_t user)
{
    value[what][ANY] += all;
    value[what][USER] += user;
    value[what][KERNEL] += all - user;
}

/* Instructions, cycles, and what else a thread does itself */
static void thread_values(PnvImcValues value, const uint64_t *seen,
                          const uint64_t *delta, unsigned mode)
{
    const uint64_t *by = &delta[PNV_IMC_INSNS];
    uint64_t user = by[DOMAIN_PROB] + by[DOMAIN_HV_PROB];
    uint64_t insns = user + by[DOMAIN_PRIV] + by[DOMAIN_HV];
    uint64_t busy = delta[PNV_IMC_BUSY_NS];
    uint64_t busy_user = share(busy, user, insns);
    uint64_t busy_priv = share(busy, by[DOMAIN_PRIV], insns);
    uint64_t run = delta[PNV_IMC_RUN_NS];
    uint64_t run_seen = seen[PNV_IMC_RUN_NS];

    add_by_state(value, INSNS, insns, user);
    value[RUN_INSNS][ANY] += delta[PNV_IMC_RUN_INSNS];
    value[PROB_INSNS][ANY] += user;
    value[PRIV_INSNS][ANY] += by[DOMAIN_PRIV];
    value[HV_INSNS][ANY] += by[DOMAIN_HV];

    add_by_state(value, BUSY, busy, busy_user);
    value[PROB_CYCLES][ANY] += busy_user;
    value[PRIV_CYCLES][ANY] += busy_priv;
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
 * How many threads were busy at the same time: at least N + 1 for as long as
 * the thread @order[N] was. More than 4 count as 4.
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
    /* The instructions of each thread, by how long it had how much company */
    for (i = 0; i < threads; i++) {
        const uint64_t *d = delta[order[i]];
        uint64_t insns = d[PNV_IMC_RUN_INSNS], given = 0, ran = 0;

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
        thread_totals(meter->cpu[i], meter->seen[i]);
    }
}

void pnv_imc_count_take(PnvImcMeter *meter, PnvImcValues value)
{
    unsigned mode = meter->core_threads == 1 ? 0
                  : meter->core_threads == 2 ? 1 : 2;
    int64_t now = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
    uint64_t delta[PNV_IMC_THREADS][PNV_IMC_TOTALS];
    uint64_t ns = now - meter->since_ns, insns = 0, user = 0, ref, purr;
    unsigned i, j;

    for (i = 0; i < meter->threads; i++) {
        thread_delta(meter->cpu[i], meter->seen[i], ns, delta[i]);
        thread_values(value, meter->seen[i], delta[i], mode);
        for (j = 0; j < PNV_IMC_TOTALS; j++) {
            meter->seen[i][j] += delta[i][j];
        }
        for (j = 0; j < PPC_COUNT_DOMAINS; j++) {
            insns += delta[i][PNV_IMC_INSNS + j];
        }
        user += delta[i][PNV_IMC_INSNS + DOMAIN_PROB] +
                delta[i][PNV_IMC_INSNS + DOMAIN_HV_PROB];
    }
    overlap_values(value, delta, meter->threads, ns);

    /* Clocks of the core, which have no state, show that of its threads */
    ref = ticks(now, REF_CLOCK_HZ) - ticks(meter->since_ns, REF_CLOCK_HZ);
    purr = (ticks(now, PNV_TIMEBASE_FREQ) -
            ticks(meter->since_ns, PNV_TIMEBASE_FREQ)) * meter->threads;
    add_by_state(value, CYCLES, ns, share(ns, user, insns));
    add_by_state(value, ST_CYCLES + mode, ns, share(ns, user, insns));
    add_by_state(value, REF_CYCLES, ref, share(ref, user, insns));
    add_by_state(value, PURR, purr, share(purr, user, insns));
    meter->since_ns = now;
}
