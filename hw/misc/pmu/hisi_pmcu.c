/*
 * HiSilicon PMCU (Performance Monitor Control Unit)
 *
 * One PMCU per CPU die samples the PMUv3 counters of all CPUs of the die
 * without help of their software. For each sub-sample it fetches the next few
 * events of a list in memory, programs them into every CPU, lets the counters
 * run for a fixed time, stops all of them, and writes one record with the
 * values and the context IDs of all CPUs to memory. An interrupt reports the
 * end of the list.
 *
 * The counters are those of the emulated CPUs, reached through the external
 * PMU view (target/arm/pmu/pmu-ext.h). Events that a CPU cannot count read 0.
 *
 * The steps between two counting windows take no virtual time, so the states
 * FETCH, PROGRAM and READ are never visible, and STORE only if the user wants a
 * run to end late (hisi_pmcu-fault.h):
 *
 *            TRIGGER                  last record stored
 *   IDLE ---------------> COUNT ---------------------------> IDLE
 *     ^                   |  ^ |                INT_STAT.DONE was clear
 *     |   BRK, KILL_BASE, |  | | timer,
 *     +-------------------+  +-+ record stored
 *     |     DMA error     |
 *     |                   |           last record stored
 *     |                   +---------------------------> DONE_HOLD
 *     |    BRK, INT_CLR.DONE                       |  INT_STAT.DONE was set
 *     +--------------------------------------------+
 *
 * Not modelled: any state that a real PMCU shares with other agents on the
 * external PMU view, and the time its own bus accesses take.
 *
 * There is no public hardware manual. The registers and the record layout are
 * those that the Linux driver and its documentation describe ("Add support
 * for HiSilicon PMCU", RFC of February 2023); docs/specs/hisi-pmcu.rst says
 * what is known from there and what had to be decided here.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/misc/hisi_pmcu.h"
#include "hw/core/cpu.h"
#include "hw/irq.h"
#include "hw/qdev-properties.h"
#include "migration/vmstate.h"
#include "qapi/error.h"
#include "qemu/bswap.h"
#include "qemu/error-report.h"
#include "qemu/log.h"
#include "qemu/module.h"
#include "qemu/pmu-compat.h"
#include "system/dma.h"
#include "system/replay.h"
#include "system/runstate.h"
#include "target/arm/multiprocessing.h"
#include "trace.h"

/*
 * RAM is the only valid DMA target. This also keeps the device away from its
 * own registers, where the re-entrancy guard of MMIO does not help: records
 * are written from a timer.
 */
static const MemTxAttrs hisi_pmcu_dma_attrs = { .memory = 1 };

static const PmuSyntheticEvents hisi_pmcu_events = {
    .max = HISI_PMCU_MAX_EVENT,
};

/*
 * To hold the counts takes less virtual time than this, and that for each CPU,
 * unless the host lets this thread wait.
 */
#define HISI_PMCU_HOLD_NS       20000
#define HISI_PMCU_HOLD_CPU_NS   1000

/*
 * Most bytes of synthetic-events. Our decision: room for PMU_SYNTHETIC_MAX
 * entries of 128 bytes each. Without useless zeros, the longest has 62 with its
 * comma: two events and two units of 6 digits, "ramp:", and numbers of 10, 10
 * and 6.
 */
#define HISI_PMCU_MAX_LIST  524288u

/* The bits of a register that software can write and read back */
static uint32_t hisi_pmcu_rw_mask(hwaddr offset)
{
    switch (offset) {
    case A_EVENT_BASE_H:
    case A_EVENT_BASE_L:
    case A_KILL_BASE_H:
    case A_KILL_BASE_L:
    case A_STORE_BASE_H:
    case A_STORE_BASE_L:
    case A_WAIT_CNT:
        return UINT32_MAX;
    case A_FSM_CFG:
        return HISI_PMCU_FSM_CFG_MASK;
    case A_COMP:
        return R_COMP_ENABLE_MASK;
    case A_INT_EN:
    case A_INT_MSK:
        return HISI_PMCU_INT_MASK;
    case A_PMCR:
        return HISI_PMCU_PMCR_MASK;
    case A_PMCCFILTR:
        return R_PMCCFILTR_FILTER_MASK;
    default:
        return 0;
    }
}

static const char *hisi_pmcu_reg_name(hwaddr offset)
{
    static const char *const names[HISI_PMCU_NR_REGS] = {
        [R_FSM_STATUS] = "FSM_STATUS", [R_FSM_CFG] = "FSM_CFG",
        [R_EVENT_BASE_H] = "EVENT_BASE_H", [R_EVENT_BASE_L] = "EVENT_BASE_L",
        [R_KILL_BASE_H] = "KILL_BASE_H", [R_KILL_BASE_L] = "KILL_BASE_L",
        [R_STORE_BASE_H] = "STORE_BASE_H", [R_STORE_BASE_L] = "STORE_BASE_L",
        [R_WAIT_CNT] = "WAIT_CNT", [R_FSM_CTRL] = "FSM_CTRL",
        [R_FSM_BRK] = "FSM_BRK", [R_COMP] = "COMP", [R_INT_EN] = "INT_EN",
        [R_INT_MSK] = "INT_MSK", [R_INT_STAT] = "INT_STAT",
        [R_INT_CLR] = "INT_CLR", [R_PMCR] = "PMCR",
        [R_PMCCFILTR] = "PMCCFILTR",
    };

    return (offset / 4 < ARRAY_SIZE(names) ? names[offset / 4] : NULL) ?:
           "no register";
}

static uint64_t hisi_pmcu_reg64(HisiPmcuState *s, unsigned high, unsigned low)
{
    return deposit64(s->regs[low], 32, 32, s->regs[high]);
}

static unsigned hisi_pmcu_ev_len(const HisiPmcuRun *run)
{
    return FIELD_EX32(run->fsm_cfg, FSM_CFG, EV_LEN);
}

static unsigned hisi_pmcu_nr_loop(const HisiPmcuRun *run)
{
    return FIELD_EX32(run->fsm_cfg, FSM_CFG, NR_LOOP);
}

static unsigned hisi_pmcu_nr_pmu(const HisiPmcuRun *run)
{
    return FIELD_EX32(run->fsm_cfg, FSM_CFG, NR_PMU);
}

static uint64_t hisi_pmcu_window_ns(const HisiPmcuRun *run)
{
    /* Our decision: treat WAIT_CNT = 0 as one tick so that a run progresses. */
    return (uint64_t)MAX(run->wait_cnt, 1) * HISI_PMCU_TICK_NS;
}

static void hisi_pmcu_update_irq(HisiPmcuState *s)
{
    int level = (s->regs[R_INT_STAT] & s->regs[R_INT_EN] &
                 ~s->regs[R_INT_MSK]) != 0;

    trace_hisi_pmcu_irq(s->die, s->regs[R_INT_STAT], level);
    qemu_set_irq(s->irq, level);
}

/* The CPUs of the die, found when the machine is complete */
static void hisi_pmcu_find_cpus(HisiPmcuState *s)
{
    CPUState *cs;

    if (s->cpus_found) {
        return;
    }
    s->cpus_found = true;

    CPU_FOREACH(cs) {
        ARMCPU *cpu = ARM_CPU(cs);
        uint64_t mpidr = arm_cpu_mp_affinity(cpu);
        unsigned core = extract64(mpidr, 0, 8);
        unsigned cluster = extract64(mpidr, 8, 8);

        /* Aff3:Aff2 */
        if (((extract64(mpidr, 32, 8) << 8) | extract64(mpidr, 16, 8)) ==
            s->die && cluster < s->nr_cluster &&
            core < HISI_PMCU_CPUS_PER_CLUSTER) {
            s->cpu[hisi_pmcu_slot(s->nr_cluster, cluster, core)] = cpu;
            s->nr_cpus++;
        }
    }
}

/* May this run be started? If not, @error and @reason say why. */
static bool hisi_pmcu_run_valid(const HisiPmcuRun *run, unsigned *error,
                                const char **reason)
{
    unsigned ev_len = hisi_pmcu_ev_len(run);
    unsigned nr_pmu = hisi_pmcu_nr_pmu(run);

    *error = HISI_PMCU_ERR_CFG;
    if (nr_pmu == 0 ||
        nr_pmu > (run->comp ? HISI_PMCU_COMP_MAX_COUNTERS :
                  HISI_PMCU_MAX_COUNTERS)) {
        *reason = "NR_PMU out of range";
        return false;
    }
    if (ev_len == 0 || ev_len > HISI_PMCU_MAX_EV_LEN) {
        *reason = "EV_LEN out of range";
        return false;
    }
    if (ev_len % nr_pmu) {
        *reason = "EV_LEN is not a multiple of NR_PMU";
        return false;
    }
    if (hisi_pmcu_nr_loop(run) == 0) {
        *reason = "NR_LOOP is 0";
        return false;
    }

    *error = HISI_PMCU_ERR_ADDR;
    if (!QEMU_IS_ALIGNED(run->event_base, 4)) {
        *reason = "EVENT_BASE is not aligned to 4 bytes";
        return false;
    }
    if (!QEMU_IS_ALIGNED(run->store, 8)) {
        *reason = "STORE_BASE is not aligned to 8 bytes";
        return false;
    }
    if (run->kill_base <= run->store) {
        *reason = "KILL_BASE is not above STORE_BASE";
        return false;
    }

    *error = HISI_PMCU_ERR_NONE;
    *reason = NULL;
    return true;
}

/* Translate the run's configuration into that of the CPUs' PMUs. */
static void hisi_pmcu_set_pmu_config(HisiPmcuState *s)
{
    HisiPmcuRun *run = &s->run;

    /*
     * Compatibility mode leaves the counters below HPMN, and with them PMCR
     * and the cycle counter, to a guest hypervisor's guests.
     */
    s->pmu.first = run->comp ? HISI_PMCU_COMP_FIRST : 0;
    s->pmu.nr_counters = hisi_pmcu_nr_pmu(run);
    s->pmu.cycles = !run->comp;
    s->pmu.pmcr = run->pmcr;
    s->pmu.pmccfiltr = run->pmccfiltr;
    memcpy(s->pmu.evtyper, run->events, sizeof(s->pmu.evtyper));
}

/*
 * Give events that the CPU of @slot cannot count their synthetic values. The
 * null event and counters that the CPU lacks stay 0.
 */
static void hisi_pmcu_add_synthetic(HisiPmcuState *s, unsigned slot,
                                    uint64_t *value)
{
    ARMCPU *cpu = s->cpu[slot];
    unsigned end = arm_pmu_ext_nr_counters(cpu);
    unsigned i;

    for (i = 0; i < s->pmu.nr_counters && s->pmu.first + i < end; i++) {
        PmuSyntheticSample sample = {
            .event = s->run.events[i] & HISI_PMCU_MAX_EVENT,
            /* Our decision: number the slots of all dies consecutively. */
            .unit = s->die * s->nr_slots + slot,
            .index = s->stored,
            .window_ns = hisi_pmcu_window_ns(&s->run),
            .seed = s->run_synthetic_seed,
        };

        if (sample.event != HISI_PMCU_NULL_EVENT &&
            !arm_pmu_ext_can_count(sample.event) &&
            pmu_synthetic_value(s->run_synthetic, &sample, &value[i])) {
            value[i] = extract64(value[i], 0, arm_pmu_ext_counter_bits(cpu));
            trace_hisi_pmcu_synthetic(s->die, slot, sample.index,
                                      sample.event, value[i]);
        }
    }
}

/*
 * Hold the instruction counts of all CPUs; return the time at which they are
 * held. If the host lets this thread wait meanwhile, the CPUs go on: then hold
 * them anew, so that instructions and cycles are of the same time.
 */
static int64_t hisi_pmcu_hold_counts(HisiPmcuState *s)
{
    int64_t now, most = HISI_PMCU_HOLD_NS + s->nr_cpus * HISI_PMCU_HOLD_CPU_NS;
    unsigned slot, tries = 10;

    do {
        now = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
        for (slot = 0; slot < s->nr_slots; slot++) {
            if (s->cpu[slot]) {
                arm_pmu_ext_hold(s->cpu[slot]);
            }
        }
    } while (qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) - now > most && --tries);
    return now;
}

static void hisi_pmcu_release_counts(HisiPmcuState *s)
{
    unsigned slot;

    for (slot = 0; slot < s->nr_slots; slot++) {
        if (s->cpu[slot]) {
            arm_pmu_ext_release(s->cpu[slot]);
        }
    }
}

/*
 * Stop the counters of all CPUs at the same time, and build the record in
 * s->record. A slot whose CPU was not on for the whole window is 0. A record
 * that the caller drops (@store is false) gets no synthetic values: the trace
 * must not show values that are nowhere in memory.
 */
static void hisi_pmcu_stop_and_read(HisiPmcuState *s, bool store)
{
    int64_t now = hisi_pmcu_hold_counts(s);
    unsigned nr_pmu = s->pmu.nr_counters;
    unsigned slot, i;

    memset(s->record, 0,
           hisi_pmcu_record_size(s->nr_slots, nr_pmu, s->run.comp));

    for (slot = 0; slot < s->nr_slots; slot++) {
        ArmPmuExtSample sample;

        if (!s->cpu[slot] ||
            !arm_pmu_ext_stop(s->cpu[slot], &s->pmu, now, &sample)) {
            continue;
        }
        if (store && s->run_synthetic) {
            hisi_pmcu_add_synthetic(s, slot, sample.events);
        }
        stl_le_p(s->record + hisi_pmcu_cid1_offset(slot),
                 sample.contextidr_el1);
        stl_le_p(s->record + hisi_pmcu_cid2_offset(s->nr_slots, slot),
                 sample.contextidr_el2);
        for (i = 0; i < nr_pmu; i++) {
            stq_le_p(s->record + hisi_pmcu_event_offset(s->nr_slots, i, slot),
                     sample.events[i]);
        }
        if (s->pmu.cycles) {
            stq_le_p(s->record + hisi_pmcu_event_offset(s->nr_slots, nr_pmu,
                                                        slot), sample.cycles);
        }
    }
    hisi_pmcu_release_counts(s);
}

/* Release the CPUs at the end of a run; their counters have been stopped. */
static void hisi_pmcu_release_cpus(HisiPmcuState *s)
{
    unsigned slot;

    for (slot = 0; slot < s->nr_slots; slot++) {
        if (s->cpu[slot]) {
            arm_pmu_ext_idle(s->cpu[slot]);
        }
    }
    g_clear_pointer(&s->run_synthetic, pmu_synthetic_unref);
}

/* End a run early: store nothing more, and set BRK instead of DONE. */
static void hisi_pmcu_fail_run(HisiPmcuState *s, unsigned error)
{
    hisi_pmcu_release_cpus(s);
    s->state = HISI_PMCU_IDLE;
    s->error = error;
    s->regs[R_INT_STAT] |= R_INT_STAT_BRK_MASK;
    hisi_pmcu_update_irq(s);
}

/*
 * Is the whole range RAM? dma_memory_valid() accepts MMIO. dma_memory_write()
 * rejects MMIO, but only after it has written to the RAM before it.
 */
static bool hisi_pmcu_is_ram(HisiPmcuState *s, uint64_t addr, uint64_t size)
{
    RCU_READ_LOCK_GUARD();
    while (size) {
        hwaddr offset, len = size;
        MemoryRegion *mr = address_space_translate(&s->dma_as, addr, &offset,
                                                   &len, true,
                                                   hisi_pmcu_dma_attrs);

        if (!memory_access_is_direct(mr, true, hisi_pmcu_dma_attrs)) {
            return false;
        }
        addr += len;
        size -= len;
    }
    return true;
}

/* Report a fault that the user has asked for with the property "faults". */
static void hisi_pmcu_fault(HisiPmcuState *s, const char *what)
{
    trace_hisi_pmcu_fault(s->die, what, s->stored);
    qemu_log_mask(LOG_GUEST_ERROR, "hisi_pmcu die %u: fault on demand: %s at "
                  "record %u\n", s->die, what, s->stored);
}

static void hisi_pmcu_dma_error(HisiPmcuState *s, unsigned error,
                                uint64_t addr, uint32_t len)
{
    const char *what = error == HISI_PMCU_ERR_DMA_READ ? "read" : "write";

    trace_hisi_pmcu_dma_error(s->die, what, addr, len);
    qemu_log_mask(LOG_GUEST_ERROR,
                  "hisi_pmcu die %u: DMA %s of %" PRIu32 " bytes at 0x%" PRIx64
                  " failed, run stopped\n", s->die, what, len, addr);
    hisi_pmcu_fail_run(s, error);
}

/* Fetch the next events, program all CPUs and open the counting window. */
static void hisi_pmcu_start_subsample(HisiPmcuState *s)
{
    HisiPmcuRun *run = &s->run;
    uint64_t addr = run->event_base + 4 * run->pos;
    uint32_t len = 4 * hisi_pmcu_nr_pmu(run);
    uint32_t words[HISI_PMCU_MAX_COUNTERS] = { };
    unsigned slot, i;
    int64_t now;

    if (s->faults.dma_read == s->stored + 1) {
        hisi_pmcu_fault(s, "dma-read");
        hisi_pmcu_dma_error(s, HISI_PMCU_ERR_DMA_READ, addr, len);
        return;
    }
    /* Read each word once; the guest may change the list meanwhile. */
    if (dma_memory_read(&s->dma_as, addr, words, len, hisi_pmcu_dma_attrs)) {
        hisi_pmcu_dma_error(s, HISI_PMCU_ERR_DMA_READ, addr, len);
        return;
    }
    for (i = 0; i < ARRAY_SIZE(words); i++) {
        run->events[i] = le32_to_cpu(words[i]);
    }
    hisi_pmcu_set_pmu_config(s);

    now = hisi_pmcu_hold_counts(s);
    for (slot = 0; slot < s->nr_slots; slot++) {
        if (s->cpu[slot]) {
            arm_pmu_ext_start(s->cpu[slot], &s->pmu, now);
        }
    }
    hisi_pmcu_release_counts(s);

    s->state = HISI_PMCU_COUNT;
    trace_hisi_pmcu_start(s->die, run->loop, run->pos,
                          hisi_pmcu_window_ns(run), now);
    s->window_end = now + hisi_pmcu_window_ns(run);
    timer_mod_ns(&s->timer, s->window_end);
}

static void hisi_pmcu_done(HisiPmcuState *s)
{
    trace_hisi_pmcu_done(s->die, s->stored);
    if (s->faults.lose_done) {
        hisi_pmcu_fault(s, "lose-done");
        s->state = HISI_PMCU_IDLE;
        return;
    }
    if (s->faults.repeat_done) {
        s->done_again = true;
    }
    if (s->regs[R_INT_STAT] & R_INT_STAT_DONE_MASK) {
        /*
         * The guest has not cleared the DONE of the previous run yet. The
         * Linux driver clears it after it has triggered this run, and must not
         * clear the DONE of this run as well: hold it until INT_CLR is written.
         */
        trace_hisi_pmcu_hold(s->die);
        s->state = HISI_PMCU_DONE_HOLD;
        return;
    }
    s->state = HISI_PMCU_IDLE;
    s->regs[R_INT_STAT] |= R_INT_STAT_DONE_MASK;
    hisi_pmcu_update_irq(s);
}

/* Continue after the last record of a run has been stored. */
static void hisi_pmcu_all_stored(HisiPmcuState *s)
{
    hisi_pmcu_release_cpus(s);
    s->state = HISI_PMCU_STORE;
    s->window_end = INT64_MAX;
    if (s->faults.stay_busy) {
        hisi_pmcu_fault(s, "stay-busy");
    } else if (s->faults.delay_done) {
        hisi_pmcu_fault(s, "delay-done");
        s->window_end = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) +
                        s->faults.delay_done;
        timer_mod_ns(&s->timer, s->window_end);
    } else {
        hisi_pmcu_done(s);
    }
}

/* Can the next record be stored? If not, return the error that ends the run. */
static unsigned hisi_pmcu_store_error(HisiPmcuState *s, uint32_t size)
{
    if (s->run.kill_base - s->run.store < size) {
        return HISI_PMCU_ERR_KILL;
    }
    if (s->faults.dma_write == s->stored + 1) {
        hisi_pmcu_fault(s, "dma-write");
        return HISI_PMCU_ERR_DMA_WRITE;
    }
    /* Check the whole range, so that no record is left half written. */
    return hisi_pmcu_is_ram(s, s->run.store, size) ? HISI_PMCU_ERR_NONE :
                                                     HISI_PMCU_ERR_DMA_WRITE;
}

/* The end of a counting window */
static void hisi_pmcu_end_window(HisiPmcuState *s)
{
    HisiPmcuRun *run = &s->run;
    uint32_t size = hisi_pmcu_record_size(s->nr_slots, hisi_pmcu_nr_pmu(run),
                                          run->comp);
    unsigned error = hisi_pmcu_store_error(s, size);

    hisi_pmcu_stop_and_read(s, error == HISI_PMCU_ERR_NONE);

    if (error == HISI_PMCU_ERR_KILL) {
        trace_hisi_pmcu_kill(s->die, run->store, size, run->kill_base);
        qemu_log_mask(LOG_GUEST_ERROR,
                      "hisi_pmcu die %u: record of %" PRIu32 " bytes at 0x%"
                      PRIx64 " would pass KILL_BASE 0x%" PRIx64
                      ", run stopped\n", s->die, size, run->store,
                      run->kill_base);
        hisi_pmcu_fail_run(s, HISI_PMCU_ERR_KILL);
        return;
    }

    if (error == HISI_PMCU_ERR_DMA_WRITE ||
        dma_memory_write(&s->dma_as, run->store, s->record, size,
                         hisi_pmcu_dma_attrs)) {
        hisi_pmcu_dma_error(s, HISI_PMCU_ERR_DMA_WRITE, run->store, size);
        return;
    }
    trace_hisi_pmcu_store(s->die, run->store, size,
                          qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL));
    s->stored++;
    run->store += size;

    run->pos += hisi_pmcu_nr_pmu(run);
    if (run->pos == hisi_pmcu_ev_len(run)) {
        run->pos = 0;
        run->loop++;
        if (run->loop == hisi_pmcu_nr_loop(run)) {
            hisi_pmcu_all_stored(s);
            return;
        }
    }
    hisi_pmcu_start_subsample(s);
}

static void hisi_pmcu_timer(void *opaque)
{
    HisiPmcuState *s = opaque;

    /*
     * If one thread runs all CPUs, a timer that was due when the machine
     * stopped expires later (rr_cpu_thread_fn() has enabled the clock again),
     * maybe when RAM has just been saved, and the record would be lost.
     * hisi_pmcu_vm_state() sets the timer again. While QEMU records or replays,
     * nothing migrates, and each expiry is in the log once.
     */
    if (!runstate_is_running() && replay_mode == REPLAY_MODE_NONE) {
        return;
    }
    if (s->state == HISI_PMCU_COUNT) {
        hisi_pmcu_end_window(s);
    } else {
        hisi_pmcu_done(s);
    }
}

static void hisi_pmcu_reject(HisiPmcuState *s, unsigned error,
                             const char *reason)
{
    trace_hisi_pmcu_reject(s->die, error, reason);
    qemu_log_mask(LOG_GUEST_ERROR, "hisi_pmcu die %u: trigger refused: %s\n",
                  s->die, reason);
    s->error = error;
}

static void hisi_pmcu_trigger(HisiPmcuState *s)
{
    HisiPmcuRun run = {
        .fsm_cfg = s->regs[R_FSM_CFG],
        .wait_cnt = s->regs[R_WAIT_CNT],
        .comp = s->regs[R_COMP],
        .pmcr = s->regs[R_PMCR],
        .pmccfiltr = s->regs[R_PMCCFILTR],
        .event_base = hisi_pmcu_reg64(s, R_EVENT_BASE_H, R_EVENT_BASE_L),
        .kill_base = hisi_pmcu_reg64(s, R_KILL_BASE_H, R_KILL_BASE_L),
        .store = hisi_pmcu_reg64(s, R_STORE_BASE_H, R_STORE_BASE_L),
    };
    unsigned error;
    const char *reason;

    if (s->state != HISI_PMCU_IDLE) {
        hisi_pmcu_reject(s, HISI_PMCU_ERR_BUSY, "busy");
        return;
    }
    if (s->faults.refuse) {
        trace_hisi_pmcu_fault(s->die, "refuse", 0);
        hisi_pmcu_reject(s, s->faults.refuse, "fault on demand: refuse");
        return;
    }
    /*
     * A refused trigger never sets DONE. With an empty event list the Linux
     * driver would trigger again from its interrupt handler, for ever.
     */
    if (!hisi_pmcu_run_valid(&run, &error, &reason)) {
        hisi_pmcu_reject(s, error, reason);
        return;
    }

    trace_hisi_pmcu_trigger(s->die, hisi_pmcu_ev_len(&run),
                            hisi_pmcu_nr_loop(&run), hisi_pmcu_nr_pmu(&run),
                            run.comp, hisi_pmcu_window_ns(&run),
                            run.event_base, run.store, run.kill_base);
    hisi_pmcu_find_cpus(s);
    s->run = run;
    s->error = HISI_PMCU_ERR_NONE;
    s->stored = 0;
    s->run_synthetic = pmu_synthetic_ref(s->synthetic);
    s->run_synthetic_seed = s->synthetic_seed;
    hisi_pmcu_start_subsample(s);
}

/* Stop counting, without a record. */
static void hisi_pmcu_abandon_window(HisiPmcuState *s)
{
    timer_del(&s->timer);
    if (s->state == HISI_PMCU_COUNT) {
        hisi_pmcu_stop_and_read(s, false);
        hisi_pmcu_release_cpus(s);
    }
}

static void hisi_pmcu_break(HisiPmcuState *s)
{
    trace_hisi_pmcu_break(s->die, s->state, s->stored);
    hisi_pmcu_abandon_window(s);
    s->state = HISI_PMCU_IDLE;
    s->done_again = false;

    /*
     * Two decisions of ours, both because of the Linux driver. The driver
     * cannot handle a DONE after its break: discard a DONE that is pending or
     * held. The driver waits for the break interrupt even if its trigger was
     * refused: set BRK in state IDLE, too.
     */
    s->regs[R_INT_STAT] &= ~R_INT_STAT_DONE_MASK;
    s->regs[R_INT_STAT] |= R_INT_STAT_BRK_MASK;
    hisi_pmcu_update_irq(s);
}

static void hisi_pmcu_clear_int(HisiPmcuState *s, uint32_t value)
{
    s->regs[R_INT_STAT] &= ~value;
    if ((value & R_INT_CLR_DONE_MASK) && s->state == HISI_PMCU_DONE_HOLD) {
        s->state = HISI_PMCU_IDLE;
        s->regs[R_INT_STAT] |= R_INT_STAT_DONE_MASK;
    } else if ((value & R_INT_CLR_DONE_MASK) && s->done_again) {
        hisi_pmcu_fault(s, "repeat-done");
        s->done_again = false;
        s->regs[R_INT_STAT] |= R_INT_STAT_DONE_MASK;
    }
    hisi_pmcu_update_irq(s);
}

static uint64_t hisi_pmcu_read(void *opaque, hwaddr offset, unsigned size)
{
    HisiPmcuState *s = opaque;
    uint32_t value = 0;

    switch (offset) {
    case A_FSM_STATUS:
        value = FIELD_DP32(value, FSM_STATUS, STATE, s->state);
        value = FIELD_DP32(value, FSM_STATUS, ERROR, s->error);
        value = FIELD_DP32(value, FSM_STATUS, STORED, s->stored);
        break;
    case A_FSM_CTRL:
    case A_FSM_BRK:
    case A_INT_CLR:
        /* A write is an action; these registers read as 0. */
        break;
    case A_INT_STAT:
        value = s->regs[R_INT_STAT];
        break;
    default:
        if (hisi_pmcu_rw_mask(offset)) {
            value = s->regs[offset / 4];
        } else {
            qemu_log_mask(LOG_GUEST_ERROR, "hisi_pmcu die %u: bad read offset "
                          "0x%" HWADDR_PRIx "\n", s->die, offset);
        }
        break;
    }
    trace_hisi_pmcu_read(s->die, hisi_pmcu_reg_name(offset), offset, value);
    return value;
}

static void hisi_pmcu_write(void *opaque, hwaddr offset, uint64_t value,
                            unsigned size)
{
    HisiPmcuState *s = opaque;
    uint32_t mask = hisi_pmcu_rw_mask(offset);

    trace_hisi_pmcu_write(s->die, hisi_pmcu_reg_name(offset), offset, value);

    switch (offset) {
    case A_FSM_STATUS:
    case A_INT_STAT:
        qemu_log_mask(LOG_GUEST_ERROR, "hisi_pmcu die %u: write to read-only "
                      "register %s\n", s->die, hisi_pmcu_reg_name(offset));
        return;
    case A_FSM_CTRL:
        mask = R_FSM_CTRL_TRIGGER_MASK;
        break;
    case A_FSM_BRK:
        mask = R_FSM_BRK_BRK_MASK;
        break;
    case A_INT_CLR:
        mask = HISI_PMCU_INT_MASK;
        break;
    default:
        if (!mask) {
            qemu_log_mask(LOG_GUEST_ERROR, "hisi_pmcu die %u: bad write offset "
                          "0x%" HWADDR_PRIx "\n", s->die, offset);
            return;
        }
        break;
    }
    if (value & ~mask) {
        qemu_log_mask(LOG_GUEST_ERROR, "hisi_pmcu die %u: reserved bits of %s "
                      "ignored in 0x%" PRIx64 "\n", s->die,
                      hisi_pmcu_reg_name(offset), value);
        value &= mask;
    }

    switch (offset) {
    case A_FSM_CTRL:
        if (value) {
            hisi_pmcu_trigger(s);
        }
        break;
    case A_FSM_BRK:
        if (value) {
            hisi_pmcu_break(s);
        }
        break;
    case A_INT_CLR:
        hisi_pmcu_clear_int(s, value);
        break;
    case A_INT_EN:
    case A_INT_MSK:
        s->regs[offset / 4] = value;
        hisi_pmcu_update_irq(s);
        break;
    default:
        /* The current run has its own copy, see hisi_pmcu_trigger(). */
        s->regs[offset / 4] = value;
        break;
    }
}

static const MemoryRegionOps hisi_pmcu_ops = {
    .read = hisi_pmcu_read,
    .write = hisi_pmcu_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = {
        .min_access_size = 4,
        .max_access_size = 4,
        .unaligned = false,
    },
    .impl = {
        .min_access_size = 4,
        .max_access_size = 4,
        .unaligned = false,
    },
};

static void hisi_pmcu_reset_enter(Object *obj, ResetType type)
{
    HisiPmcuState *s = HISI_PMCU(obj);

    /* Leave the counters of the CPUs alone: each CPU resets its own. */
    timer_del(&s->timer);
    memset(s->regs, 0, sizeof(s->regs));
    memset(&s->run, 0, sizeof(s->run));
    s->state = HISI_PMCU_IDLE;
    s->error = HISI_PMCU_ERR_NONE;
    s->stored = 0;
    s->done_again = false;
    s->window_end = 0;
    s->unchecked = false;
    g_clear_pointer(&s->run_synthetic, pmu_synthetic_unref);
}

static void hisi_pmcu_reset_hold(Object *obj, ResetType type)
{
    hisi_pmcu_update_irq(HISI_PMCU(obj));
}

/* Validate incoming state; return NULL if it is valid, else the reason. */
static const char *hisi_pmcu_check_loaded(HisiPmcuState *s)
{
    HisiPmcuRun *run = &s->run, triggered;
    unsigned offset, error;
    const char *reason;
    int64_t now = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);

    for (offset = 0; offset < sizeof(s->regs); offset += 4) {
        uint32_t mask = offset == A_INT_STAT ? HISI_PMCU_INT_MASK :
                                               hisi_pmcu_rw_mask(offset);

        if (s->regs[offset / 4] & ~mask) {
            return "reserved register bits are set";
        }
    }
    if (s->error > HISI_PMCU_ERR_DMA_WRITE) {
        return "unknown error code";
    }
    if (s->stored > HISI_PMCU_MAX_LOOPS * HISI_PMCU_MAX_EV_LEN) {
        return "too many records";
    }

    switch (s->state) {
    case HISI_PMCU_IDLE:
        break;
    case HISI_PMCU_DONE_HOLD:
        if (!(s->regs[R_INT_STAT] & R_INT_STAT_DONE_MASK)) {
            return "completion held without a reason";
        }
        break;
    case HISI_PMCU_STORE:
        if (s->window_end < 0 ||
            (s->window_end > now + HISI_PMCU_MAX_DELAY &&
             s->window_end != INT64_MAX)) {
            return "run without an end";
        }
        break;
    case HISI_PMCU_COUNT:
        if (run->comp > 1 || (run->fsm_cfg & ~HISI_PMCU_FSM_CFG_MASK)) {
            return "reserved bits of the run are set";
        }
        /* STORE may have reached KILL_BASE, which a trigger would refuse. */
        triggered = *run;
        if (triggered.store == triggered.kill_base) {
            triggered.kill_base = UINT64_MAX;
        }
        if (!hisi_pmcu_run_valid(&triggered, &error, &reason)) {
            return reason;
        }
        if (run->loop >= hisi_pmcu_nr_loop(run) ||
            run->pos >= hisi_pmcu_ev_len(run) ||
            run->pos % hisi_pmcu_nr_pmu(run) ||
            s->stored != (run->loop * hisi_pmcu_ev_len(run) + run->pos) /
                         hisi_pmcu_nr_pmu(run)) {
            return "impossible position in the run";
        }
        /* The end of the window may be in the past, but not too far ahead. */
        if (s->window_end < 0 ||
            s->window_end > now + (int64_t)hisi_pmcu_window_ns(run)) {
            return "window without an end";
        }
        break;
    default:
        return "unknown state";
    }
    return NULL;
}

static int hisi_pmcu_post_load(void *opaque, int version_id)
{
    HisiPmcuState *s = opaque;
    const char *reason;

    if (s->saved_die != s->die || s->saved_nr_cluster != s->nr_cluster ||
        s->saved_nr_cpus != s->nr_cpus) {
        error_report("%s: the stream has die %u, clusters: %u, CPUs: %u; here "
                     "is die %u, clusters: %u, CPUs: %u: give both the same "
                     "-smp", TYPE_HISI_PMCU, s->saved_die, s->saved_nr_cluster,
                     s->saved_nr_cpus, s->die, s->nr_cluster, s->nr_cpus);
        return -EINVAL;
    }
    reason = hisi_pmcu_check_loaded(s);
    if (reason) {
        error_report("%s: invalid migration stream: %s", TYPE_HISI_PMCU,
                     reason);
        return -EINVAL;
    }
    /*
     * A timer that is due would expire before the rest of the machine is
     * loaded: hisi_pmcu_vm_state() sets it when the machine starts.
     */
    timer_del(&s->timer);
    s->unchecked = false;
    if (s->state == HISI_PMCU_COUNT) {
        hisi_pmcu_set_pmu_config(s);
    } else {
        g_clear_pointer(&s->run_synthetic, pmu_synthetic_unref);
    }
    return 0;
}

/*
 * When the machine starts: set the timer of a run that was loaded, or whose
 * timer expired while the machine was stopped. For others, it is set already.
 * A user may start a machine whose stream was refused: reset then.
 */
static void hisi_pmcu_vm_state(void *opaque, bool running, RunState state)
{
    HisiPmcuState *s = opaque;

    if (running && s->unchecked) {
        hisi_pmcu_reset_enter(OBJECT(s), RESET_TYPE_COLD);
        hisi_pmcu_update_irq(s);
    }
    if (running &&
        (s->state == HISI_PMCU_COUNT ||
         (s->state == HISI_PMCU_STORE && s->window_end != INT64_MAX))) {
        timer_mod_ns(&s->timer, s->window_end);
    }
}

static int hisi_pmcu_pre_save(void *opaque)
{
    HisiPmcuState *s = opaque;

    hisi_pmcu_find_cpus(s);
    s->saved_die = s->die;
    s->saved_nr_cluster = s->nr_cluster;
    s->saved_nr_cpus = s->nr_cpus;
    return 0;
}

static int hisi_pmcu_pre_load(void *opaque)
{
    HisiPmcuState *s = opaque;

    hisi_pmcu_find_cpus(s);
    /* For a stream of version 1, or without the subsection */
    s->saved_nr_cpus = s->nr_cpus;
    s->done_again = false;
    s->unchecked = true;
    g_clear_pointer(&s->run_synthetic, pmu_synthetic_unref);
    /* Left by an earlier stream that broke off within the list */
    g_clear_pointer(&s->run_list, g_free);
    return 0;
}

/*
 * The synthetic events of the current run. Those of the properties may have
 * been changed since, and are for the next run.
 */
static bool hisi_pmcu_synthetic_needed(void *opaque)
{
    HisiPmcuState *s = opaque;

    return s->run_synthetic;
}

static int hisi_pmcu_synthetic_pre_save(void *opaque)
{
    HisiPmcuState *s = opaque;

    s->run_list = (uint8_t *)g_strdup(pmu_synthetic_list(s->run_synthetic));
    s->run_list_size = strlen((char *)s->run_list) + 1;
    return 0;
}

static int hisi_pmcu_synthetic_post_save(void *opaque)
{
    HisiPmcuState *s = opaque;

    g_clear_pointer(&s->run_list, g_free);
    return 0;
}

/* Check the length of an incoming list before memory is allocated for it. */
static bool hisi_pmcu_list_fits(void *opaque, int version_id)
{
    HisiPmcuState *s = opaque;

    return s->run_list_size >= 1 && s->run_list_size <= HISI_PMCU_MAX_LIST + 1;
}

static int hisi_pmcu_synthetic_post_load(void *opaque, int version_id)
{
    HisiPmcuState *s = opaque;
    g_autofree char *list = (char *)g_steal_pointer(&s->run_list);
    Error *err = NULL;

    if (list[s->run_list_size - 1]) {
        error_report("%s: invalid migration stream: synthetic events are not "
                     "a string", TYPE_HISI_PMCU);
        return -EINVAL;
    }
    /* A stream can have this subsection twice */
    pmu_synthetic_unref(s->run_synthetic);
    s->run_synthetic = pmu_synthetic_parse(list, &hisi_pmcu_events, &err);
    if (!s->run_synthetic) {
        error_prepend(&err, "%s: invalid migration stream: ", TYPE_HISI_PMCU);
        error_report_err(err);
        return -EINVAL;
    }
    return 0;
}

static const VMStateDescription vmstate_hisi_pmcu_synthetic = {
    .name = "hisi-pmcu/synthetic",
    .version_id = 1,
    .minimum_version_id = 1,
    .needed = hisi_pmcu_synthetic_needed,
    .pre_save = hisi_pmcu_synthetic_pre_save,
    .post_save = hisi_pmcu_synthetic_post_save,
    .post_load = hisi_pmcu_synthetic_post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT32(run_synthetic_seed, HisiPmcuState),
        VMSTATE_UINT32(run_list_size, HisiPmcuState),
        VMSTATE_VALIDATE("length of synthetic-events", hisi_pmcu_list_fits),
        VMSTATE_VBUFFER_ALLOC_UINT32(run_list, HisiPmcuState, 1, NULL,
                                     run_list_size),
        VMSTATE_END_OF_LIST()
    }
};

static bool hisi_pmcu_done_again_needed(void *opaque)
{
    HisiPmcuState *s = opaque;

    return s->done_again;
}

static const VMStateDescription vmstate_hisi_pmcu_done_again = {
    .name = "hisi-pmcu/done-again",
    .version_id = 1,
    .minimum_version_id = 1,
    .needed = hisi_pmcu_done_again_needed,
    .fields = (const VMStateField[]) {
        VMSTATE_BOOL(done_again, HisiPmcuState),
        VMSTATE_END_OF_LIST()
    }
};

static const VMStateDescription vmstate_hisi_pmcu_run = {
    .name = "hisi-pmcu/run",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT32(fsm_cfg, HisiPmcuRun),
        VMSTATE_UINT32(wait_cnt, HisiPmcuRun),
        VMSTATE_UINT32(comp, HisiPmcuRun),
        VMSTATE_UINT32(pmcr, HisiPmcuRun),
        VMSTATE_UINT32(pmccfiltr, HisiPmcuRun),
        VMSTATE_UINT64(event_base, HisiPmcuRun),
        VMSTATE_UINT64(kill_base, HisiPmcuRun),
        VMSTATE_UINT64(store, HisiPmcuRun),
        VMSTATE_UINT32(pos, HisiPmcuRun),
        VMSTATE_UINT32(loop, HisiPmcuRun),
        VMSTATE_UINT32_ARRAY(events, HisiPmcuRun, HISI_PMCU_MAX_COUNTERS),
        VMSTATE_END_OF_LIST()
    }
};

static const VMStateDescription vmstate_hisi_pmcu = {
    .name = TYPE_HISI_PMCU,
    .version_id = 2,
    .minimum_version_id = 1,
    .pre_save = hisi_pmcu_pre_save,
    .pre_load = hisi_pmcu_pre_load,
    .post_load = hisi_pmcu_post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT32(saved_die, HisiPmcuState),
        VMSTATE_UINT32(saved_nr_cluster, HisiPmcuState),
        VMSTATE_UINT32_ARRAY(regs, HisiPmcuState, HISI_PMCU_NR_REGS),
        VMSTATE_UINT32(state, HisiPmcuState),
        VMSTATE_UINT32(error, HisiPmcuState),
        VMSTATE_UINT32(stored, HisiPmcuState),
        VMSTATE_STRUCT(run, HisiPmcuState, 1, vmstate_hisi_pmcu_run,
                       HisiPmcuRun),
        VMSTATE_INT64(window_end, HisiPmcuState),
        VMSTATE_UINT32_V(saved_nr_cpus, HisiPmcuState, 2),
        VMSTATE_END_OF_LIST()
    },
    .subsections = (const VMStateDescription * const []) {
        &vmstate_hisi_pmcu_synthetic,
        &vmstate_hisi_pmcu_done_again,
        NULL
    }
};

static char *hisi_pmcu_get_synthetic(Object *obj, Error **errp)
{
    return g_strdup(pmu_synthetic_list(HISI_PMCU(obj)->synthetic));
}

static void hisi_pmcu_set_synthetic(Object *obj, const char *value,
                                    Error **errp)
{
    HisiPmcuState *s = HISI_PMCU(obj);
    PmuSynthetic *synthetic = NULL;

    if (strlen(value) > HISI_PMCU_MAX_LIST) {
        error_setg(errp, "synthetic-events is longer than %u bytes",
                   HISI_PMCU_MAX_LIST);
        return;
    }
    if (*value) {
        synthetic = pmu_synthetic_parse(value, &hisi_pmcu_events, errp);
        if (!synthetic) {
            return;
        }
    }
    /* The current run has a reference of its own. */
    pmu_synthetic_unref(s->synthetic);
    s->synthetic = synthetic;
}

static char *hisi_pmcu_get_faults(Object *obj, Error **errp)
{
    return hisi_pmcu_faults_string(&HISI_PMCU(obj)->faults);
}

static void hisi_pmcu_set_faults(Object *obj, const char *value, Error **errp)
{
    hisi_pmcu_faults_parse(value, &HISI_PMCU(obj)->faults, errp);
}

/* A stream that was refused leaves any value */
static char *hisi_pmcu_name(const char *const *names, unsigned nr,
                            uint32_t value)
{
    return g_strdup(value < nr ? names[value] : "invalid");
}

static char *hisi_pmcu_get_state(Object *obj, Error **errp)
{
    static const char *const names[] = {
        [HISI_PMCU_IDLE] = "idle",
        [HISI_PMCU_COUNT] = "counting",
        [HISI_PMCU_STORE] = "storing",
        [HISI_PMCU_DONE_HOLD] = "done-held",
    };

    return hisi_pmcu_name(names, ARRAY_SIZE(names), HISI_PMCU(obj)->state);
}

static char *hisi_pmcu_get_error(Object *obj, Error **errp)
{
    static const char *const names[] = {
        [HISI_PMCU_ERR_NONE] = "none",
        [HISI_PMCU_ERR_BUSY] = "busy",
        [HISI_PMCU_ERR_CFG] = "configuration",
        [HISI_PMCU_ERR_ADDR] = "address",
        [HISI_PMCU_ERR_KILL] = "kill-base",
        [HISI_PMCU_ERR_DMA_READ] = "dma-read",
        [HISI_PMCU_ERR_DMA_WRITE] = "dma-write",
    };

    return hisi_pmcu_name(names, ARRAY_SIZE(names), HISI_PMCU(obj)->error);
}

static char *hisi_pmcu_get_run(Object *obj, Error **errp)
{
    const HisiPmcuRun *run = &HISI_PMCU(obj)->run;

    if (!run->fsm_cfg) {
        return g_strdup("none since reset");
    }
    return g_strdup_printf("loop %u of %u, event %u of %u, %u counters from %u "
                           "on, windows of %" PRIu64 " ns, events at 0x%"
                           PRIx64 ", next record at 0x%" PRIx64
                           ", kill base 0x%" PRIx64, run->loop,
                           hisi_pmcu_nr_loop(run), run->pos,
                           hisi_pmcu_ev_len(run), hisi_pmcu_nr_pmu(run),
                           run->comp ? HISI_PMCU_COMP_FIRST : 0,
                           hisi_pmcu_window_ns(run), run->event_base,
                           run->store, run->kill_base);
}

static void hisi_pmcu_init(Object *obj)
{
    HisiPmcuState *s = HISI_PMCU(obj);

    memory_region_init_io(&s->iomem, obj, &hisi_pmcu_ops, s, TYPE_HISI_PMCU,
                          HISI_PMCU_MMIO_SIZE);
    sysbus_init_mmio(SYS_BUS_DEVICE(obj), &s->iomem);
    sysbus_init_irq(SYS_BUS_DEVICE(obj), &s->irq);

    /* No qdev property, since those cannot be set at run time */
    object_property_add_uint32_ptr(obj, "synthetic-seed", &s->synthetic_seed,
                                   OBJ_PROP_FLAG_READWRITE);
    object_property_set_description(obj, "synthetic-seed",
        "Changes what synthetic events of the kinds 'hash' and 'noise' look "
        "like");
    object_property_add_uint32_ptr(obj, "records", &s->stored,
                                   OBJ_PROP_FLAG_READ);
    object_property_set_description(obj, "records",
        "Records that the current or last run has stored");
}

static void hisi_pmcu_finalize(Object *obj)
{
    HisiPmcuState *s = HISI_PMCU(obj);

    pmu_synthetic_unref(s->synthetic);
    pmu_synthetic_unref(s->run_synthetic);
    g_free(s->run_list);    /* set if an incoming stream was refused */
}

static void hisi_pmcu_realize(DeviceState *dev, Error **errp)
{
    HisiPmcuState *s = HISI_PMCU(dev);

    if (s->die > UINT8_MAX) {
        error_setg(errp, "die must be at most %u, the largest MPIDR_EL1."
                   "Aff2", UINT8_MAX);
        return;
    }
    if (s->nr_cluster == 0 || s->nr_cluster > HISI_PMCU_MAX_CLUSTERS) {
        error_setg(errp, "nr-cluster must be in the range 1 to %u",
                   HISI_PMCU_MAX_CLUSTERS);
        return;
    }

    s->nr_slots = hisi_pmcu_nr_slots(s->nr_cluster);
    s->cpu = g_new0(ARMCPU *, s->nr_slots);
    s->record = g_malloc0(hisi_pmcu_record_size(s->nr_slots,
                                                HISI_PMCU_MAX_COUNTERS,
                                                false));
    address_space_init(&s->dma_as, s->dma_mr ?: get_system_memory(),
                       "hisi-pmcu-dma");
    timer_init_ns(&s->timer, QEMU_CLOCK_VIRTUAL, hisi_pmcu_timer, s);
    s->vm_state = qemu_add_vm_change_state_handler(hisi_pmcu_vm_state, s);
    memory_region_set_enabled(&s->iomem, true);
}

static void hisi_pmcu_unrealize(DeviceState *dev)
{
    HisiPmcuState *s = HISI_PMCU(dev);

    /* The board has mapped the registers, which need what is freed here. */
    memory_region_set_enabled(&s->iomem, false);
    /* A reset of the device leaves the CPUs to their own. */
    hisi_pmcu_abandon_window(s);
    device_cold_reset(dev);
    qemu_del_vm_change_state_handler(s->vm_state);
    s->cpus_found = false;
    s->nr_cpus = 0;
    address_space_destroy(&s->dma_as);
    g_clear_pointer(&s->record, g_free);
    g_clear_pointer(&s->cpu, g_free);
}

static const Property hisi_pmcu_properties[] = {
    DEFINE_PROP_UINT32("die", HisiPmcuState, die, 0),
    DEFINE_PROP_UINT32("nr-cluster", HisiPmcuState, nr_cluster, 1),
    DEFINE_PROP_LINK("dma-memory", HisiPmcuState, dma_mr, TYPE_MEMORY_REGION,
                     MemoryRegion *),
};

static void hisi_pmcu_class_init(ObjectClass *klass, ClassInitData *data)
{
    DeviceClass *dc = DEVICE_CLASS(klass);
    ResettableClass *rc = RESETTABLE_CLASS(klass);

    dc->desc = "HiSilicon Performance Monitor Control Unit";
    dc->realize = hisi_pmcu_realize;
    dc->unrealize = hisi_pmcu_unrealize;
    dc->vmsd = &vmstate_hisi_pmcu;
    /* Reason: needs a board whose MPIDRs and firmware tables describe dies */
    dc->user_creatable = false;
    set_bit(DEVICE_CATEGORY_MISC, dc->categories);
    device_class_set_props(dc, hisi_pmcu_properties);
    rc->phases.enter = hisi_pmcu_reset_enter;
    rc->phases.hold = hisi_pmcu_reset_hold;

    object_class_property_set_description(klass, "die",
        "Number of the die: MPIDR_EL1.Aff2 of its CPUs");
    object_class_property_set_description(klass, "nr-cluster",
        "Number of CPU clusters of the die");
    object_class_property_set_description(klass, "dma-memory",
        "Memory that event lists are read from and records written to");
    object_class_property_add_str(klass, "synthetic-events",
                                  hisi_pmcu_get_synthetic,
                                  hisi_pmcu_set_synthetic);
    object_class_property_set_description(klass, "synthetic-events",
        "Made-up counts for events that the CPUs cannot count, for example "
        "0x10=rate:250,0x13=const:7,0x40-0xff=hash");
    object_class_property_add_str(klass, "faults", hisi_pmcu_get_faults,
                                  hisi_pmcu_set_faults);
    object_class_property_set_description(klass, "faults",
        "How to fail, for tests of drivers: refuse:E, dma-read:N, dma-write:N, "
        "lose-done, delay-done:NS, repeat-done, stay-busy");
    object_class_property_add_str(klass, "state", hisi_pmcu_get_state, NULL);
    object_class_property_set_description(klass, "state",
        "idle, counting, storing or done-held");
    object_class_property_add_str(klass, "error", hisi_pmcu_get_error, NULL);
    object_class_property_set_description(klass, "error",
        "Last error since a trigger was accepted");
    object_class_property_add_str(klass, "run", hisi_pmcu_get_run, NULL);
    object_class_property_set_description(klass, "run",
        "The current or last run, decoded");
}

static const TypeInfo hisi_pmcu_types[] = {
    {
        .name          = TYPE_HISI_PMCU,
        .parent        = TYPE_SYS_BUS_DEVICE,
        .instance_size = sizeof(HisiPmcuState),
        .instance_init = hisi_pmcu_init,
        .instance_finalize = hisi_pmcu_finalize,
        .class_init    = hisi_pmcu_class_init,
    },
};

DEFINE_TYPES(hisi_pmcu_types)
