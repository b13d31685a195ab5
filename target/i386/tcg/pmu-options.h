/*
 * Properties and registers of the PMU of Intel CPUs, for cpu.h; see
 * system/pmu-properties.c and system/pmu-regs.c
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef I386_TCG_PMU_OPTIONS_H
#define I386_TCG_PMU_OPTIONS_H

#include "pmu-precise.h"

#define PERF_CAP_TOPDOWN                (1ULL << 15)

#define MSR_IA32_DEBUGCTL               0x1d9
#define MSR_CORE_PERF_FIXED_CTR3        0x30c
#define MSR_PERF_METRICS                0x329
#define MSR_CORE_PERF_GLOBAL_STATUS_SET 0x391
#define MSR_CORE_PERF_GLOBAL_INUSE      0x392
#define MSR_IA32_A_PMC0                 0x4c1

/* The categories of TopDown in the order of the bytes of PERF_METRICS */
enum {
    TOPDOWN_RETIRING,
    TOPDOWN_BAD,
    TOPDOWN_FRONTEND,
    TOPDOWN_BACKEND,
    /* Level 2, each a part of a category of level 1 in the same order */
    TOPDOWN_HEAVY,
    TOPDOWN_MISPREDICT,
    TOPDOWN_FETCH_LAT,
    TOPDOWN_MEMORY,
    TOPDOWN_CATEGORIES,
    TOPDOWN_LEVEL_1 = TOPDOWN_HEAVY,
};

typedef enum X86PMUModel {
    X86_PMU_STATIC,
    X86_PMU_PRECISE,
    X86_PMU_PINNED,
    X86_PMU_MODELS,
} X86PMUModel;

/**
 * X86PMUOptions: what the user has set. Not migrated: X86PMU.setup compares
 * the properties of both sides, and @mix is sent
 * @given: any of them
 * @model: pmu-model
 * @width: pmu-width, 0 if not given
 * @version: pmu-version, @gp: pmu-gp-counters, @fixed: pmu-fixed-counters,
 *           @counter_width: pmu-counter-width; 0 if not given
 * @metrics_ovf: pmu-metrics-ovf, 0 if not given
 * @has_mix: topdown-mix is given
 * @mix: topdown-mix in millionths; level 1 adds up to a million
 * @stream_mix: @mix in the migration stream, until it has been checked
 */
typedef struct X86PMUOptions {
    bool given;
    uint8_t model;
    uint8_t width;
    uint8_t version;
    uint8_t gp;
    uint8_t fixed;
    uint8_t counter_width;
    uint64_t metrics_ovf;
    bool has_mix;
    uint32_t mix[TOPDOWN_CATEGORIES];
    uint32_t stream_mix[TOPDOWN_CATEGORIES];
} X86PMUOptions;

#endif
