/*
 * PowerNV in-memory collection counters: the nest
 *
 * On real chips, microcode on an engine of the on-chip controller (OCC) reads
 * the PMUs of the nest units every 2^speed ms and adds their counts to 64-bit
 * big-endian words in HOMER. The host sees only that memory: counters, framed
 * in groups by a header and a trailer that tell torn reads, and a control
 * block. This model computes the words when they are read: nothing polls, and
 * no timer runs.
 *
 *   microcode runs        |-----------|    |------------------|
 *   posts (2^speed ms)      ^   ^   ^          ^   ^   ^   ^
 *   a word = base + ((posts - mark) * amount + rest) / scale
 *
 * The control block acts as the microcode does (OCC firmware, gpe1_24x7.c),
 * with these decisions of our own:
 *  - it acts at the store, not up to 500 us later;
 *  - the status is never 0 ("initializing"), not even for a moment: firmware
 *    takes that for absent microcode and gives up;
 *  - commands that do not exist pause, as in newer microcode, and are consumed;
 *  - an error status ends when the guest corrects the word that caused it. If
 *    both speed and mode are bad, the status tells the bad speed. A change of
 *    speed does not resume counters that are paused;
 *  - a vector of 0 means that no unit exists; a reset restores that of "uav";
 *  - all groups are posted at the chosen speed, and between two groups of one
 *    post there is no gap.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "pnv_imc_internal.h"
#include "hw/ppc/pnv.h"
#include "qemu/bitops.h"
#include "qemu/host-utils.h"
#include "qemu/log.h"
#include "qemu/timer.h"
#include "trace.h"

/* Control block, from skiboot's imc.h */
#define CB_STATUS               (PNV_IMC_CB_OFFSET + 0x00)
#define   STATUS_RUNNING        1
#define   STATUS_PAUSED         2
#define   STATUS_BAD_SPEED      3
#define   STATUS_BAD_MODE       4
#define CB_COMMAND              (PNV_IMC_CB_OFFSET + 0x08)
#define   COMMAND_NOP           0
#define   COMMAND_RESUME        1
#define   COMMAND_PAUSE         2
#define   COMMAND_CLEAR         3
#define CB_SPEED                (PNV_IMC_CB_OFFSET + 0x10)
#define   SPEED_MAX             0xb
#define CB_UAV                  (PNV_IMC_CB_OFFSET + 0x18)
#define CB_MODE                 (PNV_IMC_CB_OFFSET + 0x20)
#define CB_MODE_STATE           (PNV_IMC_CB_OFFSET + 0x28)

#define GROUP_WORDS             (PNV_IMC_GROUP_SIZE / 8)

/* POWER9: the time base when the last post was made (gpe_24x7_structs.h) */
#define TOD_OFFSET              0x748

/**
 * PnvImcUnit: fields of the availability vector for units of one kind
 * @name: name of the units, with their number as %u
 * @count: number of units
 * @bit: first bit of unit 0, counted from the left
 * @width: width of the field of a unit
 * @step: bits from a unit to the next
 * @value: value of the field if the unit exists; 0: any value but 0
 *
 * From skiboot's hw/imc.c. Units without an entry always exist.
 */
struct PnvImcUnit {
    const char *name;
    uint8_t count;
    uint8_t bit;
    uint8_t width;
    uint8_t step;
    uint8_t value;
};

static const PnvImcUnit units_p9[] = {
    { "powerbus%u", 1, 0, 1 },
    { "mcs01", 1, 1, 2 },
    { "mcs23", 1, 3, 2 },
    { "mcs45", 1, 5, 2 },
    { "mcs67", 1, 7, 2 },
    { "mba%u", 8, 9, 1, 1 },
    { "centaur%u", 8, 17, 1, 1 },
    { "xlink%u", 3, 25, 1, 1 },
    { "mcd%u", 2, 28, 1, 1 },
    { "phb%u", 6, 30, 1, 1 },
    { "nx", 1, 36, 1 },
    { "capp%u", 2, 37, 1, 1 },
    { "vas", 1, 39, 1 },
    { "int", 1, 40, 1 },
    { "alink%u", 4, 41, 1, 1 },
    { "nvlink%u", 6, 45, 1, 1 },
    { }
};

/* A link is an xlink, an alink or an otl, as a field of three bits tells. */
static const PnvImcUnit units_p10[] = {
    { "pb", 1, 0, 1 },
    { "mcs01", 1, 1, 2 },
    { "mcs23", 1, 3, 2 },
    { "mcs45", 1, 5, 2 },
    { "mcs67", 1, 7, 2 },
    { "pec%u", 2, 9, 1, 1 },
    { "xlink%u", 8, 11, 3, 3, 5 },
    { "alink%u", 8, 11, 3, 3, 6 },
    { "otl%u_0", 8, 11, 3, 3, 7 },
    { "otl%u_1", 8, 11, 3, 3, 7 },
    { "phb%u_0", 6, 35, 1, 1 },
    { "phb%u_1", 6, 35, 1, 1 },
    { "phb%u_2", 6, 35, 1, 1 },
    { "ocmb%u", 16, 41, 1, 1 },
    { "nx", 1, 57, 1 },
    { }
};

/**
 * PnvImcClock: events that count a clock
 * @unit: prefix of the names of the units
 * @event: pattern of the events
 * @hz: frequency, in virtual time; a multiple of 1000
 *
 * The frequencies are round numbers near those of real machines; nothing in
 * QEMU depends on them.
 */
struct PnvImcClock {
    const char *unit;
    const char *event;
    uint64_t hz;
};

static const PnvImcClock clocks_p9[] = {
    { "powerbus", "*_CYC", 2000000000 },
    { "powerbus", "*_CYC2", 2000000000 },
    { "xlink", "*_CYC", 2000000000 },
    { "alink", "*_CYC", 2000000000 },
    { "nvlink", "*_CYC", 2000000000 },
    { "capp", "*_CYC_?", 2000000000 },
    { "phb", "*_CYC", 1000000000 },
    { "mba", "*_CYC", 1200000000 },
    { "centaur", "*_CYC", 1200000000 },
    { }
};

static const PnvImcClock clocks_p10[] = {
    { "pb", "*_CYC", 2000000000 },
    { "pau", "*_CYC", 2000000000 },
    { "xlink", "*_CYCLES", 2000000000 },
    { "alink", "*_CYCLES", 2000000000 },
    { "otl", "*_CYC", 2000000000 },
    { "phb", "*_CYC", 1000000000 },
    { "ocmb", "*_CLOCKS", 1600000000 },
    { "nx", "*_TIMEBASE_CYC", PNV_TIMEBASE_FREQ },
    { }
};

const PnvImcNestModel pnv_imc_nest_p9 = {
    /* powerbus0, mcs0-3, phb0-5, nx */
    .uav = 0xf8000003f8000000,
    .modes = 1,
    .tod = true,
    .units = units_p9,
    .clocks = clocks_p9,
};

const PnvImcNestModel pnv_imc_nest_p10 = {
    /* pb, mcs0-3, pec0-1, phb0-1, ocmb0-7 */
    .uav = 0xf8600000187f8000,
    .modes = 2,
    .units = units_p10,
    .clocks = clocks_p10,
};

static const PnvImcNestModel *model(PnvImc *imc)
{
    return PNV_IMC_GET_CLASS(imc)->nest;
}

static void resolve_unit(PnvImc *imc, PnvImcEvent *event)
{
    const PnvImcUnit *u;
    unsigned i;

    for (u = model(imc)->units; u->name; u++) {
        for (i = 0; i < u->count; i++) {
            g_autofree char *name = g_strdup_printf(u->name, i);

            if (!strcmp(name, event->unit)) {
                event->exists = u;
                event->bit = u->bit + i * u->step;
                return;
            }
        }
    }
}

static void resolve_clock(PnvImc *imc, PnvImcEvent *event)
{
    const PnvImcClock *c;

    for (c = model(imc)->clocks; c->unit; c++) {
        if (g_str_has_prefix(event->unit, c->unit) &&
            g_pattern_match_simple(c->event, event->name)) {
            event->hz = c->hz;
            return;
        }
    }
}

void pnv_imc_nest_create(PnvImc *imc)
{
    GArray *events = imc->events[PNV_IMC_NEST];
    PnvImcNest *n = &imc->nest;
    unsigned i;

    for (i = 0; i < events->len; i++) {
        PnvImcEvent *event = pnv_imc_event(events, i);

        resolve_unit(imc, event);
        resolve_clock(imc, event);
        n->groups = event->offset / PNV_IMC_GROUP_SIZE + 1;
    }
    n->group = g_new0(PnvImcGroup, n->groups);
    n->words = g_new0(PnvImcWord, n->groups * GROUP_WORDS);
    n->others = g_hash_table_new_full(NULL, NULL, NULL, g_free);
}

void pnv_imc_nest_destroy(PnvImc *imc)
{
    g_free(imc->nest.group);
    g_free(imc->nest.words);
    g_clear_pointer(&imc->nest.others, g_hash_table_unref);
}

/* A word; NULL for a word after the groups that does not exist yet */
static PnvImcWord *find_word(PnvImcNest *n, uint32_t offset)
{
    if (offset < n->groups * PNV_IMC_GROUP_SIZE) {
        return &n->words[offset / 8];
    }
    return g_hash_table_lookup(n->others, GUINT_TO_POINTER(offset));
}

static PnvImcWord *find_or_add_word(PnvImcNest *n, uint32_t offset)
{
    PnvImcWord *w = find_word(n, offset);

    if (!w) {
        w = g_new0(PnvImcWord, 1);
        w->scale = 1;
        g_hash_table_insert(n->others, GUINT_TO_POINTER(offset), w);
    }
    return w;
}

/* Call @each for all words that exist. */
static void for_each_word(PnvImcNest *n, void (*each)(PnvImcWord *, uint64_t),
                          uint64_t arg)
{
    GHashTableIter iter;
    gpointer w;
    unsigned i;

    for (i = 0; i < n->groups * GROUP_WORDS; i++) {
        each(&n->words[i], arg);
    }
    g_hash_table_iter_init(&iter, n->others);
    while (g_hash_table_iter_next(&iter, NULL, &w)) {
        each(w, arg);
    }
}

static bool unit_exists(PnvImc *imc, const PnvImcEvent *event)
{
    const PnvImcUnit *u = event->exists;
    uint64_t field;

    if (!u) {
        return true;
    }
    field = extract64(imc->nest.uav, 64 - event->bit - u->width, u->width);
    return u->value ? field == u->value : field != 0;
}

uint64_t pnv_imc_nest_status(PnvImc *imc)
{
    PnvImcNest *n = &imc->nest;

    if (n->speed > SPEED_MAX) {
        return STATUS_BAD_SPEED;
    }
    if (n->mode >= model(imc)->modes) {
        return STATUS_BAD_MODE;
    }
    return n->run ? STATUS_RUNNING : STATUS_PAUSED;
}

static uint64_t period_ms(PnvImcNest *n)
{
    return n->speed <= SPEED_MAX ? 1ULL << n->speed : 1;
}

/* Update @posts to the number of posts due by now, and return it. */
static uint64_t update_posts(PnvImc *imc)
{
    PnvImcNest *n = &imc->nest;

    if (pnv_imc_nest_status(imc) == STATUS_RUNNING) {
        int64_t now = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
        uint64_t ran = n->ran_ns + (now - n->start_ns);
        uint64_t period = period_ms(n) * SCALE_MS;

        if (ran / period > n->posts) {
            int64_t last = now - ran % period;

            n->tod_before_ns = ran / period == n->posts + 1 ? n->tod_ns
                                                            : last - period;
            n->posts = ran / period;
            n->tod_ns = last;
        }
    }
    return n->posts;
}

/*
 * Add the running time until now to @ran_ns. Call this before the status or the
 * speed changes.
 */
static void update_running_time(PnvImc *imc)
{
    PnvImcNest *n = &imc->nest;
    int64_t now = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);

    update_posts(imc);
    if (pnv_imc_nest_status(imc) == STATUS_RUNNING) {
        n->ran_ns += now - n->start_ns;
    }
    n->start_ns = now;
}

/* The value of a word after @now posts; @rest: events too few for a count */
static uint64_t word_value(PnvImcWord *w, uint64_t now, uint32_t *rest)
{
    uint64_t lo, hi;

    if (!w->amount) {
        *rest = w->rest;
        return w->base;
    }
    mulu64(&lo, &hi, w->amount, now - w->mark);
    lo += w->rest;
    hi += lo < w->rest;
    *rest = divu128(&lo, &hi, w->scale);
    return w->base + lo;
}

/* Compute @base for @now. Call this before other fields or the value change. */
static void rebase_word(PnvImcWord *w, uint64_t now)
{
    uint32_t rest;

    if (now > w->mark) {
        w->before = word_value(w, now - 1, &rest);
    }
    w->base = word_value(w, now, &w->rest);
    w->mark = now;
}

static uint64_t made_up_amount(const PnvImcWord *w, uint64_t period_ms)
{
    return w->fixed + w->per_ms * period_ms;
}

static void forget_made_up(PnvImcWord *w, uint64_t unused)
{
    w->fixed = 0;
    w->per_ms = 0;
}

/* What a word counts by itself; update_words() knows those of events */
static void reset_amount(PnvImcWord *w, uint64_t period_ms)
{
    w->scale = 1;
    w->amount = made_up_amount(w, period_ms);
}

static void clear_word(PnvImcWord *w, uint64_t unused)
{
    w->base = 0;
    w->mark = 0;
    w->before = 0;
    w->rest = 0;
}

/* Is this word, which belongs to no group, as if it did not exist? */
static gboolean is_unused(gpointer offset, gpointer word, gpointer data)
{
    const PnvImcWord *w = word;

    return !w->base && !w->amount && !w->fixed && !w->per_ms;
}

static bool is_frame(PnvImcNest *n, uint32_t offset)
{
    uint32_t in_group = offset % PNV_IMC_GROUP_SIZE;

    return offset / PNV_IMC_GROUP_SIZE < n->groups &&
           (in_group == 0 || in_group == PNV_IMC_GROUP_TRAILER);
}

static bool is_tod(PnvImc *imc, uint32_t offset)
{
    return model(imc)->tod && offset == TOD_OFFSET;
}

bool pnv_imc_nest_reserved(PnvImc *imc, uint32_t offset)
{
    return offset >= PNV_IMC_CB_OFFSET || is_frame(&imc->nest, offset) ||
           is_tod(imc, offset);
}

/*
 * Apply a change of the speed, the vector, or the made-up values to all words.
 * Their values stay, but posts add other amounts from now on.
 */
static void update_words(PnvImc *imc)
{
    GArray *events = imc->events[PNV_IMC_NEST];
    PnvImcNest *n = &imc->nest;
    const PnvImcEvent *e = (PnvImcEvent *)events->data;
    uint64_t ms = period_ms(n);
    unsigned i;

    for_each_word(n, rebase_word, update_posts(imc));
    for_each_word(n, reset_amount, ms);
    for (i = 0; i < events->len; i++) {
        PnvImcWord *w = &n->words[e[i].offset / 8];

        w->scale = e[i].scale;
        w->amount = 0;
    }

    for (i = 0; i < events->len; i++) {
        PnvImcWord *w = &n->words[e[i].offset / 8];
        bool shared = (i > 0 && e[i - 1].offset == e[i].offset) ||
                      (i + 1 < events->len && e[i + 1].offset == e[i].offset);

        /* A word that units share counts if any of them exists. */
        if (pnv_imc_nest_reserved(imc, e[i].offset) ||
            !unit_exists(imc, &e[i])) {
            continue;
        }
        /* A shared word counts no clock: each unit has one of its own. */
        if (e[i].hz && !shared) {
            w->amount = e[i].hz / 1000 * ms;
        } else if (imc->synthetic[PNV_IMC_NEST].demo) {
            /* Another rate for each word of each chip */
            w->amount = (e[i].offset / 8 + 512ULL * imc->chip->chip_id) *
                        w->scale * ms;
        } else {
            w->amount = made_up_amount(w, ms);
        }
    }
}

/*
 * Look up the made-up values once: the guest can change the speed often, and
 * the list can be long. Without noise and ramp, a value is a straight line over
 * the time since the last post.
 */
void pnv_imc_nest_set_synthetic(PnvImc *imc)
{
    PmuSynthetic *list = imc->synthetic[PNV_IMC_NEST].list;
    PnvImcNest *n = &imc->nest;
    PmuSyntheticSample sample = { .unit = imc->chip->chip_id };
    uint64_t one, two;
    unsigned i;

    for_each_word(n, forget_made_up, 0);
    for (i = 0; list && i < PNV_IMC_CB_OFFSET; i += 8) {
        PnvImcWord *w;

        sample.event = i;
        sample.window_ns = SCALE_MS;
        if (pnv_imc_nest_reserved(imc, i) ||
            !pmu_synthetic_value(list, &sample, &one)) {
            continue;
        }
        sample.window_ns = 2 * SCALE_MS;
        pmu_synthetic_value(list, &sample, &two);
        w = find_or_add_word(n, i);
        w->per_ms = two - one;
        w->fixed = one - w->per_ms;
    }
    update_words(imc);
}

static void clear_counters(PnvImc *imc)
{
    PnvImcNest *n = &imc->nest;
    unsigned i;

    n->ran_ns = 0;
    n->posts = 0;
    n->tod_ns = 0;
    n->tod_before_ns = 0;
    for_each_word(n, clear_word, 0);
    /* A guest may have stored to all of the area: forget what it has cleared */
    g_hash_table_foreach_remove(n->others, is_unused, NULL);
    for (i = 0; i < n->groups; i++) {
        memset(n->group[i].late, 0, sizeof(n->group[i].late));
    }
}

void pnv_imc_nest_reset(PnvImc *imc)
{
    PnvImcNest *n = &imc->nest;

    n->run = true;
    n->speed = 0;
    n->mode = 0;
    n->mode_state = 0;
    n->uav = imc->uav;
    n->start_ns = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
    clear_counters(imc);
    update_words(imc);
}

void pnv_imc_nest_set_uav(PnvImc *imc, uint64_t uav)
{
    imc->nest.uav = uav;
    update_words(imc);
}

void pnv_imc_nest_add(PnvImc *imc, uint32_t offset, uint64_t value)
{
    PnvImcWord *w = find_or_add_word(&imc->nest, offset);

    w->base += value;
    w->before += value;
}

/* The value of a word after @now posts, all or all but one of @posts */
static uint64_t posted_word(PnvImc *imc, uint32_t offset, uint64_t now)
{
    PnvImcNest *n = &imc->nest;
    PnvImcWord *w = find_word(n, offset);
    uint32_t rest;

    if (is_frame(n, offset)) {
        return now;
    }
    if (is_tod(imc, offset)) {
        return muldiv64(now < n->posts ? n->tod_before_ns : n->tod_ns,
                        PNV_TIMEBASE_FREQ, NANOSECONDS_PER_SECOND);
    }
    if (!w) {
        return 0;
    }
    return now < w->mark ? w->before : word_value(w, now, &rest);
}

static PnvImcGroup *find_group(PnvImcNest *n, uint32_t offset)
{
    unsigned i = offset / PNV_IMC_GROUP_SIZE;

    return i < n->groups ? &n->group[i] : NULL;
}

static uint64_t group_word(PnvImc *imc, uint32_t offset)
{
    PnvImcGroup *group = find_group(&imc->nest, offset);
    uint32_t in_group = offset % PNV_IMC_GROUP_SIZE;
    uint64_t now = update_posts(imc);

    if (!group) {
        return posted_word(imc, offset, now);
    }
    if (group->fault == PNV_IMC_FAULT_LATE) {
        return group->late[in_group / 8];
    }
    /* As in the middle of a post: the second half lacks the last one. */
    if (group->fault == PNV_IMC_FAULT_TORN && now &&
        in_group >= PNV_IMC_GROUP_SIZE / 2) {
        now--;
    }
    return posted_word(imc, offset, now);
}

void pnv_imc_nest_set_faults(PnvImc *imc, const PnvImcFault *fault)
{
    PnvImcNest *n = &imc->nest;
    uint64_t now = update_posts(imc);
    unsigned i, j;

    for (i = 0; i < n->groups; i++) {
        PnvImcGroup *group = &n->group[i];

        if (fault[i] == PNV_IMC_FAULT_LATE && group->fault != fault[i]) {
            for (j = 0; j < GROUP_WORDS; j++) {
                group->late[j] = posted_word(imc, i * PNV_IMC_GROUP_SIZE +
                                             j * 8, now);
            }
        }
        group->fault = fault[i];
    }
}

static uint64_t read_word(PnvImc *imc, uint32_t offset)
{
    PnvImcNest *n = &imc->nest;

    switch (offset) {
    case CB_STATUS:
        return pnv_imc_nest_status(imc);
    case CB_COMMAND:
        return COMMAND_NOP;
    case CB_SPEED:
        return n->speed;
    case CB_UAV:
        return n->uav;
    case CB_MODE:
        return n->mode;
    case CB_MODE_STATE:
        return n->mode_state;
    default:
        return group_word(imc, offset);
    }
}

static void command(PnvImc *imc, uint64_t value)
{
    switch (value) {
    case COMMAND_NOP:
        break;
    case COMMAND_RESUME:
        imc->nest.run = true;
        break;
    case COMMAND_CLEAR:
        imc->nest.run = true;
        clear_counters(imc);
        break;
    default:
        qemu_log_mask(LOG_GUEST_ERROR, "pnv-imc: chip %u: bad command 0x%"
                      PRIx64 " pauses\n", imc->chip->chip_id, value);
        /* fallthrough */
    case COMMAND_PAUSE:
        imc->nest.run = false;
        break;
    }
}

/* Store @length bits of a word, from bit @start on. */
static void write_word(PnvImc *imc, uint32_t offset, unsigned start,
                       unsigned length, uint64_t bits)
{
    PnvImcNest *n = &imc->nest;
    uint64_t value = deposit64(read_word(imc, offset), start, length, bits);

    update_running_time(imc);
    switch (offset) {
    case CB_STATUS:
    case CB_MODE_STATE:
        qemu_log_mask(LOG_GUEST_ERROR, "pnv-imc: chip %u: store to read-only "
                      "word 0x%x\n", imc->chip->chip_id, offset);
        break;
    case CB_COMMAND:
        command(imc, value);
        break;
    case CB_SPEED:
        if (value != n->speed) {
            n->speed = value;
            clear_counters(imc);
            update_words(imc);
        }
        break;
    case CB_UAV:
        if (value != n->uav) {
            pnv_imc_nest_set_uav(imc, value);
        }
        break;
    case CB_MODE:
        n->mode = value;
        if (value < model(imc)->modes) {
            n->mode_state = value;
        }
        break;
    default:
        if (is_frame(n, offset) || is_tod(imc, offset)) {
            qemu_log_mask(LOG_GUEST_ERROR, "pnv-imc: chip %u: store to the "
                          "frame of a group at 0x%x\n", imc->chip->chip_id,
                          offset);
        } else {
            PnvImcGroup *group = find_group(n, offset);
            PnvImcWord *w = find_or_add_word(n, offset);

            /* A fault hides counts; the bits that are not stored keep them. */
            value = deposit64(posted_word(imc, offset, update_posts(imc)),
                              start, length, bits);
            rebase_word(w, n->posts);
            w->base = value;
            w->before = value;
            if (group) {
                uint64_t *late = &group->late[offset % PNV_IMC_GROUP_SIZE / 8];

                *late = deposit64(*late, start, length, bits);
            }
        }
        return;
    }
    trace_pnv_imc_nest_control(imc->chip->chip_id, offset, value,
                               pnv_imc_nest_status(imc));
}

static uint64_t pnv_imc_nest_read(void *opaque, hwaddr addr, unsigned size)
{
    uint64_t value = 0;
    unsigned done, n;

    for (done = 0; done < size; done += n) {
        uint32_t in_word = (addr + done) % 8;
        uint64_t word = read_word(opaque, addr + done - in_word);

        n = MIN(size - done, 8 - in_word);
        value |= extract64(word, (8 - in_word - n) * 8, n * 8)
                 << (size - done - n) * 8;
    }
    return value;
}

static void pnv_imc_nest_write(void *opaque, hwaddr addr, uint64_t value,
                               unsigned size)
{
    unsigned done, n;

    for (done = 0; done < size; done += n) {
        uint32_t in_word = (addr + done) % 8;

        n = MIN(size - done, 8 - in_word);
        write_word(opaque, addr + done - in_word, (8 - in_word - n) * 8, n * 8,
                   value >> (size - done - n) * 8);
    }
}

const MemoryRegionOps pnv_imc_nest_ops = {
    .read = pnv_imc_nest_read,
    .write = pnv_imc_nest_write,
    .endianness = DEVICE_BIG_ENDIAN,
    .valid = {
        .min_access_size = 1,
        .max_access_size = 8,
        .unaligned = true,
    },
    .impl = {
        .min_access_size = 1,
        .max_access_size = 8,
        .unaligned = true,
    },
};
