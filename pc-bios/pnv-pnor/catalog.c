/*
 * Catalogs of POWER's in-memory collection counters: check and compression
 *
 * A catalog is a device tree with a node per PMU, compatible with
 * "ibm,imc-counters", and a node per group of events.  skiboot (hw/imc.c)
 * hangs it into the machine's device tree, and Linux makes a perf PMU of each
 * node.  Both drop what they do not understand, mostly without a word, and
 * Linux does not check the address that an event points to.  So all that is
 * checked here, where the author of the catalog can still correct it.
 *
 * Compression follows skiboot's decompressor, libxz in single-call mode.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <glib.h>
#include <libfdt.h>
#include <lzma.h>
#include "catalog.h"
#include "pnor.h"

#define ROOT_COMPATIBLE     "ibm,opal-in-memory-counters"
#define PMU_COMPATIBLE      "ibm,imc-counters"

/* The counters of a nest PMU are in this area, which each chip has. */
#define HOMER_SIZE          0x400000u

/* Status, command, speed, units, mode and mode's state, 64 bits each */
#define CONTROL_BLOCK_SIZE  0x30u

#define COUNTER_SIZE        8u

/*
 * Events of all PMUs together; our decision, because PMUs share groups, so that
 * a small catalog could stand for millions.  Public catalogs have up to 1000.
 */
#define CATALOG_MAX_EVENTS  16384u

/*
 * Levels of nodes below the root; our decision, because skiboot and Linux need
 * stack for each.  Catalogs have two.
 */
#define CATALOG_MAX_DEPTH   16

/*
 * skiboot moves phandles up by as many as the machine's tree has, and by the
 * largest one of the catalog; the sums must stay below 2^32.
 */
#define CATALOG_MAX_PHANDLE 0x3fffffffu

/*
 * Nodes that skiboot looks for by their names before the @, to remove those of
 * units that the chip lacks: nest_pmus_p9 and nest_pmus_p10 of hw/imc.c, and
 * the names that it makes of the latter
 */
#define NEST_UNITS          \
    "^(powerbus0|pb|mcs[0-7]|mcs(01|23|45|67)|mba[0-7]|cen(taur)?[0-7]" \
    "|xlink[0-7]|alink[0-7]|nvlink[0-5]|otl[0-7]_[01]|mcd[01]|pec[01]" \
    "|phb[0-5](_[0-2])?|nx|capp[01]|vas|int|ocmb([0-9]|1[0-5]))$"

static const struct {
    uint32_t type;
    uint32_t size;
    const char *name;
} pmu_types[CATALOG_TYPES] = {
    [CATALOG_NEST]      = { 0x10, 0x40000, "nest" },
    [CATALOG_CORE]      = { 0x4,  0x2000,  "core" },
    [CATALOG_THREAD]    = { 0x1,  0x2000,  "thread" },
    [CATALOG_TRACE]     = { 0x2,  0x40000, "trace" },
};

/*
 * An upper limit for the memory that a decompressor takes.  xz -9 asks for a
 * dictionary of 64 MiB, whatever the size of the file.
 */
#define DECODER_MEMORY      (128 * 1024 * 1024)

/* In the header of an .xz file's block: the byte with flags */
#define XZ_BLOCK_FLAGS      1
#define XZ_BLOCK_FILTERS    3   /* number of filters, less one */

/* An .xz stream begins with these bytes. */
static const uint8_t xz_magic[] = { 0xfd, '7', 'z', 'X', 'Z', 0 };

typedef struct Pmu {
    CatalogType type;
    uint32_t base;
    uint32_t end;               /* of the counters, in the PMU's memory */
    const char *prefix;         /* of the events' names */
    GHashTable *names;          /* of the events seen so far */
    GHashTable *places;         /* of their counters */
} Pmu;

G_GNUC_PRINTF(4, 5)
static bool fail(const void *fdt, int node, GError **errp, const char *fmt,
                 ...)
{
    g_autofree char *text = NULL;
    g_autofree char *where = NULL;
    char path[256];
    va_list ap;

    va_start(ap, fmt);
    text = g_strdup_vprintf(fmt, ap);
    va_end(ap);

    if (fdt_get_path(fdt, node, path, sizeof(path)) < 0) {
        g_strlcpy(path, "(a node with a long path)", sizeof(path));
    }
    where = g_strescape(path, NULL);
    g_set_error(errp, PNOR_ERROR, 0, "%s: %s", where, text);
    return false;
}

static bool get_cells(const void *fdt, int node, const char *name,
                      unsigned count, uint32_t *cells, GError **errp)
{
    int len;
    const uint8_t *data = fdt_getprop(fdt, node, name, &len);
    unsigned i;

    if (!data) {
        return fail(fdt, node, errp, "property '%s' is missing: "
                    "add it with %u cell(s)", name, count);
    }
    if (len != (int)(count * sizeof(*cells))) {
        return fail(fdt, node, errp, "property '%s' has %d bytes: "
                    "it must be %u cell(s) of 4 bytes", name, len, count);
    }
    for (i = 0; i < count; i++) {
        memcpy(&cells[i], data + i * sizeof(*cells), sizeof(*cells));
        cells[i] = GUINT32_FROM_BE(cells[i]);
    }
    return true;
}

/* False only if the property is there but is not one string. */
static bool get_string(const void *fdt, int node, const char *name,
                       const char **value, GError **errp)
{
    int len;

    *value = fdt_getprop(fdt, node, name, &len);
    if (*value && (len < 1 || memchr(*value, 0, len) != *value + len - 1)) {
        return fail(fdt, node, errp, "property '%s' is not one string that "
                    "ends with a zero byte: correct it", name);
    }
    return true;
}

/*
 * Names are files in sysfs, and words of perf's language of events, which takes
 * few other characters. It does not see files that begin with a dot.
 */
#define USABLE "letters, digits, and _ - : and, not at the start, ."

static bool is_usable(const char *name, size_t len)
{
    size_t i;

    for (i = 0; i < len; i++) {
        if (!g_ascii_isalnum(name[i]) && !strchr("_-:.", name[i])) {
            return false;
        }
    }
    return !len || name[0] != '.';
}

/* Words that perf takes for terms of its own: <config> of parse-events.l */
static const char *const perf_terms[] = {
    "config", "config1", "config2", "config3", "name", "period", "freq",
    "branch_type", "time", "call-graph", "stack-size", "max-stack", "nr",
    "inherit", "no-inherit", "overwrite", "no-overwrite", "percore",
    "aux-output", "aux-sample-size", "metric-id", NULL
};

/* Whether perf takes a whole name, with its prefix, for that of an event */
static bool is_selectable(const char *prefix, const char *name)
{
    g_autofree char *whole = g_strconcat(prefix, name, NULL);

    return (g_ascii_isalpha(whole[0]) || whole[0] == '_') &&
           !g_strv_contains(perf_terms, whole) &&
           !g_regex_match_simple("^r[0-9a-fA-F]+$", whole, 0, 0);
}

/* Strings that only perf looks at */
static bool check_texts(const void *fdt, int node, GError **errp)
{
    static const char *const names[] = { "unit", "desc", "scale" };
    const char *value;
    double scale;
    char *end;
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(names); i++) {
        if (!get_string(fdt, node, names[i], &value, errp)) {
            return false;
        }
    }
    if (value) {
        scale = g_ascii_strtod(value, &end);
        if (*end || !(scale > 0 && isfinite(scale))) {
            return fail(fdt, node, errp, "property 'scale' is no number above "
                        "0: perf multiplies by it");
        }
    }
    return true;
}

static bool check_compatible(const void *fdt, int node, GError **errp)
{
    int len;
    const char *value = fdt_getprop(fdt, node, "compatible", &len);
    const char *end;

    if (!value) {
        return true;
    }
    end = value + len;
    if (len < 1 || end[-1]) {
        return fail(fdt, node, errp, "property 'compatible' does not end "
                    "with a zero byte: correct it");
    }
    /* skiboot and Linux compare without case. */
    for (; value < end; value += strlen(value) + 1) {
        if (!g_ascii_strcasecmp(value, PMU_COMPATIBLE) &&
            strcmp(value, PMU_COMPATIBLE)) {
            return fail(fdt, node, errp, "property 'compatible' has '%s': "
                        "write '%s'", value, PMU_COMPATIBLE);
        }
    }
    return true;
}

/* skiboot ends if a node has a property twice, or a phandle of another size. */
static bool check_properties(const void *fdt, int node, GError **errp)
{
    g_autoptr(GHashTable) names = g_hash_table_new(g_str_hash, g_str_equal);
    int offset;

    fdt_for_each_property_offset(offset, fdt, node) {
        const char *name;
        uint32_t phandle;

        fdt_getprop_by_offset(fdt, offset, &name, NULL);
        if (!g_hash_table_add(names, (gpointer)name)) {
            return fail(fdt, node, errp, "property '%s' is there twice: "
                        "remove one", name);
        }
        if (strcmp(name, "phandle") && strcmp(name, "linux,phandle")) {
            continue;
        }
        if (!get_cells(fdt, node, name, 1, &phandle, errp)) {
            return false;
        }
        if (phandle > CATALOG_MAX_PHANDLE) {
            return fail(fdt, node, errp, "property '%s' is 0x%x: the last "
                        "possible one is 0x%x", name, phandle,
                        CATALOG_MAX_PHANDLE);
        }
    }
    return true;
}

/*
 * skiboot takes two nodes for one if their names are the same, and compares the
 * hexadecimal numbers behind the @ as such (dt_cmp_subnodes()).
 */
static bool check_siblings(const void *fdt, int parent, GError **errp)
{
    g_autoptr(GHashTable) names = g_hash_table_new_full(g_str_hash,
                                                        g_str_equal, g_free,
                                                        NULL);
    int node;

    fdt_for_each_subnode(node, fdt, parent) {
        const char *name = fdt_get_name(fdt, node, NULL);
        const char *at = strchr(name, '@');
        char *end = NULL;
        uint64_t number = at && at[1] ? g_ascii_strtoull(at + 1, &end, 16) : 0;

        if (!g_hash_table_add(names, end && !*end
                              ? g_strdup_printf("%.*s@%" PRIx64,
                                                (int)(at - name), name, number)
                              : g_strdup(name))) {
            return fail(fdt, node, errp, "the node has the name or number of "
                        "another: rename one");
        }
    }
    return true;
}

/* What skiboot does not survive, in any node */
static bool check_nodes(const void *fdt, GError **errp)
{
    int depth = 0;
    int node;

    for (node = 0; node >= 0; node = fdt_next_node(fdt, node, &depth)) {
        if (depth > CATALOG_MAX_DEPTH) {
            return fail(fdt, node, errp, "the node is %d levels below the "
                        "root: %d are possible", depth, CATALOG_MAX_DEPTH);
        }
        if (!check_properties(fdt, node, errp) ||
            !check_compatible(fdt, node, errp) ||
            !check_siblings(fdt, node, errp)) {
            return false;
        }
    }
    return true;
}

static bool check_root(const void *fdt, GError **errp)
{
    static const char *const names[] = { "#address-cells", "#size-cells" };
    uint32_t cells;
    size_t i;

    if (fdt_node_check_compatible(fdt, 0, ROOT_COMPATIBLE)) {
        return fail(fdt, 0, errp, "property 'compatible' lacks '%s': "
                    "add it, or take a catalog", ROOT_COMPATIBLE);
    }
    for (i = 0; i < G_N_ELEMENTS(names); i++) {
        if (!get_cells(fdt, 0, names[i], 1, &cells, errp)) {
            return false;
        }
        if (cells != 1) {
            return fail(fdt, 0, errp, "property '%s' is %u: it must be 1",
                        names[i], cells);
        }
    }
    return true;
}

static bool check_event(const void *fdt, int node, const Pmu *pmu,
                        GError **errp)
{
    const char *name;
    uint32_t reg[2];
    uint64_t counter;

    if (!get_string(fdt, node, "event-name", &name, errp)) {
        return false;
    }
    if (!name || !*name) {
        return fail(fdt, node, errp, "the event has no 'event-name': "
                    "add one, or remove the node");
    }
    if (!is_usable(name, strlen(name))) {
        return fail(fdt, node, errp, "property 'event-name' has a character "
                    "that perf cannot use: take " USABLE);
    }
    if (!is_selectable(pmu->prefix, name)) {
        return fail(fdt, node, errp, "perf takes '%s%s' for something else: "
                    "begin with a letter, and take no term of perf's",
                    pmu->prefix, name);
    }
    if (g_str_has_suffix(name, ".scale") || g_str_has_suffix(name, ".unit")) {
        return fail(fdt, node, errp, "property 'event-name' ends in .scale "
                    "or .unit: Linux gives such names to files of its own");
    }
    if (!g_hash_table_add(pmu->names, (gpointer)name)) {
        return fail(fdt, node, errp, "its PMU has another event '%s': "
                    "rename one", name);
    }
    if (!check_texts(fdt, node, errp) ||
        !get_cells(fdt, node, "reg", 2, reg, errp)) {
        return false;
    }
    if (reg[1] != COUNTER_SIZE) {
        return fail(fdt, node, errp, "property 'reg' has size %u: a counter "
                    "has 8 bytes", reg[1]);
    }
    /* For a trace PMU, this is no place in memory but a configuration. */
    if (pmu->type == CATALOG_TRACE) {
        return true;
    }
    if (reg[0] % COUNTER_SIZE) {
        return fail(fdt, node, errp, "property 'reg' has offset 0x%x: "
                    "it must be a multiple of 8", reg[0]);
    }
    counter = (uint64_t)pmu->base + reg[0];
    if (counter + COUNTER_SIZE > pmu->end) {
        return fail(fdt, node, errp, "its counter at 0x%" PRIx64 " is behind "
                    "the end of the PMU's counters at 0x%x: correct 'reg'",
                    counter, pmu->end);
    }
    if (!g_hash_table_add(pmu->places, GUINT_TO_POINTER(counter))) {
        return fail(fdt, node, errp, "its PMU has another event at 0x%" PRIx64
                    ": correct 'reg' of one", counter);
    }
    return true;
}

static bool check_events(const void *fdt, int node, Pmu *pmu, unsigned *count,
                         GError **errp)
{
    g_autoptr(GHashTable) names = g_hash_table_new(g_str_hash, g_str_equal);
    g_autoptr(GHashTable) places = g_hash_table_new(NULL, NULL);
    uint32_t phandle;
    int group;
    int event;

    if (!get_cells(fdt, node, "events", 1, &phandle, errp)) {
        return false;
    }
    group = fdt_node_offset_by_phandle(fdt, phandle);
    if (group < 0) {
        return fail(fdt, node, errp, "property 'events' is 0x%x, which is no "
                    "node's phandle: refer to a group of events", phandle);
    }

    pmu->names = names;
    pmu->places = places;
    *count = 0;
    fdt_for_each_subnode(event, fdt, group) {
        if (!check_event(fdt, event, pmu, errp)) {
            return false;
        }
        (*count)++;
    }
    if (!*count) {
        return fail(fdt, node, errp, "its group of events is empty: "
                    "add an event, or remove the node");
    }
    return true;
}

/* Where a nest PMU has its counters; the others must not say. */
static bool check_place(const void *fdt, int node, Pmu *pmu, GError **errp)
{
    static const char *const names[] = { "offset", "cb_offset" };
    static const char *const added[] = { "base-addr", "chip-id" };
    uint32_t place[2];
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(names); i++) {
        if (pmu->type != CATALOG_NEST) {
            if (fdt_getprop(fdt, node, names[i], NULL)) {
                return fail(fdt, node, errp, "property '%s' is for nest PMUs "
                            "only: remove it", names[i]);
            }
            continue;
        }
        if (!get_cells(fdt, node, names[i], 1, &place[i], errp)) {
            return false;
        }
        if (place[i] % COUNTER_SIZE) {
            return fail(fdt, node, errp, "property '%s' is 0x%x: "
                        "it must be a multiple of 8", names[i], place[i]);
        }
    }
    if (pmu->type != CATALOG_NEST) {
        return true;
    }
    for (i = 0; i < G_N_ELEMENTS(added); i++) {
        if (fdt_getprop(fdt, node, added[i], NULL)) {
            return fail(fdt, node, errp, "property '%s' is there, which "
                        "skiboot adds: remove it", added[i]);
        }
    }

    if (place[0] > HOMER_SIZE - pmu->end) {
        return fail(fdt, node, errp, "property 'offset' is 0x%x: "
                    "the last that fits into HOMER is 0x%x", place[0],
                    HOMER_SIZE - pmu->end);
    }
    if (place[1] > pmu->end - CONTROL_BLOCK_SIZE) {
        return fail(fdt, node, errp, "property 'cb_offset' is 0x%x: "
                    "the last that fits into 'size' is 0x%x", place[1],
                    pmu->end - CONTROL_BLOCK_SIZE);
    }
    pmu->end = place[1];
    return true;
}

/* The name that Linux gives to the PMU; NULL if it cannot be used. */
static char *linux_name(const void *fdt, int node, CatalogType type)
{
    int len;
    const char *name = fdt_get_name(fdt, node, &len);
    int unit = name ? strcspn(name, "@") : 0;

    if (!unit || !is_usable(name, unit)) {
        return NULL;
    }
    return g_strdup_printf("%s%.*s_imc", type == CATALOG_NEST ? "nest_" : "",
                           unit, name);
}

static bool check_pmu(const void *fdt, int node, GHashTable *names,
                      CatalogInfo *info, GError **errp)
{
    g_autofree char *pmu_name = NULL;
    const char *prefix;
    uint32_t type;
    uint32_t size;
    uint32_t reg[2];
    unsigned events = 0;
    Pmu pmu = { 0 };

    if (!get_cells(fdt, node, "type", 1, &type, errp)) {
        return false;
    }
    while (pmu_types[pmu.type].type != type) {
        if (++pmu.type == CATALOG_TYPES) {
            return fail(fdt, node, errp, "property 'type' is 0x%x: it must be "
                        "0x10 (nest), 4 (core), 1 (thread) or 2 (trace)",
                        type);
        }
    }

    pmu_name = linux_name(fdt, node, pmu.type);
    if (!pmu_name) {
        return fail(fdt, node, errp, "the node has no name that perf can "
                    "use: leave out blanks and , =");
    }
    if (g_hash_table_contains(names, pmu_name)) {
        return fail(fdt, node, errp, "there is another PMU %s: rename one",
                    pmu_name);
    }

    if (pmu.type != CATALOG_NEST && info->pmus[pmu.type]) {
        return fail(fdt, node, errp, "there is another PMU of type %s: "
                    "Linux uses only one", pmu_types[pmu.type].name);
    }
    /* imc-pmu.c goes by the name, and dereferences NULL if the type differs. */
    if (pmu.type == CATALOG_THREAD ? strcmp(pmu_name, "thread_imc") != 0
                                   : g_str_has_prefix(pmu_name, "thread_imc")) {
        return fail(fdt, node, errp, "a PMU of type %s with this name crashes "
                    "Linux: name the node of type thread, and no other, "
                    "'thread'", pmu_types[pmu.type].name);
    }

    if (!get_cells(fdt, node, "size", 1, &size, errp)) {
        return false;
    }
    pmu.end = pmu_types[pmu.type].size;
    if (size != pmu.end) {
        return fail(fdt, node, errp, "property 'size' is 0x%x: "
                    "a %s PMU has 0x%x", size, pmu_types[pmu.type].name,
                    pmu.end);
    }
    if (!check_place(fdt, node, &pmu, errp) ||
        !get_cells(fdt, node, "reg", 2, reg, errp)) {
        return false;
    }
    pmu.base = reg[0];
    if (pmu.base % COUNTER_SIZE) {
        return fail(fdt, node, errp, "property 'reg' has base 0x%x: "
                    "it must be a multiple of 8", pmu.base);
    }

    if (!get_string(fdt, node, "events-prefix", &prefix, errp)) {
        return false;
    }
    if (!prefix) {
        return fail(fdt, node, errp, "property 'events-prefix' is missing: "
                    "add it, Linux makes no events without");
    }
    if (!is_usable(prefix, strlen(prefix))) {
        return fail(fdt, node, errp, "property 'events-prefix' has a "
                    "character that perf cannot use: take " USABLE);
    }
    pmu.prefix = prefix;
    if (!check_texts(fdt, node, errp) ||
        !check_events(fdt, node, &pmu, &events, errp)) {
        return false;
    }

    g_hash_table_add(names, g_steal_pointer(&pmu_name));
    info->pmus[pmu.type]++;
    info->events += events;
    return true;
}

/*
 * Check that no node is taken for a nest unit that the chip lacks: skiboot
 * (disable_unavailable_units() of hw/imc.c) removes the first node that has its
 * name before the @.  mcs0 to mcs7 are lacking always.
 */
static bool check_names(const void *fdt, GError **errp)
{
    int node;

    for (node = fdt_next_node(fdt, 0, NULL); node >= 0;
         node = fdt_next_node(fdt, node, NULL)) {
        const char *name = fdt_get_name(fdt, node, NULL);
        g_autofree char *unit = g_strndup(name, strcspn(name, "@"));

        if (g_regex_match_simple("^mcs[0-7]$", unit, 0, 0)) {
            return fail(fdt, node, errp, "skiboot removes nodes of this name: "
                        "rename it");
        }
        if (fdt_node_check_compatible(fdt, node, PMU_COMPATIBLE) &&
            g_regex_match_simple(NEST_UNITS, unit, 0, 0)) {
            return fail(fdt, node, errp, "a nest unit has this name, too, and "
                        "skiboot would remove the wrong one: rename it");
        }
    }
    return true;
}

bool catalog_check(const void *dtb, size_t size, CatalogInfo *info,
                   GError **errp)
{
    g_autoptr(GHashTable) names = g_hash_table_new_full(g_str_hash,
                                                        g_str_equal, g_free,
                                                        NULL);
    g_autofree void *fdt = NULL;
    CatalogInfo found = { 0 };
    int node;
    int rc;

    if (size > PNOR_CATALOG_MAX) {
        g_set_error(errp, PNOR_ERROR, 0, "a catalog of %zu bytes: skiboot has "
                    "a buffer of %u, leave out events", size,
                    PNOR_CATALOG_MAX);
        return false;
    }
    /* libfdt wants an address that is a multiple of 8. */
    fdt = g_malloc(size + 1);
    if (size) {
        memcpy(fdt, dtb, size);
    }
    /* libfdt 1.6 dereferences NULL for a root of before version 16. */
    rc = size >= sizeof(struct fdt_header) && fdt_magic(fdt) == FDT_MAGIC &&
         fdt_version(fdt) < 16 ? -FDT_ERR_BADVERSION
                               : fdt_check_full(fdt, size);
    if (rc) {
        g_set_error(errp, PNOR_ERROR, 0, "not a device tree (%s): "
                    "compile a source with dtc", fdt_strerror(rc));
        return false;
    }

    if (!check_nodes(fdt, errp) || !check_root(fdt, errp)) {
        return false;
    }
    for (node = 0; node >= 0; node = fdt_next_node(fdt, node, NULL)) {
        if (!fdt_node_check_compatible(fdt, node, PMU_COMPATIBLE) &&
            !check_pmu(fdt, node, names, &found, errp)) {
            return false;
        }
        if (found.events > CATALOG_MAX_EVENTS) {
            return fail(fdt, node, errp, "with its events the catalog has "
                        "more than %u: leave out PMUs or events",
                        CATALOG_MAX_EVENTS);
        }
    }
    if (!g_hash_table_size(names)) {
        return fail(fdt, 0, errp, "no node is compatible with '%s': "
                    "add a PMU", PMU_COMPATIBLE);
    }
    if (!check_names(fdt, errp)) {
        return false;
    }
    if (found.pmus[CATALOG_THREAD] && !found.pmus[CATALOG_CORE]) {
        return fail(fdt, 0, errp, "Linux has no PMU of type thread without "
                    "one of type core: add one");
    }

    if (info) {
        *info = found;
    }
    return true;
}

GByteArray *catalog_compress(const void *data, size_t size, GError **errp)
{
    g_autoptr(GByteArray) blob = g_byte_array_new();
    lzma_stream stream = LZMA_STREAM_INIT;
    lzma_options_lzma options;
    lzma_filter filters[] = {
        { .id = LZMA_FILTER_LZMA2, .options = &options },
        { .id = LZMA_VLI_UNKNOWN },
    };
    lzma_ret rc;

    lzma_lzma_preset(&options, 9);
    /* A larger dictionary only takes memory: nothing is farther away. */
    options.dict_size = PNOR_CATALOG_MAX;

    g_byte_array_set_size(blob, lzma_stream_buffer_bound(size));
    rc = lzma_stream_encoder(&stream, filters, LZMA_CHECK_CRC32);
    if (rc == LZMA_OK) {
        stream.next_in = data;
        stream.avail_in = size;
        stream.next_out = blob->data;
        stream.avail_out = blob->len;
        rc = lzma_code(&stream, LZMA_FINISH);
    }
    lzma_end(&stream);
    if (rc != LZMA_STREAM_END) {
        g_set_error(errp, PNOR_ERROR, 0, "liblzma cannot compress (%d): "
                    "free some memory", rc);
        return NULL;
    }
    g_byte_array_set_size(blob, stream.total_out);
    return g_steal_pointer(&blob);
}

/*
 * Check the filters of every block of a valid .xz stream.  A block has its own
 * filters, and need not tell its size, so find the blocks by the index at the
 * end of the stream.
 */
static bool check_filters(const uint8_t *stream, size_t size, GError **errp)
{
    const size_t end = size - LZMA_STREAM_HEADER_SIZE;
    uint64_t memory = DECODER_MEMORY;
    lzma_stream_flags footer;
    lzma_index *index = NULL;
    lzma_index_iter iter;
    bool fits = true;
    size_t pos;
    lzma_ret rc;

    rc = lzma_stream_footer_decode(&footer, stream + end);
    if (rc == LZMA_OK) {
        pos = end - footer.backward_size;
        rc = lzma_index_buffer_decode(&index, &memory, NULL, stream, &pos,
                                      end);
    }
    if (rc != LZMA_OK) {
        g_set_error(errp, PNOR_ERROR, 0, "an .xz file with an unreadable "
                    "index (%d): compress the catalog again", rc);
        return false;
    }

    lzma_index_iter_init(&iter, index);
    while (fits && !lzma_index_iter_next(&iter, LZMA_INDEX_ITER_BLOCK)) {
        const uint8_t *header = stream + iter.block.compressed_file_offset;

        /* The only filter that may be alone is LZMA2. */
        fits = !(header[XZ_BLOCK_FLAGS] & XZ_BLOCK_FILTERS);
    }
    lzma_index_end(index, NULL);
    if (!fits) {
        g_set_error(errp, PNOR_ERROR, 0, "an .xz file with more filters than "
                    "LZMA2, which skiboot lacks: compress it with xz "
                    "--check=crc32");
    }
    return fits;
}

/* Zeros may follow the stream, as padding, and before another stream. */
static bool has_stream(const uint8_t *bytes, size_t size)
{
    while (size && !*bytes) {
        bytes++;
        size--;
    }
    return size >= sizeof(xz_magic) &&
           !memcmp(bytes, xz_magic, sizeof(xz_magic));
}

GByteArray *catalog_decompress(const void *blob, size_t size, GError **errp)
{
    g_autoptr(GByteArray) data = g_byte_array_new();
    const uint8_t *bytes = blob;
    lzma_stream_flags flags;
    uint64_t memory = DECODER_MEMORY;
    size_t in = 0;
    size_t out = 0;
    lzma_ret rc;

    if (size < LZMA_STREAM_HEADER_SIZE ||
        lzma_stream_header_decode(&flags, bytes) != LZMA_OK) {
        g_set_error(errp, PNOR_ERROR, 0, "not an .xz file: "
                    "compress it with xz --check=crc32");
        return NULL;
    }
    if (flags.check != LZMA_CHECK_CRC32 && flags.check != LZMA_CHECK_NONE) {
        g_set_error(errp, PNOR_ERROR, 0, "an .xz file with check %d, which "
                    "skiboot lacks: compress it with xz --check=crc32",
                    flags.check);
        return NULL;
    }

    g_byte_array_set_size(data, PNOR_CATALOG_MAX);
    rc = lzma_stream_buffer_decode(&memory, 0, NULL, bytes, &in, size,
                                   data->data, &out, data->len);
    switch (rc) {
    case LZMA_OK:
        break;
    case LZMA_BUF_ERROR:
        g_set_error(errp, PNOR_ERROR, 0, "an .xz file of more than %u bytes "
                    "decompressed: leave out events", PNOR_CATALOG_MAX);
        return NULL;
    case LZMA_MEMLIMIT_ERROR:
        g_set_error(errp, PNOR_ERROR, 0, "an .xz file with a dictionary of "
                    "more than 64 MiB: compress it with xz -9 at most");
        return NULL;
    case LZMA_MEM_ERROR:
        g_set_error(errp, PNOR_ERROR, 0, "no memory to decompress: "
                    "free some");
        return NULL;
    default:
        g_set_error(errp, PNOR_ERROR, 0, "a damaged .xz file (%d): "
                    "compress the catalog again", rc);
        return NULL;
    }
    if (!check_filters(bytes, in, errp)) {
        return NULL;
    }
    if (has_stream(bytes + in, size - in)) {
        g_set_error(errp, PNOR_ERROR, 0, "an .xz file of several streams, "
                    "of which skiboot reads only the first: compress the "
                    "catalog as one file");
        return NULL;
    }
    g_byte_array_set_size(data, out);
    return g_steal_pointer(&data);
}
