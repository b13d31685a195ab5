/*
 * Helpers for qtests of the HiSilicon PMCU
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef TESTS_QTEST_HISI_PMCU_UTIL_H
#define TESTS_QTEST_HISI_PMCU_UTIL_H

#include "hw/misc/hisi_pmcu_regs.h"
#include "libqtest.h"

#define PMCU_BASE           0x09100000ULL
#define PMCU_SPI            176
#define RAM_BASE            0x40000000ULL

/* Where the tests put event lists and records unless the place matters */
#define EVENT_BASE          (RAM_BASE + 0x100000)
#define STORE_BASE          (RAM_BASE + 0x200000)

#define CANARY              0xa5
#define MS                  1000000ULL      /* in ns */
/* How often to look for what comes soon, once a ms, on a loaded host, too */
#define PATIENCE_MS         600000
#define MS_TICKS            50000U          /* in ticks of WAIT_CNT */
#define PMCR_DRIVER         (R_PMCR_LP_MASK | R_PMCR_LC_MASK | R_PMCR_E_MASK)

/* PMUv3 event numbers and filter bits */
#define EV_SW_INCR          0x00
#define EV_INST_RETIRED     0x08
#define EV_L2D_CACHE        0x16            /* nothing that QEMU can count */
#define EV_CPU_CYCLES       0x11
#define EV_NULL             0xc000
#define FILTER_P            0x80000000
#define FILTER_U            0x40000000
#define FILTER_NSK          0x20000000
#define FILTER_NSU          0x10000000
#define FILTER_NSH          0x08000000
#define FILTER_M            0x04000000

/* What a driver writes before it triggers; see pmcu_program() */
typedef struct PmcuRun {
    unsigned ev_len;
    unsigned nr_loop;
    unsigned nr_pmu;
    uint32_t wait_cnt;
    bool comp;
    uint32_t pmcr;
    uint32_t pmccfiltr;
    uint64_t event_base;
    uint64_t store_base;
    uint64_t kill_base;
} PmcuRun;

/* One event that counts cycles, for one window of 1 ms */
#define PMCU_RUN_DEFAULT                    \
    .ev_len = 1,                            \
    .nr_loop = 1,                           \
    .nr_pmu = 1,                            \
    .wait_cnt = MS_TICKS,                   \
    .pmcr = PMCR_DRIVER,                    \
    .event_base = EVENT_BASE,               \
    .store_base = STORE_BASE,               \
    .kill_base = STORE_BASE + 0x100000

typedef struct Pmcu {
    QTestState *qts;
    uint64_t base;
    unsigned spi;
} Pmcu;

static inline uint32_t pmcu_read(const Pmcu *p, unsigned reg)
{
    return qtest_readl(p->qts, p->base + reg);
}

static inline void pmcu_write(const Pmcu *p, unsigned reg, uint32_t value)
{
    qtest_writel(p->qts, p->base + reg, value);
}

static inline unsigned pmcu_state(const Pmcu *p)
{
    return FIELD_EX32(pmcu_read(p, A_FSM_STATUS), FSM_STATUS, STATE);
}

static inline unsigned pmcu_error(const Pmcu *p)
{
    return FIELD_EX32(pmcu_read(p, A_FSM_STATUS), FSM_STATUS, ERROR);
}

static inline unsigned pmcu_stored(const Pmcu *p)
{
    return FIELD_EX32(pmcu_read(p, A_FSM_STATUS), FSM_STATUS, STORED);
}

static inline bool pmcu_irq(const Pmcu *p)
{
    return qtest_get_irq(p->qts, p->spi);
}

static inline void pmcu_trigger(const Pmcu *p)
{
    pmcu_write(p, A_FSM_CTRL, R_FSM_CTRL_TRIGGER_MASK);
}

static inline void pmcu_break(const Pmcu *p)
{
    pmcu_write(p, A_FSM_BRK, R_FSM_BRK_BRK_MASK);
}

static inline uint32_t pmcu_fsm_cfg(unsigned ev_len, unsigned nr_loop,
                                    unsigned nr_pmu)
{
    uint32_t value = 0;

    value = FIELD_DP32(value, FSM_CFG, EV_LEN, ev_len);
    value = FIELD_DP32(value, FSM_CFG, NR_LOOP, nr_loop);
    return FIELD_DP32(value, FSM_CFG, NR_PMU, nr_pmu);
}

static inline void pmcu_program(const Pmcu *p, const PmcuRun *run)
{
    pmcu_write(p, A_FSM_CFG,
               pmcu_fsm_cfg(run->ev_len, run->nr_loop, run->nr_pmu));
    pmcu_write(p, A_WAIT_CNT, run->wait_cnt);
    pmcu_write(p, A_COMP, run->comp);
    pmcu_write(p, A_PMCR, run->pmcr);
    pmcu_write(p, A_PMCCFILTR, run->pmccfiltr);
    pmcu_write(p, A_EVENT_BASE_H, run->event_base >> 32);
    pmcu_write(p, A_EVENT_BASE_L, run->event_base);
    pmcu_write(p, A_STORE_BASE_H, run->store_base >> 32);
    pmcu_write(p, A_STORE_BASE_L, run->store_base);
    pmcu_write(p, A_KILL_BASE_H, run->kill_base >> 32);
    pmcu_write(p, A_KILL_BASE_L, run->kill_base);
}

static inline void pmcu_start(const Pmcu *p, const PmcuRun *run)
{
    pmcu_program(p, run);
    pmcu_trigger(p);
}

/* Write a list of @n times the same event */
static inline void pmcu_events(const Pmcu *p, uint64_t addr, unsigned n,
                               uint32_t event)
{
    for (unsigned i = 0; i < n; i++) {
        qtest_writel(p->qts, addr + 4 * i, event);
    }
}

/* Wait until @n records have been stored. */
void pmcu_wait_stored(const Pmcu *p, unsigned n);

/*
 * CPUs that run TCG. Their firmware is a loop that calls functions for the
 * test. Each has 64 KiB: mailbox and code, and from 4096 its vectors, which
 * belong to the test, as the rest does.
 */
#define GUEST_MAILBOX(cpu)  (RAM_BASE + 0x1000000 + 0x10000 * (cpu))
#define GUEST_FN            0
#define GUEST_ARG           8
#define GUEST_RESULT        16
#define GUEST_CODE          64
#define GUEST_VECTORS(cpu)  (GUEST_MAILBOX(cpu) + 0x1000)

#define INSN_RET            0xd65f03c0
/* With a system register, as in bits 20:5 */
#define INSN_MRS_X0         0xd5200000
#define INSN_MSR_X0         0xd5000000

/* A machine with the firmware; @args say the accelerator and the CPU. */
Pmcu guest_init(const char *args);

void guest_put(const Pmcu *p, uint64_t addr, const uint32_t *code, size_t n);

/*
 * Let a CPU call a function of @n instructions: argument and result are in
 * x0, and x19 is the CPU's mailbox. guest_wait() returns the result.
 */
void guest_start(const Pmcu *p, unsigned cpu, uint64_t arg,
                 const uint32_t *code, size_t n);
uint64_t guest_wait(const Pmcu *p, unsigned cpu);
uint64_t guest_call(const Pmcu *p, unsigned cpu, uint64_t arg,
                    const uint32_t *code, size_t n);

/*
 * Called at EL2 with an address in x0: executes AArch32 code there, at EL1,
 * until an HVC. Its vector, behind the mailbox's page, is to be RET.
 */
extern const uint32_t guest_enter_a32[6];

/* Access a system register, named as in bits 20:5 of MRS and MSR */
uint64_t guest_read(const Pmcu *p, unsigned cpu, uint32_t sysreg);
void guest_write(const Pmcu *p, unsigned cpu, uint32_t sysreg,
                 uint64_t value);

/* PSCI_CPU_ON */
void guest_cpu_on(const Pmcu *p, unsigned caller, uint64_t mpidr,
                  bool have_el2);

/* The QOM path of the @nth object of a type among the machine's devices */
char *pmcu_find_device(QTestState *qts, const char *type, unsigned nth);

/* Power a CPU on or off; takes effect with the next system reset */
void pmcu_power_cpu(QTestState *qts, unsigned cpu, bool on);

/* A new disk for snapshots, in qcow2; returns the name of its file. */
char *pmcu_disk(void);

/* Migrate a machine to a file; returns the name of the file. */
char *pmcu_save(QTestState *qts);

/* Migrate the machine of a file to one with -incoming defer: does it work? */
bool pmcu_load(QTestState *qts, const char *file);

/*
 * A machine with these arguments must refuse the stream in a file, and say why
 * in one line.
 */
void pmcu_refused(const char *args, const char *file, const char *why);

/*
 * Run QEMU with arguments that it should refuse. Returns its exit status, and
 * what it printed on stderr.
 */
int pmcu_run_qemu(const char *args, char **err);

/* Does the machine take a CPU model? Newer QEMUs take few where TCG is off. */
bool pmcu_has_cpu(const char *model);

/* The device tree that a machine with these arguments has */
char *pmcu_dump_dtb(const char *machine_opts, const char *args, size_t *len);

/*
 * The value of a property of a node, by full path, of a flattened device tree;
 * NULL if there is no such node or property.
 */
const uint8_t *pmcu_dtb_prop(const char *dtb, const char *path,
                             const char *prop, uint32_t *len);

#endif
