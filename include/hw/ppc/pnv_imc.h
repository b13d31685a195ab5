/*
 * PowerNV in-memory collection (IMC) counters: what the machine needs
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef PPC_PNV_IMC_H
#define PPC_PNV_IMC_H

#include "hw/ppc/pnv.h"

/* The flash image with the catalogs that firmware hands to the kernel */
#define PNV_IMC_PNOR_FILE_NAME      "pnv-pnor-imc.bin"

/* The machine property "imc" */
void pnv_imc_machine_class_init(ObjectClass *oc);

/*
 * Before a chip is realized: put HOMER where kernels map it, into the RAM of
 * the chip.
 */
void pnv_imc_place_homer(PnvMachineState *pnv, PnvChip *chip);

/* After a chip is realized: give it IMC counters. */
void pnv_imc_create(PnvMachineState *pnv, PnvChip *chip);

/* Tell the guest not to use the RAM that is HOMER. */
void pnv_imc_dt(PnvMachineState *pnv, void *fdt);

#endif
