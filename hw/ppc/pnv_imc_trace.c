/*
 * PowerNV in-memory collection counters: the trace
 *
 * While a core's engine runs, a thread with LDBAR[1] is sampled: every so many
 * cycles of the 32 MHz clock, a record of eight big-endian dwords goes into
 * the buffer at LDBAR:
 *
 *   dword   0    1    2    3 to 6       7
 *           TB   IP   MSR  CPMC1 to 4   TB, 42 bits
 *
 * The buffer has 4096 << n records. Behind the last one comes the first one
 * again, without notice; a write of LDBAR and a start of the engine begin with
 * the first one, too. The bits of MSR are HV and PR, at the left, on POWER10;
 * POWER9 has none.
 *
 * Decisions of our own:
 *  - samples are at least "trace-min-period-ns" apart: firmware asks for one
 *    each 8 us, which is more than an emulator should take;
 *  - a sample is taken between two blocks of code, where the CPU's state is
 *    known, so that IP is the start of a block;
 *  - the clock does not stop for an idle thread, but an idle thread is not
 *    sampled;
 *  - CPMC1 to 4 are 0.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/ppc/pnv_imc.h"
#include "exec/memory.h"
#include "hw/ppc/ppc.h"
#include "qemu/bswap.h"
#include "qemu/log.h"
#include "trace.h"

#define CLOCK_HZ                32000000
#define BUFFER_RECORDS          4096

static bool is_traced(PnvImcThread *t)
{
    return t->engine->run && (t->ldbar & PNV_IMC_LDBAR_TRACE);
}

static void take_sample(PnvImcThread *t)
{
    PnvImcEngine *e = t->engine;
    CPUPPCState *env = &t->cpu->env;
    uint64_t tb = cpu_ppc_load_tbl(env);
    uint64_t record[PNV_IMC_TRACE_RECORD / 8] = { };
    uint32_t records = BUFFER_RECORDS << GETFIELD(PNV_IMC_TRACE_SIZE, e->trace);
    hwaddr addr = t->ldbar & PNV_IMC_ADDR;
    MemoryRegionCache cache;

    record[0] = cpu_to_be64(tb);
    record[1] = cpu_to_be64(env->nip);
    if (PNV_IMC_GET_CLASS(e->imc)->core->msr) {
        uint64_t msr = 0;

        msr = SETFIELD(PPC_BIT(0), msr, FIELD_EX64(env->msr, MSR, HV));
        msr = SETFIELD(PPC_BIT(1), msr, FIELD_EX64(env->msr, MSR, PR));
        record[2] = cpu_to_be64(msr);
    }
    record[7] = cpu_to_be64(tb & PNV_IMC_TRACE_TB2);

    t->record %= records;
    addr += (hwaddr)t->record * PNV_IMC_TRACE_RECORD;
    trace_pnv_imc_sample(e->imc->chip->chip_id, e->core, addr, env->nip);
    if (pnv_imc_map(&cache, addr, sizeof(record))) {
        memcpy(cache.ptr, record, sizeof(record));
        address_space_cache_invalidate(&cache, 0, sizeof(record));
        address_space_cache_destroy(&cache);
    } else if (!t->bad) {
        t->bad = true;
        qemu_log_mask(LOG_GUEST_ERROR, "pnv-imc: chip %u core %u: no memory "
                      "for the trace at 0x%" HWADDR_PRIx "\n",
                      e->imc->chip->chip_id, e->core, addr);
    }
    t->record++;
}

static void sample_work(CPUState *cs, run_on_cpu_data data)
{
    PnvImcThread *t = data.host_ptr;

    t->sampling = false;
    if (is_traced(t) && !cs->halted) {
        take_sample(t);
    }
}

static uint64_t period_ns(PnvImcEngine *e)
{
    uint64_t clocks = (1ULL << 32) - GETFIELD(PNV_IMC_TRACE_LOAD, e->trace);

    return MAX(muldiv64(clocks, NANOSECONDS_PER_SECOND, CLOCK_HZ),
               e->imc->trace_min_period_ns);
}

static bool any_traced(PnvImcEngine *e)
{
    unsigned i;

    for (i = 0; i < e->threads; i++) {
        if (is_traced(e->thread[i])) {
            return true;
        }
    }
    return false;
}

void pnv_imc_trace_update(PnvImcEngine *e)
{
    if (!any_traced(e)) {
        timer_del(&e->sampler);
    } else if (!timer_pending(&e->sampler)) {
        timer_mod(&e->sampler, qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) +
                  period_ns(e));
    }
}

void pnv_imc_trace_timer(void *opaque)
{
    PnvImcEngine *e = opaque;
    unsigned i;

    for (i = 0; i < e->threads; i++) {
        PnvImcThread *t = e->thread[i];

        if (is_traced(t) && !t->sampling && !CPU(t->cpu)->halted) {
            t->sampling = true;
            async_run_on_cpu(CPU(t->cpu), sample_work,
                             RUN_ON_CPU_HOST_PTR(t));
        }
    }
    pnv_imc_trace_update(e);
}
