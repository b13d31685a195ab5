/*
 * Counts of retired guest instructions, for emulated PMUs
 *
 * See insn-count.h for the contract. The first half of this file runs with
 * the guest, the second half in the translator.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "accel/tcg/insn-count.h"
#include "accel/tcg/insn-count-exit.h"
#include "accel/tcg/cpu-ops.h"
#include "exec/cpu-common.h"
#include "exec/translation-block.h"
#include "exec/translator-count.h"
#include "hw/core/cpu.h"
#include "internal-common.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "system/cpu-timers.h"
#include "system/tcg.h"
#include "tcg/tcg.h"
#include "tcg/tcg-op-common.h"
#include "tcg/tcg-temp-internal.h"

QEMU_BUILD_BUG_ON(INSN_COUNT_TB_UNITS > INSN_COUNT_MAX_UNITS);
QEMU_BUILD_BUG_ON(INSN_COUNT_MAX_UNITS + INSN_COUNT_INSN_UNITS >=
                  1 << (63 - INSN_COUNT_UNITS_SHIFT));
QEMU_BUILD_BUG_ON(CF_INSN_COUNT !=
                  INSN_COUNT_UNITS << CF_INSN_COUNT_SHIFT ||
                  INSN_COUNT_WORD(INSN_COUNT_WORDS) << CF_INSN_COUNT_SHIFT >
                  1 << CF_CLUSTER_SHIFT);

/*
 * What a budget is to last for, the least that is handed out for that, and how
 * many full ones pass before the host's clock is looked at, which takes time
 */
#define INSN_COUNT_NS           50000
#define INSN_COUNT_LEAST_UNITS  1024
#define INSN_COUNT_PACE         8

/* No target describes the start of an instruction with more words */
#define INSN_COUNT_START_WORDS  4

static const InsnCountOps *insn_count_ops(CPUState *cpu)
{
    return cpu->cc->tcg_ops->insn_count;
}

static CPUInsnCount *insn_count_state(CPUState *cpu)
{
    return (void *)cpu + insn_count_ops(cpu)->offset;
}

/* Sets of domains that can have a deadline; set 0 is empty */
static unsigned insn_count_sets(const InsnCountOps *ops)
{
    return ops->deadline ? 1 << ops->domains : 1;
}

/*
 * Words
 */

/* A unit in word 0 */
#define INSN_COUNT_UNIT         (1ULL << INSN_COUNT_UNITS_SHIFT)

/* The units in word 0, or in a sum of what is added to it */
static int64_t insn_count_units(uint64_t word)
{
    return (int64_t)word >> INSN_COUNT_UNITS_SHIFT;
}

static size_t insn_count_offset(const InsnCountOps *ops, unsigned domain,
                                unsigned word)
{
    return ops->word + domain * INSN_COUNT_DOMAIN_SIZE +
           word * sizeof(uint64_t);
}

static uint64_t insn_count_get(CPUState *cpu, unsigned domain, unsigned word)
{
    const InsnCountOps *ops = insn_count_ops(cpu);
    uint64_t *p = (void *)cpu + insn_count_offset(ops, domain, word);

    return qatomic_read__nocheck(p);
}

static void insn_count_put(CPUState *cpu, unsigned domain, unsigned word,
                           uint64_t value)
{
    const InsnCountOps *ops = insn_count_ops(cpu);
    uint64_t *p = (void *)cpu + insn_count_offset(ops, domain, word);

    *p = value;
}

/* Change what is left, but not what was used */
static void insn_count_grant(CPUState *cpu, unsigned domain, int64_t units)
{
    CPUInsnCount *c = insn_count_state(cpu);
    uint64_t word = insn_count_get(cpu, domain, 0);

    seqlock_write_begin(&c->seq);
    word += units * INSN_COUNT_UNIT;
    insn_count_put(cpu, domain, 0, word);
    c->budget[domain] += units;
    seqlock_write_end(&c->seq);
}

/*
 * With the guest
 */

bool insn_count_available(void)
{
    return tcg_enabled() && HOST_LONG_BITS == 64;
}

/*
 * Blocks that count look only at the sign of their word to see if they are to
 * exit. On the vCPU's own thread that is set by withholding all units.
 */
static void insn_count_withhold(CPUState *cpu)
{
    const InsnCountOps *ops = insn_count_ops(cpu);
    CPUInsnCount *c = insn_count_state(cpu);
    unsigned i;

    for (i = 0; i < ops->domains; i++) {
        int64_t left = insn_count_units(insn_count_get(cpu, i, 0));

        if (left >= 0) {
            insn_count_grant(cpu, i, -(left + 1));
            c->withheld[i] += left + 1;
        }
    }
}

void insn_count_exit_request(CPUState *cpu)
{
    const TCGCPUOps *tcg_ops = cpu->cc->tcg_ops;

    if (tcg_ops && tcg_ops->insn_count && qemu_cpu_is_self(cpu)) {
        insn_count_withhold(cpu);
    }
}

void insn_count_exit_done(CPUState *cpu)
{
    const InsnCountOps *ops = insn_count_ops(cpu);
    unsigned i;

    for (i = 0; ops && i < ops->domains; i++) {
        CPUInsnCount *c = insn_count_state(cpu);

        if (c->withheld[i]) {
            insn_count_grant(cpu, i, c->withheld[i]);
            c->withheld[i] = 0;
        }
    }
}

static void insn_count_use(CPUState *cpu, unsigned what)
{
    qatomic_set(&insn_count_state(cpu)->what, what);
    cpu->tcg_cflags = deposit32(cpu->tcg_cflags, CF_INSN_COUNT_SHIFT,
                                INSN_COUNT_WORDS + 1, what);
    if (cpu->cflags_next_tb != -1) {
        cpu->cflags_next_tb = deposit32(cpu->cflags_next_tb,
                                        CF_INSN_COUNT_SHIFT,
                                        INSN_COUNT_WORDS + 1, what);
    }
}

void insn_count_start(CPUState *cpu, unsigned what, bool linger)
{
    CPUInsnCount *c = insn_count_state(cpu);
    unsigned i;

    if (what) {
        what |= INSN_COUNT_UNITS;
    } else {
        for (i = 0; i < ARRAY_SIZE(c->due); i++) {
            c->due[i] = INSN_COUNT_NEVER;
        }
    }
    qatomic_set(&c->wanted, what);
    c->linger = INSN_COUNT_LINGER;
    if (what & ~c->what || (what != c->what && !linger)) {
        insn_count_use(cpu, linger ? c->what | what : what);
        /* The current block may be chained to one that counts otherwise */
        qatomic_set(&cpu->neg.icount_decr.u16.high, -1);
        insn_count_withhold(cpu);
    }
}

static void insn_count_empty(CPUState *cpu, unsigned domain,
                             const uint64_t *ahead)
{
    const InsnCountOps *ops = insn_count_ops(cpu);
    CPUInsnCount *c = insn_count_state(cpu);
    uint64_t now[INSN_COUNT_WORDS];
    int64_t left, used;
    unsigned i;

    now[0] = insn_count_get(cpu, domain, 0) - ahead[0];
    left = insn_count_units(now[0]);
    used = c->budget[domain] - left;
    if (!used) {
        /* Every instruction uses some, so there was none */
        return;
    }
    for (i = 1; i < INSN_COUNT_WORDS; i++) {
        now[i] = insn_count_get(cpu, domain, i) - ahead[i];
    }

    seqlock_write_begin(&c->seq);
    c->budget[domain] = left;
    c->linger -= used;
    c->spent += used;

    for (i = 0; i < ops->lanes; i++) {
        const InsnCountLane *l = &ops->lane[i];

        if (i == ops->units) {
            c->total[domain][i] += used;
        } else if (now[l->word]) {
            c->total[domain][i] += extract64(now[l->word], l->shift, l->bits);
        }
    }
    insn_count_put(cpu, domain, 0, left * INSN_COUNT_UNIT + ahead[0]);
    for (i = 1; i < INSN_COUNT_WORDS; i++) {
        insn_count_put(cpu, domain, i, ahead[i]);
    }
    seqlock_write_end(&c->seq);

    for (i = 1; i < insn_count_sets(ops); i++) {
        if ((i & (1 << domain)) && c->due[i] != INSN_COUNT_NEVER) {
            c->due[i] -= used;
        }
    }
}

void insn_count_sync(CPUState *cpu, uintptr_t ra)
{
    static const uint64_t none[INSN_COUNT_WORDS];
    const InsnCountOps *ops = insn_count_ops(cpu);
    uint64_t ahead[INSN_COUNT_WORDS];
    int current = -1;
    unsigned i;

    if (ra) {
        current = insn_count_ahead(ra, ahead);
    }
    for (i = 0; i < ops->domains; i++) {
        insn_count_empty(cpu, i, i == current ? ahead : none);
    }
}

/* What the words add to a total; the caller holds off writers by @seq */
static uint64_t insn_count_more(CPUState *cpu, unsigned domain, unsigned lane)
{
    const InsnCountOps *ops = insn_count_ops(cpu);
    const InsnCountLane *l = &ops->lane[lane];

    if (lane == ops->units) {
        return qatomic_read__nocheck(&insn_count_state(cpu)->budget[domain]) -
               insn_count_units(insn_count_get(cpu, domain, 0));
    }
    return extract64(insn_count_get(cpu, domain, l->word), l->shift, l->bits);
}

static uint64_t insn_count_sum(CPUState *cpu)
{
    unsigned domains = insn_count_ops(cpu)->domains;
    CPUInsnCount *c = insn_count_state(cpu);
    unsigned i, seq;
    uint64_t sum;

    do {
        seq = seqlock_read_begin(&c->seq);
        for (i = 0, sum = 0; i < domains; i++) {
            sum += qatomic_read__nocheck(&c->total[i][0]);
            sum += insn_count_more(cpu, i, 0);
        }
    } while (seqlock_read_retry(&c->seq, seq));
    return sum;
}

uint64_t insn_count_read(CPUState *cpu)
{
    CPUInsnCount *c = insn_count_state(cpu);
    uint64_t sum = insn_count_sum(cpu);

    g_assert(bql_locked());
    if (cpu->created && !qemu_cpu_is_self(cpu) && qatomic_read(&c->what)) {
        /*
         * Without the BQL the vCPU can start to execute at most once, and
         * stop. So if it is not executing now, and the sum is the same before
         * and behind this look, one of them was taken while it was not.
         */
        smp_rmb();
        if (qatomic_read(&cpu->running) || insn_count_sum(cpu) != sum) {
            /* The current block is in it, but may fail to end */
            sum -= MIN(sum, TCG_MAX_INSNS);
        }
    }
    c->shown = MAX(c->shown, sum);
    return c->shown;
}

uint64_t insn_count_peek(CPUState *cpu, unsigned domain, unsigned lane)
{
    CPUInsnCount *c = insn_count_state(cpu);
    uint64_t sum;
    unsigned seq;

    do {
        seq = seqlock_read_begin(&c->seq);
        sum = qatomic_read__nocheck(&c->total[domain][lane]);
        sum += insn_count_more(cpu, domain, lane);
    } while (seqlock_read_retry(&c->seq, seq));
    return sum;
}

/* How many units may be counted in @domain before a deadline is reached? */
static int64_t insn_count_left(CPUState *cpu, const int64_t *due,
                               unsigned domain)
{
    const InsnCountOps *ops = insn_count_ops(cpu);
    int64_t units = INSN_COUNT_NEVER;
    unsigned m;

    for (m = 1; m < insn_count_sets(ops); m++) {
        if (m & (1 << domain)) {
            units = MIN(units, due[m]);
        }
    }
    return units;
}

static int64_t insn_count_limit(CPUState *cpu)
{
    return insn_count_state(cpu)->limit ?: INSN_COUNT_MAX_UNITS;
}

/*
 * Hand out budgets so that no deadline can be missed: for each set of
 * domains, all of them together get at most the units that are due. The
 * current domain comes first, and gets at least @min units.
 */
static void insn_count_hand_out(CPUState *cpu, unsigned domain, int64_t min)
{
    const InsnCountOps *ops = insn_count_ops(cpu);
    CPUInsnCount *c = insn_count_state(cpu);
    int64_t due[1 << INSN_COUNT_DOMAINS];
    unsigned i, m;

    memcpy(due, c->due, sizeof(due));
    for (i = 0; i < ops->domains; i++) {
        /* The current domain first, then the others */
        unsigned d = i == 0 ? domain : i <= domain ? i - 1 : i;
        int64_t units = MIN(c->most ?: insn_count_limit(cpu),
                            insn_count_left(cpu, due, d));

        units = MAX(units, d == domain ? min : 0);
        for (m = 1; m < insn_count_sets(ops); m++) {
            if ((m & (1 << d)) && due[m] != INSN_COUNT_NEVER) {
                due[m] -= units;
            }
        }
        insn_count_grant(cpu, d, units - c->budget[d]);
        c->withheld[d] = 0;
    }
    if (cpu_loop_exit_requested(cpu)) {
        insn_count_withhold(cpu);
    }
}

void insn_count_set_due(CPUState *cpu, unsigned domain, const int64_t *due)
{
    CPUInsnCount *c = insn_count_state(cpu);

    memcpy(c->due, due, sizeof(c->due));
    insn_count_hand_out(cpu, domain, 0);
}

/*
 * Call the hook if a deadline of some domains (a bit mask) has been reached.
 * When another one's units run out, depends on the host's time. @ends: the
 * next instruction ends its block.
 */
static void insn_count_check(CPUState *cpu, unsigned domains, bool ends)
{
    const InsnCountOps *ops = insn_count_ops(cpu);
    CPUInsnCount *c = insn_count_state(cpu);
    unsigned i;

    insn_count_sync(cpu, 0);
    for (i = 1; i < insn_count_sets(ops); i++) {
        if ((i & domains) && c->due[i] <= 0) {
            ops->deadline(cpu, ends);
            break;
        }
    }
}

void insn_count_leave(CPUState *cpu)
{
    if (insn_count_ops(cpu) && insn_count_state(cpu)->what) {
        insn_count_check(cpu, MAKE_64BIT_MASK(0, INSN_COUNT_DOMAINS),
                         cpu->halted);
    }
}

/* What the first n instructions of @tb add when it starts, for each n */
static void insn_count_of_tb(TranslationBlock *tb,
                             uint64_t (*sum)[INSN_COUNT_WORDS])
{
    const uint8_t *p = tb->tc.ptr + tb->tc.size;
    uint64_t all[INSN_COUNT_WORDS] = { }, ahead[INSN_COUNT_WORDS] = { };
    unsigned i, j;

    for (i = 0; i < tb->icount; i++) {
        for (j = 0; j < tcg_ctx->insn_start_words; j++) {
            decode_sleb128(&p);
        }
        insn_count_decode(tb, &p, ahead);
        decode_sleb128(&p);
        if (i == 0) {
            memcpy(all, ahead, sizeof(all));
        }
        for (j = 0; j < INSN_COUNT_WORDS; j++) {
            sum[i][j] = all[j] - ahead[j];
        }
    }
    memcpy(sum[tb->icount], all, sizeof(all));
}

/*
 * Does it matter that a deadline is within insns of @tb that add @sum? @ends:
 * the one behind them ends it.
 */
static bool insn_count_reaches(CPUState *cpu, TranslationBlock *tb,
                               const uint64_t *sum, bool ends)
{
    const InsnCountOps *ops = insn_count_ops(cpu);
    uint64_t lanes[INSN_COUNT_LANES];
    unsigned i;

    if (!ops->reaches) {
        return insn_count_left(cpu, insn_count_state(cpu)->due,
                               tb->count_domain) <= -insn_count_units(sum[0]);
    }
    for (i = 0; i < ops->lanes; i++) {
        const InsnCountLane *l = &ops->lane[i];

        lanes[i] = i == ops->units ? -insn_count_units(sum[0])
                                   : extract64(sum[l->word], l->shift, l->bits);
    }
    return ops->reaches(cpu, tb->count_domain, lanes, ends);
}

/*
 * How many instructions of @tb may be executed together, if a deadline must
 * not be missed behind the last one? They use up @units.
 */
static unsigned insn_count_until(CPUState *cpu, TranslationBlock *tb,
                                 int64_t *units)
{
    CPUInsnCount *c = insn_count_state(cpu);
    g_autofree uint64_t (*sum)[INSN_COUNT_WORDS] = NULL;
    unsigned before = 0, reached = tb->icount;

    *units = tb->count_units;
    if (!c->what ||
        insn_count_left(cpu, c->due, tb->count_domain) >= tb->count_units) {
        return tb->icount;
    }
    sum = g_malloc_n(tb->icount + 1, sizeof(*sum));
    insn_count_of_tb(tb, sum);
    if (tb->count_ends && reached > 1 &&
        insn_count_reaches(cpu, tb, sum[reached - 1], true)) {
        reached--;
    } else if (!insn_count_reaches(cpu, tb, sum[reached], false)) {
        return tb->icount;
    }
    while (reached - before > 1) {
        unsigned n = (before + reached) / 2;

        if (insn_count_reaches(cpu, tb, sum[n], false)) {
            reached = n;
        } else {
            before = n;
        }
    }
    *units = -insn_count_units(sum[reached][0]);
    return reached;
}

/*
 * Nobody is to wait for long until a request to exit is seen: choose smaller
 * budgets while the guest does what takes long to emulate.
 */
static void insn_count_pace(CPUState *cpu)
{
    CPUInsnCount *c = insn_count_state(cpu);
    int64_t limit = insn_count_limit(cpu);
    int64_t now, most;

    if (c->most == limit && c->spent < INSN_COUNT_PACE * limit) {
        return;
    }
    now = get_clock();
    most = c->spent * INSN_COUNT_NS / MAX(now - c->paced, 1);
    most = MAX(most, INSN_COUNT_LEAST_UNITS);
    c->most = MIN(most, limit);
    c->spent = 0;
    c->paced = now;
}

bool insn_count_expired(CPUState *cpu, TranslationBlock *tb)
{
    CPUInsnCount *c;
    unsigned insns;
    int64_t units;

    if (!(tb_cflags(tb) & CF_INSN_COUNT)) {
        return false;
    }
    c = insn_count_state(cpu);
    if (insn_count_units(insn_count_get(cpu, tb->count_domain, 0)) >=
        tb->count_units) {
        return false;
    }

    insn_count_check(cpu, 1 << tb->count_domain,
                     tb->count_ends && tb->icount == 1);
    if (!icount_enabled()) {
        insn_count_pace(cpu);
    }
    if (c->what != c->wanted && c->linger < 0) {
        insn_count_use(cpu, c->wanted);
    }
    /*
     * Where blocks end depends on more than the guest's instructions (on
     * interrupts, on the budget of -icount), and differs in a replay, so this
     * one ends where a deadline must be seen. That may need more units than
     * are left.
     */
    insns = insn_count_until(cpu, tb, &units);
    if (insns < tb->icount || (tb_cflags(tb) & CF_COUNT_MASK)) {
        cpu->cflags_next_tb = (curr_cflags(cpu) & ~CF_COUNT_MASK) | insns;
    }
    insn_count_hand_out(cpu, tb->count_domain, units);
    return true;
}

bool insn_count_resumes(CPUState *cpu, TranslationBlock *tb)
{
    return !cpu_loop_exit_requested(cpu) && cpu->cflags_next_tb == -1 &&
           cpu->exception_index == -1 && curr_cflags(cpu) == tb_cflags(tb);
}

void insn_count_unwind(CPUState *cpu, TranslationBlock *tb,
                       const uint64_t *ahead)
{
    CPUInsnCount *c = insn_count_state(cpu);
    unsigned d = tb->count_domain;
    int64_t left, until, over;
    unsigned i;

    for (i = 0; i < INSN_COUNT_WORDS; i++) {
        insn_count_put(cpu, d, i, insn_count_get(cpu, d, i) - ahead[i]);
    }
    /* Units for what was to reach a deadline are not for other blocks */
    left = insn_count_units(insn_count_get(cpu, d, 0));
    until = insn_count_left(cpu, c->due, d) - (c->budget[d] - left);
    over = left + c->withheld[d] - MAX(until, 0);
    if (over > 0) {
        int64_t withheld = MIN(over, c->withheld[d]);

        c->withheld[d] -= withheld;
        insn_count_grant(cpu, d, withheld - over);
    }
    if (cpu_loop_exit_requested(cpu)) {
        insn_count_withhold(cpu);
    }
}

int insn_count_ahead(uintptr_t host_pc, uint64_t *count)
{
    uint64_t data[INSN_COUNT_START_WORDS];

    if (in_code_gen_buffer((const void *)(host_pc - tcg_splitwx_diff))) {
        TranslationBlock *tb = tcg_tb_lookup(host_pc);

        tcg_debug_assert(tcg_ctx->insn_start_words <= ARRAY_SIZE(data));
        if (tb && (tb_cflags(tb) & CF_INSN_COUNT) &&
            cpu_unwind_data_from_tb(tb, host_pc, data, count) >= 0) {
            return tb->count_domain;
        }
    }
    return -1;
}


/*
 * In the translator
 */

/*
 * One for each thread that translates
 * @insn: what the instructions of the block add
 * @add: the addition for each word; the load and the store are next to it
 * @check: where the block looks for a request to exit, behind the load; NULL
 *         if it is to stay, or there is none
 * @units: what the instructions until now use up
 */
typedef struct InsnCountGen {
    uint64_t insn[TCG_MAX_INSNS][INSN_COUNT_WORDS];
    TCGOp *add[INSN_COUNT_WORDS];
    TCGOp *check;
    unsigned units;
} InsnCountGen;

static __thread InsnCountGen *gen;

static const InsnCountOps *insn_count_gen_ops(void)
{
    return insn_count_ops(tcg_ctx->cpu);
}

bool translator_counts(const DisasContextBase *db)
{
    return tb_cflags(db->tb) & CF_INSN_COUNT;
}

bool translator_counts_lanes(const DisasContextBase *db, unsigned word)
{
    return tb_cflags(db->tb) & (INSN_COUNT_WORD(word) << CF_INSN_COUNT_SHIFT);
}

/* Does @tb have an addition to this word? */
static bool insn_count_adds(const TranslationBlock *tb, unsigned word)
{
    return tb_cflags(tb) &
           (word ? INSN_COUNT_WORD(word) << CF_INSN_COUNT_SHIFT
                 : CF_INSN_COUNT);
}

/* What an instruction adds to word 0 for itself, if it is so many units */
static uint64_t insn_count_of_insn(const DisasContextBase *db, unsigned units)
{
    bool lane_0 = insn_count_gen_ops()->units && translator_counts_lanes(db, 0);

    return lane_0 - units * INSN_COUNT_UNIT;
}

static uint64_t *insn_count_of(const DisasContextBase *db)
{
    return gen->insn[db->num_insns - 1];
}

void translator_count_domain(const DisasContextBase *db, unsigned domain)
{
    db->tb->count_domain = domain;
}

void translator_insn_counts(DisasContextBase *db, unsigned units,
                            const uint64_t *lanes)
{
    uint64_t *insn = insn_count_of(db);
    unsigned i;

    tcg_debug_assert(units >= 1 && units <= INSN_COUNT_INSN_UNITS);
    if (!insn[0]) {
        /* It does not retire */
        return;
    }
    for (i = 0; i < INSN_COUNT_WORDS; i++) {
        insn[i] = translator_counts_lanes(db, i) ? lanes[i] : 0;
    }
    insn[0] += insn_count_of_insn(db, units);
    gen->units += units;
    if (gen->units > INSN_COUNT_TB_UNITS - INSN_COUNT_INSN_UNITS) {
        /* There might not be room for another one */
        db->max_insns = db->num_insns;
    }
}

void translator_insn_not_retired(const DisasContextBase *db)
{
    if (translator_counts(db)) {
        memset(insn_count_of(db), 0, sizeof(gen->insn[0]));
    }
}

/*
 * Add to a word, or to the upper half of word 0. The addition, which is
 * returned, has a load in front of it, and a store behind it.
 */
static TCGOp *insn_count_gen(const DisasContextBase *db, unsigned word,
                             uint64_t value, TCGLabel *if_negative)
{
    const InsnCountOps *ops = insn_count_gen_ops();
    /* CPUArchState follows CPUState */
    intptr_t at = insn_count_offset(ops, db->tb->count_domain, word) -
                  sizeof(CPUState);
    TCGOp *add;

    if (!translator_counts_lanes(db, word)) {
        TCGv_i32 t = tcg_temp_ebb_new_i32();

        at += HOST_BIG_ENDIAN ? 0 : 4;
        tcg_gen_ld_i32(t, tcg_env, at);
        tcg_gen_add_i32(t, t, tcg_constant_i32(value >> 32));
        add = tcg_last_op();
        if (if_negative) {
            tcg_gen_brcondi_i32(TCG_COND_LT, t, 0, if_negative);
        }
        tcg_gen_st_i32(t, tcg_env, at);
        tcg_temp_free_i32(t);
    } else {
        TCGv_i64 t = tcg_temp_ebb_new_i64();

        tcg_gen_ld_i64(t, tcg_env, at);
        tcg_gen_add_i64(t, t, tcg_constant_i64(value));
        add = tcg_last_op();
        if (if_negative) {
            tcg_gen_brcondi_i64(TCG_COND_LT, t, 0, if_negative);
        }
        tcg_gen_st_i64(t, tcg_env, at);
        tcg_temp_free_i64(t);
    }
    return add;
}

void translator_count_here(const DisasContextBase *db, unsigned word,
                           uint64_t lanes)
{
    if (translator_counts_lanes(db, word)) {
        insn_count_gen(db, word, lanes, NULL);
    }
}

void translator_insn_again(const DisasContextBase *db)
{
    unsigned i;

    for (i = 0; i < INSN_COUNT_WORDS; i++) {
        if (insn_count_adds(db->tb, i)) {
            insn_count_gen(db, i, -insn_count_of(db)[i], NULL);
            /* This can go on for ever without using up units */
            gen->check = NULL;
        }
    }
}

void insn_count_start_tb(const DisasContextBase *db)
{
    db->tb->count_domain = 0;
    db->tb->count_units = 0;
    if (translator_counts(db)) {
        if (!gen) {
            gen = g_new(InsnCountGen, 1);
        }
        gen->units = 0;
    }
}

/*
 * Add what the block counts, which becomes known only at its end. If that
 * would use up more units than there are, exit before anything is changed:
 * the main loop calls insn_count_expired(), then starts the block again.
 * Blocks that must not be interrupted are allowed to overdraw. With -icount,
 * the check in front of this one is needed for the budget of that.
 */
void insn_count_gen_add(const DisasContextBase *db)
{
    unsigned i;

    if (translator_counts(db)) {
        gen->check = tcg_ctx->exitreq_label &&
                     !(tb_cflags(db->tb) & CF_USE_ICOUNT) ? tcg_last_op()
                                                          : NULL;
    }
    for (i = 0; i < INSN_COUNT_WORDS; i++) {
        if (insn_count_adds(db->tb, i)) {
            gen->add[i] = insn_count_gen(db, i, 0,
                                         i ? NULL : tcg_ctx->exitreq_label);
        }
    }
}

void insn_count_start_insn(const DisasContextBase *db)
{
    if (translator_counts(db)) {
        uint64_t *insn = insn_count_of(db);

        memset(insn, 0, sizeof(gen->insn[0]));
        insn[0] = insn_count_of_insn(db, 1);
    }
}

/* Put in what an addition adds, or leave it out if that is nothing. */
static void insn_count_set(const DisasContextBase *db, unsigned word,
                           uint64_t sum)
{
    TCGOp *add = gen->add[word];

    if (word > 0 && !sum) {
        tcg_op_remove(tcg_ctx, QTAILQ_PREV(add, link));
        tcg_op_remove(tcg_ctx, QTAILQ_NEXT(add, link));
        tcg_op_remove(tcg_ctx, add);
    } else if (translator_counts_lanes(db, word)) {
        tcg_set_insn_param(add, 2, tcgv_i64_arg(tcg_constant_i64(sum)));
    } else {
        tcg_set_insn_param(add, 2, tcgv_i32_arg(tcg_constant_i32(sum >> 32)));
    }
}

void insn_count_end_tb(const DisasContextBase *db)
{
    unsigned i;
    int n;

    if (translator_counts(db) && gen->check) {
        tcg_op_remove(tcg_ctx, QTAILQ_PREV(gen->check, link));
        tcg_op_remove(tcg_ctx, gen->check);
    }
    for (i = 0; i < INSN_COUNT_WORDS; i++) {
        if (insn_count_adds(db->tb, i)) {
            uint64_t sum = 0;

            /* Leave in each place the sum from there to the end */
            for (n = db->num_insns - 1; n >= 0; n--) {
                sum += gen->insn[n][i];
                gen->insn[n][i] = sum;
            }
            insn_count_set(db, i, sum);
            if (i == 0) {
                db->tb->count_units = -insn_count_units(sum);
            }
        }
    }
}

uint8_t *insn_count_encode(const TranslationBlock *tb, int insn, uint8_t *p)
{
    int i;

    if (!(tb_cflags(tb) & CF_INSN_COUNT)) {
        return p;
    }
    for (i = 0; i < INSN_COUNT_WORDS; i++) {
        if (insn_count_adds(tb, i)) {
            uint64_t prev = insn > 0 ? gen->insn[insn - 1][i] : 0;
            uint64_t more = gen->insn[insn][i] - prev;
            int64_t low = sextract64(more, 0, INSN_COUNT_UNITS_SHIFT);

            p = encode_sleb128(p, (int64_t)(more - low) >>
                                  INSN_COUNT_UNITS_SHIFT);
            p = encode_sleb128(p, low);
        }
    }
    return p;
}

void insn_count_decode(const TranslationBlock *tb, const uint8_t **pp,
                       uint64_t *count)
{
    int i;

    if (!(tb_cflags(tb) & CF_INSN_COUNT)) {
        return;
    }
    for (i = 0; i < INSN_COUNT_WORDS; i++) {
        if (insn_count_adds(tb, i)) {
            count[i] += (uint64_t)decode_sleb128(pp) << INSN_COUNT_UNITS_SHIFT;
            count[i] += decode_sleb128(pp);
        }
    }
}
