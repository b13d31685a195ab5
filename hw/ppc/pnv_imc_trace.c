/*
 * PowerNV in-memory collection counters: the trace
 *
 * While a core's engine runs, a thread with LDBAR[1] is sampled: whenever one
 * of its four counters has counted as much as TRACE_IMC says, a record of
 * eight big-endian dwords goes into the buffer at LDBAR:
 *
 *   dword   0    1    2    3 to 6       7
 *           TB   IP   MSR  CPMC1 to 4   TB, 42 bits
 *
 * TRACE_IMC has, from the left:
 *
 *   SAMPSEL    which of CPMC1 to 4 it is
 *   CPMC_LOAD  what that begins with: 2^32 less what it has to count
 *   CPMC1SEL, CPMC2SEL   line of the catalog's core area whose CPMC1 or CPMC2
 *              is counted. CPMC3 and 4 always count those of line 0. (So
 *              firmware's selections are the 32 MHz clock on both generations.)
 *   BUFFERSIZE n: the buffer has 4096 << n records
 *
 * Behind the last record comes the first one again, without notice; a write of
 * LDBAR and a start of the engine begin with the first one, too. The bits of
 * MSR are HV and PR, at the left, on POWER10; POWER9 has none.
 *
 * A thread takes its samples itself: it looks at the clock, or at the counter,
 * whenever it has executed about as much as is needed for the next one. So the
 * main loop has nothing to do, and no thread is kicked.
 *
 * Decisions of our own:
 *  - samples are at least "trace-min-period-ns" apart: firmware asks for one
 *    each 8 us, which is more than an emulator should take. A counter that is
 *    no clock is looked at that often;
 *  - a sample is taken between two blocks of code, where the CPU's state is
 *    known, so that IP is the start of a block;
 *  - a clock does not stop for an idle thread, but an idle thread is not
 *    sampled;
 *  - CPMC1 to 4 are what the thread has counted since the trace began, and 0
 *    if an emulator cannot know the event. With that, there are no samples.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "pnv_imc_internal.h"
#include "exec/memory.h"
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

/* Instructions between two looks: fewer cost too much, more come too late */
#define LOOK_MIN                1000
#define LOOK_MAX                100000

/* The event that a CPMC of a line of the core area has, or NULL */
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

/* The event that decides about samples, or NULL */
static const PnvImcEvent *sampled_event(PnvImcEngine *e)
{
    return e->selected[GETFIELD(PNV_IMC_TRACE_SAMPSEL, e->trace)];
}

/* How much it has to count for another sample */
static uint64_t sampled_count(PnvImcEngine *e)
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
        pnv_imc_trace_start(e->thread[i]);
    }
}

void pnv_imc_trace_start(PnvImcThread *t)
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
    s->record++;
}

static void take_sample(PnvImcThread *t)
{
    PnvImcEngine *e = t->engine;
    PnvImcSampler *s = &t->sampler;
    CPUPPCState *env = &t->cpu->env;
    uint64_t tb = cpu_ppc_load_tbl(env);
    PnvImcValues value = { };
    Record record = { };
    unsigned selected = GETFIELD(PNV_IMC_TRACE_SAMPSEL, e->trace), i;

    pnv_imc_count_take(&s->meter, value);
    for (i = 0; i < PNV_IMC_TRACE_COUNTERS; i++) {
        if (e->selected[i]) {
            s->count[i] += pnv_imc_value(e->selected[i], value);
        }
        record[3 + i] = cpu_to_be64(s->count[i]);
    }
    if (!pnv_imc_count_hz(sampled_event(e))) {
        if (s->count[selected] - s->sampled < sampled_count(e)) {
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
    uint64_t ns = hz ? muldiv64(sampled_count(e), NANOSECONDS_PER_SECOND, hz)
                     : 0;

    return MAX(ns, e->imc->trace_min_period_ns);
}

/* How many instructions will the thread execute until then, by its speed? */
static uint64_t insns_until_next(PnvImcSampler *s, int64_t now, uint64_t insns)
{
    uint64_t did = insns - s->look_insns, took = MAX(now - s->look_ns, 1);
    /* A little too late is better than to look a second time. */
    uint64_t left = MAX(s->next_ns - now, 1) * 17 / 16;

    s->look_insns = insns;
    s->look_ns = now;
    if (left > 1000 * took || did > LOOK_MAX) {
        return LOOK_MIN;        /* it has not yet been looked at for long */
    }
    return MIN(MAX(did * left / took, LOOK_MIN), LOOK_MAX);
}

/* On the thread itself, between two blocks */
static void look(PowerPCCPU *cpu)
{
    PnvImcThread *t = pnv_cpu_state(cpu)->imc;
    PnvImcSampler *s = &t->sampler;
    int64_t now = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
    uint64_t insns = 0;
    unsigned i;

    BQL_LOCK_GUARD();
    s->looks = pnv_imc_is_traced(t) && sampled_event(t->engine) && t->counts;
    if (!s->looks) {
        return;
    }
    if (!s->next_ns) {
        s->next_ns = now + period_ns(t->engine);
    } else if (now >= s->next_ns) {
        take_sample(t);
        /* No sooner than that much later, but in step if possible */
        s->next_ns += period_ns(t->engine);
        if (s->next_ns <= now) {
            s->next_ns = now + period_ns(t->engine);
        }
    }
    for (i = 0; i < PPC_COUNT_DOMAINS; i++) {
        insns += ppc_count_read(cpu, i, PPC_COUNT_INSNS);
    }
    ppc_count_call(cpu, insns_until_next(s, now, insns), look);
}

static void look_work(CPUState *cs, run_on_cpu_data unused)
{
    look(POWERPC_CPU(cs));
}

void pnv_imc_trace_update(PnvImcEngine *e)
{
    unsigned i;

    for (i = 0; i < e->threads; i++) {
        PnvImcThread *t = e->thread[i];

        if (pnv_imc_is_traced(t) && sampled_event(e) && !t->sampler.looks &&
            ppc_count_available(t->cpu)) {
            t->sampler.looks = true;
            async_run_on_cpu(CPU(t->cpu), look_work, RUN_ON_CPU_NULL);
        }
    }
}
