/*
 * PowerNV in-memory collection counters: counters in the guest's memory
 *
 * An area has lines of 64 bytes:
 *
 *   dword   0    1   2   3      4      5      6      7
 *           TB   -   -   CPMC1  CPMC2  CPMC3  CPMC4  TB
 *
 * The engine adds to counters and never sets them: software reads a counter at
 * the start and at the end of a measurement, and takes the difference.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "pnv_imc_internal.h"
#include "system/dma.h"

bool pnv_imc_map(MemoryRegionCache *cache, hwaddr addr, hwaddr size)
{
    RCU_READ_LOCK_GUARD();

    address_space_cache_init_empty(cache);
    if (address_space_cache_init(cache, &address_space_memory, addr, size,
                                 true) == size && cache->ptr) {
        return true;
    }
    address_space_cache_destroy(cache);
    return false;
}

bool pnv_imc_page_add(PnvImcPage *page, GArray *events, uint64_t tb)
{
    const MemTxAttrs attrs = MEMTXATTRS_UNSPECIFIED;
    MemoryRegionCache cache;
    bool mapped = pnv_imc_map(&cache, page->addr, PNV_IMC_PAGE_SIZE);
    unsigned i;

    for (i = 0; i < events->len; i++) {
        const PnvImcEvent *e = pnv_imc_event(events, i);
        hwaddr line = QEMU_ALIGN_DOWN(e->offset, PNV_IMC_PAGE_LINE);
        uint64_t count, sum;

        if (page->rest[i] < e->scale) {
            continue;
        }
        count = page->rest[i] / e->scale;
        page->rest[i] %= e->scale;
        if (mapped) {
            sum = address_space_ldq_be_cached(&cache, e->offset, attrs, NULL);
            address_space_stq_be_cached(&cache, e->offset, sum + count, attrs,
                                        NULL);
            address_space_stq_be_cached(&cache, line, tb, attrs, NULL);
            address_space_stq_be_cached(&cache, line + 7 * 8, tb, attrs, NULL);
        }
    }
    if (mapped) {
        address_space_cache_invalidate(&cache, 0, PNV_IMC_PAGE_SIZE);
        address_space_cache_destroy(&cache);
    }
    return mapped;
}
