/*
 * Catalogs of POWER's in-memory collection counters: check and compression
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef PC_BIOS_PNV_PNOR_CATALOG_H
#define PC_BIOS_PNV_PNOR_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <glib.h>

typedef enum CatalogType {
    CATALOG_NEST,
    CATALOG_CORE,
    CATALOG_THREAD,
    CATALOG_TRACE,
    CATALOG_TYPES
} CatalogType;

typedef struct CatalogInfo {
    unsigned pmus[CATALOG_TYPES];
    unsigned events;
} CatalogInfo;

/*
 * Check that @dtb is a device tree which skiboot and Linux take as a catalog
 * without leaving out or misreading any of it.  @info may be NULL.
 */
bool catalog_check(const void *dtb, size_t size, CatalogInfo *info,
                   GError **errp);

/* Compress in the only way that skiboot's decompressor understands. */
GByteArray *catalog_compress(const void *data, size_t size, GError **errp);

/* Decompress what skiboot's decompressor would, and nothing else. */
GByteArray *catalog_decompress(const void *blob, size_t size, GError **errp);

#endif /* PC_BIOS_PNV_PNOR_CATALOG_H */
