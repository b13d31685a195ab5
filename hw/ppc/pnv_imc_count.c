/*
 * PowerNV in-memory collection counters: what cores and threads count
 *
 * A page of counters has lines of 64 bytes:
 *
 *   dword   0    1   2   3      4      5      6      7
 *           TB   -   -   CPMC1  CPMC2  CPMC3  CPMC4  TB
 *
 * The tables below say what is in which CPMC, for all events that an emulator
 * can count; the others stay 0. A post takes what each thread has done since
 * the last one, and derives the rest from that:
 *
 *  - a cycle is a nanosecond of virtual time;
 *  - threads of a core that were busy between two posts count as if they had
 *    been at the same time: N threads are busy for as long as the one with
 *    the Nth most time is. 0 to 4 threads add up to the time of the core,
 *    and each one times its number, to that of the threads;
 *  - time is divided between user and kernel as the instructions are.
 *
 * A vCPU that executes is read from outside, at most one block away from what
 * it has retired. If it turns out to have retired less than was seen, the next
 * post adds less: counters do not go back.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/ppc/pnv_imc.h"
#include "exec/memory.h"
#include "hw/ppc/ppc.h"
#include "qemu/host-utils.h"
#include "qemu/log.h"
#include "target/ppc/insn-count.h"
#include "trace.h"

/* What can be counted */
typedef enum Value {
    INSNS,
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
    ANY_BUSY,
    ALL_BUSY,
    BUSY_0,
    BUSY_1,
    BUSY_2,
    BUSY_3,
    BUSY_4,
    BUSY_1_INSNS,
    BUSY_2_INSNS,
    BUSY_3_INSNS,
    BUSY_4_INSNS,
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

/* By the state of the MSR, for some */
typedef enum Bank {
    ANY,
    USER,
    KERNEL,
    BANKS
} Bank;

#define EVENTS_END { PNV_IMC_PAGE_SIZE }

const PnvImcCoreEvent pnv_imc_events_p9[] = {
    { 0x000, BUSY },                    /* PCYC */
    { 0x008, INSNS },
    { 0x010, INSNS },                   /* NON_IDLE_INST */
    { 0x018, RUN },                     /* NON_IDLE_PCYC */
    { 0x040, ANY_BUSY },                /* ANY_THRD_NON_IDLE_PCYC */
    { 0x048, ALL_BUSY },                /* CORE_ALL_THRD_NON_IDLE_PCYC */
    { 0x080, CYCLES },                  /* CCYC */
    { 0x088, REF_CYCLES },              /* 32MHZ_CYC */
    { 0x0c8, BUSY_0 },                  /* 0THRD_NON_IDLE_PCYC */
    { 0x100, BUSY_1_INSNS },
    { 0x108, BUSY_1 },
    { 0x140, BUSY_2_INSNS },
    { 0x148, BUSY_2 },
    { 0x180, BUSY_3_INSNS },
    { 0x188, BUSY_3 },
    { 0x1c0, BUSY_4_INSNS },
    { 0x1c8, BUSY_4 },
    { 0x300, STCX },
    { 0x308, STCX_FAIL },
    { 0x340, TLBIE },
    { 0x348, LARX },
    { 0x388, INT_OS },
    { 0x4c0, INT_EBB },
    { 0x500, INT_HYP },
    { 0x540, INT_DOORBELL },
    { 0x600, PRIV_INSNS },
    { 0x608, PRIV_CYCLES },
    { 0x640, PROB_INSNS },
    { 0x648, PROB_CYCLES },
    { 0x680, HV_INSNS },
    { 0x688, HV_CYCLES },
    /* Names begin with CS_ from here, those of states end with them */
    { 0x800, BUSY },                    /* CS_PCYC */
    { 0x808, INSNS },
    { 0x840, ST_CYCLES },               /* CS_CORE_MODE_ST_CCYC */
    { 0x848, SMT2_CYCLES },
    { 0x880, SMT4_CYCLES },
    { 0x8c0, CYCLES },                  /* CS_CORE_PCYC */
    { 0x8c8, REF_CYCLES },              /* CS_32MHZ_CYC */
    { 0x900, PURR },                    /* CS_SPURR: nothing is scaled */
    { 0x908, PURR },
    { 0x1000, BUSY, USER },
    { 0x1008, INSNS, USER },
    { 0x1040, ST_CYCLES, USER },
    { 0x1048, SMT2_CYCLES, USER },
    { 0x1080, SMT4_CYCLES, USER },
    { 0x10c0, CYCLES, USER },
    { 0x10c8, REF_CYCLES, USER },
    { 0x1100, PURR, USER },
    { 0x1108, PURR, USER },
    { 0x1800, BUSY, KERNEL },
    { 0x1808, INSNS, KERNEL },
    { 0x1840, ST_CYCLES, KERNEL },
    { 0x1848, SMT2_CYCLES, KERNEL },
    { 0x1880, SMT4_CYCLES, KERNEL },
    { 0x18c0, CYCLES, KERNEL },
    { 0x18c8, REF_CYCLES, KERNEL },
    { 0x1900, PURR, KERNEL },
    { 0x1908, PURR, KERNEL },
    EVENTS_END
};

const PnvImcCoreEvent pnv_imc_events_p10[] = {
    { 0x000, ST_RUN },                  /* RUN_CYC_ST_MODE */
    { 0x010, INSNS },                   /* NON_IDLE_INST */
    { 0x018, RUN },                     /* NON_IDLE_PCYC */
    { 0x040, SMT2_RUN },
    { 0x080, SMT4_RUN },
    { 0x100, REF_CYCLES },              /* NEST_REF_CLK */
    { 0x140, INT_EBB },
    { 0x180, INT_HYP },
    { 0x188, TLBIE },
    { 0x1c0, INT_OS },
    { 0x1c8, LARX },
    { 0x200, INT_DOORBELL },
    { 0x208, STCX },
    { 0x248, STCX_FAIL },
    { 0x288, PROB_CYCLES },
    { 0x2c8, PROB_INSNS },
    { 0x308, PRIV_CYCLES },
    { 0x348, PRIV_INSNS },
    { 0x388, HV_CYCLES },
    { 0x3c8, HV_INSNS },
    { 0x588, RUN_PURR },
    { 0x5c8, RUN_PURR },                /* RUN_SPURR */
    EVENTS_END
};

QEMU_BUILD_BUG_ON(ARRAY_SIZE(pnv_imc_events_p9) > PNV_IMC_PAGE_EVENTS + 1);
QEMU_BUILD_BUG_ON(ARRAY_SIZE(pnv_imc_events_p10) > PNV_IMC_PAGE_EVENTS + 1);

#define REF_CLOCK_HZ 32000000

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
            qatomic_read__nocheck(&cpu->env.excp_stats[interrupt[i].excp]);
    }
}

/*
 * What a thread has done since it was last seen. No more time than there was:
 * the clock has gone on since @ns was read, and that is for the next post.
 */
static void thread_delta(PowerPCCPU *cpu, uint64_t *seen, uint64_t ns,
                         uint64_t *delta)
{
    uint64_t total[PNV_IMC_TOTALS];
    unsigned i;

    thread_totals(cpu, total);
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

static void add_by_state(uint64_t value[VALUES][BANKS], Value what,
                         uint64_t all, uint64_t user)
{
    value[what][ANY] += all;
    value[what][USER] += user;
    value[what][KERNEL] += all - user;
}

/* Instructions, cycles, and what else a thread does itself */
static void thread_values(uint64_t value[VALUES][BANKS],
                          const uint64_t *seen, const uint64_t *delta,
                          unsigned mode)
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
static void overlap_values(uint64_t value[VALUES][BANKS],
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

    value[ANY_BUSY][ANY] = delta[order[0]][PNV_IMC_RUN_NS];
    value[ALL_BUSY][ANY] = delta[order[threads - 1]][PNV_IMC_RUN_NS];
    value[BUSY_0][ANY] = ns - value[ANY_BUSY][ANY];
    for (i = 0; i < threads; i++) {
        uint64_t run = delta[order[i]][PNV_IMC_RUN_NS];
        uint64_t next = i + 1 < threads ?
                        delta[order[i + 1]][PNV_IMC_RUN_NS] : 0;
        unsigned n = MIN(i, 3);

        value[BUSY_1 + n][ANY] += run - next;
    }
    /* The instructions of each thread, by how long it had how much company */
    for (i = 0; i < threads; i++) {
        const uint64_t *d = delta[order[i]];
        uint64_t insns = 0, given = 0, ran = 0;

        for (j = 0; j < PPC_COUNT_DOMAINS; j++) {
            insns += d[PNV_IMC_INSNS + j];
        }
        for (j = threads; j-- > i; ) {
            uint64_t upto;

            ran = delta[order[j]][PNV_IMC_RUN_NS];
            upto = j == i ? insns : share(insns, ran, d[PNV_IMC_RUN_NS]);
            value[BUSY_1_INSNS + MIN(j, 3)][ANY] += upto - given;
            given = upto;
        }
    }
}

static void page_values(PnvImcPage *page, uint64_t now,
                        uint64_t value[VALUES][BANKS])
{
    unsigned threads = page->thread[0]->engine->threads;
    unsigned mode = threads == 1 ? 0 : threads == 2 ? 1 : 2;
    uint64_t delta[PNV_IMC_THREADS][PNV_IMC_TOTALS];
    uint64_t ns = now - page->since_ns, user, insns, ref, purr;
    unsigned i, j;

    for (i = 0; i < page->threads; i++) {
        thread_delta(page->thread[i]->cpu, page->seen[i], ns, delta[i]);
        thread_values(value, page->seen[i], delta[i], mode);
        for (j = 0; j < PNV_IMC_TOTALS; j++) {
            page->seen[i][j] += delta[i][j];
        }
    }
    overlap_values(value, delta, page->threads, ns);

    /* Clocks of the core, which have no state, show that of its threads */
    insns = value[INSNS][ANY];
    user = value[INSNS][USER];
    ref = ticks(now, REF_CLOCK_HZ) - ticks(page->since_ns, REF_CLOCK_HZ);
    purr = (ticks(now, PNV_TIMEBASE_FREQ) -
            ticks(page->since_ns, PNV_TIMEBASE_FREQ)) * page->threads;
    add_by_state(value, CYCLES, ns, share(ns, user, insns));
    add_by_state(value, ST_CYCLES + mode, ns, share(ns, user, insns));
    add_by_state(value, REF_CYCLES, ref, share(ref, user, insns));
    add_by_state(value, PURR, purr, share(purr, user, insns));
    page->since_ns = now;
}

static bool add_counts(PnvImcPage *page, const uint64_t *count, uint64_t tb)
{
    PnvImc *imc = page->thread[0]->engine->imc;
    const PnvImcCoreEvent *e = PNV_IMC_GET_CLASS(imc)->core->events;
    const MemTxAttrs attrs = MEMTXATTRS_UNSPECIFIED;
    MemoryRegionCache cache;
    unsigned i;

    if (!pnv_imc_map(&cache, page->addr, PNV_IMC_PAGE_SIZE)) {
        return false;
    }
    for (i = 0; e[i].offset < PNV_IMC_PAGE_SIZE; i++) {
        hwaddr at = PNV_IMC_PAGE_BASE + e[i].offset;
        hwaddr line = QEMU_ALIGN_DOWN(at, PNV_IMC_PAGE_LINE);
        uint64_t sum;

        if (count[i]) {
            sum = address_space_ldq_be_cached(&cache, at, attrs, NULL);
            address_space_stq_be_cached(&cache, at, sum + count[i], attrs,
                                        NULL);
            address_space_stq_be_cached(&cache, line, tb, attrs, NULL);
            address_space_stq_be_cached(&cache, line + 7 * 8, tb, attrs, NULL);
        }
    }
    address_space_cache_invalidate(&cache, 0, PNV_IMC_PAGE_SIZE);
    address_space_cache_destroy(&cache);
    return true;
}

void pnv_imc_count_start(PnvImcPage *page)
{
    unsigned i;

    page->since_ns = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
    for (i = 0; i < page->threads; i++) {
        thread_totals(page->thread[i]->cpu, page->seen[i]);
    }
}

void pnv_imc_count_post(PnvImcPage *page)
{
    PnvImcThread *t = page->thread[0];
    PnvImc *imc = t->engine->imc;
    const PnvImcCoreModel *model = PNV_IMC_GET_CLASS(imc)->core;
    uint64_t value[VALUES][BANKS] = { }, count[PNV_IMC_PAGE_EVENTS];
    uint64_t since = page->since_ns, now;
    unsigned i;

    if (!page->active) {
        return;
    }
    now = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
    page_values(page, now, value);
    for (i = 0; model->events[i].offset < PNV_IMC_PAGE_SIZE; i++) {
        const PnvImcCoreEvent *e = &model->events[i];
        uint64_t all = value[e->value][e->bank] + page->rest[i];

        count[i] = all / model->scale;
        page->rest[i] = all % model->scale;
    }
    trace_pnv_imc_post(imc->chip->chip_id, t->engine->core, page->addr,
                       now - since, value[INSNS][ANY]);
    if (!add_counts(page, count, cpu_ppc_load_tbl(&t->cpu->env)) &&
        !page->bad) {
        page->bad = true;
        qemu_log_mask(LOG_GUEST_ERROR, "pnv-imc: chip %u core %u: no memory "
                      "for counters at 0x%" HWADDR_PRIx "\n",
                      imc->chip->chip_id, t->engine->core, page->addr);
    }
}

/* On the vCPU's own thread between two blocks, with the BQL */
static void count_work(CPUState *cs, run_on_cpu_data data)
{
    PnvImcThread *t = data.host_ptr;

    if (t->want != t->counts) {
        t->counts = t->want;
        ppc_count_start(t->cpu, t->counts);
    }
}

/*
 * Blocks that count are other blocks. A thread that does this to itself must
 * not go on from one to the other, as they could be chained then, also for
 * threads that do not count. It leaves the loop behind the current block.
 */
void pnv_imc_count_enable(PnvImcThread *t, bool enable)
{
    if (enable != t->want && ppc_count_available(t->cpu)) {
        t->want = enable;
        async_run_on_cpu(CPU(t->cpu), count_work, RUN_ON_CPU_HOST_PTR(t));
    }
}
