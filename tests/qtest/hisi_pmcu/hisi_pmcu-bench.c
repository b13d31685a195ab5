/*
 * Benchmark of the HiSilicon PMCU: host CPU time per sub-sample
 *
 * No CPU executes under qtest, so all the CPU time that QEMU takes while the
 * virtual clock steps over a run is the work of the PMCU: stop, read, write the
 * record, fetch, program, start. It is a measurement and not a test; nothing
 * fails because of a number.
 *
 *   QTEST_QEMU_BINARY=./qemu-system-aarch64 \
 *       tests/qtest/hisi_pmcu/hisi_pmcu-bench
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "../hisi_pmcu-util.h"

#define SAMPLES         (240 / 8 * 255)
#define REPEAT          5

typedef struct Setup {
    const char *what;
    const char *args;
    unsigned cpus;
    unsigned clusters;
    uint32_t event;
} Setup;

static double cpu_time_us(QTestState *qts)
{
    struct timespec ts;
    clockid_t clock;

    g_assert(!clock_getcpuclockid(qtest_pid(qts), &clock));
    g_assert(!clock_gettime(clock, &ts));
    return ts.tv_sec * 1e6 + ts.tv_nsec / 1e3;
}

static void bench(const Setup *setup)
{
    unsigned slots = hisi_pmcu_nr_slots(setup->clusters);
    uint32_t size = hisi_pmcu_record_size(slots, 8, false);
    Pmcu p = { .base = PMCU_BASE };
    PmcuRun run = {
        PMCU_RUN_DEFAULT, .ev_len = 240, .nr_loop = 255, .nr_pmu = 8,
        .kill_base = STORE_BASE + (uint64_t)SAMPLES * size,
    };
    double best = 0;

    p.qts = qtest_initf("-M virt,gic-version=3,pmcu=on -nic none -m 1G "
                        "-smp %u,clusters=%u %s", setup->cpus,
                        setup->clusters, setup->args);
    for (unsigned cpu = 0; cpu < setup->cpus; cpu++) {
        pmcu_power_cpu(p.qts, cpu, true);
    }
    qtest_system_reset(p.qts);
    pmcu_events(&p, EVENT_BASE, 240, setup->event);

    /* The first run touches the memory for the first time and does not count */
    for (int i = 0; i <= REPEAT; i++) {
        double us = cpu_time_us(p.qts);

        pmcu_start(&p, &run);
        qtest_clock_step(p.qts, SAMPLES * MS);
        us = (cpu_time_us(p.qts) - us) / SAMPLES;
        g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==, SAMPLES << 16);
        pmcu_write(&p, A_INT_CLR, R_INT_CLR_DONE_MASK);
        if (i && (us < best || !best)) {
            best = us;
        }
    }
    qtest_quit(p.qts);
    printf("%4u CPUs, 8 counters, %-22s %8.2f us, %6.1f ns per CPU\n",
           setup->cpus, setup->what, best, best * 1000 / setup->cpus);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const struct {
        unsigned cpus;
        unsigned clusters;
    } sizes[] = { { 2, 1 }, { 32, 4 }, { 128, 16 } };
    bool has_wide;

    g_test_init(&argc, &argv, NULL);
    has_wide = pmcu_has_cpu("cortex-a710");
    if (!has_wide) {
        printf("Without TCG, this QEMU has no CPU with 64-bit counters\n");
    }
    printf("Host CPU time per sub-sample, best of %d runs of %d\n",
           REPEAT, SAMPLES);
    for (int i = 0; i < ARRAY_SIZE(sizes); i++) {
        unsigned cpus = sizes[i].cpus, clusters = sizes[i].clusters;
        /* Under qtest, "max" is a Cortex-A57, whose counters have 32 bits */
        const char *narrow = "-cpu max,pmu-counters=8";

        bench(&(Setup) { "32-bit counters", narrow, cpus, clusters,
                         EV_CPU_CYCLES });
        bench(&(Setup) { "none can be counted", narrow, cpus, clusters,
                         EV_L2D_CACHE });
        if (has_wide) {
            bench(&(Setup) { "64-bit counters", "-cpu cortex-a710",
                             cpus, clusters, EV_CPU_CYCLES });
        }
    }
    return 0;
}
