/*
 * Fuzzing of the catalogs that the IMC device loads, with libFuzzer
 *
 * What is refused has a message. What is loaded has names, and places that are
 * in order.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include <sys/mman.h>
#include "hw/ppc/imc/pnv_imc_internal.h"
#include "qapi/error.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    GArray *events[PNV_IMC_AREAS] = { };
    int fd = memfd_create("catalog", 0);
    g_autofree char *file = g_strdup_printf("/proc/self/fd/%d", fd);
    Error *err = NULL;
    bool ok;

    g_assert(fd >= 0 && write(fd, data, size) == size);
    ok = pnv_imc_catalog_load(events, file, &err);
    g_assert(ok == !err);
    if (err) {
        g_assert(*error_get_pretty(err));
        error_free(err);
    }
    for (PnvImcArea area = 0; area < PNV_IMC_AREAS; area++) {
        for (unsigned i = 0; ok && i < events[area]->len; i++) {
            const PnvImcEvent *e = pnv_imc_event(events[area], i);

            g_assert(*e->name && e->scale && e->offset % 8 == 0);
            g_assert(!i || e->offset >=
                     pnv_imc_event(events[area], i - 1)->offset);
        }
        if (events[area]) {
            g_array_unref(events[area]);
        }
    }
    close(fd);
    return 0;
}
