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
 * Posts are "post-period-ns" apart. Another post comes before each write of
 * HTM_MODE, PDBAR or LDBAR takes effect, so that software which stops an engine
 * finds everything that was counted in memory.
 *
 * The catalog tells the names of events, and the offsets of their counters.
 * Events that an emulator cannot count stay 0, unless the user makes up values
 * ("core-synthetic", "thread-synthetic") or adds to them once ("core-add",
 * "thread-add").
 *
 * Decisions of our own:
 *  - the period does not depend on EVENT_MASK, and one chip has one timer;
 *  - address 0 in PDBAR or LDBAR counts nothing: software has set up no memory;
 *  - the two cores of a big core share one engine, which obeys the last write
 *    to the registers of either: firmware sets up both, but starts and stops
 *    only one of them, not always the same one.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "pnv_imc_internal.h"
#include "hw/core/cpu.h"
#include "hw/cpu/core.h"
#include "hw/ppc/pnv_core.h"
#include "hw/ppc/pnv_xscom.h"
#include "hw/ppc/ppc.h"
#include "qemu/log.h"
#include "qobject/qdict.h"
#include "qobject/qlist.h"
#include "target/ppc/insn-count.h"
#include "trace.h"

static void post_init(PnvImcPost *post, PnvImc *imc, PnvImcArea area,
                      uint32_t unit)
{
    post->area = area;
    post->unit = unit;
    post->page.rest = g_new0(uint64_t, imc->events[area]->len);
}

static void post_add_made_up(PnvImcPost *post, PnvImc *imc, uint64_t ns)
{
    PmuSynthetic *synthetic = imc->synthetic[post->area].list;
    GArray *events = imc->events[post->area];
    PmuSyntheticSample sample = {
        .unit = post->unit,
        .index = post->posts,
        .window_ns = ns,
    };
    uint64_t value;
    unsigned i;

    for (i = 0; synthetic && i < events->len; i++) {
        const PnvImcEvent *e = pnv_imc_event(events, i);

        sample.event = e->offset;
        if (!pnv_imc_is_known(e) &&
            pmu_synthetic_value(synthetic, &sample, &value)) {
            pnv_imc_page_collect(&post->page, i, value);
        }
    }
}

/* Post the events since the last post. */
static void post_now(PnvImcPost *post, PnvImcEngine *engine)
{
    PnvImc *imc = engine->imc;
    GArray *events = imc->events[post->area];
    int64_t since = post->meter.since_ns;
    PnvImcValues value = { };
    uint64_t ns;
    unsigned i;

    if (!post->active) {
        return;
    }
    pnv_imc_count_read(&post->meter, value);
    ns = post->meter.since_ns - since;
    for (i = 0; i < events->len; i++) {
        const PnvImcEvent *e = pnv_imc_event(events, i);

        if (pnv_imc_is_known(e)) {
            pnv_imc_page_collect(&post->page, i, pnv_imc_value(e, value));
        }
    }
    /* A second post at the same moment would repeat const and hash. */
    if (ns) {
        post_add_made_up(post, imc, ns);
        post->posts += post->posts < UINT32_MAX;    /* then a ramp stays */
    }
    trace_pnv_imc_post(imc->chip->chip_id, engine->core, post->page.addr, ns);
    if (!pnv_imc_page_add(&post->page, events,
                          cpu_ppc_load_tbl(&post->meter.cpu[0]->env)) &&
        !post->page.bad) {
        post->page.bad = true;
        qemu_log_mask(LOG_GUEST_ERROR, "pnv-imc: chip %u core %u: no memory "
                      "for counters at 0x%" HWADDR_PRIx "\n",
                      imc->chip->chip_id, engine->core, post->page.addr);
    }
}

/* Continue with another page; events for the old one are dropped. */
static void post_set_page(PnvImcPost *post, PnvImc *imc, uint64_t addr)
{
    post->page.addr = addr;
    post->page.bad = false;
    if (post->page.rest) {      /* NULL if the catalog has no events */
        memset(post->page.rest, 0, imc->events[post->area]->len *
                                   sizeof(*post->page.rest));
    }
}

static void post_update(PnvImcPost *post, PnvImcEngine *engine, bool active,
                        uint64_t addr)
{
    PnvImcPage *page = &post->page;

    if (addr != page->addr) {
        post_set_page(post, engine->imc, addr);
    }
    if (active && !post->active) {
        page->bad = false;
        post->posts = 0;
        pnv_imc_count_start(&post->meter);
    }
    post->active = active;
}

static bool engine_active(PnvImcEngine *e)
{
    bool active = e->post.active;
    unsigned i;

    for (i = 0; i < e->threads; i++) {
        active |= e->thread[i]->post.active;
    }
    return active;
}

static void engine_post(PnvImcEngine *e)
{
    unsigned i;

    post_now(&e->post, e);
    for (i = 0; i < e->threads; i++) {
        post_now(&e->thread[i]->post, e);
    }
}

void pnv_imc_core_post(PnvImc *imc)
{
    unsigned i;

    for (i = 0; i < imc->engines->len; i++) {
        engine_post(g_ptr_array_index(imc->engines, i));
    }
}

/* Arm the timer of posts if an engine counts, and else stop it. */
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

    pnv_imc_core_post(imc);
    poster_update(imc);
}

/* Runs on the thread of the vCPU, between two blocks, with the BQL. */
static void count_work(CPUState *cs, run_on_cpu_data data)
{
    PnvImcThread *t = data.host_ptr;

    t->queued = false;
    if (t->want != t->counts) {
        t->counts = t->want;
        ppc_count_enable(t->cpu, t->counts);
        /* A check of the trace that came before this one has given up. */
        pnv_imc_trace_update(t->engine);
    }
}

/*
 * Switch counting of a thread's instructions on or off.
 *
 * Blocks with and without counting are translated separately, and must not be
 * chained to each other: other threads, which may not count, execute them, too.
 * Therefore queue work, which makes the thread leave its execution loop after
 * the current block, even if it wrote the register itself.
 */
static void count_enable(PnvImcThread *t, bool enable)
{
    if (enable != t->want && ppc_count_available()) {
        t->want = enable;
        if (t->queued) {
            return;
        }
        t->queued = true;
        async_run_on_cpu(CPU(t->cpu), count_work, RUN_ON_CPU_HOST_PTR(t));
    }
}

static void thread_update(PnvImcThread *t)
{
    PnvImcEngine *e = t->engine;
    uint64_t ldbar = t->cpu->env.spr[SPR_LDBAR];
    uint64_t mode = ldbar & (PNV_IMC_LDBAR_ENABLE | PNV_IMC_LDBAR_TRACE);
    uint64_t addr = ldbar & PNV_IMC_LDBAR_ADDR;

    post_update(&t->post, e, e->run && mode == PNV_IMC_LDBAR_ENABLE && addr,
                addr);
    count_enable(t, e->post.active || t->post.active || pnv_imc_is_traced(t));
}

/* Apply the registers; call engine_post() before changing any of them. */
static void engine_update(PnvImcEngine *e)
{
    unsigned i;

    post_update(&e->post, e, e->run && e->pdbar, e->pdbar);
    for (i = 0; i < e->threads; i++) {
        thread_update(e->thread[i]);
    }
    pnv_imc_trace_update(e);
    poster_update(e->imc);
}

/* Hook of the CPU; called on its own thread or while it is stopped, with BQL */
static void ldbar_written(PowerPCCPU *cpu)
{
    PnvImcThread *t = pnv_cpu_state(cpu)->imc;
    PnvImcEngine *e = t->engine;

    trace_pnv_imc_ldbar(e->imc->chip->chip_id, e->core,
                        cpu->env.spr_cb[SPR_PIR].default_value,
                        cpu->env.spr[SPR_LDBAR]);
    post_now(&t->post, e);
    pnv_imc_trace_restart(t);
    thread_update(t);
    pnv_imc_trace_update(e);
    poster_update(e->imc);
}

static void engine_run(PnvImcEngine *e, bool run)
{
    unsigned i;

    if (run != e->run) {
        for (i = 0; i < e->threads; i++) {
            pnv_imc_trace_restart(e->thread[i]);
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
        pnv_imc_trace_select(e);
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
    e->pdbar = value & PNV_IMC_PDBAR_ADDR;
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

/*
 * Map a register over the region of its chiplet, which implements all SCOMs of
 * the chiplet.
 */
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

    for (i = 0; i < e->threads; i++) {
        g_free(e->thread[i]->post.page.rest);
        g_free(e->thread[i]);
    }
    g_free(e->post.page.rest);
    g_free(e);
}

static void meter_add(PnvImcMeter *meter, PowerPCCPU *cpu)
{
    meter->cpu[meter->threads++] = cpu;
}

static void add_threads(PnvImcEngine *e, PnvCore *pc)
{
    unsigned i;

    for (i = 0; i < CPU_CORE(pc)->nr_threads; i++) {
        PnvImcThread *t = g_new0(PnvImcThread, 1);

        assert(e->threads < PNV_IMC_THREADS);
        t->engine = e;
        t->cpu = pc->threads[i];
        post_init(&t->post, e->imc, PNV_IMC_THREAD,
                  t->cpu->env.spr_cb[SPR_PIR].default_value);
        meter_add(&t->post.meter, t->cpu);
        meter_add(&t->sampler.meter, t->cpu);
        meter_add(&e->post.meter, t->cpu);
        e->thread[e->threads++] = t;
        pnv_cpu_state(t->cpu)->imc = t;
        t->cpu->insn_count.ldbar_written = ldbar_written;
    }
    /* Update all threads: the second half of a big core comes later. */
    e->post.meter.core_threads = e->threads;
    for (i = 0; i < e->threads; i++) {
        e->thread[i]->post.meter.core_threads = e->threads;
        e->thread[i]->sampler.meter.core_threads = e->threads;
    }
}

static PnvImcEngine *add_engine(PnvImc *imc, unsigned core)
{
    PnvImcEngine *e = g_new0(PnvImcEngine, 1);

    e->imc = imc;
    e->core = core;
    post_init(&e->post, imc, PNV_IMC_CORE, core);
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
    memory_region_transaction_begin();      /* of hundreds of registers */
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
    memory_region_transaction_commit();
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
        pnv_imc_trace_select(e);
        post_set_page(&e->post, imc, 0);
        for (j = 0; j < e->threads; j++) {
            post_set_page(&e->thread[j]->post, imc, 0);
            pnv_imc_trace_restart(e->thread[j]);
        }
        engine_update(e);
    }
}

static unsigned post_add(PnvImcPost *post, PnvImcArea area, unsigned event,
                         int64_t unit, uint64_t count)
{
    if (!post->active || post->area != area ||
        (unit >= 0 && unit != post->unit)) {
        return 0;
    }
    pnv_imc_page_collect(&post->page, event, count);
    return 1;
}

unsigned pnv_imc_core_add(PnvImc *imc, PnvImcArea area, unsigned event,
                          int64_t unit, uint64_t count)
{
    unsigned posts = 0, i, j;

    for (i = 0; i < imc->engines->len; i++) {
        PnvImcEngine *e = g_ptr_array_index(imc->engines, i);

        posts += post_add(&e->post, area, event, unit, count);
        for (j = 0; j < e->threads; j++) {
            posts += post_add(&e->thread[j]->post, area, event, unit, count);
        }
    }
    return posts;
}

static QDict *post_query(const PnvImcPost *post)
{
    QDict *dict = qdict_new();

    qdict_put_bool(dict, "counts", post->active);
    qdict_put_int(dict, "address", post->page.addr);
    qdict_put_int(dict, "posts", post->posts);
    return dict;
}

QList *pnv_imc_core_query(PnvImc *imc)
{
    QList *list = qlist_new();
    unsigned i, j;

    for (i = 0; i < imc->engines->len; i++) {
        PnvImcEngine *e = g_ptr_array_index(imc->engines, i);
        QDict *core = post_query(&e->post);
        QList *threads = qlist_new();

        for (j = 0; j < e->threads; j++) {
            PnvImcThread *t = e->thread[j];
            QDict *thread = post_query(&t->post);

            qdict_put_int(thread, "pir", t->post.unit);
            qdict_put_bool(thread, "traced", pnv_imc_is_traced(t));
            qdict_put_int(thread, "records", t->sampler.record);
            qlist_append(threads, thread);
        }
        qdict_put_int(core, "core", e->core);
        qdict_put_bool(core, "runs", e->run);
        qdict_put(core, "threads", threads);
        qlist_append(list, core);
    }
    return list;
}
