/*
 * Counts of retired guest instructions, for emulated PMUs: the run time
 *
 * See insn-count.h for the model. insn-count-translate.c is the part that
 * belongs to the translator.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "insn-count-internal.h"
#include "exec/cpu-common.h"
#include "internal-common.h"
#include "qemu/main-loop.h"
#include "qemu/pmu-compat.h"
#include "system/replay.h"
#include "system/tcg.h"
#include "tcg/tcg.h"

QEMU_BUILD_BUG_ON(INSN_COUNT_TB_UNITS > INSN_COUNT_MAX_UNITS);
QEMU_BUILD_BUG_ON(INSN_COUNT_MAX_UNITS + INSN_COUNT_INSN_UNITS >=
                  1 << (63 - INSN_COUNT_UNITS_SHIFT));
QEMU_BUILD_BUG_ON(CF_INSN_COUNT * (2u << INSN_COUNT_WORD_BITS) >
                  1 << CF_CLUSTER_SHIFT);

/* For how many units blocks may go on to count what is no longer wanted */
#define INSN_COUNT_LINGER       (1 << 18)

/* More units than a vCPU uses while another thread copies its words */
#define INSN_COUNT_MOMENT       (4 * TCG_MAX_INSNS)

/* No target describes the start of an instruction with more data */
#define INSN_COUNT_START_WORDS  4

static const uint64_t nothing_ahead[INSN_COUNT_WORDS];

static CPUInsnCount *insn_count_state(CPUState *cpu)
{
    return (void *)cpu + insn_count_ops(cpu)->offset;
}

/* Number of sets of domains that can have a deadline, with the empty set */
static unsigned insn_count_sets(const InsnCountOps *ops)
{
    return ops->deadline ? 1 << ops->domains : 1;
}

static uint64_t *insn_count_word(CPUState *cpu, unsigned domain, unsigned word)
{
    return (void *)cpu + insn_count_offset(insn_count_ops(cpu), domain, word);
}

static uint64_t insn_count_get(CPUState *cpu, unsigned domain, unsigned word)
{
    return qatomic_read_u64(insn_count_word(cpu, domain, word));
}

/* Other threads read the words, @budget, and @total at any time. */
static void insn_count_set(CPUState *cpu, unsigned domain, unsigned word,
                           uint64_t value)
{
    qatomic_set_u64(insn_count_word(cpu, domain, word), value);
}

/* The domain of the next instruction */
static unsigned insn_count_domain(CPUState *cpu)
{
    const InsnCountOps *ops = insn_count_ops(cpu);

    return ops->domain ? ops->domain(cpu) : 0;
}

static void insn_count_set_budget(CPUInsnCount *c, unsigned domain,
                                  int64_t units)
{
    qatomic_set_i64(&c->budget[domain], units);
}

static void insn_count_add_total(CPUInsnCount *c, unsigned domain,
                                 unsigned lane, uint64_t more)
{
    qatomic_set_u64(&c->total[domain][lane], c->total[domain][lane] + more);
}

/* @units of @domain are used, and so no longer due in any set that has it */
static void insn_count_use_due(CPUInsnCount *c, int64_t *due, unsigned domain,
                               int64_t units)
{
    uint32_t sets;

    for (sets = c->due_sets; sets; sets &= sets - 1) {
        if (ctz32(sets) & (1 << domain)) {
            due[ctz32(sets)] -= units;
        }
    }
}

bool insn_count_available(void)
{
    return tcg_enabled() && HOST_LONG_BITS == 64;
}

/*
 * Choosing what blocks count
 */

static void insn_count_set_cflags(CPUState *cpu, unsigned counted)
{
    qatomic_set(&insn_count_state(cpu)->counted, counted);
    cpu->tcg_cflags = deposit32(cpu->tcg_cflags, CF_INSN_COUNT_SHIFT,
                                INSN_COUNT_WORD_BITS + 1, counted);
    if (cpu->cflags_next_tb != -1) {
        cpu->cflags_next_tb = deposit32(cpu->cflags_next_tb,
                                        CF_INSN_COUNT_SHIFT,
                                        INSN_COUNT_WORD_BITS + 1, counted);
    }
}

void insn_count_enable(CPUState *cpu, unsigned counted, bool linger)
{
    CPUInsnCount *c = insn_count_state(cpu);
    unsigned i;

    if (counted) {
        counted |= INSN_COUNT_UNITS;
    } else {
        for (i = 0; i < ARRAY_SIZE(c->due); i++) {
            c->due[i] = INSN_COUNT_NEVER;
        }
        c->due_sets = 0;
    }
    qatomic_set(&c->wanted, counted);
    c->linger = INSN_COUNT_LINGER;
    if (counted & ~c->counted || (counted != c->counted && !linger)) {
        insn_count_set_cflags(cpu, linger ? c->counted | counted : counted);
        /* The current block may be chained to one that counts otherwise */
        qatomic_set(&cpu->neg.icount_decr.u16.high, -1);
    }
}

/*
 * Totals
 */

/* Add what the words of a domain hold to its totals, except @ahead */
static void insn_count_fold_words(CPUState *cpu, unsigned domain,
                                  const uint64_t *ahead)
{
    const InsnCountOps *ops = insn_count_ops(cpu);
    CPUInsnCount *c = insn_count_state(cpu);
    uint64_t now[INSN_COUNT_WORDS];
    int64_t left, used;
    bool reached = false;
    unsigned i;

    now[0] = insn_count_get(cpu, domain, 0) - ahead[0];
    left = insn_count_units(now[0]);
    used = c->budget[domain] - left;
    if (!used) {
        /* Every instruction uses units, so there was none */
        return;
    }
    for (i = 1; i < ops->words; i++) {
        now[i] = insn_count_get(cpu, domain, i) - ahead[i];
        reached |= now[i] && (c->due_words & 1 << i);
    }

    seqlock_write_begin(&c->seq);
    insn_count_set_budget(c, domain, left);
    c->linger -= used;
    for (i = 0; i < ops->lanes; i++) {
        const InsnCountLane *l = &ops->lane[i];

        if (i == ops->units_lane) {
            insn_count_add_total(c, domain, i, used);
        } else if (now[l->word]) {
            insn_count_add_total(c, domain, i,
                                 extract64(now[l->word], l->shift, l->bits));
        }
    }
    insn_count_set(cpu, domain, 0, left * INSN_COUNT_UNIT + ahead[0]);
    for (i = 1; i < ops->words; i++) {
        insn_count_set(cpu, domain, i, ahead[i]);
    }
    seqlock_write_end(&c->seq);

    insn_count_use_due(c, c->due, domain, used);
    /* If an event of @due_words may have occurred, the hook must look next. */
    c->due_any = reached ? 0 : c->due_any - used;
}

void insn_count_sync(CPUState *cpu, uintptr_t ra)
{
    const InsnCountOps *ops = insn_count_ops(cpu);
    uint64_t ahead[INSN_COUNT_WORDS];
    int current = ra ? insn_count_ahead(ra, ahead) : -1;
    unsigned i;

    for (i = 0; i < ops->domains; i++) {
        insn_count_fold_words(cpu, i, i == current ? ahead : nothing_ahead);
    }
}

/* What @words, a copy of a domain's words, add to the total of a lane */
static uint64_t insn_count_in_words(CPUState *cpu, unsigned domain,
                                    const uint64_t *words, unsigned lane)
{
    const InsnCountOps *ops = insn_count_ops(cpu);
    const InsnCountLane *l = &ops->lane[lane];

    if (lane == ops->units_lane) {
        return qatomic_read_i64(&insn_count_state(cpu)->budget[domain]) -
               insn_count_units(words[0]);
    }
    return extract64(words[l->word], l->shift, l->bits);
}

/*
 * Blocks add to the words at any time: copy these at once, and again if the
 * host has let this thread wait meanwhile, so that the totals are of one
 * moment.
 *
 * While we hold the BQL, the vCPU can start to execute at most once, and stop.
 * So if it is not executing between two looks at the words that are equal, one
 * of them was taken while it was not executing. A domain that the vCPU was in
 * between the two, and in which it has ended a block early, has changed (on a
 * host that keeps stores in order).
 */
unsigned insn_count_peek(CPUState *cpu, uint32_t lanes,
                         uint64_t (*total)[INSN_COUNT_LANES])
{
    const InsnCountOps *ops = insn_count_ops(cpu);
    CPUInsnCount *c = insn_count_state(cpu);
    bool counted = qatomic_load_acquire(&c->counted), executes;
    uint64_t words[INSN_COUNT_DOMAINS][INSN_COUNT_WORDS];
    unsigned i, w, seq, current, changed, looks = 0;
    int64_t meanwhile;
    uint32_t l;

    do {
        seq = seqlock_read_begin(&c->seq);
        current = 1 << insn_count_domain(cpu);
        smp_rmb();      /* the domain before its words */
        for (i = 0; i < ops->domains; i++) {
            words[i][0] = insn_count_get(cpu, i, 0);
            /* Events that subtract lanes of later words must not be too high */
            smp_rmb();
            for (w = 1; w < ops->words; w++) {
                words[i][w] = insn_count_get(cpu, i, w);
            }
        }
        smp_rmb();      /* the first look before the state */
        current |= 1 << insn_count_domain(cpu);
        executes = qatomic_read(&cpu->running);
        smp_rmb();      /* the state before the second look */
        for (i = 0, meanwhile = 0, changed = 0; i < ops->domains; i++) {
            meanwhile += insn_count_units(words[i][0]) -
                         insn_count_units(insn_count_get(cpu, i, 0));
            for (w = 0; w < ops->words; w++) {
                if (words[i][w] != insn_count_get(cpu, i, w)) {
                    changed |= 1 << i;
                }
            }
        }
        for (l = lanes; l; l &= l - 1) {
            unsigned lane = ctz32(l);

            for (i = 0; i < ops->domains; i++) {
                total[i][lane] = qatomic_read_u64(&c->total[i][lane]) +
                                 insn_count_in_words(cpu, i, words[i], lane);
            }
        }
    } while (seqlock_read_retry(&c->seq, seq) ||
             (meanwhile > INSN_COUNT_MOMENT && ++looks < 10));

    if (!cpu->created || qemu_cpu_is_self(cpu) || !counted ||
        (!executes && !changed)) {
        return 0;
    }
    return current | changed;
}

bool insn_count_read(CPUState *cpu, uint32_t lanes, uint64_t *total)
{
    uint64_t of[INSN_COUNT_DOMAINS][INSN_COUNT_LANES];
    unsigned i, unsure;

    g_assert(bql_locked());
    unsure = insn_count_peek(cpu, lanes, of);
    for (; lanes; lanes &= lanes - 1) {
        unsigned lane = ctz32(lanes);

        total[lane] = 0;
        for (i = 0; i < insn_count_ops(cpu)->domains; i++) {
            total[lane] += of[i][lane];
        }
    }
    return !unsure;
}

void insn_count_run_on_cpu(CPUState *cpu, run_on_cpu_func func,
                           run_on_cpu_data data)
{
    bool replay = replay_mode != REPLAY_MODE_NONE && !qemu_cpu_is_self(cpu);

    if (replay) {
        replay_mutex_unlock();
    }
    run_on_cpu(cpu, func, data);
    if (replay) {
        /* The BQL is the inner lock. */
        bql_unlock();
        replay_mutex_lock();
        bql_lock();
    }
}

/*
 * Deadlines and budgets
 */

/* How many units may be counted in @domain before a deadline is reached? */
static int64_t insn_count_until_deadline(CPUState *cpu, const int64_t *due,
                                         unsigned domain)
{
    uint32_t sets = insn_count_state(cpu)->due_sets;
    int64_t units = INSN_COUNT_NEVER;

    for (; sets; sets &= sets - 1) {
        if (ctz32(sets) & (1 << domain)) {
            units = MIN(units, due[ctz32(sets)]);
        }
    }
    return units;
}

/* Change the units that are left in word 0; what has been used stays */
static void insn_count_add_budget(CPUState *cpu, unsigned domain, int64_t units)
{
    CPUInsnCount *c = insn_count_state(cpu);
    uint64_t word = insn_count_get(cpu, domain, 0);

    seqlock_write_begin(&c->seq);
    insn_count_set(cpu, domain, 0, word + units * INSN_COUNT_UNIT);
    insn_count_set_budget(c, domain, c->budget[domain] + units);
    seqlock_write_end(&c->seq);
}

/*
 * Hand out budgets so that no deadline can be missed: for each set of
 * domains, all of them together get at most the units that are due. The
 * current domain comes first, and gets at least @least units.
 */
static void insn_count_hand_out_budgets(CPUState *cpu, unsigned domain,
                                        int64_t least)
{
    const InsnCountOps *ops = insn_count_ops(cpu);
    CPUInsnCount *c = insn_count_state(cpu);
    int64_t due[1 << INSN_COUNT_DOMAINS];
    unsigned i;

    memcpy(due, c->due, sizeof(due));
    for (i = 0; i < ops->domains; i++) {
        /* The current domain first, then the others */
        unsigned d = i == 0 ? domain : i <= domain ? i - 1 : i;
        int64_t units = MIN(c->limit ?: INSN_COUNT_MAX_UNITS,
                            insn_count_until_deadline(cpu, due, d));

        if (d == domain) {
            c->excess = least > units;
            units = MAX(units, least);
        }
        insn_count_use_due(c, due, d, units);
        insn_count_add_budget(cpu, d, units - c->budget[d]);
    }
}

void insn_count_set_deadlines(CPUState *cpu, unsigned domain,
                              const int64_t *due)
{
    CPUInsnCount *c = insn_count_state(cpu);
    unsigned set;

    memcpy(c->due, due, sizeof(c->due));
    c->due_sets = 0;
    for (set = 1; set < insn_count_sets(insn_count_ops(cpu)); set++) {
        if (due[set] != INSN_COUNT_NEVER) {
            c->due_sets |= 1u << set;
        }
    }
    insn_count_hand_out_budgets(cpu, domain, 0);
}

/*
 * Call the hook if a deadline of one of @domains (a bit mask) is reached. Those
 * of other domains wait until these execute again: when a budget of this one
 * expires depends on host time.
 */
static void insn_count_check_deadlines(CPUState *cpu, unsigned domains)
{
    const InsnCountOps *ops = insn_count_ops(cpu);
    CPUInsnCount *c = insn_count_state(cpu);
    uint32_t sets;

    insn_count_sync(cpu, 0);
    for (sets = c->due_sets; sets; sets &= sets - 1) {
        if ((ctz32(sets) & domains) && c->due[ctz32(sets)] <= 0) {
            ops->deadline(cpu);
            break;
        }
    }
}

void insn_count_exec_end(CPUState *cpu)
{
    if (!insn_count_ops(cpu)) {
        return;
    }
    if (insn_count_state(cpu)->counted) {
        insn_count_check_deadlines(cpu, 1 << insn_count_domain(cpu));
        if (cpu->singlestep_enabled) {
            /* A debugger's step never refuses, so it may have overdrawn. */
            insn_count_hand_out_budgets(cpu, insn_count_domain(cpu), 0);
        }
        if (!(cpu->cflags_next_tb & CF_NOIRQ)) {
            /* Do not cut the next block here: it may be a debugger's step. */
            cpu->cflags_next_tb = -1;
        }
    }
    /* For insn_count_read(), which looks whether the vCPU is running */
    smp_wmb();
}

void insn_count_diverted(CPUState *cpu)
{
    if (insn_count_ops(cpu) && insn_count_state(cpu)->excess) {
        insn_count_sync(cpu, 0);
        insn_count_hand_out_budgets(cpu, insn_count_domain(cpu), 0);
    }
}

/*
 * For each of the first @n instructions of @tb, what it and those after it add
 * to the words
 */
static void insn_count_decode_tb(CPUState *cpu, TranslationBlock *tb,
                                 unsigned n, uint64_t (*rest)[INSN_COUNT_WORDS])
{
    const uint8_t *p = tb->tc.ptr + tb->tc.size;
    uint64_t ahead[INSN_COUNT_WORDS] = { };
    unsigned i, j;

    for (i = 0; i < n; i++) {
        for (j = 0; j < insn_count_ops(cpu)->start_words; j++) {
            decode_sleb128(&p);
        }
        insn_count_decode(tb, &p, ahead);
        decode_sleb128(&p);
        memcpy(rest[i], ahead, sizeof(ahead));
    }
}

/*
 * Must the hook be called within the first instructions of @tb? @all is what
 * the block adds to the words, and @rest what its other instructions add.
 */
static bool insn_count_reaches(CPUState *cpu, TranslationBlock *tb,
                               const uint64_t *all, const uint64_t *rest,
                               bool loose)
{
    const InsnCountOps *ops = insn_count_ops(cpu);
    int64_t units = -insn_count_units(all[0] - rest[0]);
    uint64_t lanes[INSN_COUNT_LANES];
    unsigned i;

    if (!ops->reaches) {
        return insn_count_until_deadline(cpu, insn_count_state(cpu)->due,
                                         tb->count_domain) <= units;
    }
    for (i = 0; i < ops->lanes; i++) {
        const InsnCountLane *l = &ops->lane[i];

        lanes[i] = i == ops->units_lane
                   ? units : extract64(all[l->word] - rest[l->word],
                                       l->shift, l->bits);
    }
    return ops->reaches(cpu, tb->count_domain, lanes, loose);
}

/*
 * Returns after how many instructions of @tb the hook must be called; 0 if not
 * before its end. Sets @units to what a block of that length needs to start.
 */
static unsigned insn_count_insns_until_deadline(CPUState *cpu,
                                                TranslationBlock *tb,
                                                int64_t *units)
{
    CPUInsnCount *c = insn_count_state(cpu);
    uint64_t all[1][INSN_COUNT_WORDS];
    static const uint64_t none[INSN_COUNT_WORDS];
    g_autofree uint64_t (*rest)[INSN_COUNT_WORDS] = NULL;
    unsigned before = 0, reached = tb->icount;

    *units = tb->count_units;
    if (!c->counted || insn_count_ops(cpu)->whole_blocks ||
        insn_count_until_deadline(cpu, c->due, tb->count_domain) >=
        tb->count_units) {
        return 0;
    }
    insn_count_decode_tb(cpu, tb, 1, all);
    if (!insn_count_reaches(cpu, tb, all[0], none, true)) {
        return 0;               /* as most often, if the event is rare */
    }
    rest = g_malloc0_n(tb->icount + 1, sizeof(*rest));
    insn_count_decode_tb(cpu, tb, tb->icount, rest);

    /*
     * A deadline that is loose waits until just before the last instruction,
     * a branch as a rule. The two parts are the same for every such deadline
     * and are reused, unlike parts that are cut anywhere.
     */
    if (reached > 1 &&
        insn_count_reaches(cpu, tb, rest[0], rest[reached - 1], true)) {
        reached--;
    } else if (!insn_count_reaches(cpu, tb, rest[0], none, false)) {
        return 0;
    }
    while (reached - before > 1) {
        unsigned n = (before + reached) / 2;

        if (insn_count_reaches(cpu, tb, rest[0], rest[n], false)) {
            reached = n;
        } else {
            before = n;
        }
    }
    if (reached == tb->icount) {
        /* The block as it is, with its units and no more, ends there */
        return 0;
    }
    *units = 1 - insn_count_units(rest[0][0] - rest[reached - 1][0]);
    return reached;
}

/* Has a block added to a word of @due_words since the last fold? */
static bool insn_count_due_word_used(CPUState *cpu)
{
    const InsnCountOps *ops = insn_count_ops(cpu);
    uint8_t due_words = insn_count_state(cpu)->due_words;
    unsigned i, w;

    for (i = 0; i < ops->domains; i++) {
        for (w = 1; w < ops->words; w++) {
            if ((due_words & 1 << w) && insn_count_get(cpu, i, w)) {
                return true;
            }
        }
    }
    return false;
}

/*
 * Let @tb start although a deadline is too near, if neither @tb nor any block
 * since the last fold adds to the words of that deadline's event: give it the
 * units that it needs more than the @left ones, if the lanes have room for what
 * it counts. If the deadlines leave room for the block, return false: a new
 * budget is better, which many blocks use.
 */
static bool insn_count_pass(CPUState *cpu, TranslationBlock *tb, int64_t left)
{
    const InsnCountOps *ops = insn_count_ops(cpu);
    CPUInsnCount *c = insn_count_state(cpu);
    unsigned domain = tb->count_domain, i;
    int64_t more = tb->count_units - left, all = more;
    int64_t room = insn_count_until_deadline(cpu, c->due, domain) -
                   (c->budget[domain] - left);

    /* No more than this can be used until the words are folded again */
    for (i = 0; i < ops->domains; i++) {
        all += c->budget[i];
    }
    if (!ops->reaches || room >= tb->count_units ||
        (tb->count_words & c->due_words) || insn_count_due_word_used(cpu) ||
        all >= c->due_any || c->counted != c->wanted ||
        (tb_cflags(tb) & CF_COUNT_MASK) ||
        c->budget[domain] + more > (c->limit ?: INSN_COUNT_MAX_UNITS)) {
        return false;
    }
    c->excess = true;
    insn_count_add_budget(cpu, domain, more);
    return true;
}

InsnCountRefusal insn_count_refused(CPUState *cpu, TranslationBlock *tb)
{
    CPUInsnCount *c;
    unsigned insns;
    int64_t units, left;

    if (!(tb_cflags(tb) & CF_INSN_COUNT)) {
        return INSN_COUNT_NOT_REFUSED;
    }
    c = insn_count_state(cpu);
    left = insn_count_units(insn_count_get(cpu, tb->count_domain, 0));
    if (left >= tb->count_units) {
        return INSN_COUNT_NOT_REFUSED;
    }
    if (!insn_count_pass(cpu, tb, left)) {
        insn_count_check_deadlines(cpu, 1 << tb->count_domain);
        if (c->counted != c->wanted && c->linger < 0) {
            insn_count_set_cflags(cpu, c->wanted);
        }
        insns = insn_count_insns_until_deadline(cpu, tb, &units);
        if (!insns && (tb_cflags(tb) & CF_COUNT_MASK)) {
            /* Somebody else has cut the block */
            insns = tb->icount;
        }
        if (insns) {
            cpu->cflags_next_tb = (curr_cflags(cpu) & ~CF_COUNT_MASK) | insns;
        }
        insn_count_hand_out_budgets(cpu, tb->count_domain, units);
    }

    /*
     * Finding a block takes longer than all the rest, so do it only if another
     * one may be due: chained blocks are often not in the jump cache.
     */
    return !cpu_loop_exit_requested(cpu) && cpu->cflags_next_tb == -1 &&
           cpu->exception_index == -1 && curr_cflags(cpu) == tb_cflags(tb) ?
           INSN_COUNT_RESUME : INSN_COUNT_LOOK_UP;
}

/*
 * Blocks that end early
 */

void insn_count_unwind(CPUState *cpu, TranslationBlock *tb,
                       const uint64_t *ahead)
{
    const InsnCountOps *ops = insn_count_ops(cpu);
    CPUInsnCount *c = insn_count_state(cpu);
    const int64_t units = -insn_count_units(ahead[0]);
    const unsigned domain = tb->count_domain;
    int64_t most;
    unsigned i;

    /*
     * The instruction may have had the words folded, as retired: a store to a
     * device that looks at the counts, and then to a page that faults. So take
     * back from the totals.
     */
    insn_count_sync(cpu, 0);
    seqlock_write_begin(&c->seq);
    for (i = 0; i < ops->lanes; i++) {
        const InsnCountLane *l = &ops->lane[i];

        insn_count_add_total(c, domain, i, i == ops->units_lane ? -units :
                             -extract64(ahead[l->word], l->shift, l->bits));
    }
    seqlock_write_end(&c->seq);
    c->linger += units;
    insn_count_use_due(c, c->due, domain, -units);

    /*
     * A block that does not reach a deadline may have got more units than are
     * due. They are for its own instructions, and others may come next. Leave
     * one unit for cpu_exec_step_atomic().
     */
    most = MAX(insn_count_until_deadline(cpu, c->due, domain), 1);
    most = MIN(most, c->budget[domain] + units);
    insn_count_add_budget(cpu, domain, most - c->budget[domain]);
}

int insn_count_ahead(uintptr_t host_pc, uint64_t *ahead)
{
    uint64_t data[INSN_COUNT_START_WORDS];

    if (in_code_gen_buffer((const void *)(host_pc - tcg_splitwx_diff))) {
        TranslationBlock *tb = tcg_tb_lookup(host_pc);

        tcg_debug_assert(insn_count_ops(current_cpu)->start_words <=
                         ARRAY_SIZE(data));
        if (tb && (tb_cflags(tb) & CF_INSN_COUNT) &&
            cpu_unwind_data_from_tb(tb, host_pc, data, ahead) >= 0) {
            return tb->count_domain;
        }
    }
    return -1;
}
