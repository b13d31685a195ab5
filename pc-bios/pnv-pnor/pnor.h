/*
 * PNOR images that carry catalogs of POWER's in-memory collection counters
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A PNOR image is the flash from which the firmware of a powernv machine
 * reads its data.  Its partition table ("FFS") is in block 0.  The partition
 * IMA_CATALOG has a table of its own, which maps the id of a CPU to an .xz
 * file with a device tree: the catalog.  All words are big endian.
 *
 *   +--------+-------+---------+-- ... --+---------------------------------+
 *   |  FFS   | NVRAM | VERSION |         | IMA_CATALOG: table | xz | xz |  |
 *   +--------+-------+---------+-- ... --+---------------------------------+
 *   block 0                                                  up to 256 KiB
 *
 * Everything here works on bytes in memory, which may be any bytes at all.
 * A function that fails says why in its GError, in one line.
 */

#ifndef PC_BIOS_PNV_PNOR_PNOR_H
#define PC_BIOS_PNV_PNOR_PNOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <glib.h>

/* QEMU's model of the flash has blocks of this size and counts 16 bits. */
#define PNOR_BLOCK_SIZE     0x1000u
#define PNOR_BLOCKS_MAX     0xffffu
#define PNOR_IMAGE_LIMIT    0x10000000u

/* The size of the buffers into which skiboot reads and decompresses. */
#define PNOR_CATALOG_MAX    0x40000u

#define PNOR_ERROR pnor_error_quark()

typedef struct PnorPartition {
    char name[16];
    uint32_t base;              /* in blocks */
    uint32_t blocks;
    uint32_t actual;            /* in bytes */
    uint32_t type;
    bool ecc;
} PnorPartition;

typedef struct PnorTable {
    uint32_t blocks;            /* of the table itself */
    uint32_t image_blocks;      /* that it is made for */
    GArray *partitions;         /* of PnorPartition, as in the image */
    int catalog;                /* index of IMA_CATALOG, -1 if there is none */
} PnorTable;

typedef struct PnorCatalog {
    uint32_t id;
    GBytes *blob;               /* an .xz file, possibly with padding */
} PnorCatalog;

GQuark pnor_error_quark(void);

/* Set an error: one line that says what is wrong and what to do. */
void pnor_fail(GError **errp, const char *fmt, ...) G_GNUC_PRINTF(2, 3);

/*
 * Read an id such as 0x4e0200.  skiboot looks for the processor version with
 * the bits 0xf0ff cleared, so that an id with such a bit is never found.
 */
bool pnor_parse_id(const char *text, uint32_t *id, GError **errp);

PnorCatalog *pnor_catalog_new(uint32_t id, const void *blob, size_t size);
void pnor_catalog_free(PnorCatalog *catalog);

/* A list of PnorCatalog that frees them. */
GPtrArray *pnor_catalogs_new(void);

/* Read and check the partition table of an image. */
PnorTable *pnor_table_parse(const uint8_t *image, size_t size, GError **errp);
void pnor_table_free(PnorTable *table);

/* Read and check the content of the partition IMA_CATALOG. */
GPtrArray *pnor_catalogs_parse(const uint8_t *content, size_t size,
                               GError **errp);

/* The content of IMA_CATALOG: whole blocks, catalogs in the order of ids. */
GByteArray *pnor_catalogs_build(GPtrArray *catalogs, GError **errp);

/*
 * The image @base with @catalogs besides those that it has, or in place of
 * those with the same id.  Without a @base (NULL): a new image.
 */
GByteArray *pnor_image_update(const uint8_t *base, size_t size,
                              GPtrArray *catalogs, GError **errp);

/*
 * Append a readable table of the image to @out.  False if anything in the
 * image is broken; what could be read is in @out all the same.
 */
bool pnor_list(const uint8_t *image, size_t size, GString *out,
               GError **errp);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(PnorTable, pnor_table_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PnorCatalog, pnor_catalog_free)

#endif /* PC_BIOS_PNV_PNOR_PNOR_H */
