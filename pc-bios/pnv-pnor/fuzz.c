/*
 * Fuzzing of PNOR images and of catalogs, with libFuzzer
 *
 * The first byte of an input says what the others are. Whatever is refused has
 * a message of one line, and what this code makes it also reads. Where images
 * have checksums, the right ones are put in, so that more than these is tested.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <string.h>
#include <glib.h>
#include "pnor.h"
#include "catalog.h"
#include "fuzz.h"

/* True if it worked; checks that there is an error if and only if it did not */
static bool worked(bool ok, GError **err)
{
    g_assert(ok == !*err);
    if (*err) {
        g_assert(*(*err)->message && !strchr((*err)->message, '\n'));
        g_clear_error(err);
    }
    return ok;
}

/* The last word of a header or an entry is the XOR of the others. */
static void put_checksum(uint8_t *p, unsigned words)
{
    unsigned i;

    memset(p + 4 * (words - 1), 0, 4);
    for (i = 0; i < 4 * (words - 1); i++) {
        p[4 * (words - 1) + i % 4] ^= p[i];
    }
}

static void fuzz_image_as_is(const uint8_t *data, size_t size)
{
    g_autoptr(GString) out = g_string_new("");
    g_autoptr(GPtrArray) catalogs = pnor_catalogs_new();
    g_autoptr(GByteArray) image = NULL;
    g_autoptr(GError) err = NULL;

    worked(pnor_list(data, size, out, &err), &err);
    g_ptr_array_add(catalogs, pnor_catalog_new(0x4e0200, data, size % 300));
    image = pnor_image_update(data, size, catalogs, &err);
    if (worked(image, &err)) {
        g_autoptr(PnorTable) table = pnor_table_parse(image->data, image->len,
                                                      &err);

        g_assert(worked(table, &err) && table->catalog >= 0);
    }
}

static void fuzz_image(const uint8_t *data, size_t size)
{
    g_autofree uint8_t *copy = g_memdup2(data, size);
    size_t at;

    fuzz_image_as_is(data, size);
    if (size >= 48) {
        put_checksum(copy, 12);
        for (at = 48; at + 128 <= MIN(size, PNOR_BLOCK_SIZE); at += 128) {
            put_checksum(copy + at, 32);
        }
        fuzz_image_as_is(copy, size);
    }
}

static void fuzz_catalogs(const uint8_t *data, size_t size)
{
    g_autoptr(GPtrArray) catalogs = NULL;
    g_autoptr(GPtrArray) again = NULL;
    g_autoptr(GByteArray) content = NULL;
    g_autoptr(GError) err = NULL;

    catalogs = pnor_catalogs_parse(data, size, &err);
    if (!worked(catalogs, &err)) {
        return;
    }
    content = pnor_catalogs_build(catalogs, &err);
    if (worked(content, &err)) {
        again = pnor_catalogs_parse(content->data, content->len, &err);
        g_assert(worked(again, &err) && again->len == catalogs->len);
    }
}

static void fuzz_check(const uint8_t *data, size_t size)
{
    CatalogInfo info;
    GError *err = NULL;

    worked(catalog_check(data, size, &info, &err), &err);
}

static void fuzz_decompress(const uint8_t *data, size_t size)
{
    g_autoptr(GByteArray) plain = NULL;
    g_autoptr(GError) err = NULL;

    plain = catalog_decompress(data, size, &err);
    worked(plain, &err);
}

static void fuzz_compress(const uint8_t *data, size_t size)
{
    g_autoptr(GByteArray) blob = NULL;
    g_autoptr(GByteArray) plain = NULL;
    g_autoptr(GError) err = NULL;

    blob = catalog_compress(data, size, &err);
    if (worked(blob, &err)) {
        plain = catalog_decompress(blob->data, blob->len, &err);
        if (worked(plain, &err)) {
            g_assert(plain->len == size && !memcmp(plain->data, data, size));
        } else {
            g_assert(!size || size > PNOR_CATALOG_MAX);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const what[])(const uint8_t *data, size_t size) = {
        fuzz_image, fuzz_catalogs, fuzz_check, fuzz_decompress, fuzz_compress,
    };

    if (size) {
        what[data[0] % G_N_ELEMENTS(what)](data + 1, size - 1);
    }
    return 0;
}
