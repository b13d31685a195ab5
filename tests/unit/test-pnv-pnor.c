/*
 * Tests of pnv-pnor: PNOR images, catalogs, and what is refused
 *
 * All expected words are written out from the formats' tables, checksums
 * included; nothing is compared with what the code under test computes.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <string.h>
#include <glib.h>
#include <libfdt.h>
#include <lzma.h>
#include "pc-bios/pnv-pnor/pnor.h"
#include "pc-bios/pnv-pnor/catalog.h"

#define BLOCK   0x1000u

/* Words of a header, and of an entry, of the partition table */
typedef uint32_t Header[12];
typedef uint32_t Entry[32];

/* Places in these, in bytes from the start of the image */
#define HEADER(word)        ((word) * 4)
#define ENTRY(n, word)      (48 + (n) * 128 + (word) * 4)

/*
 * QEMU's own image.  The checksum is the XOR of the words before it:
 * 50415254 ^ 1 ^ 1 ^ 80 ^ 3 = 504152d7, ^ 1000 ^ 22 = 504142f5
 */
static const Header stock_header = {
    0x50415254, 1, 1, 0x80, 3, 0x1000, 0x22, 0, 0, 0, 0, 0x504142f5
};

/* 70617274 ^ 1 ^ ffffffff = 8f9e8d8a, ^ 1 ^ 3 ^ 1 ^ 1000 = 8f9e9d89 */
static const Entry part_entry = {
    0x70617274, 0, 0, 0,                /* "part" */
    0, 1, 0xffffffff, 1, 3, 1, 0x1000,
    [31] = 0x8f9e9d89
};

/*
 * 4e565241 ^ 4d000000 = 03565241, ^ 1 ^ 20 = 03565260,
 * ^ ffffffff = fca9ad9f, ^ 2 ^ 1 = fca9ad9c, ^ 20000 = fcabad9c
 */
static const Entry nvram_entry = {
    0x4e565241, 0x4d000000, 0, 0,       /* "NVRAM" */
    1, 0x20, 0xffffffff, 2, 1, 0, 0x20000,
    [31] = 0xfcabad9c
};

/*
 * 56455253 ^ 494f4e00 = 1f0a1c53, ^ 21 ^ 1 = 1f0a1c73,
 * ^ ffffffff = e0f5e38c, ^ 3 ^ 1 = e0f5e38e, ^ 1000 = e0f5f38e
 */
static const Entry version_entry = {
    0x56455253, 0x494f4e00, 0, 0,       /* "VERSION" */
    0x21, 1, 0xffffffff, 3, 1, 0, 0x1000,
    [31] = 0xe0f5f38e
};

/*
 * 494d415f ^ 43415441 ^ 4c4f4700 = 4643521e, ^ 22 ^ 2 = 4643523e,
 * ^ ffffffff = b9bcadc1, ^ 4 ^ 1 = b9bcadc4, ^ 2000 = b9bc8dc4
 */
static const Entry appended_entry = {
    0x494d415f, 0x43415441, 0x4c4f4700, 0,      /* "IMA_CATALOG" */
    0x22, 2, 0xffffffff, 4, 1, 0, 0x2000,
    [31] = 0xb9bc8dc4
};

/* 504152d4 ^ 4 = 504152d0, ^ 1000 ^ 24 = 504142f4 */
static const Header appended_header = {
    0x50415254, 1, 1, 0x80, 4, 0x1000, 0x24, 0, 0, 0, 0, 0x504142f4
};

/*
 * A base that has catalogs already, in four blocks, with the flag "read only"
 * in word 16: 4643521e ^ 22 ^ 4 = 46435238, ^ ffffffff = b9bcadc7,
 * ^ 4 ^ 1 = b9bcadc2, ^ 4000 = b9bcedc2, ^ 400000 = b9fcedc2
 */
static const Entry owned_entry = {
    0x494d415f, 0x43415441, 0x4c4f4700, 0,
    0x22, 4, 0xffffffff, 4, 1, 0, 0x4000,
    [16] = 0x00400000,
    [31] = 0xb9fcedc2
};

/* 504152d0 ^ 1000 ^ 26 = 504142f6 */
static const Header owned_header = {
    0x50415254, 1, 1, 0x80, 4, 0x1000, 0x26, 0, 0, 0, 0, 0x504142f6
};

/* 48494748 ^ 26 ^ 1 = 4849476f, ^ ffffffff = b7b6b890, ^ 5 ^ 1 ^ 1000 */
static const Entry high_entry = {
    0x48494748, 0, 0, 0,                /* "HIGH" */
    0x26, 1, 0xffffffff, 5, 1, 0, 0x1000,
    [31] = 0xb7b6a894
};

/* 504152d4 ^ 5 = 504152d1, ^ 1000 ^ 27 = 504142f6 */
static const Header high_header = {
    0x50415254, 1, 1, 0x80, 5, 0x1000, 0x27, 0, 0, 0, 0, 0x504142f6
};

/* Catalogs of that base: .xz files are not looked into when they are kept */
#define OLD_P9      "old p9"
#define OLD_P10     "old catalog of p10"

static const uint32_t owned_toc[] = {
    0x494d4343, 1,                      /* "IMCC" */
    0x4e0200, 0x1000, 6,
    0x800200, 0x1800, 18,
    0, 0, 0
};

#define TOC(word)           (0x22 * BLOCK + (word) * 4)

static void put(uint8_t *p, uint32_t value)
{
    p[0] = value >> 24;
    p[1] = value >> 16;
    p[2] = value >> 8;
    p[3] = value;
}

static uint32_t get(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
}

static void put_words(uint8_t *p, const uint32_t *words, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        put(p + i * 4, words[i]);
    }
}

static void assert_words(const uint8_t *p, const uint32_t *words, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        g_assert_cmphex(get(p + i * 4), ==, words[i]);
    }
}

static void assert_filled(const uint8_t *p, uint8_t value, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        g_assert_cmphex(p[i], ==, value);
    }
}

static void fix_checksum(uint8_t *p, size_t words)
{
    uint32_t sum = 0;
    size_t i;

    for (i = 0; i < words - 1; i++) {
        sum ^= get(p + i * 4);
    }
    put(p + i * 4, sum);
}

/* One line, which has the expected words */
static void assert_refused(GError **err, const char *expected)
{
    g_assert_nonnull(*err);
    if (!strstr((*err)->message, expected)) {
        g_test_message("expected: %s", expected);
        g_assert_cmpstr((*err)->message, ==, "as above");
    }
    g_assert_null(strchr((*err)->message, '\n'));
    g_clear_error(err);
}

/* Each byte says where it is from. */
static uint8_t *patterned(uint32_t blocks)
{
    uint8_t *image = g_malloc(blocks * BLOCK);
    size_t i;

    for (i = 0; i < blocks * BLOCK; i++) {
        image[i] = (i >> 12) * 7 + i;
    }
    return image;
}

static uint8_t *stock_image(uint32_t blocks)
{
    uint8_t *image = patterned(blocks);

    put_words(image, stock_header, 12);
    put_words(image + ENTRY(0, 0), part_entry, 32);
    put_words(image + ENTRY(1, 0), nvram_entry, 32);
    put_words(image + ENTRY(2, 0), version_entry, 32);
    return image;
}

/* The partition IMA_CATALOG in blocks 0x22 to 0x25, perhaps HIGH behind */
static uint8_t *owned_image(bool high)
{
    uint8_t *image = stock_image(high ? 0x27 : 0x26);

    put_words(image, high ? high_header : owned_header, 12);
    put_words(image + ENTRY(3, 0), owned_entry, 32);
    if (high) {
        put_words(image + ENTRY(4, 0), high_entry, 32);
    }
    put_words(image + TOC(0), owned_toc, G_N_ELEMENTS(owned_toc));
    memcpy(image + 0x23 * BLOCK, OLD_P9, strlen(OLD_P9));
    memcpy(image + 0x23 * BLOCK + 0x800, OLD_P10, strlen(OLD_P10));
    return image;
}

static GPtrArray *catalogs_of(uint32_t id, const void *blob, size_t size)
{
    GPtrArray *catalogs = pnor_catalogs_new();

    g_ptr_array_add(catalogs, pnor_catalog_new(id, blob, size));
    return catalogs;
}

static GByteArray *update(const uint8_t *base, uint32_t blocks, uint32_t id,
                          const void *blob, size_t size)
{
    g_autoptr(GPtrArray) catalogs = catalogs_of(id, blob, size);
    g_autoptr(GError) err = NULL;
    GByteArray *image = pnor_image_update(base, base ? blocks * BLOCK : 0,
                                          catalogs, &err);

    g_assert_no_error(err);
    g_assert_nonnull(image);
    return image;
}

/* The content of IMA_CATALOG with "hello" as the only catalog, two blocks */
static void assert_hello(const uint8_t *content)
{
    static const uint32_t toc[] = {
        0x494d4343, 1, 0x4e0200, 0x1000, 5
    };

    assert_words(content, toc, 5);
    assert_filled(content + sizeof(toc), 0, BLOCK - sizeof(toc));
    g_assert_cmpmem(content + BLOCK, 5, "hello", 5);
    assert_filled(content + BLOCK + 5, 0, BLOCK - 5);
}

static void test_new(void)
{
    g_autoptr(GByteArray) image = update(NULL, 0, 0x4e0200, "hello", 5);
    g_autoptr(GByteArray) again = update(NULL, 0, 0x4e0200, "hello", 5);
    const char *version;
    size_t len;

    g_assert_cmphex(image->len, ==, 0x24 * BLOCK);
    assert_words(image->data, appended_header, 12);
    assert_words(image->data + ENTRY(0, 0), part_entry, 32);
    assert_words(image->data + ENTRY(1, 0), nvram_entry, 32);
    assert_words(image->data + ENTRY(2, 0), version_entry, 32);
    assert_words(image->data + ENTRY(3, 0), appended_entry, 32);
    assert_filled(image->data + ENTRY(4, 0), 0xff, BLOCK - ENTRY(4, 0));
    assert_filled(image->data + BLOCK, 0xff, 0x20 * BLOCK);

    /* skiboot wants lines of "key-value", of less than 80 characters. */
    version = (const char *)image->data + 0x21 * BLOCK;
    len = strcspn(version, "\n");
    g_assert_true(g_str_has_prefix(version, "open-power-"));
    g_assert_cmpuint(len, <, 80);
    assert_filled(image->data + 0x21 * BLOCK + len + 1, 0, BLOCK - len - 1);

    assert_hello(image->data + 0x22 * BLOCK);
    g_assert_cmpmem(image->data, image->len, again->data, again->len);
}

static void test_append(void)
{
    g_autofree uint8_t *base = stock_image(0x22);
    g_autoptr(GByteArray) image = update(base, 0x22, 0x4e0200, "hello", 5);

    g_assert_cmphex(image->len, ==, 0x24 * BLOCK);
    assert_words(image->data, appended_header, 12);
    assert_words(image->data + ENTRY(3, 0), appended_entry, 32);
    assert_hello(image->data + 0x22 * BLOCK);

    /* All else is as before. */
    g_assert_cmpmem(image->data + ENTRY(0, 0), 3 * 128,
                    base + ENTRY(0, 0), 3 * 128);
    g_assert_cmpmem(image->data + ENTRY(4, 0), 0x22 * BLOCK - ENTRY(4, 0),
                    base + ENTRY(4, 0), 0x22 * BLOCK - ENTRY(4, 0));
}

/* An image that is larger than its partitions stays as large. */
static void test_free_space(void)
{
    g_autofree uint8_t *base = stock_image(0x30);
    g_autoptr(GByteArray) image = NULL;

    /* 504152d7 ^ 1000 ^ 30 = 504142e7; the last two blocks are not in it. */
    put(base + HEADER(6), 0x2e);
    put(base + HEADER(11), 0x504142f9);
    image = update(base, 0x30, 0x4e0200, "hello", 5);

    g_assert_cmphex(image->len, ==, 0x30 * BLOCK);
    g_assert_cmphex(get(image->data + HEADER(6)), ==, 0x30);
    /* 504152d0 ^ 1000 ^ 30 */
    g_assert_cmphex(get(image->data + HEADER(11)), ==, 0x504142e0);
    assert_words(image->data + ENTRY(3, 0), appended_entry, 32);
    assert_hello(image->data + 0x22 * BLOCK);
    g_assert_cmpmem(image->data + 0x24 * BLOCK, 0xc * BLOCK,
                    base + 0x24 * BLOCK, 0xc * BLOCK);
}

/* By id, at multiples of four bytes, the same bytes only once */
static void test_layout(void)
{
    static const uint32_t toc[] = {
        0x494d4343, 1,
        0x4e0200, 0x1000, 5,
        0x800100, 0x1008, 8,
        0x800200, 0x1010, 6,
        0x820200, 0x1000, 5,
        0, 0, 0
    };
    g_autoptr(GPtrArray) catalogs = pnor_catalogs_new();
    g_autoptr(GByteArray) content = NULL;
    g_autoptr(GPtrArray) read = NULL;
    const PnorCatalog *last;

    g_ptr_array_add(catalogs, pnor_catalog_new(0x800200, "sixsix", 6));
    g_ptr_array_add(catalogs, pnor_catalog_new(0x820200, "hello", 5));
    g_ptr_array_add(catalogs, pnor_catalog_new(0x4e0200, "hello", 5));
    g_ptr_array_add(catalogs, pnor_catalog_new(0x800100, "catalog8", 8));
    content = pnor_catalogs_build(catalogs, NULL);

    g_assert_nonnull(content);
    g_assert_cmphex(content->len, ==, 2 * BLOCK);
    assert_words(content->data, toc, G_N_ELEMENTS(toc));
    g_assert_cmpmem(content->data + 0x1000, 0x18,
                    "hello\0\0\0catalog8sixsix\0", 0x18);
    assert_filled(content->data + 0x1018, 0, BLOCK - 0x18);

    read = pnor_catalogs_parse(content->data, content->len, NULL);
    g_assert_nonnull(read);
    g_assert_cmpuint(read->len, ==, 4);
    last = g_ptr_array_index(read, 3);
    g_assert_cmphex(last->id, ==, 0x820200);
    g_assert_cmpmem(g_bytes_get_data(last->blob, NULL),
                    g_bytes_get_size(last->blob), "hello", 5);
}

/* A catalog is added in place: the others keep their bytes. */
static void test_keep(void)
{
    static const uint32_t toc[] = {
        0x494d4343, 1,
        0x4e0200, 0x1000, 6,
        0x800100, 0x1008, 3,
        0x800200, 0x100c, 18,
        0, 0, 0
    };
    g_autofree uint8_t *base = owned_image(false);
    g_autoptr(GByteArray) image = update(base, 0x26, 0x800100, "new", 3);
    const uint8_t *content = image->data + 0x22 * BLOCK;

    g_assert_cmphex(image->len, ==, 0x26 * BLOCK);
    assert_words(image->data, owned_header, 12);
    /* Only the actual size changes: b9fcedc2 ^ 4000 ^ 2000 = b9fc8dc2 */
    assert_words(image->data + ENTRY(3, 0), owned_entry, 10);
    g_assert_cmphex(get(image->data + ENTRY(3, 10)), ==, 0x2000);
    assert_words(image->data + ENTRY(3, 11), owned_entry + 11, 20);
    g_assert_cmphex(get(image->data + ENTRY(3, 31)), ==, 0xb9fc8dc2);

    assert_words(content, toc, G_N_ELEMENTS(toc));
    g_assert_cmpmem(content + BLOCK, 0x20,
                    OLD_P9 "\0\0new\0" OLD_P10 "\0", 0x20);
    assert_filled(content + BLOCK + 0x20, 0, BLOCK - 0x20);
    assert_filled(content + 2 * BLOCK, 0xff, 2 * BLOCK);
    g_assert_cmpmem(image->data + BLOCK, 0x21 * BLOCK,
                    base + BLOCK, 0x21 * BLOCK);
}

/* The order of the entries means nothing: neither IMA_CATALOG's nor HIGH's. */
static void test_first(void)
{
    g_autofree uint8_t *large = patterned(3);
    guint n;

    for (n = 3; n <= 4; n++) {
        g_autofree uint8_t *base = owned_image(true);
        g_autoptr(GByteArray) image = update(base, 0x27, 0x820200, large,
                                             0x3000);
        g_autoptr(GByteArray) first = NULL;

        put_words(base + ENTRY(0, 0), n == 3 ? owned_entry : high_entry, 32);
        put_words(base + ENTRY(n, 0), part_entry, 32);
        first = update(base, 0x27, 0x820200, large, 0x3000);

        g_assert_cmpmem(first->data + ENTRY(0, 0), 128,
                        image->data + ENTRY(n, 0), 128);
        g_assert_cmpmem(first->data + ENTRY(n, 0), 128,
                        image->data + ENTRY(0, 0), 128);
        g_assert_cmpmem(first->data + ENTRY(1, 0), 2 * 128,
                        image->data + ENTRY(1, 0), 2 * 128);
        g_assert_cmpmem(first->data + BLOCK, first->len - BLOCK,
                        image->data + BLOCK, image->len - BLOCK);
    }
}

static void test_replace(void)
{
    static const uint32_t toc[] = {
        0x494d4343, 1,
        0x4e0200, 0x1000, 8,
        0x800200, 0x1008, 18,
        0, 0, 0
    };
    g_autofree uint8_t *base = owned_image(true);
    g_autoptr(GByteArray) image = update(base, 0x27, 0x4e0200, "newer p9", 8);
    const uint8_t *content = image->data + 0x22 * BLOCK;

    g_assert_cmphex(image->len, ==, 0x27 * BLOCK);
    assert_words(image->data, high_header, 12);
    assert_words(content, toc, G_N_ELEMENTS(toc));
    g_assert_cmpmem(content + BLOCK, 26, "newer p9" OLD_P10, 26);
    g_assert_cmpmem(image->data + 0x26 * BLOCK, BLOCK,
                    base + 0x26 * BLOCK, BLOCK);
}

/* Four blocks are filled to the last byte before IMA_CATALOG moves. */
static void test_fits(void)
{
    /* 0x1000 + 8 + 0x2fe4 + 0x14 = 0x4000 */
    g_autofree uint8_t *large = g_malloc0(0x2fe8);
    g_autofree uint8_t *base = owned_image(true);
    g_autoptr(GByteArray) image = update(base, 0x27, 0x820200, large, 0x2fe4);

    assert_words(image->data + ENTRY(3, 0), owned_entry, 32);
    g_clear_pointer(&image, g_byte_array_unref);

    image = update(base, 0x27, 0x820200, large, 0x2fe8);
    g_assert_cmphex(get(image->data + ENTRY(3, 4)), ==, 0x27);
}

static void test_move(void)
{
    static const uint32_t toc[] = {
        0x494d4343, 1,
        0x4e0200, 0x1000, 6,
        0x800200, 0x1008, 18,
        0x820200, 0x101c, 0x3000,
        0, 0, 0
    };
    /*
     * Words 4 to 10.  4643521e ^ 27 ^ 5 = 4643523c, ^ ffffffff = b9bcadc3,
     * ^ 4 ^ 1 = b9bcadc6, ^ 5000 = b9bcfdc6, ^ 400000 = b9fcfdc6
     */
    static const uint32_t place[] = {
        0x27, 5, 0xffffffff, 4, 1, 0, 0x5000
    };
    /* 504152d1 ^ 1000 ^ 2c = 504142fd */
    static const Header header = {
        0x50415254, 1, 1, 0x80, 5, 0x1000, 0x2c, 0, 0, 0, 0, 0x504142fd
    };
    g_autofree uint8_t *large = patterned(3);
    g_autofree uint8_t *base = owned_image(true);
    g_autoptr(GByteArray) image = update(base, 0x27, 0x820200, large, 0x3000);
    const uint8_t *content = image->data + 0x27 * BLOCK;

    g_assert_cmphex(image->len, ==, 0x2c * BLOCK);
    assert_words(image->data, header, 12);
    assert_words(image->data + ENTRY(3, 4), place, 7);
    g_assert_cmphex(get(image->data + ENTRY(3, 31)), ==, 0xb9fcfdc6);
    assert_words(image->data + ENTRY(4, 0), high_entry, 32);

    assert_words(content, toc, G_N_ELEMENTS(toc));
    g_assert_cmpmem(content + BLOCK, 0x1c, OLD_P9 "\0\0" OLD_P10 "\0", 0x1c);
    g_assert_cmpmem(content + BLOCK + 0x1c, 0x3000, large, 0x3000);
    assert_filled(content + 4 * BLOCK + 0x1c, 0, BLOCK - 0x1c);

    /* The old place is free, all else as before. */
    assert_filled(image->data + 0x22 * BLOCK, 0xff, 4 * BLOCK);
    g_assert_cmpmem(image->data + 0x26 * BLOCK, BLOCK,
                    base + 0x26 * BLOCK, BLOCK);
    g_assert_cmpmem(image->data + BLOCK, 0x21 * BLOCK,
                    base + BLOCK, 0x21 * BLOCK);
}

/* The last partition has nothing behind it: it grows where it is. */
static void test_grow(void)
{
    /* Words 4 to 10; b9fcfdc6 ^ 27 ^ 22 = b9fcfdc3 */
    static const uint32_t place[] = {
        0x22, 5, 0xffffffff, 4, 1, 0, 0x5000
    };
    /* 504152d0 ^ 1000 ^ 27 = 504142f7 */
    static const Header header = {
        0x50415254, 1, 1, 0x80, 4, 0x1000, 0x27, 0, 0, 0, 0, 0x504142f7
    };
    g_autofree uint8_t *large = patterned(3);
    g_autofree uint8_t *base = owned_image(false);
    g_autoptr(GByteArray) image = update(base, 0x26, 0x820200, large, 0x3000);

    g_assert_cmphex(image->len, ==, 0x27 * BLOCK);
    assert_words(image->data, header, 12);
    assert_words(image->data + ENTRY(3, 4), place, 7);
    g_assert_cmphex(get(image->data + ENTRY(3, 31)), ==, 0xb9fcfdc3);
    g_assert_cmpmem(image->data + 0x23 * BLOCK + 0x1c, 0x3000, large, 0x3000);
}

static void test_ids(void)
{
    static const struct {
        const char *text;
        const char *refused;
        uint32_t id;
    } cases[] = {
        { "0x4e0200", NULL, 0x4e0200 },
        { "0x4E0100", NULL, 0x4e0100 },
        { "0x00800200", NULL, 0x800200 },
        { "0xffff0f00", NULL, 0xffff0f00 },
        { "0x4e1202", "use 0x4e0200", 0 },
        { "0x4e0201", "use 0x4e0200", 0 },
        { "0x4e8200", "use 0x4e0200", 0 },
        { "0x4e0280", "use 0x4e0200", 0 },
        { "0", "is not an id", 0 },
        { "0x0", "matches no processor", 0 },
        { "0xf0ff", "matches no processor", 0 },
        { "0x100000000", "more than 32 bits", 0 },
        { "0x1004e0200", "more than 32 bits", 0 },
        { "0x1000000000000004e0200", "more than 32 bits", 0 },
        { "4e0200", "is not an id", 0 },
        { "800200", "is not an id", 0 },
        { "0x", "is not an id", 0 },
        { "", "is not an id", 0 },
        { "0x 4e0200", "is not an id", 0 },
        { "0x-4e0200", "is not an id", 0 },
        { "0x4e0200 ", "is not an id", 0 },
        { "0x0x4e0200", "is not an id", 0 },
    };
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) err = NULL;
        uint32_t id = 0;

        if (pnor_parse_id(cases[i].text, &id, &err)) {
            g_assert_null(cases[i].refused);
            g_assert_cmphex(id, ==, cases[i].id);
        } else {
            g_assert_nonnull(cases[i].refused);
            assert_refused(&err, cases[i].refused);
        }
    }
}

/* One word of a base with catalogs is wrong, and checksums are right again. */
static void test_bad_base(void)
{
    static const struct {
        const char *rule;
        uint32_t place;
        uint32_t value;
        int entry;              /* to correct: -1 header, -2 none */
        const char *refused;
    } cases[] = {
        { "magic", HEADER(0), 0x50415255, -1, "no partition table" },
        { "version", HEADER(1), 2, -1, "version 2" },
        { "table size 0", HEADER(2), 0, -1, "has 0 of" },
        { "table size", HEADER(2), 0x28, -1, "has 40 of" },
        { "entry size", HEADER(3), 0x84, -1, "entry size 132" },
        { "count", HEADER(4), 32, -1, "32 entries and room for 31" },
        { "count wraps", HEADER(4), 0x02000000, -1, "entries and room" },
        { "block size", HEADER(5), 0x10000, -1, "block size 65536" },
        { "block count", HEADER(6), 0x28, -1, "for 40 blocks" },
        { "block count 0", HEADER(6), 0, -1, "has 1 of the image's 0" },
        { "header checksum", HEADER(7), 1, -2, "header has a wrong" },
        { "entry checksum", ENTRY(2, 9), 2, -2, "entry 3 (VERSION)" },
        { "last entry checksum", ENTRY(4, 30), 1, -2, "entry 5 (HIGH)" },
        { "range", ENTRY(4, 5), 2, 4, "HIGH has blocks 0x26+0x2" },
        { "range wraps", ENTRY(4, 4), 0xffffffff, 4, "HIGH has blocks" },
        { "actual size", ENTRY(2, 10), 0x1001, 2, "VERSION has 0x1001" },
        { "overlap", ENTRY(4, 4), 0x25, 4, "HIGH overlaps IMA_CATALOG" },
        { "inside", ENTRY(4, 4), 0x10, 4, "HIGH overlaps NVRAM" },
        { "over the table", ENTRY(4, 4), 0, 4, "HIGH overlaps part" },
        { "no table", ENTRY(0, 8), 1, 0, "part overlaps the partition ta" },
        { "part too long", ENTRY(0, 5), 2, 0, "NVRAM overlaps part" },
        { "part twice", ENTRY(1, 4), 0, 1, "NVRAM overlaps" },
        { "ECC", ENTRY(3, 15), 0x8000, 3, "protected by ECC" },
        { "small", ENTRY(3, 10), 0xfff, 3, "has 0xfff bytes" },
        { "container", TOC(0), 0x17082011, -2, "secure-boot container" },
        { "table version", TOC(1), 2, -2, "has version 2" },
        { "no size", TOC(4), 0, -2, "catalog 0x4e0200 has" },
        { "no size, no offset", TOC(3), 0, -2, "catalog 0x4e0200 has" },
        { "offset", TOC(3), 0xffc, -2, "catalog 0x4e0200 has" },
        { "end", TOC(7), 0x2801, -2, "catalog 0x800200 has" },
        { "end wraps", TOC(7), 0xfffff000, -2, "catalog 0x800200 has" },
        { "id twice", TOC(5), 0x4e0200, -2, "0x4e0200 is twice" },
    };
    g_autoptr(GPtrArray) catalogs = catalogs_of(0x820200, "new", 3);
    g_autoptr(GError) err = NULL;
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree uint8_t *base = owned_image(true);
        g_autoptr(GByteArray) image = NULL;

        g_test_message("%s", cases[i].rule);
        put(base + cases[i].place, cases[i].value);
        if (cases[i].entry >= 0) {
            fix_checksum(base + ENTRY(cases[i].entry, 0), 32);
        } else if (cases[i].entry == -1) {
            fix_checksum(base, 12);
        }
        image = pnor_image_update(base, 0x27 * BLOCK, catalogs, &err);
        g_assert_null(image);
        assert_refused(&err, cases[i].refused);
    }
}

static void assert_accepted(const uint8_t *base)
{
    g_autoptr(GByteArray) image = update(base, 0x27, 0x820200, "new", 3);

    g_assert_cmphex(image->len, ==, 0x27 * BLOCK);
}

/* What looks odd but does not bother skiboot */
static void test_odd_base(void)
{
    static const struct {
        uint32_t place;
        uint32_t value;
        int entry;
    } cases[] = {
        { HEADER(7), 0x12345678, -1 },          /* reserved */
        { ENTRY(2, 15), 0x8000, 2 },            /* ECC of another one */
        { TOC(0), 0, -2 },                      /* eyecatcher */
        { TOC(7), 0x2800, -2 },                 /* up to the end */
        { TOC(5), 0x800201, -2 },               /* an id nobody looks for */
        { TOC(6), 0x1000, -2 },                 /* shared bytes */
    };
    size_t i;

    for (i = 0; i <= G_N_ELEMENTS(cases); i++) {
        g_autofree uint8_t *base = owned_image(true);

        if (i < G_N_ELEMENTS(cases)) {
            put(base + cases[i].place, cases[i].value);
            if (cases[i].entry >= 0) {
                fix_checksum(base + ENTRY(cases[i].entry, 0), 32);
            } else if (cases[i].entry == -1) {
                fix_checksum(base, 12);
            }
        } else {
            /* The table has no entry of its own; HIGH is the first one. */
            memcpy(base + ENTRY(0, 0), base + ENTRY(4, 0), 128);
            put(base + HEADER(4), 4);
            fix_checksum(base, 12);
        }
        assert_accepted(base);
    }
}

/* A partition without blocks is nowhere, so that it overlaps nothing. */
static void test_no_blocks(void)
{
    g_autofree uint8_t *base = owned_image(true);

    put(base + ENTRY(4, 4), 0x10);
    put(base + ENTRY(4, 5), 0);
    put(base + ENTRY(4, 10), 0);
    fix_checksum(base + ENTRY(4, 0), 32);
    assert_accepted(base);
}

static void test_bad_size(void)
{
    static const size_t sizes[] = {
        0, 1, 47, 0xfff, 0x27 * BLOCK - 1, 0x27 * BLOCK + 1, 0x10000000
    };
    g_autofree uint8_t *base = owned_image(true);
    g_autoptr(GPtrArray) catalogs = catalogs_of(0x820200, "new", 3);
    g_autoptr(GError) err = NULL;
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(sizes); i++) {
        g_assert_null(pnor_image_update(base, sizes[i], catalogs, &err));
        assert_refused(&err, "whole blocks");
    }
    g_assert_null(pnor_image_update(base, 0x26 * BLOCK, catalogs, &err));
    assert_refused(&err, "for 39 blocks, but there are 38");
}

static void test_two_partitions(void)
{
    g_autofree uint8_t *base = owned_image(true);
    g_autoptr(GPtrArray) catalogs = catalogs_of(0x820200, "new", 3);
    g_autoptr(GError) err = NULL;

    /* The 16th character does not count, for skiboot neither. */
    put_words(base + ENTRY(4, 0), owned_entry, 3);
    put(base + ENTRY(4, 3), 1);
    fix_checksum(base + ENTRY(4, 0), 32);
    g_assert_null(pnor_image_update(base, 0x27 * BLOCK, catalogs, &err));
    assert_refused(&err, "two partitions IMA_CATALOG");
}

/* 48 + 31 * 128 = 4016: an entry more would not fit into a block. */
static void test_full(void)
{
    g_autofree uint8_t *base = stock_image(0x22);
    g_autoptr(GPtrArray) catalogs = catalogs_of(0x4e0200, "hello", 5);
    g_autoptr(GByteArray) image = NULL;
    g_autoptr(GError) err = NULL;
    int i;

    for (i = 3; i < 31; i++) {
        memset(base + ENTRY(i, 0), 0, 128);
        put(base + ENTRY(i, 0), 0x58000000);            /* "X", no blocks */
        fix_checksum(base + ENTRY(i, 0), 32);
    }
    put(base + HEADER(4), 30);
    fix_checksum(base, 12);
    image = pnor_image_update(base, 0x22 * BLOCK, catalogs, &err);
    g_assert_no_error(err);
    g_assert_cmphex(get(image->data + HEADER(4)), ==, 31);
    g_assert_cmphex(get(image->data + ENTRY(30, 0)), ==, 0x494d415f);

    put(base + HEADER(4), 31);
    fix_checksum(base, 12);
    g_assert_null(pnor_image_update(base, 0x22 * BLOCK, catalogs, &err));
    assert_refused(&err, "full with 31 entries");
}

/* The image must stay below 256 MiB, 0x10000 blocks. */
static void test_image_limit(void)
{
    g_autofree uint8_t *base = g_malloc0(0xffff * (size_t)BLOCK);
    g_autofree uint8_t *head = stock_image(0x22);
    g_autoptr(GPtrArray) catalogs = catalogs_of(0x4e0200, "hello", 5);
    g_autoptr(GByteArray) image = NULL;
    g_autoptr(GError) err = NULL;

    memcpy(base, head, BLOCK);
    put(base + HEADER(6), 0xffff);
    fix_checksum(base, 12);
    put(base + ENTRY(2, 4), 0xfffc);
    fix_checksum(base + ENTRY(2, 0), 32);
    image = pnor_image_update(base, 0xffff * BLOCK, catalogs, &err);
    g_assert_no_error(err);
    g_assert_cmphex(get(image->data + ENTRY(3, 4)), ==, 0xfffd);
    g_assert_cmphex(image->len, ==, 0xffff * BLOCK);
    g_clear_pointer(&image, g_byte_array_unref);

    put(base + ENTRY(2, 4), 0xfffd);
    fix_checksum(base + ENTRY(2, 0), 32);
    g_assert_null(pnor_image_update(base, 0xffff * BLOCK, catalogs, &err));
    assert_refused(&err, "256 MiB");
}

static void test_catalog_limits(void)
{
    g_autofree uint8_t *large = g_malloc0(0x3f001);
    g_autoptr(GPtrArray) catalogs = catalogs_of(0x4e0200, large, 0x3f000);
    g_autoptr(GByteArray) content = NULL;
    g_autoptr(GPtrArray) read = NULL;
    g_autoptr(GError) err = NULL;
    uint8_t *toc;
    int i;

    content = pnor_catalogs_build(catalogs, &err);
    g_assert_no_error(err);
    g_assert_cmphex(content->len, ==, 0x40000);

    g_ptr_array_add(catalogs, pnor_catalog_new(0x800200, "x", 1));
    g_assert_null(pnor_catalogs_build(catalogs, &err));
    assert_refused(&err, "do not fit into the 256 KiB");

    g_ptr_array_set_size(catalogs, 0);
    g_ptr_array_add(catalogs, pnor_catalog_new(0x4e0200, large, 0x3f001));
    g_assert_null(pnor_catalogs_build(catalogs, &err));
    assert_refused(&err, "do not fit into the 256 KiB");

    g_ptr_array_set_size(catalogs, 0);
    g_ptr_array_add(catalogs, pnor_catalog_new(0x4e0200, "a", 1));
    g_ptr_array_add(catalogs, pnor_catalog_new(0x800200, "b", 1));
    g_ptr_array_add(catalogs, pnor_catalog_new(0x4e0200, "c", 1));
    g_assert_null(pnor_catalogs_build(catalogs, &err));
    assert_refused(&err, "two catalogs 0x4e0200");

    g_ptr_array_set_size(catalogs, 0);
    g_ptr_array_add(catalogs, pnor_catalog_new(0x4e0200, "", 0));
    g_assert_null(pnor_catalogs_build(catalogs, &err));
    assert_refused(&err, "0x4e0200 is empty");

    /* (0x1000 - 8) / 12 = 340, and then no end mark is needed. */
    g_ptr_array_set_size(catalogs, 0);
    for (i = 1; i <= 340; i++) {
        g_ptr_array_add(catalogs, pnor_catalog_new(i << 16, "x", 1));
    }
    g_clear_pointer(&content, g_byte_array_unref);
    content = pnor_catalogs_build(catalogs, &err);
    g_assert_no_error(err);
    g_assert_cmphex(get(content->data + 8 + 339 * 12), ==, 340 << 16);
    read = pnor_catalogs_parse(content->data, content->len, &err);
    g_assert_no_error(err);
    g_assert_cmpuint(read->len, ==, 340);

    g_ptr_array_add(catalogs, pnor_catalog_new(341 << 16, "x", 1));
    g_assert_null(pnor_catalogs_build(catalogs, &err));
    assert_refused(&err, "340 catalogs, not 341");

    /* A partition may be larger than skiboot's buffer, its catalogs not. */
    g_byte_array_set_size(content, 0x41000);
    toc = content->data;
    put(toc + 12, 0x1000);
    put(toc + 16, 0x3f000);
    g_clear_pointer(&read, g_ptr_array_unref);
    read = pnor_catalogs_parse(toc, 0x41000, &err);
    g_assert_no_error(err);
    put(toc + 16, 0x3f001);
    g_assert_null(pnor_catalogs_parse(toc, 0x41000, &err));
    assert_refused(&err, "skiboot reads 0x40000");
}

/* Bytes of a property; no such property if there is no data */
typedef struct Value {
    const void *data;
    int len;
    uint8_t cells[8];           /* if the data is NULL, and len is not 0 */
} Value;

/* A property of the catalog, or the name of a node, that is not as it was */
typedef struct Tweak {
    const char *node;           /* "*": each but the root */
    const char *prop;           /* "": the name */
    Value value;
} Tweak;

typedef struct Builder {
    void *fdt;
    const Tweak *tweak;
    const char *node;
} Builder;

static Value nothing(void)
{
    return (Value) { 0 };
}

static Value bytes(const void *data, int len)
{
    return (Value) { .data = data, .len = len };
}

static Value text(const char *data)
{
    return bytes(data, strlen(data) + 1);
}

static Value cells(uint32_t x, uint32_t y)
{
    Value value = { .len = 8 };

    put(value.cells, x);
    put(value.cells + 4, y);
    return value;
}

static Value cell(uint32_t x)
{
    Value value = cells(x, 0);

    value.len = 4;
    return value;
}

static bool tweaked(const Builder *b, const char *prop)
{
    return b->tweak && !strcmp(b->tweak->prop, prop) &&
           (!strcmp(b->tweak->node, b->node) ||
            (!strcmp(b->tweak->node, "*") && *b->node));
}

static void add(Builder *b, const char *prop, Value value)
{
    if (tweaked(b, prop)) {
        value = b->tweak->value;
    }
    if (value.data || value.len) {
        g_assert_cmpint(fdt_property(b->fdt, prop,
                                     value.data ?: value.cells, value.len),
                        ==, 0);
    }
}

static void begin(Builder *b, const char *node)
{
    b->node = node;
    g_assert_cmpint(fdt_begin_node(b->fdt, tweaked(b, "") ?
                                   b->tweak->value.data : node), ==, 0);
}

static void end(Builder *b)
{
    g_assert_cmpint(fdt_end_node(b->fdt), ==, 0);
}

static void add_group(Builder *b, const char *node, uint32_t phandle)
{
    begin(b, node);
    add(b, "#address-cells", cell(1));
    add(b, "#size-cells", cell(1));
    add(b, "phandle", cell(phandle));
    add(b, "compatible", nothing());
}

static void add_event(Builder *b, const char *node, const char *name,
                      uint32_t offset)
{
    begin(b, node);
    add(b, "event-name", text(name));
    add(b, "reg", cells(offset, 8));
    add(b, "desc", text("an event"));
    add(b, "scale", nothing());
    add(b, "unit", nothing());
    end(b);
}

static void begin_pmu(Builder *b, const char *node, uint32_t type,
                      uint32_t size, uint32_t base, uint32_t events)
{
    begin(b, node);
    add(b, "compatible", text("ibm,imc-counters"));
    add(b, "type", cell(type));
    add(b, "size", cell(size));
    add(b, "reg", cells(base, 8));
    add(b, "events", cell(events));
    add(b, "events-prefix", text(type == 2 ? "" : "PM_"));
    add(b, "scale", text("256"));
    add(b, "unit", text("MiB"));
}

static void add_nest(Builder *b, const char *node, uint32_t base)
{
    begin_pmu(b, node, 0x10, 0x40000, base, 1);
    add(b, "offset", cell(0x180000));
    add(b, "cb_offset", cell(0x3fc00));
    add(b, "base-addr", nothing());
    add(b, "chip-id", nothing());
    end(b);
}

static void add_other(Builder *b, const char *node, uint32_t type,
                      uint32_t size, uint32_t base, uint32_t events)
{
    begin_pmu(b, node, type, size, base, events);
    add(b, "offset", nothing());
    add(b, "cb_offset", nothing());
    end(b);
}

/* Two nest PMUs with the same two events, and one PMU of each other type */
static GByteArray *make_catalog_with(const Tweak *tweak, unsigned levels,
                                     bool twice)
{
    GByteArray *dtb = g_byte_array_new();
    Builder b = { .tweak = tweak };

    g_byte_array_set_size(dtb, 0x2000);
    b.fdt = dtb->data;
    g_assert_cmpint(fdt_create(b.fdt, dtb->len), ==, 0);
    g_assert_cmpint(fdt_finish_reservemap(b.fdt), ==, 0);
    begin(&b, "");
    add(&b, "compatible", text("ibm,opal-in-memory-counters"));
    add(&b, "#address-cells", cell(1));
    add(&b, "#size-cells", cell(1));

    add_group(&b, "nest-events", 1);
    add_event(&b, "n@0", "READ", 0);
    add_event(&b, "n@8", "WRITE", 8);
    end(&b);
    add_group(&b, "core-events", 2);
    add_event(&b, "c@0", "CYC", 0);
    add_event(&b, "c@8", "INST", 8);
    add_event(&b, "c@10", "RUN", 0x10);
    end(&b);
    add_group(&b, "trace-events", 3);
    add_event(&b, "t@10200000", "cycles", 0x10200000);
    end(&b);
    add_group(&b, "no-events", 9);
    end(&b);

    add_nest(&b, "mcs01@c8", 0xc8);
    add_nest(&b, "phb0@338", 0x338);
    add_other(&b, "core@18", 4, 0x2000, 0x18, 2);
    add_other(&b, "thread@1018", 1, 0x2000, 0x18, 2);
    add_other(&b, "trace@0", 2, 0x40000, 0, 3);
    for (unsigned i = 0; i < levels; i++) {
        begin(&b, "deep");
        if (twice) {
            add(&b, "x", cell(1));
            add(&b, "y", cell(1));
            add(&b, "x", cell(1));
        }
    }
    for (unsigned i = 0; i < levels; i++) {
        end(&b);
    }
    end(&b);
    g_assert_cmpint(fdt_finish(b.fdt), ==, 0);
    g_byte_array_set_size(dtb, fdt_totalsize(b.fdt));
    return dtb;
}

static GByteArray *make_catalog(const Tweak *tweak)
{
    return make_catalog_with(tweak, 0, false);
}

static void test_good_catalog(void)
{
    const Tweak tweaks[] = {
        /* The last counters: 0x3fb30 + 0xc8 + 8 = 0x3fc00, and so on */
        { "mcs01@c8", "reg", cells(0x3fbf0 - 8, 8) },
        { "c@8", "reg", cells(0x1fe0, 8) },
        { "t@10200000", "reg", cells(0xfffffff9, 8) },
        { "mcs01@c8", "offset", cell(0x3c0000) },
        { "mcs01@c8", "cb_offset", cell(0x3ffd0) },
        { "mcs01@c8", "events-prefix", text("") },
        { "mcs01@c8", "scale", nothing() },
        { "mcs01@c8", "unit", nothing() },
        { "n@0", "desc", nothing() },
        { "n@0", "event-name", text("a.b-c:d_64B") },
        { "n@0", "event-name", text("a.scale.b") },
        { "t@10200000", "event-name", text("times") },
        { "t@10200000", "event-name", text("r1Fg") },
        { "t@10200000", "event-name", text("_1") },
        { "n@8", "event-name", text("time") },
        { "n@8", "", text("n@0x") },
        { "n@8", "", text("n") },
        { "n@8", "", text("m@0") },
        { "c@8", "", text("n@0") },
        { "no-events", "phandle", cell(0x3fffffff) },
        { "no-events", "compatible", text("IBM,imc-counters-not") },
        { "no-events", "", text("mcs89") },
        { "no-events", "", text("phb6") },
        { "no-events", "", text("ocmb16") },
        { "n@0", "scale", text("1.5e-3") },
        { "no-events", "", text("mcs8") },
        { "phb0@338", "", text("mcs10@338") },
        { "mcs01@c8", "compatible", bytes("x\0ibm,imc-counters", 19) },
        { "mcs01@c8", "", text("core@c8") },
        { "no-events", "compatible", text("") },
    };
    CatalogInfo info;
    size_t i;

    for (i = 0; i <= G_N_ELEMENTS(tweaks); i++) {
        g_autoptr(GByteArray) dtb = make_catalog(i ? &tweaks[i - 1] : NULL);
        g_autoptr(GError) err = NULL;

        memset(&info, 0xff, sizeof(info));
        catalog_check(dtb->data, dtb->len, &info, &err);
        g_assert_no_error(err);
        g_assert_cmpuint(info.pmus[CATALOG_NEST], ==, 2);
        g_assert_cmpuint(info.pmus[CATALOG_CORE], ==, 1);
        g_assert_cmpuint(info.pmus[CATALOG_THREAD], ==, 1);
        g_assert_cmpuint(info.pmus[CATALOG_TRACE], ==, 1);
        /* 2 + 2 + 3 + 3 + 1 */
        g_assert_cmpuint(info.events, ==, 11);
    }
}

/* Units share the 1024 events of a group, and 16384 are the most. */
static void test_most_events(void)
{
    g_autofree void *fdt = g_malloc0(PNOR_CATALOG_MAX);
    g_autoptr(GError) err = NULL;
    unsigned units, i;

    for (units = 16; units <= 17; units++) {
        Builder b = { .fdt = fdt };
        CatalogInfo info;
        bool good;

        g_assert_cmpint(fdt_create(fdt, PNOR_CATALOG_MAX), ==, 0);
        g_assert_cmpint(fdt_finish_reservemap(fdt), ==, 0);
        begin(&b, "");
        add(&b, "compatible", text("ibm,opal-in-memory-counters"));
        add(&b, "#address-cells", cell(1));
        add(&b, "#size-cells", cell(1));
        add_group(&b, "nest-events", 1);
        for (i = 0; i < 1024; i++) {
            g_autofree char *name = g_strdup_printf("E%u", i);

            add_event(&b, name, name, i * 8);
        }
        end(&b);
        for (i = 0; i < units; i++) {
            g_autofree char *name = g_strdup_printf("unit%u@0", i);

            add_nest(&b, name, 0);
        }
        end(&b);
        g_assert_cmpint(fdt_finish(fdt), ==, 0);

        good = catalog_check(fdt, fdt_totalsize(fdt), &info, &err);
        if (units == 16) {
            g_assert_no_error(err);
            g_assert_cmpuint(info.events, ==, 16384);
        } else {
            g_assert_false(good);
            assert_refused(&err, "/unit16@0: with its events the catalog has "
                           "more than 16384");
        }
    }
}

static void test_bad_catalog(void)
{
    const struct {
        Tweak tweak;
        const char *refused;
    } cases[] = {
        { { "", "compatible", text("ibm,power9") }, "/: property 'comp" },
        { { "", "compatible", nothing() }, "/: property 'compatible'" },
        { { "", "compatible", bytes("ibm,opal-in-memory-counters", 27) },
          "/: property 'compatible' does not end" },
        { { "", "compatible", bytes("ibm,power9", 10) },
          "/: property 'compatible' does not end" },
        { { "no-events", "compatible", bytes("", 0) },
          "/no-events: property 'compatible' does not end" },
        { { "", "#address-cells", cell(2) }, "'#address-cells' is 2" },
        { { "", "#address-cells", nothing() }, "'#address-cells' is missing" },
        { { "", "#size-cells", cell(0) }, "/: property '#size-cells' is 0" },
        { { "", "#size-cells", cells(0, 1) }, "'#size-cells' has 8 bytes" },
        { { "*", "compatible", text("ibm,imc-counters-nest") },
          "/: no node is compatible" },
        { { "core@18", "compatible", bytes("ibm,imc-counters", 16) },
          "/core@18: property 'compatible' does not end" },

        { { "core@18", "type", nothing() }, "/core@18: property 'type' is mi" },
        { { "core@18", "type", cell(8) }, "/core@18: property 'type' is 0x8" },
        { { "core@18", "type", cell(0) }, "/core@18: property 'type' is 0x0" },
        { { "core@18", "type", cells(4, 4) }, "'type' has 8 bytes" },
        { { "thread@1018", "type", cell(4) }, "another PMU of type core" },
        { { "core@18", "size", nothing() }, "/core@18: property 'size' is mi" },
        { { "core@18", "size", cell(0x40000) }, "a core PMU has 0x2000" },
        { { "thread@1018", "size", cell(0x4000) }, "a thread PMU has 0x2000" },
        { { "trace@0", "size", cell(0x2000) }, "a trace PMU has 0x40000" },
        { { "phb0@338", "size", cell(0x30000) }, "a nest PMU has 0x40000" },

        { { "mcs01@c8", "offset", nothing() }, "/mcs01@c8: property 'offset'" },
        { { "mcs01@c8", "offset", cell(0x180004) }, "'offset' is 0x180004" },
        { { "mcs01@c8", "offset", cell(0x3c0008) }, "'offset' is 0x3c0008" },
        { { "mcs01@c8", "cb_offset", nothing() }, "'cb_offset' is missing" },
        { { "mcs01@c8", "cb_offset", cell(0x3fc04) }, "is 0x3fc04" },
        { { "mcs01@c8", "cb_offset", cell(0x3ffd8) }, "is 0x3ffd8" },
        { { "mcs01@c8", "cb_offset", cell(0xfffffff8) }, "is 0xfffffff8" },
        { { "core@18", "offset", cell(0) }, "/core@18: property 'offset'" },
        { { "thread@1018", "cb_offset", cell(0x1c00) }, "'cb_offset' is for" },
        { { "trace@0", "offset", cell(0) }, "/trace@0: property 'offset'" },

        { { "core@18", "reg", nothing() }, "/core@18: property 'reg' is miss" },
        { { "core@18", "reg", cell(0x18) }, "/core@18: property 'reg' has 4" },
        { { "core@18", "reg", cells(0x1c, 8) }, "has base 0x1c" },
        { { "core@18", "events", nothing() }, "property 'events' is missing" },
        { { "core@18", "events", cells(2, 2) }, "'events' has 8 bytes" },
        { { "core@18", "events", cell(4) }, "property 'events' is 0x4" },
        { { "core@18", "events", cell(0) }, "property 'events' is 0x0" },
        { { "core@18", "events", cell(0xffffffff) }, "is 0xffffffff" },
        { { "core@18", "events", cell(9) }, "/core@18: its group of events" },
        { { "core-events", "phandle", nothing() }, "'events' is 0x2" },
        { { "core@18", "events-prefix", nothing() }, "'events-prefix' is mi" },
        { { "core@18", "events-prefix", bytes("CPM_", 4) }, "is not one" },
        { { "core@18", "events-prefix", bytes("", 0) }, "is not one string" },
        { { "core@18", "events-prefix", text("C PM") }, "'events-prefix' has" },
        { { "core@18", "scale", bytes("1", 1) }, "/core@18: property 'scale'" },
        { { "core@18", "scale", text("") }, "'scale' is no number" },
        { { "core@18", "scale", text("0") }, "'scale' is no number" },
        { { "c@8", "scale", text("64 B") }, "/c@8: property 'scale' is no" },
        { { "c@8", "scale", text("nan") }, "/c@8: property 'scale' is no" },
        { { "c@8", "scale", text("inf") }, "/c@8: property 'scale' is no" },
        { { "c@8", "scale", text("1e400") }, "/c@8: property 'scale' is no" },
        { { "core@18", "unit", bytes("a\0b", 4) }, "'unit' is not one" },

        { { "c@8", "event-name", nothing() }, "/core-events/c@8: the event" },
        { { "c@8", "event-name", text("") }, "/core-events/c@8: the event" },
        { { "c@8", "event-name", bytes("INST", 4) }, "is not one" },
        { { "c@8", "event-name", bytes("a\0b", 4) }, "is not one" },
        { { "c@8", "event-name", text("a/b") }, "'event-name' has a char" },
        { { "c@8", "event-name", text("a b") }, "'event-name' has a char" },
        { { "c@8", "event-name", text("a,b") }, "'event-name' has a char" },
        { { "c@8", "event-name", text("a=b") }, "'event-name' has a char" },
        { { "c@8", "event-name", text("a\nb") }, "'event-name' has a char" },
        { { "c@8", "event-name", text("a&b") }, "'event-name' has a char" },
        { { "c@8", "event-name", text("a{b}") }, "'event-name' has a char" },
        { { "c@8", "event-name", text("a#") }, "'event-name' has a char" },
        { { "c@8", "event-name", text("a@2") }, "'event-name' has a char" },
        { { "c@8", "event-name", text(".") }, "'event-name' has a char" },
        { { "core@18", "events-prefix", text("+") }, "'events-prefix' has" },
        { { "c@8", "event-name", text("\xc3\xa4") }, "'event-name' has a ch" },
        { { "c@8", "event-name", text("CYC") }, "has another event 'CYC'" },
        { { "c@8", "event-name", text("CYC.scale") }, "ends in .scale" },
        { { "c@8", "event-name", text("INST.unit") }, "ends in .scale or .u" },
        { { "c@8", "reg", nothing() }, "/core-events/c@8: property 'reg' is" },
        { { "c@8", "reg", cell(8) }, "/core-events/c@8: property 'reg' has 4" },
        { { "c@8", "reg", cells(8, 4) }, "has size 4" },
        { { "c@8", "reg", cells(0xc, 8) }, "has offset 0xc" },
        { { "t@10200000", "reg", cells(0x10200000, 16) }, "has size 16" },
        /* 0x18 + 0x1fe8 = 0x2000; 0xc8 + 0x3fb38 = 0x3fc00 */
        { { "c@8", "reg", cells(0x1fe8, 8) }, "/c@8: its counter at 0x2000" },
        { { "n@8", "reg", cells(0x3fb38, 8) }, "/n@8: its counter at 0x3fc0" },
        { { "n@8", "reg", cells(0x40000, 8) }, "counter at 0x400c8" },
        { { "c@8", "reg", cells(0xfffffff8, 8) }, "counter at 0x100000010" },
        { { "c@8", "reg", cells(0, 8) }, "/c@8: its PMU has another" },
        { { "n@8", "reg", cells(0, 8) }, "another event at 0xc8" },
        { { "c@8", "desc", bytes("text", 4) }, "/c@8: property 'desc'" },
        { { "c@8", "unit", bytes("MiB", 3) }, "/c@8: property 'unit'" },
        { { "c@8", "scale", bytes("", 0) }, "/c@8: property 'scale'" },

        { { "phb0@338", "", text("mcs01@338") }, "another PMU nest_mcs01_imc" },
        { { "core@18", "", text("nest_phb0@18") }, "PMU nest_phb0_imc" },
        { { "thread@1018", "", text("core@1018") }, "another PMU core_imc" },
        { { "thread@1018", "", text("thr@1018") }, "/thr@1018: a PMU of type" },
        { { "thread@1018", "", text("threads@1018") }, "type thread with thi" },
        { { "core@18", "", text("thread_imc0@18") }, "of type core with" },
        { { "trace@0", "", text("thread_imc@0") }, "a PMU of type trace with" },
        { { "core@18", "compatible", nothing() }, "/: Linux has no PMU" },
        { { "phb0@338", "", text("mcs7@338") }, "/mcs7@338: skiboot removes" },
        { { "no-events", "", text("mcs0") }, "/mcs0: skiboot removes nodes" },
        { { "no-events", "", text("phb0") }, "/phb0: a nest unit has this n" },
        { { "no-events", "", text("vas") }, "/vas: a nest unit has this nam" },
        { { "no-events", "", text("ocmb15@0") }, "/ocmb15@0: a nest unit" },
        { { "no-events", "", text("otl3_1") }, "/otl3_1: a nest unit has th" },
        { { "n@8", "", text("mcs01@8") }, "/nest-events/mcs01@8: a nest uni" },
        { { "n@8", "", text("n@0") }, "/nest-events/n@0: the node has the" },
        { { "n@8", "", text("n@00") }, "/nest-events/n@00: the node has t" },
        { { "c@10", "", text("c@0008") }, "/core-events/c@0008: the node" },
        { { "no-events", "", text("core-events") }, "/core-events: the node" },
        { { "mcs01@c8", "base-addr", cells(0, 0) }, "'base-addr' is there, w" },
        { { "phb0@338", "chip-id", cell(0) }, "'chip-id' is there, which sk" },
        { { "no-events", "compatible", text("IBM,imc-counters") },
          "/no-events: property 'compatible' has 'IBM,imc-counters'" },
        { { "no-events", "compatible", bytes("x\0ibm,imc-Counters", 19) },
          "/no-events: property 'compatible' has 'ibm,imc-Counters'" },
        { { "no-events", "phandle", cell(0x40000000) }, "is 0x40000000: the" },
        { { "no-events", "phandle", cells(9, 9) }, "'phandle' has 8 bytes" },
        { { "t@10200000", "event-name", text("time") }, "perf takes 'time'" },
        { { "t@10200000", "event-name", text("call-graph") }, "perf takes" },
        { { "t@10200000", "event-name", text("r1F") }, "perf takes 'r1F'" },
        { { "t@10200000", "event-name", text("7") }, "perf takes '7' for" },
        { { "t@10200000", "event-name", text("-x") }, "perf takes '-x' for" },
        { { "t@10200000", "event-name", text(":x") }, "perf takes ':x' for" },
        { { "mcs01@c8", "events-prefix", text("1") }, "perf takes '1READ'" },
        { { "core@18", "", text("@18") }, "/@18: the node has no name" },
        { { "core@18", "", text("a,b@18") }, "/a,b@18: the node has no" },
        { { "core@18", "", text("a b@18") }, "/a b@18: the node has no" },
        { { "core@18", "", text("a\nb@18") }, "/a\\nb@18: the node has no" },
    };
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GByteArray) dtb = make_catalog(&cases[i].tweak);
        g_autoptr(GError) err = NULL;

        g_test_message("%s %s", cases[i].tweak.node, cases[i].tweak.prop);
        g_assert_false(catalog_check(dtb->data, dtb->len, NULL, &err));
        assert_refused(&err, cases[i].refused);
    }
}

/* Nodes that have no name of their own in a catalog: depth, properties */
static void test_bad_nodes(void)
{
    static const struct {
        unsigned levels;
        bool twice;
        const char *refused;
    } cases[] = {
        { 16, false, NULL },
        { 17, false, "the node is 17 levels below the root: 16" },
        { 300, false, "the node is 17 levels below the root: 16" },
        { 1, true, "/deep: property 'x' is there twice: remove one" },
    };
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GByteArray) dtb = make_catalog_with(NULL, cases[i].levels,
                                                      cases[i].twice);
        g_autoptr(GError) err = NULL;

        if (catalog_check(dtb->data, dtb->len, NULL, &err)) {
            g_assert_null(cases[i].refused);
        } else {
            assert_refused(&err, cases[i].refused ?: "none");
        }
    }
}

/* Events of a catalog: "unit event" gives "offset scale". */

static void add_place(GHashTable *places, char *event, char *place)
{
    if (!g_hash_table_insert(places, event, place)) {
        g_error("%s is there twice", event);
    }
}

static uint32_t get_cell(const void *fdt, int node, const char *name)
{
    int len;
    const void *data = fdt_getprop(fdt, node, name, &len);

    g_assert_nonnull(data);
    g_assert_cmpint(len, >=, 4);
    return get(data);
}

static const char *get_text(const void *fdt, int node, const char *name)
{
    int len;
    const char *text = fdt_getprop(fdt, node, name, &len);

    g_assert_true(!text || (len > 0 && !text[len - 1]));
    return text;
}

static void add_pmu(GHashTable *places, const void *fdt, int pmu)
{
    const char *name = fdt_get_name(fdt, pmu, NULL);
    int group = fdt_node_offset_by_phandle(fdt, get_cell(fdt, pmu, "events"));
    int event;

    g_assert_cmpint(group, >=, 0);
    fdt_for_each_subnode(event, fdt, group) {
        const char *scale = get_text(fdt, event, "scale") ?:
                            get_text(fdt, pmu, "scale") ?: "-";

        add_place(places,
                  g_strdup_printf("%.*s %s%s", (int)strcspn(name, "@"), name,
                                  get_text(fdt, pmu, "events-prefix"),
                                  get_text(fdt, event, "event-name")),
                  g_strdup_printf("0x%x %s", get_cell(fdt, pmu, "reg") +
                                  get_cell(fdt, event, "reg"), scale));
    }
}

static GHashTable *read_tree(const char *file)
{
    GHashTable *places = g_hash_table_new_full(g_str_hash, g_str_equal, g_free,
                                           g_free);
    g_autofree char *fdt = NULL;
    GError *err = NULL;
    gsize size;
    int node;

    g_file_get_contents(file, &fdt, &size, &err);
    g_assert_no_error(err);
    g_assert_cmpint(fdt_check_full(fdt, size), ==, 0);
    for (node = fdt_node_offset_by_compatible(fdt, -1, "ibm,imc-counters");
         node >= 0;
         node = fdt_node_offset_by_compatible(fdt, node, "ibm,imc-counters")) {
        add_pmu(places, fdt, node);
    }
    return places;
}

static GHashTable *read_list(const char *file)
{
    GHashTable *places = g_hash_table_new_full(g_str_hash, g_str_equal, g_free,
                                           g_free);
    g_autofree char *text = NULL;
    g_auto(GStrv) lines = NULL;
    GError *err = NULL;
    size_t i;

    g_file_get_contents(file, &text, NULL, &err);
    g_assert_no_error(err);
    lines = g_strsplit(text, "\n", -1);
    for (i = 0; lines[i]; i++) {
        g_auto(GStrv) words = NULL;

        if (!*lines[i] || *lines[i] == '#') {
            continue;
        }
        words = g_strsplit(lines[i], " ", -1);
        g_assert_cmpuint(g_strv_length(words), ==, 4);
        add_place(places, g_strconcat(words[0], " ", words[1], NULL),
                  g_strconcat(words[2], " ", words[3], NULL));
    }
    return places;
}

/* Report each event of @places that @others does not have in that place. */
static unsigned report(GHashTable *places, GHashTable *others, const char *what)
{
    unsigned count = 0;
    GHashTableIter iter;
    gpointer event;
    gpointer place;

    g_hash_table_iter_init(&iter, places);
    while (g_hash_table_iter_next(&iter, &event, &place)) {
        const char *other = g_hash_table_lookup(others, event);

        if (!other || strcmp(place, other)) {
            g_printerr("# %s: %s %s\n", what, (char *)event, (char *)place);
            count++;
        }
    }
    return count;
}

/* The catalogs that are built have just the events of the public ones. */
static void test_public(const void *id)
{
    g_autofree char *dtb = g_strdup_printf(PNV_IMC_DTBS "/pnv-imc-%s.dtb",
                                           (const char *)id);
    g_autofree char *txt = g_strdup_printf(PNV_IMC_LISTS "/pnv-imc-%s.txt",
                                           (const char *)id);
    g_autoptr(GHashTable) built = read_tree(dtb);
    g_autoptr(GHashTable) listed = read_list(txt);
    unsigned count = report(built, listed, "only in the built catalog") +
                     report(listed, built, "only in the public catalog");

    g_assert_cmpuint(g_hash_table_size(listed), >, 0);
    g_assert_cmpuint(count, ==, 0);
}

static void test_no_catalog(void)
{
    g_autoptr(GByteArray) dtb = make_catalog(NULL);
    g_autoptr(GError) err = NULL;
    uint32_t size = dtb->len;
    uint32_t i;

    /* skiboot's buffer has 256 KiB. */
    g_byte_array_set_size(dtb, 0x40001);
    g_assert_true(catalog_check(dtb->data, 0x40000, NULL, NULL));
    g_assert_false(catalog_check(dtb->data, 0x40001, NULL, &err));
    assert_refused(&err, "262145 bytes");

    g_assert_false(catalog_check(NULL, 0, NULL, &err));
    assert_refused(&err, "not a device tree");
    g_assert_false(catalog_check("no device tree", 14, NULL, &err));
    assert_refused(&err, "not a device tree");
    for (i = 0; i < size; i++) {
        g_assert_false(catalog_check(dtb->data, i, NULL, &err));
        assert_refused(&err, "not a device tree");
    }

    /* The version, and the first one that it is compatible with */
    put(dtb->data + 20, 16);
    put(dtb->data + 24, 16);
    g_assert_true(catalog_check(dtb->data, size, NULL, NULL));
    put(dtb->data + 20, 15);
    put(dtb->data + 24, 15);
    g_assert_false(catalog_check(dtb->data, size, NULL, &err));
    assert_refused(&err, "not a device tree (FDT_ERR_BADVERSION)");
}

/* A larger one takes liblzma hundreds of MiB, which MALLOC_PERTURB_ fills */
#define DICTIONARY          0x40000

/* An .xz file made by liblzma itself, with other choices than ours */
static GByteArray *make_xz(const void *data, size_t size, lzma_check check,
                           bool bcj)
{
    GByteArray *blob = g_byte_array_new();
    lzma_options_lzma options;
    lzma_filter filters[] = {
        { bcj ? LZMA_FILTER_X86 : LZMA_FILTER_LZMA2, bcj ? NULL : &options },
        { bcj ? LZMA_FILTER_LZMA2 : LZMA_VLI_UNKNOWN, bcj ? &options : NULL },
        { LZMA_VLI_UNKNOWN, NULL },
    };
    size_t out = 0;

    g_assert_false(lzma_lzma_preset(&options, 9));
    options.dict_size = DICTIONARY;
    g_byte_array_set_size(blob, lzma_stream_buffer_bound(size));
    g_assert_cmpint(lzma_stream_buffer_encode(filters, check, NULL, data,
                                              size, blob->data, &out,
                                              blob->len), ==, LZMA_OK);
    g_byte_array_set_size(blob, out);
    return blob;
}

/* An .xz file with the same text in each of two blocks */
static GByteArray *make_two_blocks(bool bcj_first, bool bcj_second)
{
    static const uint8_t text[] = { 'h', 'e', 'l', 'l', 'o' };
    GByteArray *blob = g_byte_array_new();
    lzma_stream stream = LZMA_STREAM_INIT;
    lzma_options_lzma options;
    lzma_filter plain[] = {
        { LZMA_FILTER_LZMA2, &options },
        { LZMA_VLI_UNKNOWN, NULL },
    };
    lzma_filter bcj[] = {
        { LZMA_FILTER_X86, NULL },
        { LZMA_FILTER_LZMA2, &options },
        { LZMA_VLI_UNKNOWN, NULL },
    };

    g_assert_false(lzma_lzma_preset(&options, 9));
    options.dict_size = DICTIONARY;
    g_assert_cmpint(lzma_stream_encoder(&stream, bcj_first ? bcj : plain,
                                        LZMA_CHECK_CRC32), ==, LZMA_OK);
    g_byte_array_set_size(blob, 2 * lzma_stream_buffer_bound(sizeof(text)));
    stream.next_out = blob->data;
    stream.avail_out = blob->len;

    stream.next_in = text;
    stream.avail_in = sizeof(text);
    g_assert_cmpint(lzma_code(&stream, LZMA_FULL_FLUSH), ==, LZMA_STREAM_END);
    g_assert_cmpint(lzma_filters_update(&stream, bcj_second ? bcj : plain),
                    ==, LZMA_OK);
    stream.next_in = text;
    stream.avail_in = sizeof(text);
    g_assert_cmpint(lzma_code(&stream, LZMA_FINISH), ==, LZMA_STREAM_END);
    g_byte_array_set_size(blob, stream.total_out);
    lzma_end(&stream);
    return blob;
}

static void test_compress(void)
{
    /*
     * .xz: magic, stream flags 00 01 (CRC32) and the CRC32 of these two;
     * a block header of (2 + 1) * 4 bytes, without sizes, with one filter,
     * 0x21 (LZMA2), whose property is one byte: the dictionary has
     * 2 << (0x0c / 2 + 11) = 256 KiB.
     */
    static const uint8_t start[] = {
        0xfd, '7', 'z', 'X', 'Z', 0, 0, 1, 0x69, 0x22, 0xde, 0x36,
        0x02, 0x00, 0x21, 0x01, 0x0c, 0, 0, 0
    };
    g_autoptr(GByteArray) dtb = make_catalog(NULL);
    g_autoptr(GByteArray) blob = NULL;
    g_autoptr(GByteArray) again = NULL;
    g_autofree uint8_t *out = g_malloc0(dtb->len);
    uint64_t memory = UINT64_MAX;
    size_t in_pos = 0;
    size_t out_pos = 0;

    blob = catalog_compress(dtb->data, dtb->len, NULL);
    again = catalog_compress(dtb->data, dtb->len, NULL);
    g_assert_nonnull(blob);
    g_assert_cmpuint(blob->len % 4, ==, 0);
    g_assert_cmpuint(blob->len, <, dtb->len / 2);
    g_assert_cmpmem(blob->data, sizeof(start), start, sizeof(start));
    g_assert_cmpmem(blob->data, blob->len, again->data, again->len);

    /* The only stream ends where the file does. */
    g_assert_cmpint(lzma_stream_buffer_decode(&memory, 0, NULL, blob->data,
                                              &in_pos, blob->len, out,
                                              &out_pos, dtb->len),
                    ==, LZMA_OK);
    g_assert_cmpuint(in_pos, ==, blob->len);
    g_assert_cmpmem(out, out_pos, dtb->data, dtb->len);
}

static void test_decompress(void)
{
    g_autofree uint8_t *large = g_malloc0(0x40001);
    g_autoptr(GError) err = NULL;
    GByteArray *blob;
    GByteArray *data;
    guint i;

    /* With this check, with none, and with zeros behind it */
    for (i = 0; i < 2; i++) {
        blob = make_xz("hello", 5, i ? LZMA_CHECK_NONE : LZMA_CHECK_CRC32,
                       false);
        g_byte_array_append(blob, large, 0x1000);
        data = catalog_decompress(blob->data, blob->len, &err);
        g_assert_no_error(err);
        g_assert_cmpmem(data->data, data->len, "hello", 5);
        g_byte_array_unref(data);
        g_byte_array_unref(blob);
    }

    blob = make_xz(large, 0x40000, LZMA_CHECK_CRC32, false);
    data = catalog_decompress(blob->data, blob->len, &err);
    g_assert_no_error(err);
    g_assert_cmphex(data->len, ==, 0x40000);
    g_byte_array_unref(data);
    g_byte_array_unref(blob);

    blob = make_xz(large, 0x40001, LZMA_CHECK_CRC32, false);
    g_assert_null(catalog_decompress(blob->data, blob->len, &err));
    assert_refused(&err, "more than 262144 bytes");
    g_byte_array_unref(blob);

    blob = make_xz("hello", 5, LZMA_CHECK_CRC64, false);
    g_assert_null(catalog_decompress(blob->data, blob->len, &err));
    assert_refused(&err, "check 4");
    g_byte_array_unref(blob);

    blob = make_xz("hello", 5, LZMA_CHECK_CRC32, true);
    g_assert_null(catalog_decompress(blob->data, blob->len, &err));
    assert_refused(&err, "more filters");
    g_byte_array_unref(blob);

    /* Cut anywhere, or with any bit wrong */
    blob = make_xz("hello", 5, LZMA_CHECK_CRC32, false);
    for (i = 0; i < blob->len; i++) {
        g_assert_null(catalog_decompress(blob->data, i, &err));
        assert_refused(&err, ".xz file");
    }
    for (i = 0; i < blob->len * 8; i++) {
        blob->data[i / 8] ^= 1 << i % 8;
        g_assert_null(catalog_decompress(blob->data, blob->len, &err));
        assert_refused(&err, ".xz file");
        blob->data[i / 8] ^= 1 << i % 8;
    }
    g_byte_array_unref(blob);
}

/*
 * The .xz file format, 3.1 and 5.3.1: behind the stream header of 12 bytes are
 * the size of the block header in words of 4 bytes, less one; flags; two sizes
 * that are not there without bits 6 and 7 of these; the id of the filter, and
 * how many bytes its properties have. The one of LZMA2 is the size of the
 * dictionary: 28 is 2^26, and 30 twice as much.
 */
static void test_dictionary(void)
{
    guint bits;

    for (bits = 28; bits <= 30; bits += 2) {
        g_autoptr(GByteArray) blob = make_xz("hello", 5, LZMA_CHECK_CRC32,
                                             false);
        g_autoptr(GByteArray) data = NULL;
        g_autoptr(GError) err = NULL;
        uint8_t *block = blob->data + 12;
        uint8_t *filter = block + 2 + (block[1] >> 6 & 1) + (block[1] >> 7);
        size_t size = block[0] * 4;
        uint32_t crc;

        g_assert_cmphex(filter[0], ==, 0x21);
        g_assert_cmphex(filter[1], ==, 1);
        filter[2] = bits;
        crc = GUINT32_TO_LE(lzma_crc32(block, size, 0));
        memcpy(block + size, &crc, 4);
        data = catalog_decompress(blob->data, blob->len, &err);
        if (bits == 28) {
            g_assert_no_error(err);
            g_assert_cmpmem(data->data, data->len, "hello", 5);
        } else {
            g_assert_null(data);
            assert_refused(&err, "more than 64 MiB");
        }
    }
}

/* Each block has its own filters: skiboot reads blocks with LZMA2 only. */
static void test_blocks(void)
{
    g_autoptr(GError) err = NULL;
    guint bcj;

    for (bcj = 0; bcj < 4; bcj++) {
        g_autoptr(GByteArray) blob = make_two_blocks(bcj & 1, bcj & 2);
        g_autoptr(GByteArray) data = NULL;

        g_test_message("blocks with a second filter: %u", bcj);
        data = catalog_decompress(blob->data, blob->len, &err);
        if (bcj) {
            g_assert_null(data);
            assert_refused(&err, "more filters");
        } else {
            g_assert_no_error(err);
            g_assert_cmpmem(data->data, data->len, "hellohello", 10);
        }
    }
}

/* skiboot would read only the first of several streams. */
static void test_streams(void)
{
    static const uint8_t zeros[0x1000];
    static const size_t gaps[] = { 0, 4, sizeof(zeros) };
    g_autoptr(GByteArray) second = make_xz("there", 5, LZMA_CHECK_CRC32,
                                           false);
    g_autoptr(GError) err = NULL;
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(gaps); i++) {
        g_autoptr(GByteArray) blob = make_xz("hello", 5, LZMA_CHECK_CRC32,
                                             false);
        g_autoptr(GByteArray) data = NULL;

        g_byte_array_append(blob, zeros, gaps[i]);
        g_byte_array_append(blob, second->data, second->len);
        g_assert_null(catalog_decompress(blob->data, blob->len, &err));
        assert_refused(&err, "several streams");

        /* What is behind the last byte does not count. */
        data = catalog_decompress(blob->data, blob->len - second->len, &err);
        g_assert_no_error(err);
        g_assert_cmpmem(data->data, data->len, "hello", 5);
    }
}

static const char *const stock_list[] = {
    "partition           offset       size     actual",
    "part            0x00000000 0x00001000 0x00001000",
    "NVRAM           0x00001000 0x00020000 0x00020000",
    "VERSION         0x00021000 0x00001000 0x00001000",
};

static void assert_list(const GString *list, const char *const *lines,
                        size_t n)
{
    g_auto(GStrv) got = g_strsplit(list->str, "\n", -1);
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(stock_list); i++) {
        g_assert_cmpstr(got[i], ==, stock_list[i]);
    }
    for (i = 0; i < n; i++) {
        g_assert_nonnull(got[G_N_ELEMENTS(stock_list) + i]);
        g_assert_cmpstr(got[G_N_ELEMENTS(stock_list) + i], ==, lines[i]);
    }
    g_assert_cmpstr(got[G_N_ELEMENTS(stock_list) + n], ==, "");
    g_assert_null(got[G_N_ELEMENTS(stock_list) + n + 1]);
}

static void test_list_without(void)
{
    static const char *const lines[] = { "", "no IMA_CATALOG" };
    g_autofree uint8_t *base = stock_image(0x22);
    g_autoptr(GString) list = g_string_new(NULL);
    g_autoptr(GError) err = NULL;

    g_assert_true(pnor_list(base, 0x22 * BLOCK, list, &err));
    assert_list(list, lines, 2);

    /* A damaged table: nothing can be shown. */
    g_string_truncate(list, 0);
    base[0] = 0;
    g_assert_false(pnor_list(base, 0x22 * BLOCK, list, &err));
    assert_refused(&err, "no partition table");
    g_assert_cmpstr(list->str, ==, "");
}

/* Up to 15 characters, of any kind, are a name. */
static void test_list_names(void)
{
    static const uint32_t name[] = {
        0x410a4344, 0x1b464748, 0xff4a4b4c, 0x4d4e4f50
    };
    g_autofree uint8_t *base = stock_image(0x22);
    g_autoptr(GString) list = g_string_new(NULL);

    put_words(base + ENTRY(2, 0), name, 4);
    fix_checksum(base + ENTRY(2, 0), 32);
    g_assert_true(pnor_list(base, 0x22 * BLOCK, list, NULL));
    g_assert_nonnull(strstr(list->str, "\nA?CD?FGH?JKLMNO 0x00021000 "));
}

/* What was put in comes out; broken catalogs do not hide the others. */
static void test_list(void)
{
    const Tweak tweak = { "core@18", "size", cell(1) };
    g_autoptr(GByteArray) dtb = make_catalog(NULL);
    g_autoptr(GByteArray) blob = catalog_compress(dtb->data, dtb->len, NULL);
    g_autoptr(GByteArray) bad_dtb = make_catalog(&tweak);
    g_autoptr(GByteArray) bad = catalog_compress(bad_dtb->data, bad_dtb->len,
                                                 NULL);
    g_autoptr(GPtrArray) catalogs = catalogs_of(0x4e0200, blob->data,
                                                blob->len);
    g_autoptr(GByteArray) image = NULL;
    g_autoptr(GString) list = g_string_new(NULL);
    g_autoptr(GError) err = NULL;
    const char *lines[] = {
        "IMA_CATALOG     0x00022000 0x00002000 0x00002000",
        "",
        "catalog    compressed uncompressed  nest  core thread trace  events",
        NULL, NULL, NULL
    };
    g_autofree char *good_line = g_strdup_printf(
        "0x4e0200   %10u %12u     2     1      1     1      11",
        blob->len, dtb->len);
    g_autofree char *bad_line = g_strdup_printf(
        "0x800200   %10u %12u broken: /core@18: property 'size' is 0x1: "
        "a core PMU has 0x2000", bad->len, bad_dtb->len);

    lines[3] = good_line;
    image = pnor_image_update(NULL, 0, catalogs, &err);
    g_assert_no_error(err);
    g_assert_true(pnor_list(image->data, image->len, list, &err));
    assert_list(list, lines, 4);

    g_ptr_array_add(catalogs, pnor_catalog_new(0x4e0100, "garbage", 7));
    g_ptr_array_add(catalogs, pnor_catalog_new(0x800200, bad->data,
                                               bad->len));
    g_clear_pointer(&image, g_byte_array_unref);
    image = pnor_image_update(NULL, 0, catalogs, &err);
    g_assert_no_error(err);
    g_string_truncate(list, 0);
    lines[3] = "0x4e0100            7 broken: not an .xz file: "
               "compress it with xz --check=crc32";
    lines[4] = good_line;
    lines[5] = bad_line;
    g_assert_false(pnor_list(image->data, image->len, list, &err));
    assert_refused(&err, "2 of 3 catalogs broken");
    assert_list(list, lines, 6);

    /* The table of the partition itself is broken, a word behind "IMCC". */
    put(image->data + TOC(1), 2);
    lines[2] = "IMA_CATALOG broken: the table of IMA_CATALOG has version 2: "
               "take an image with 1";
    g_string_truncate(list, 0);
    g_assert_false(pnor_list(image->data, image->len, list, &err));
    assert_refused(&err, "IMA_CATALOG is broken");
    assert_list(list, lines, 3);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/pnv-pnor/image/new", test_new);
    g_test_add_func("/pnv-pnor/image/append", test_append);
    g_test_add_func("/pnv-pnor/image/free-space", test_free_space);
    g_test_add_func("/pnv-pnor/image/keep", test_keep);
    g_test_add_func("/pnv-pnor/image/first", test_first);
    g_test_add_func("/pnv-pnor/image/replace", test_replace);
    g_test_add_func("/pnv-pnor/image/fits", test_fits);
    g_test_add_func("/pnv-pnor/image/move", test_move);
    g_test_add_func("/pnv-pnor/image/grow", test_grow);
    g_test_add_func("/pnv-pnor/image/bad-base", test_bad_base);
    g_test_add_func("/pnv-pnor/image/odd-base", test_odd_base);
    g_test_add_func("/pnv-pnor/image/no-blocks", test_no_blocks);
    g_test_add_func("/pnv-pnor/image/bad-size", test_bad_size);
    g_test_add_func("/pnv-pnor/image/two-partitions", test_two_partitions);
    g_test_add_func("/pnv-pnor/image/full", test_full);
    g_test_add_func("/pnv-pnor/image/limit", test_image_limit);
    g_test_add_func("/pnv-pnor/catalogs/ids", test_ids);
    g_test_add_func("/pnv-pnor/catalogs/layout", test_layout);
    g_test_add_func("/pnv-pnor/catalogs/limits", test_catalog_limits);
    g_test_add_func("/pnv-pnor/catalog/good", test_good_catalog);
    g_test_add_func("/pnv-pnor/catalog/bad", test_bad_catalog);
    g_test_add_func("/pnv-pnor/catalog/bad-nodes", test_bad_nodes);
    g_test_add_func("/pnv-pnor/catalog/most-events", test_most_events);
    g_test_add_data_func("/pnv-pnor/catalog/public/4e0200", "4e0200",
                         test_public);
    g_test_add_data_func("/pnv-pnor/catalog/public/800200", "800200",
                         test_public);
    g_test_add_func("/pnv-pnor/catalog/none", test_no_catalog);
    g_test_add_func("/pnv-pnor/xz/compress", test_compress);
    g_test_add_func("/pnv-pnor/xz/decompress", test_decompress);
    g_test_add_func("/pnv-pnor/xz/dictionary", test_dictionary);
    g_test_add_func("/pnv-pnor/xz/blocks", test_blocks);
    g_test_add_func("/pnv-pnor/xz/streams", test_streams);
    g_test_add_func("/pnv-pnor/list/without", test_list_without);
    g_test_add_func("/pnv-pnor/list/names", test_list_names);
    g_test_add_func("/pnv-pnor/list/with", test_list);
    return g_test_run();
}
