/*
 * What libFuzzer calls, with each of its inputs
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef PC_BIOS_PNV_PNOR_FUZZ_H
#define PC_BIOS_PNV_PNOR_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif /* PC_BIOS_PNV_PNOR_FUZZ_H */
