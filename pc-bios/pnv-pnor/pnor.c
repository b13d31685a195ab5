/*
 * PNOR images that carry catalogs of POWER's in-memory collection counters
 *
 * The formats are those that skiboot reads: the partition table is described
 * by its libflash/ffs.h and checked by libflash/libffs.c, the table of the
 * partition IMA_CATALOG by core/flash-subpartition.c, and the id by which a
 * catalog is found comes from hw/imc.c.  What these refuse is refused here,
 * and a few things besides that they do not look at but trip over.
 *
 * Not supported: ECC and secure-boot containers around IMA_CATALOG (QEMU's
 * machines need neither), and a second partition table in the same image.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <stdarg.h>
#include <string.h>
#include <glib.h>
#include "pnor.h"
#include "catalog.h"

/* Header of the partition table */
#define FFS_MAGIC           0x50415254      /* "PART" */
#define FFS_VERSION         1

enum {
    FFS_HDR_MAGIC           = 0x00,
    FFS_HDR_VERSION         = 0x04,
    FFS_HDR_TABLE_BLOCKS    = 0x08,
    FFS_HDR_ENTRY_SIZE      = 0x0c,
    FFS_HDR_ENTRY_COUNT     = 0x10,
    FFS_HDR_BLOCK_SIZE      = 0x14,
    FFS_HDR_BLOCK_COUNT     = 0x18,
    FFS_HDR_SIZE            = 0x30
};

/* Its entries */
#define FFS_TYPE_DATA       1
#define FFS_TYPE_TABLE      3
#define FFS_FLAG_PROTECTED  1
#define FFS_NO_PARENT       0xffffffff
#define FFS_INTEGRITY_ECC   0x80            /* of the first of two bytes */

enum {
    FFS_ENTRY_NAME          = 0x00,
    FFS_ENTRY_BASE          = 0x10,
    FFS_ENTRY_BLOCKS        = 0x14,
    FFS_ENTRY_PARENT        = 0x18,
    FFS_ENTRY_ID            = 0x1c,
    FFS_ENTRY_TYPE          = 0x20,
    FFS_ENTRY_FLAGS         = 0x24,
    FFS_ENTRY_ACTUAL        = 0x28,
    FFS_ENTRY_INTEGRITY     = 0x3e,
    FFS_ENTRY_SIZE          = 0x80
};

/* Table of the partition IMA_CATALOG, one block */
#define CATALOG_PARTITION   "IMA_CATALOG"
#define TOC_EYECATCHER      "IMCC"
#define TOC_VERSION         1
#define TOC_SIZE            0x1000u
#define TOC_ENTRIES_MAX     340

enum {
    TOC_HDR_EYECATCHER      = 0x00,
    TOC_HDR_VERSION         = 0x04,
    TOC_HDR_SIZE            = 0x08,
    TOC_ENTRY_ID            = 0x00,
    TOC_ENTRY_OFFSET        = 0x04,
    TOC_ENTRY_LEN           = 0x08,
    TOC_ENTRY_SIZE          = 0x0c
};

G_STATIC_ASSERT(TOC_HDR_SIZE + TOC_ENTRIES_MAX * TOC_ENTRY_SIZE <= TOC_SIZE);

/*
 * An .xz file is a multiple of four bytes long, so that this wastes nothing.
 * More alignment is of no use: skiboot moves the wanted catalog to the start of
 * its buffer before it decompresses it.
 */
#define BLOB_ALIGN          4

#define CONTAINER_MAGIC     0x17082011      /* of secure boot */

/* Bits of the processor version that skiboot clears: core type and minor */
#define ID_CLEARED          0xf0ffu

/*
 * Content of VERSION in a new image.  skiboot shows what follows the key
 * "open-power" in the device tree, and stops at the first zero.
 */
#define NEW_VERSION         "open-power-qemu-pmu\n"
#define NEW_NVRAM_BLOCKS    0x20

G_DEFINE_QUARK(pnor_error, pnor_error)

void pnor_fail(GError **errp, const char *fmt, ...)
{
    g_autofree char *text = NULL;
    va_list ap;

    va_start(ap, fmt);
    text = g_strdup_vprintf(fmt, ap);
    va_end(ap);
    g_set_error_literal(errp, PNOR_ERROR, 0, text);
}

static uint32_t get_be32(const uint8_t *p)
{
    uint32_t value;

    memcpy(&value, p, sizeof(value));
    return GUINT32_FROM_BE(value);
}

static void put_be32(uint8_t *p, uint32_t value)
{
    value = GUINT32_TO_BE(value);
    memcpy(p, &value, sizeof(value));
}

/* Headers and entries end with the word that makes the XOR of all words 0. */
static uint32_t checksum(const uint8_t *p, size_t size)
{
    uint32_t sum = 0;
    size_t i;

    for (i = 0; i < size; i += 4) {
        sum ^= get_be32(p + i);
    }
    return sum;
}

static void seal(uint8_t *p, size_t size)
{
    put_be32(p + size - 4, 0);
    put_be32(p + size - 4, checksum(p, size));
}

static uint32_t bytes_to_blocks(size_t size)
{
    return (size + PNOR_BLOCK_SIZE - 1) / PNOR_BLOCK_SIZE;
}

static size_t entry_offset(uint32_t index)
{
    return FFS_HDR_SIZE + (size_t)index * FFS_ENTRY_SIZE;
}

static uint32_t entries_max(const PnorTable *table)
{
    return (table->blocks * PNOR_BLOCK_SIZE - FFS_HDR_SIZE) / FFS_ENTRY_SIZE;
}

/* New bytes are as in an erased flash. */
static void set_blocks(GByteArray *image, uint32_t blocks)
{
    guint old = image->len;

    g_byte_array_set_size(image, blocks * PNOR_BLOCK_SIZE);
    if (image->len > old) {
        memset(image->data + old, 0xff, image->len - old);
    }
}

static void put_header(uint8_t *image, uint32_t table_blocks,
                       uint32_t entries, uint32_t blocks)
{
    put_be32(image + FFS_HDR_MAGIC, FFS_MAGIC);
    put_be32(image + FFS_HDR_VERSION, FFS_VERSION);
    put_be32(image + FFS_HDR_TABLE_BLOCKS, table_blocks);
    put_be32(image + FFS_HDR_ENTRY_SIZE, FFS_ENTRY_SIZE);
    put_be32(image + FFS_HDR_ENTRY_COUNT, entries);
    put_be32(image + FFS_HDR_BLOCK_SIZE, PNOR_BLOCK_SIZE);
    put_be32(image + FFS_HDR_BLOCK_COUNT, blocks);
    seal(image, FFS_HDR_SIZE);
}

static void put_entry(uint8_t *image, uint32_t index, const char *name,
                      uint32_t base, uint32_t blocks, uint32_t type,
                      uint32_t flags)
{
    uint8_t *p = image + entry_offset(index);

    memset(p, 0, FFS_ENTRY_SIZE);
    memcpy(p + FFS_ENTRY_NAME, name, strlen(name));
    put_be32(p + FFS_ENTRY_BASE, base);
    put_be32(p + FFS_ENTRY_BLOCKS, blocks);
    put_be32(p + FFS_ENTRY_PARENT, FFS_NO_PARENT);
    put_be32(p + FFS_ENTRY_ID, index + 1);
    put_be32(p + FFS_ENTRY_TYPE, type);
    put_be32(p + FFS_ENTRY_FLAGS, flags);
    put_be32(p + FFS_ENTRY_ACTUAL, blocks * PNOR_BLOCK_SIZE);
    seal(p, FFS_ENTRY_SIZE);
}

bool pnor_parse_id(const char *text, uint32_t *id, GError **errp)
{
    const char *digits = g_str_has_prefix(text, "0x") ? text + 2 : "";
    guint64 value;

    if (!*digits || digits[strspn(digits, "0123456789abcdefABCDEF")]) {
        pnor_fail(errp, "'%s' is not an id: write 0x and hexadecimal digits, "
                  "for example 0x4e0200", text);
        return false;
    }
    value = g_ascii_strtoull(digits, NULL, 16);     /* saturates */
    if (value > UINT32_MAX) {
        pnor_fail(errp, "id %s has more than 32 bits: use the processor "
                  "version (PVR) with the bits 0xf0ff cleared", text);
        return false;
    }
    if (!(value & ~(guint64)ID_CLEARED)) {
        pnor_fail(errp, "id %s matches no processor: use the processor version "
                  "(PVR) with the bits 0xf0ff cleared", text);
        return false;
    }
    if (value & ID_CLEARED) {
        pnor_fail(errp, "skiboot never looks for id %s: use 0x%x", text,
                  (uint32_t)value & ~ID_CLEARED);
        return false;
    }
    *id = value;
    return true;
}

PnorCatalog *pnor_catalog_new(uint32_t id, const void *blob, size_t size)
{
    PnorCatalog *catalog = g_new0(PnorCatalog, 1);

    catalog->id = id;
    catalog->blob = g_bytes_new(blob, size);
    return catalog;
}

void pnor_catalog_free(PnorCatalog *catalog)
{
    if (catalog) {
        g_bytes_unref(catalog->blob);
        g_free(catalog);
    }
}

static void catalog_free(gpointer catalog)
{
    pnor_catalog_free(catalog);
}

GPtrArray *pnor_catalogs_new(void)
{
    return g_ptr_array_new_with_free_func(catalog_free);
}

static PnorCatalog *find_catalog(GPtrArray *catalogs, uint32_t id)
{
    guint i;

    for (i = 0; i < catalogs->len; i++) {
        PnorCatalog *catalog = g_ptr_array_index(catalogs, i);

        if (catalog->id == id) {
            return catalog;
        }
    }
    return NULL;
}

void pnor_table_free(PnorTable *table)
{
    if (table) {
        g_array_free(table->partitions, TRUE);
        g_free(table);
    }
}

static PnorPartition *partition_of(const PnorTable *table, guint index)
{
    return &g_array_index(table->partitions, PnorPartition, index);
}

/* Names come from a file: keep them in one line, and the terminal in order. */
static void make_printable(char *name)
{
    for (; *name; name++) {
        if (!g_ascii_isprint(*name)) {
            *name = '?';
        }
    }
}

static gint compare_base(gconstpointer a, gconstpointer b)
{
    const PnorPartition *p = a;
    const PnorPartition *q = b;

    return p->base < q->base ? -1 : p->base > q->base;
}

static bool check_overlap(const PnorTable *table, GError **errp)
{
    g_autoptr(GArray) sorted = g_array_new(FALSE, FALSE,
                                           sizeof(PnorPartition));
    const char *last = "the partition table";
    uint32_t end = table->blocks;
    bool own_entry = false;
    guint i;

    g_array_append_vals(sorted, table->partitions->data,
                        table->partitions->len);
    g_array_sort(sorted, compare_base);

    for (i = 0; i < sorted->len; i++) {
        const PnorPartition *p = &g_array_index(sorted, PnorPartition, i);

        if (!p->blocks) {
            continue;
        }
        if (!p->base && p->type == FFS_TYPE_TABLE && !own_entry) {
            own_entry = true;
        } else if (p->base < end) {
            pnor_fail(errp, "partition %s overlaps %s: "
                      "take an undamaged image", p->name, last);
            return false;
        }
        if (p->base + p->blocks > end) {
            end = p->base + p->blocks;
        }
        last = p->name;
    }
    return true;
}

/* Check the header at the start of an image; the number of its entries. */
static bool parse_header(const uint8_t *image, size_t size, PnorTable *table,
                         uint32_t *entries, GError **errp)
{
    static const struct {
        size_t offset;
        uint32_t value;
        const char *what;
    } fixed[] = {
        { FFS_HDR_VERSION, FFS_VERSION, "version" },
        { FFS_HDR_ENTRY_SIZE, FFS_ENTRY_SIZE, "entry size" },
        { FFS_HDR_BLOCK_SIZE, PNOR_BLOCK_SIZE, "block size" },
    };
    uint32_t value;
    size_t i;

    if (!size || size % PNOR_BLOCK_SIZE || size >= PNOR_IMAGE_LIMIT) {
        pnor_fail(errp, "%zu bytes are not whole blocks of 4 KiB and less "
                  "than 256 MiB: take an undamaged image", size);
        return false;
    }
    value = get_be32(image + FFS_HDR_MAGIC);
    if (value != FFS_MAGIC) {
        pnor_fail(errp, "no partition table at the start (magic 0x%08x): "
                  "take a PNOR image", value);
        return false;
    }
    if (checksum(image, FFS_HDR_SIZE)) {
        pnor_fail(errp, "the partition table's header has a wrong checksum: "
                  "take an undamaged image");
        return false;
    }
    for (i = 0; i < G_N_ELEMENTS(fixed); i++) {
        value = get_be32(image + fixed[i].offset);
        if (value != fixed[i].value) {
            pnor_fail(errp, "the partition table has %s %u, which is not "
                      "supported: take an image with %u", fixed[i].what,
                      value, fixed[i].value);
            return false;
        }
    }

    table->image_blocks = get_be32(image + FFS_HDR_BLOCK_COUNT);
    if (table->image_blocks > size / PNOR_BLOCK_SIZE) {
        pnor_fail(errp, "the partition table is for %u blocks, but there "
                  "are %zu: take a complete image", table->image_blocks,
                  size / PNOR_BLOCK_SIZE);
        return false;
    }
    table->blocks = get_be32(image + FFS_HDR_TABLE_BLOCKS);
    if (!table->blocks || table->blocks > table->image_blocks) {
        pnor_fail(errp, "the partition table has %u of the image's %u "
                  "blocks: take an undamaged image", table->blocks,
                  table->image_blocks);
        return false;
    }
    *entries = get_be32(image + FFS_HDR_ENTRY_COUNT);
    if (*entries > entries_max(table)) {
        pnor_fail(errp, "the partition table has %u entries and room for %u: "
                  "take an undamaged image", *entries, entries_max(table));
        return false;
    }
    return true;
}

/* Check the entry at @p, and append it to the table. */
static bool parse_entry(const uint8_t *p, PnorTable *table, GError **errp)
{
    PnorPartition partition = {
        .base = get_be32(p + FFS_ENTRY_BASE),
        .blocks = get_be32(p + FFS_ENTRY_BLOCKS),
        .actual = get_be32(p + FFS_ENTRY_ACTUAL),
        .type = get_be32(p + FFS_ENTRY_TYPE),
        .ecc = p[FFS_ENTRY_INTEGRITY] & FFS_INTEGRITY_ECC,
    };
    bool is_catalog;

    /* As in skiboot, the last byte of a name does not count. */
    memcpy(partition.name, p + FFS_ENTRY_NAME, sizeof(partition.name) - 1);
    is_catalog = !strcmp(partition.name, CATALOG_PARTITION);
    make_printable(partition.name);

    if (checksum(p, FFS_ENTRY_SIZE)) {
        pnor_fail(errp, "entry %u (%s) of the partition table has a wrong "
                  "checksum: take an undamaged image",
                  table->partitions->len + 1, partition.name);
        return false;
    }
    if ((uint64_t)partition.base + partition.blocks > table->image_blocks) {
        pnor_fail(errp, "partition %s has blocks 0x%x+0x%x, but the image "
                  "ends at 0x%x: take a complete image", partition.name,
                  partition.base, partition.blocks, table->image_blocks);
        return false;
    }
    if (partition.actual > partition.blocks * PNOR_BLOCK_SIZE) {
        pnor_fail(errp, "partition %s has 0x%x bytes in 0x%x blocks: "
                  "take an undamaged image", partition.name,
                  partition.actual, partition.blocks);
        return false;
    }
    if (is_catalog) {
        if (table->catalog >= 0) {
            pnor_fail(errp, "there are two partitions %s: remove one",
                      partition.name);
            return false;
        }
        table->catalog = table->partitions->len;
    }
    g_array_append_val(table->partitions, partition);
    return true;
}

PnorTable *pnor_table_parse(const uint8_t *image, size_t size, GError **errp)
{
    g_autoptr(PnorTable) table = g_new0(PnorTable, 1);
    uint32_t entries;
    uint32_t i;

    table->partitions = g_array_new(FALSE, TRUE, sizeof(PnorPartition));
    table->catalog = -1;

    if (!parse_header(image, size, table, &entries, errp)) {
        return NULL;
    }
    for (i = 0; i < entries; i++) {
        if (!parse_entry(image + entry_offset(i), table, errp)) {
            return NULL;
        }
    }
    if (!check_overlap(table, errp)) {
        return NULL;
    }
    return g_steal_pointer(&table);
}

GPtrArray *pnor_catalogs_parse(const uint8_t *content, size_t size,
                               GError **errp)
{
    g_autoptr(GPtrArray) catalogs = pnor_catalogs_new();
    const uint8_t *p = content + TOC_HDR_SIZE;
    int i;

    if (size < TOC_SIZE) {
        pnor_fail(errp, CATALOG_PARTITION " has 0x%zx bytes and a table of "
                  "0x1000: take an undamaged image", size);
        return NULL;
    }
    if (get_be32(content) == CONTAINER_MAGIC) {
        pnor_fail(errp, CATALOG_PARTITION " is in a secure-boot container: "
                  "take an image with a bare one");
        return NULL;
    }
    if (get_be32(content + TOC_HDR_VERSION) != TOC_VERSION) {
        pnor_fail(errp, "the table of " CATALOG_PARTITION " has version %u: "
                  "take an image with 1",
                  get_be32(content + TOC_HDR_VERSION));
        return NULL;
    }

    for (i = 0; i < TOC_ENTRIES_MAX; i++, p += TOC_ENTRY_SIZE) {
        uint32_t id = get_be32(p + TOC_ENTRY_ID);
        uint32_t offset = get_be32(p + TOC_ENTRY_OFFSET);
        uint32_t len = get_be32(p + TOC_ENTRY_LEN);
        uint64_t end = (uint64_t)offset + len;

        if (!id && !offset && !len) {
            break;
        }
        /* skiboot refuses the whole table for one bad entry. */
        if (!len || offset < TOC_SIZE || end > size) {
            pnor_fail(errp, "catalog 0x%x has bytes 0x%x+0x%x of "
                      CATALOG_PARTITION "'s 0x1000..0x%zx: "
                      "take an undamaged image", id, offset, len, size);
            return NULL;
        }
        /* It reads up to the last catalog without looking how far. */
        if (end > PNOR_CATALOG_MAX) {
            pnor_fail(errp, "catalog 0x%x ends at 0x%x of " CATALOG_PARTITION
                      ", skiboot reads 0x%x: take an image with fewer", id,
                      (uint32_t)end, PNOR_CATALOG_MAX);
            return NULL;
        }
        /* It adds the offsets of entries with the same id up. */
        if (find_catalog(catalogs, id)) {
            pnor_fail(errp, "catalog 0x%x is twice in " CATALOG_PARTITION
                      ", skiboot finds neither: take another image", id);
            return NULL;
        }
        g_ptr_array_add(catalogs,
                        pnor_catalog_new(id, content + offset, len));
    }
    return g_steal_pointer(&catalogs);
}

static gint compare_id(gconstpointer a, gconstpointer b)
{
    const PnorCatalog *p = *(PnorCatalog *const *)a;
    const PnorCatalog *q = *(PnorCatalog *const *)b;

    return p->id < q->id ? -1 : p->id > q->id;
}

/* Fill up to a multiple of @align; skiboot takes zeros behind an .xz file. */
static void pad(GByteArray *array, guint align)
{
    guint old = array->len;

    g_byte_array_set_size(array, (old + align - 1) / align * align);
    if (array->len > old) {
        memset(array->data + old, 0, array->len - old);
    }
}

GByteArray *pnor_catalogs_build(GPtrArray *catalogs, GError **errp)
{
    g_autoptr(GByteArray) content = g_byte_array_new();
    g_autoptr(GPtrArray) sorted = g_ptr_array_new();
    /* Catalogs with the same bytes share them, as skiboot allows. */
    g_autoptr(GHashTable) offsets = g_hash_table_new(g_bytes_hash,
                                                     g_bytes_equal);
    guint i;

    if (catalogs->len > TOC_ENTRIES_MAX) {
        pnor_fail(errp, CATALOG_PARTITION " has room for %d catalogs, not %u: "
                  "leave some out", TOC_ENTRIES_MAX, catalogs->len);
        return NULL;
    }
    for (i = 0; i < catalogs->len; i++) {
        g_ptr_array_add(sorted, g_ptr_array_index(catalogs, i));
    }
    g_ptr_array_sort(sorted, compare_id);

    pad(g_byte_array_append(content, (const uint8_t *)TOC_EYECATCHER,
                            strlen(TOC_EYECATCHER)), TOC_SIZE);
    put_be32(content->data + TOC_HDR_VERSION, TOC_VERSION);

    for (i = 0; i < sorted->len; i++) {
        const PnorCatalog *catalog = g_ptr_array_index(sorted, i);
        gpointer known = g_hash_table_lookup(offsets, catalog->blob);
        uint32_t offset = known ? GPOINTER_TO_UINT(known) : content->len;
        gsize len;
        const uint8_t *blob = g_bytes_get_data(catalog->blob, &len);
        uint8_t *p;

        if (!len) {
            pnor_fail(errp, "catalog 0x%x is empty: leave it out",
                      catalog->id);
            return NULL;
        }
        if (i) {
            const PnorCatalog *previous = g_ptr_array_index(sorted, i - 1);

            if (catalog->id == previous->id) {
                pnor_fail(errp, "there are two catalogs 0x%x: leave one out",
                          catalog->id);
                return NULL;
            }
        }
        if (!known) {
            if (len > PNOR_CATALOG_MAX - content->len) {
                pnor_fail(errp, "the catalogs do not fit into the 256 KiB that "
                          "skiboot reads: leave out 0x%x or another one",
                          catalog->id);
                return NULL;
            }
            g_hash_table_insert(offsets, catalog->blob,
                                GUINT_TO_POINTER(offset));
            g_byte_array_append(content, blob, len);
            pad(content, BLOB_ALIGN);
        }
        p = content->data + TOC_HDR_SIZE + i * TOC_ENTRY_SIZE;
        put_be32(p + TOC_ENTRY_ID, catalog->id);
        put_be32(p + TOC_ENTRY_OFFSET, offset);
        put_be32(p + TOC_ENTRY_LEN, len);
    }

    pad(content, PNOR_BLOCK_SIZE);
    return g_steal_pointer(&content);
}

static GByteArray *new_image(void)
{
    GByteArray *image = g_byte_array_new();
    uint32_t version = 1 + NEW_NVRAM_BLOCKS;
    uint8_t *p;

    set_blocks(image, version + 1);
    memset(image->data, 0, FFS_HDR_SIZE);
    put_header(image->data, 1, 3, version + 1);
    put_entry(image->data, 0, "part", 0, 1, FFS_TYPE_TABLE,
              FFS_FLAG_PROTECTED);
    put_entry(image->data, 1, "NVRAM", 1, NEW_NVRAM_BLOCKS, FFS_TYPE_DATA, 0);
    put_entry(image->data, 2, "VERSION", version, 1, FFS_TYPE_DATA, 0);

    p = image->data + version * PNOR_BLOCK_SIZE;
    memset(p, 0, PNOR_BLOCK_SIZE);
    memcpy(p, NEW_VERSION, strlen(NEW_VERSION));
    return image;
}

/* What @table's partition IMA_CATALOG has, none if there is no such thing */
static GPtrArray *read_catalogs(const uint8_t *image, const PnorTable *table,
                                GError **errp)
{
    const PnorPartition *partition;

    if (table->catalog < 0) {
        return pnor_catalogs_new();
    }
    partition = partition_of(table, table->catalog);
    if (partition->ecc) {
        pnor_fail(errp, CATALOG_PARTITION " is protected by ECC, which is not "
                  "supported: take an image without");
        return NULL;
    }
    return pnor_catalogs_parse(image +
                               (size_t)partition->base * PNOR_BLOCK_SIZE,
                               partition->actual, errp);
}

/* The first block behind the table and all partitions but IMA_CATALOG */
static uint32_t end_of_others(const PnorTable *table)
{
    uint32_t end = table->blocks;
    guint i;

    for (i = 0; i < table->partitions->len; i++) {
        const PnorPartition *p = partition_of(table, i);

        if ((int)i != table->catalog && p->blocks &&
            p->base + p->blocks > end) {
            end = p->base + p->blocks;
        }
    }
    return end;
}

static bool store_content(GByteArray *image, const PnorTable *table,
                          const GByteArray *content, GError **errp)
{
    uint32_t count = table->partitions->len;
    uint32_t need = bytes_to_blocks(content->len);
    uint32_t base = 0;
    uint32_t blocks = 0;
    uint8_t *p;

    if (table->catalog >= 0) {
        const PnorPartition *old = partition_of(table, table->catalog);

        base = old->base;
        blocks = old->blocks;
        memset(image->data + (size_t)base * PNOR_BLOCK_SIZE, 0xff,
               (size_t)blocks * PNOR_BLOCK_SIZE);
    } else if (count == entries_max(table)) {
        pnor_fail(errp, "the partition table is full with %u entries: "
                  "remove a partition", count);
        return false;
    }

    if (need > blocks) {
        base = end_of_others(table);
        blocks = need;
        if (base + blocks > PNOR_BLOCKS_MAX) {
            pnor_fail(errp, "with " CATALOG_PARTITION " the image would reach "
                      "256 MiB: remove a partition");
            return false;
        }
    }
    if (base + blocks > image->len / PNOR_BLOCK_SIZE) {
        set_blocks(image, base + blocks);
    }
    p = image->data + (size_t)base * PNOR_BLOCK_SIZE;
    memcpy(p, content->data, content->len);

    if (table->catalog < 0) {
        put_entry(image->data, count, CATALOG_PARTITION, base, blocks,
                  FFS_TYPE_DATA, 0);
        count++;
    } else {
        p = image->data + entry_offset(table->catalog);
        put_be32(p + FFS_ENTRY_BASE, base);
        put_be32(p + FFS_ENTRY_BLOCKS, blocks);
        put_be32(p + FFS_ENTRY_ACTUAL, content->len);
        seal(p, FFS_ENTRY_SIZE);
    }
    put_header(image->data, table->blocks, count,
               image->len / PNOR_BLOCK_SIZE);
    return true;
}

GByteArray *pnor_image_update(const uint8_t *base, size_t size,
                              GPtrArray *catalogs, GError **errp)
{
    g_autoptr(GByteArray) image = NULL;
    g_autoptr(GByteArray) content = NULL;
    g_autoptr(PnorTable) table = NULL;
    g_autoptr(GPtrArray) kept = NULL;
    g_autoptr(GPtrArray) all = g_ptr_array_new();
    guint i;

    table = base ? pnor_table_parse(base, size, errp) : NULL;
    if (base && !table) {
        return NULL;
    }
    if (base) {
        image = g_byte_array_sized_new(size);
        g_byte_array_append(image, base, size);
    } else {
        image = new_image();
        table = pnor_table_parse(image->data, image->len, errp);
        g_assert(table);
    }
    kept = read_catalogs(image->data, table, errp);
    if (!kept) {
        return NULL;
    }

    for (i = 0; i < catalogs->len; i++) {
        g_ptr_array_add(all, g_ptr_array_index(catalogs, i));
    }
    for (i = 0; i < kept->len; i++) {
        PnorCatalog *catalog = g_ptr_array_index(kept, i);

        if (!find_catalog(catalogs, catalog->id)) {
            g_ptr_array_add(all, catalog);
        }
    }

    content = pnor_catalogs_build(all, errp);
    if (!content || !store_content(image, table, content, errp)) {
        return NULL;
    }
    return g_steal_pointer(&image);
}

/* One line of the list; the reason if the catalog is broken. */
static bool list_catalog(const PnorCatalog *catalog, GString *out)
{
    g_autoptr(GByteArray) dtb = NULL;
    g_autoptr(GError) err = NULL;
    CatalogInfo info;
    gsize len;
    const void *blob = g_bytes_get_data(catalog->blob, &len);

    g_string_append_printf(out, "0x%-8x %10zu ", catalog->id, len);
    dtb = catalog_decompress(blob, len, &err);
    if (!dtb) {
        g_string_append_printf(out, "broken: %s\n", err->message);
        return false;
    }
    g_string_append_printf(out, "%12u ", dtb->len);
    if (!catalog_check(dtb->data, dtb->len, &info, &err)) {
        g_string_append_printf(out, "broken: %s\n", err->message);
        return false;
    }
    g_string_append_printf(out, "%5u %5u %6u %5u %7u\n",
                           info.pmus[CATALOG_NEST], info.pmus[CATALOG_CORE],
                           info.pmus[CATALOG_THREAD],
                           info.pmus[CATALOG_TRACE], info.events);
    return true;
}

bool pnor_list(const uint8_t *image, size_t size, GString *out,
               GError **errp)
{
    g_autoptr(PnorTable) table = pnor_table_parse(image, size, errp);
    g_autoptr(GPtrArray) catalogs = NULL;
    g_autoptr(GError) err = NULL;
    unsigned broken = 0;
    guint i;

    if (!table) {
        return false;
    }

    g_string_append_printf(out, "%-15s %10s %10s %10s\n", "partition",
                           "offset", "size", "actual");
    for (i = 0; i < table->partitions->len; i++) {
        const PnorPartition *p = partition_of(table, i);

        g_string_append_printf(out, "%-15s 0x%08x 0x%08x 0x%08x%s\n", p->name,
                               p->base * PNOR_BLOCK_SIZE,
                               p->blocks * PNOR_BLOCK_SIZE, p->actual,
                               p->ecc ? " ECC" : "");
    }
    if (table->catalog < 0) {
        g_string_append(out, "\nno " CATALOG_PARTITION "\n");
        return true;
    }

    catalogs = read_catalogs(image, table, &err);
    if (!catalogs) {
        g_string_append_printf(out, "\n" CATALOG_PARTITION " broken: %s\n",
                               err->message);
        pnor_fail(errp, CATALOG_PARTITION " is broken");
        return false;
    }
    g_string_append_printf(out, "\n%-10s %10s %12s %5s %5s %6s %5s %7s\n",
                           "catalog", "compressed", "uncompressed", "nest",
                           "core", "thread", "trace", "events");
    for (i = 0; i < catalogs->len; i++) {
        broken += !list_catalog(g_ptr_array_index(catalogs, i), out);
    }
    if (broken) {
        pnor_fail(errp, "%u of %u catalogs broken", broken, catalogs->len);
        return false;
    }
    return true;
}
