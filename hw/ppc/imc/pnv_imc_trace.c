/*
 * PowerNV in-memory collection counters: the trace
 *
 * While a core's engine runs, a thread with LDBAR[1] is sampled. A thread has
 * four counters, CPMC1 to 4; TRACE_IMC selects one of them, and a period. Each
 * time that this counter has advanced by the period, the engine stores a record
 * of eight big-endian dwords in the buffer at LDBAR:
 *
 *   dword   0    1    2    3 to 6       7
 *           TB   IP   MSR  CPMC1 to 4   TB, 42 bits
 *
 * TRACE_IMC has, from the left:
 *
 *   SAMPSEL    n: CPMC(n+1) decides about samples
 *   CPMC_LOAD  start value of that counter: 2^32 - period
 *   CPMC1SEL, CPMC2SEL   events of CPMC1 and CPMC2
 *   BUFFERSIZE n: the buffer has 4096 << n records
 *
 * After the last record of the buffer, the engine overwrites the first one,
 * without notice. A write of LDBAR, and a start of the engine, restart with the
 * first record. POWER10 stores MSR[HV] and MSR[PR] in bits 0 and 1 of dword 2;
 * POWER9 stores 0.
 *
 * Each thread takes its own samples, with a deadline in instructions: it
 * estimates from its speed how many instructions it executes until the next
 * sample is due, and checks then. So the main loop is not involved, and no
 * thread is interrupted by another one.
 *
 * Decisions of our own:
 *  - CPMC1SEL and CPMC2SEL are numbers of lines in the catalog's core area, and
 *    CPMC3 and CPMC4 always count those of line 0. No public text says so; with
 *    this reading, the values that firmware writes select the 32 MHz clock on
 *    both generations;
 *  - samples are at least "trace-min-period-ns" apart on average: firmware asks
 *    for one each 8 us, which is more than an emulator should take. A late one
 *    does not delay the next. If the counter that causes samples is no clock,
 *    it is checked as often as that;
 *  - a sample is taken between two blocks of code, where the CPU's state is
 *    known, so that IP is the start of a block;
 *  - a clock does not stop for an idle thread, but an idle thread is not
 *    sampled;
 *  - CPMC1 to 4 are the events since the trace began. A counter of an event
 *    that an emulator cannot count is 0, and never causes a sample;
 *  - with address 0 in LDBAR, there is no trace.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "pnv_imc_internal.h"
#include "hw/ppc/pnv_core.h"
#include "hw/ppc/ppc.h"
#include "qemu/bswap.h"
#include "qemu/host-utils.h"
#include "qemu/log.h"
#include "qemu/main-loop.h"
#include "target/ppc/insn-count.h"
#include "trace.h"

#define RECORD_SIZE             64
#define   RECORD_TB2            MAKE_64BIT_MASK(0, 42)
#define BUFFER_RECORDS          4096

typedef uint64_t Record[RECORD_SIZE / 8];

/* Instructions between two checks: fewer cost too much, more are too late */
#define CHECK_MIN               1000
#define CHECK_MAX               100000

/* The countable event at a counter of a line of the core area, or NULL */
static const PnvImcEvent *event_at(PnvImc *imc, unsigned line, unsigned cpmc)
{
    GArray *events = imc->events[PNV_IMC_CORE];
    uint32_t offset = line * PNV_IMC_PAGE_LINE + PNV_IMC_PAGE_CPMC1 + cpmc * 8;
    unsigned i;

    for (i = 0; i < events->len; i++) {
        const PnvImcEvent *e = pnv_imc_event(events, i);

        if (e->offset == offset && pnv_imc_is_known(e)) {
            return e;
        }
    }
    return NULL;
}

/* The event of the counter that decides about samples, or NULL */
static const PnvImcEvent *sampled_event(PnvImcEngine *e)
{
    return e->selected[GETFIELD(PNV_IMC_TRACE_SAMPSEL, e->trace)];
}

/* Number of these events from one sample to the next */
static uint64_t sampled_period(PnvImcEngine *e)
{
    return (1ULL << 32) - GETFIELD(PNV_IMC_TRACE_LOAD, e->trace);
}

void pnv_imc_trace_select(PnvImcEngine *e)
{
    const unsigned line[PNV_IMC_TRACE_COUNTERS] = {
        GETFIELD(PNV_IMC_TRACE_CPMC1SEL, e->trace),
        GETFIELD(PNV_IMC_TRACE_CPMC2SEL, e->trace),
    };
    unsigned i;

    for (i = 0; i < PNV_IMC_TRACE_COUNTERS; i++) {
        e->selected[i] = event_at(e->imc, line[i], i);
    }
    if (e->trace && !sampled_event(e)) {
        qemu_log_mask(LOG_UNIMP, "pnv-imc: chip %u core %u: TRACE_IMC 0x%"
                      PRIx64 " samples an event that is not counted\n",
                      e->imc->chip->chip_id, e->core, e->trace);
    }
    for (i = 0; i < e->threads; i++) {
        pnv_imc_trace_restart(e->thread[i]);
    }
}

void pnv_imc_trace_restart(PnvImcThread *t)
{
    PnvImcSampler *s = &t->sampler;

    s->record = 0;
    s->bad = false;
    s->sampled = 0;
    s->next_ns = 0;
    memset(s->count, 0, sizeof(s->count));
    pnv_imc_count_start(&s->meter);
}

static void write_record(PnvImcThread *t, const Record record)
{
    PnvImcEngine *e = t->engine;
    PnvImcSampler *s = &t->sampler;
    uint32_t records = BUFFER_RECORDS << GETFIELD(PNV_IMC_TRACE_SIZE, e->trace);
    hwaddr addr = t->cpu->env.spr[SPR_LDBAR] & PNV_IMC_LDBAR_ADDR;
    MemoryRegionCache cache;

    s->record %= records;
    addr += (hwaddr)s->record * RECORD_SIZE;
    trace_pnv_imc_sample(e->imc->chip->chip_id, e->core, addr,
                         t->cpu->env.nip);
    if (pnv_imc_map(&cache, addr, RECORD_SIZE)) {
        memcpy(cache.ptr, record, RECORD_SIZE);
        address_space_cache_invalidate(&cache, 0, RECORD_SIZE);
        address_space_cache_destroy(&cache);
    } else if (!s->bad) {
        s->bad = true;
        qemu_log_mask(LOG_GUEST_ERROR, "pnv-imc: chip %u core %u: no memory "
                      "for the trace at 0x%" HWADDR_PRIx "\n",
                      e->imc->chip->chip_id, e->core, addr);
    }
    s->record = (s->record + 1) % records;
}

/* Advance CPMC1 to 4, and store a record if the period has passed. */
static void read_counters_and_sample(PnvImcThread *t)
{
    PnvImcEngine *e = t->engine;
    PnvImcSampler *s = &t->sampler;
    CPUPPCState *env = &t->cpu->env;
    uint64_t tb = cpu_ppc_load_tbl(env);
    PnvImcValues value = { };
    Record record = { };
    unsigned selected = GETFIELD(PNV_IMC_TRACE_SAMPSEL, e->trace), i;

    pnv_imc_count_read(&s->meter, value);
    for (i = 0; i < PNV_IMC_TRACE_COUNTERS; i++) {
        if (e->selected[i]) {
            s->count[i] += pnv_imc_value(e->selected[i], value);
        }
        record[3 + i] = cpu_to_be64(s->count[i]);
    }
    if (!pnv_imc_count_hz(sampled_event(e))) {
        if (s->count[selected] - s->sampled < sampled_period(e)) {
            return;
        }
        s->sampled = s->count[selected];
    }

    record[0] = cpu_to_be64(tb);
    record[1] = cpu_to_be64(env->nip);
    if (PNV_IMC_GET_CLASS(e->imc)->core->msr) {
        uint64_t msr = 0;

        msr = SETFIELD(PPC_BIT(0), msr, FIELD_EX64(env->msr, MSR, HV));
        msr = SETFIELD(PPC_BIT(1), msr, FIELD_EX64(env->msr, MSR, PR));
        record[2] = cpu_to_be64(msr);
    }
    record[7] = cpu_to_be64(tb & RECORD_TB2);
    write_record(t, record);
}

/* Virtual time between two samples */
static uint64_t period_ns(PnvImcEngine *e)
{
    uint32_t hz = pnv_imc_count_hz(sampled_event(e));
    uint64_t ns = hz ? muldiv64(sampled_period(e), NANOSECONDS_PER_SECOND, hz)
                     : 0;

    return MAX(ns, e->imc->trace_min_period_ns);
}

/* Instructions until the next sample, if the thread's speed stays the same */
static uint64_t insns_until_next(PnvImcSampler *s, int64_t now, uint64_t insns)
{
    uint64_t did = insns - s->check_insns, took = MAX(now - s->check_ns, 1);
    /* Add a sixteenth: a late check is cheaper than an early one and a next. */
    uint64_t left = MAX(s->next_ns - now, 1) * 17 / 16;

    s->check_insns = insns;
    s->check_ns = now;
    /* A check is late by part of a block. */
    if (did < CHECK_MIN / 2 || did > 2 * CHECK_MAX) {
        return CHECK_MIN;       /* the speed is not known yet */
    }
    return MIN(MAX(did * left / took, CHECK_MIN), CHECK_MAX);
}

/* Runs on the thread itself, between two blocks. */
static void sample_if_due(PowerPCCPU *cpu)
{
    PnvImcThread *t = pnv_cpu_state(cpu)->imc;
    PnvImcSampler *s = &t->sampler;
    uint64_t insns = 0;
    unsigned i;
    int64_t now;

    BQL_LOCK_GUARD();
    now = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
    s->checking = pnv_imc_is_traced(t) && sampled_event(t->engine) && t->counts;
    if (!s->checking) {
        return;
    }
    if (!s->next_ns) {
        s->next_ns = now + period_ns(t->engine);
    } else if (now >= s->next_ns) {
        read_counters_and_sample(t);
        /* Keep the rhythm, unless a whole period was missed. */
        s->next_ns += period_ns(t->engine);
        if (s->next_ns <= now) {
            s->next_ns = now + period_ns(t->engine);
        }
    }
    for (i = 0; i < PPC_COUNT_DOMAINS; i++) {
        insns += ppc_count_read(cpu, i, PPC_COUNT_INSNS);
    }
    insns = insns_until_next(s, now, insns);
    trace_pnv_imc_trace_check(t->engine->imc->chip->chip_id, t->engine->core,
                              now, insns);
    ppc_count_call(cpu, insns, sample_if_due);
}

static void sample_work(CPUState *cs, run_on_cpu_data unused)
{
    sample_if_due(POWERPC_CPU(cs));
}

void pnv_imc_trace_update(PnvImcEngine *e)
{
    unsigned i;

    for (i = 0; i < e->threads; i++) {
        PnvImcThread *t = e->thread[i];

        if (pnv_imc_is_traced(t) && sampled_event(e) && !t->sampler.checking &&
            ppc_count_available()) {
            t->sampler.checking = true;
            async_run_on_cpu(CPU(t->cpu), sample_work, RUN_ON_CPU_NULL);
        }
    }
}
