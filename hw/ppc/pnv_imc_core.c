/*
 * PowerNV in-memory collection counters: engines of cores and threads
 *
 * Each core has an engine that adds to counters in memory what its PMU has
 * counted: to the page at PDBAR, for the core, and to the page at LDBAR of
 * each thread, for the thread. Or it takes samples, see pnv_imc_trace.c.
 *
 *   HTM_MODE[4]  LDBAR[0]  LDBAR[1]   the page of the core   the thread
 *        0          -         -       -                      -
 *        1          0         0       counts                 -
 *        1          1         0       counts                 counts
 *        1          -         1       counts                 samples
 *
 * Posts are "post-period-ns" apart, and one is made before anything changes
 * that decides what is counted or where: whoever stops an engine finds all of
 * it in memory. Counters are added to, never set: software looks at them
 * before and behind.
 *
 * Decisions of our own:
 *  - the period does not depend on EVENT_MASK, and one chip has one timer;
 *  - nothing is posted for a core with PDBAR 0, which nobody has set up;
 *  - the two cores of a big core have one engine, which does what was written
 *    last to either: firmware sets up both, but starts and stops one, which
 *    need not be the same one.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/ppc/pnv_imc.h"
#include "exec/address-spaces.h"
#include "hw/cpu/core.h"
#include "hw/ppc/pnv_core.h"
#include "hw/ppc/pnv_xscom.h"
#include "qemu/log.h"
#include "qemu/main-loop.h"
#include "trace.h"

bool pnv_imc_map(MemoryRegionCache *cache, hwaddr addr, hwaddr size)
{
    RCU_READ_LOCK_GUARD();

    address_space_cache_init_empty(cache);
    if (address_space_cache_init(cache, &address_space_memory, addr, size,
                                 true) == size && cache->ptr) {
        return true;
    }
    address_space_cache_destroy(cache);
    return false;
}

static bool engine_active(PnvImcEngine *e)
{
    bool active = e->page.active;
    unsigned i;

    for (i = 0; i < e->threads; i++) {
        active |= e->thread[i]->page.active;
    }
    return active;
}

static void engine_post(PnvImcEngine *e)
{
    unsigned i;

    pnv_imc_count_post(&e->page);
    for (i = 0; i < e->threads; i++) {
        pnv_imc_count_post(&e->thread[i]->page);
    }
}

static void poster_update(PnvImc *imc)
{
    bool active = false;
    unsigned i;

    for (i = 0; i < imc->engines->len; i++) {
        active |= engine_active(g_ptr_array_index(imc->engines, i));
    }
    if (!active) {
        timer_del(&imc->poster);
    } else if (!timer_pending(&imc->poster)) {
        timer_mod(&imc->poster, qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) +
                  imc->post_period_ns);
    }
}

static void poster_timer(void *opaque)
{
    PnvImc *imc = opaque;
    unsigned i;

    for (i = 0; i < imc->engines->len; i++) {
        engine_post(g_ptr_array_index(imc->engines, i));
    }
    poster_update(imc);
}

static void page_update(PnvImcPage *page, bool active, uint64_t addr)
{
    if (addr != page->addr) {
        page->addr = addr;
        page->bad = false;
        memset(page->rest, 0, sizeof(page->rest));
    }
    if (active && !page->active) {
        page->bad = false;
        pnv_imc_count_start(page);
    }
    page->active = active;
}

static void thread_update(PnvImcThread *t)
{
    uint64_t mode = t->ldbar & (PNV_IMC_LDBAR_ENABLE | PNV_IMC_LDBAR_TRACE);

    page_update(&t->page, t->engine->run && mode == PNV_IMC_LDBAR_ENABLE,
                t->ldbar & PNV_IMC_ADDR);
    pnv_imc_count_enable(t, t->engine->page.active || t->page.active);
}

/* A register has changed, behind engine_post() */
static void engine_update(PnvImcEngine *e)
{
    unsigned i;

    page_update(&e->page, e->run && e->pdbar, e->pdbar);
    for (i = 0; i < e->threads; i++) {
        thread_update(e->thread[i]);
    }
    pnv_imc_trace_update(e);
    poster_update(e->imc);
}

void pnv_imc_ldbar_write(PnvImcThread *t, uint64_t value)
{
    PnvImcEngine *e = t->engine;

    trace_pnv_imc_ldbar(e->imc->chip->chip_id, e->core,
                        t->cpu->env.spr_cb[SPR_PIR].default_value, value);
    pnv_imc_count_post(&t->page);
    t->ldbar = value;
    t->record = 0;
    t->bad = false;
    thread_update(t);
    pnv_imc_trace_update(e);
    poster_update(e->imc);
}

static void engine_run(PnvImcEngine *e, bool run)
{
    unsigned i;

    if (run != e->run) {
        for (i = 0; i < e->threads; i++) {
            e->thread[i]->record = 0;
            e->thread[i]->bad = false;
        }
    }
    e->run = run;
}

static uint64_t core_read(void *opaque, hwaddr addr, unsigned size)
{
    PnvImcCore *core = opaque;

    return addr >> 3 == PNV_IMC_TRACE ? core->trace : core->event_mask;
}

static void core_write(void *opaque, hwaddr addr, uint64_t value,
                       unsigned size)
{
    PnvImcCore *core = opaque;
    PnvImcEngine *e = core->engine;

    if (addr >> 3 == PNV_IMC_TRACE) {
        trace_pnv_imc_scom(e->imc->chip->chip_id, core->core, "TRACE_IMC",
                           value);
        core->trace = value;
        e->trace = value;
        /* The sample that was due is due at another time */
        timer_del(&e->sampler);
        pnv_imc_trace_update(e);
    } else {
        trace_pnv_imc_scom(e->imc->chip->chip_id, core->core, "EVENT_MASK",
                           value);
        core->event_mask = value;
    }
}

static uint64_t htm_mode_read(void *opaque, hwaddr addr, unsigned size)
{
    PnvImcCore *core = opaque;

    return core->htm_mode;
}

static void htm_mode_write(void *opaque, hwaddr addr, uint64_t value,
                           unsigned size)
{
    PnvImcCore *core = opaque;
    PnvImcEngine *e = core->engine;

    trace_pnv_imc_scom(e->imc->chip->chip_id, core->core, "HTM_MODE", value);
    engine_post(e);
    core->htm_mode = value;
    engine_run(e, value & PNV_IMC_HTM_RUN);
    engine_update(e);
}

static uint64_t pdbar_read(void *opaque, hwaddr addr, unsigned size)
{
    PnvImcCore *core = opaque;

    return core->pdbar;
}

static void pdbar_write(void *opaque, hwaddr addr, uint64_t value,
                        unsigned size)
{
    PnvImcCore *core = opaque;
    PnvImcEngine *e = core->engine;

    trace_pnv_imc_scom(e->imc->chip->chip_id, core->core, "PDBAR", value);
    engine_post(e);
    core->pdbar = value;
    e->pdbar = value & PNV_IMC_ADDR;
    engine_update(e);
}

#define PNV_IMC_SCOM_OPS(name)                                          \
    static const MemoryRegionOps name##_ops = {                         \
        .read = name##_read,                                            \
        .write = name##_write,                                          \
        .valid.min_access_size = 8,                                     \
        .valid.max_access_size = 8,                                     \
        .impl.min_access_size = 8,                                      \
        .impl.max_access_size = 8,                                      \
        .endianness = DEVICE_BIG_ENDIAN,                                \
    }

PNV_IMC_SCOM_OPS(core);
PNV_IMC_SCOM_OPS(htm_mode);
PNV_IMC_SCOM_OPS(pdbar);

/* Above the regions of the chiplets, which answer for all of their SCOMs */
static void add_scom(PnvImcCore *core, MemoryRegion *mr,
                     const MemoryRegionOps *ops, const char *what,
                     hwaddr scom, unsigned scoms)
{
    PnvImc *imc = core->engine->imc;
    g_autofree char *name = g_strdup_printf("xscom-imc-%s.%u", what,
                                            core->core);

    pnv_xscom_region_init(mr, OBJECT(imc), ops, core, name, scoms);
    memory_region_add_subregion_overlap(&imc->chip->xscom, scom << 3, mr, 1);
}

static void engine_free(void *opaque)
{
    PnvImcEngine *e = opaque;
    unsigned i;

    timer_del(&e->sampler);
    for (i = 0; i < e->threads; i++) {
        g_free(e->thread[i]);
    }
    g_free(e);
}

static void add_threads(PnvImcEngine *e, PnvCore *pc)
{
    unsigned i;

    for (i = 0; i < CPU_CORE(pc)->nr_threads; i++) {
        PnvImcThread *t = g_new0(PnvImcThread, 1);

        assert(e->threads < PNV_IMC_THREADS);
        t->engine = e;
        t->cpu = pc->threads[i];
        t->page.thread = &e->thread[e->threads];
        t->page.threads = 1;
        e->thread[e->threads++] = t;
        pnv_imc_ldbar_hook(t);
    }
    e->page.threads = e->threads;
}

static PnvImcEngine *add_engine(PnvImc *imc, unsigned core)
{
    PnvImcEngine *e = g_new0(PnvImcEngine, 1);

    e->imc = imc;
    e->core = core;
    e->page.thread = e->thread;
    timer_init_ns(&e->sampler, QEMU_CLOCK_VIRTUAL, pnv_imc_trace_timer, e);
    g_ptr_array_add(imc->engines, e);
    return e;
}

void pnv_imc_core_create(PnvImc *imc)
{
    const PnvImcClass *ic = PNV_IMC_GET_CLASS(imc);
    PnvChip *chip = imc->chip;
    PnvImcEngine *e = NULL;
    unsigned i;

    timer_init_ns(&imc->poster, QEMU_CLOCK_VIRTUAL, poster_timer, imc);
    imc->engines = g_ptr_array_new_with_free_func(engine_free);
    imc->cores = g_new0(PnvImcCore, chip->nr_cores);
    for (i = 0; i < chip->nr_cores; i++) {
        PnvImcCore *core = &imc->cores[i];
        PnvCore *pc = chip->cores[i];
        hwaddr htm_mode;

        core->core = pc->hwid;
        if (!e || !pc->big_core || e->core != (core->core & ~1)) {
            e = add_engine(imc, core->core);
        }
        core->engine = e;
        add_threads(e, pc);

        htm_mode = ic->quad_base(core->core) + ic->core->htm_mode[pc->hwid % 4];
        add_scom(core, &core->core_mr, &core_ops, "core",
                 ic->core_base(core->core) + ic->core->event_mask, 2);
        add_scom(core, &core->htm_mr, &htm_mode_ops, "htm", htm_mode, 1);
        add_scom(core, &core->pdbar_mr, &pdbar_ops, "pdbar",
                 htm_mode + PNV_IMC_PDBAR, 1);
    }
}

void pnv_imc_core_destroy(PnvImc *imc)
{
    if (imc->engines) {
        timer_del(&imc->poster);
        g_ptr_array_unref(imc->engines);
        g_free(imc->cores);
    }
}

void pnv_imc_core_reset(PnvImc *imc)
{
    unsigned i, j;

    for (i = 0; i < imc->chip->nr_cores; i++) {
        PnvImcCore *core = &imc->cores[i];

        core->event_mask = 0;
        core->trace = 0;
        core->htm_mode = 0;
        core->pdbar = 0;
    }
    for (i = 0; i < imc->engines->len; i++) {
        PnvImcEngine *e = g_ptr_array_index(imc->engines, i);

        e->run = false;
        e->pdbar = 0;
        e->trace = 0;
        for (j = 0; j < e->threads; j++) {
            e->thread[j]->ldbar = 0;
            e->thread[j]->record = 0;
        }
        engine_update(e);
    }
}
